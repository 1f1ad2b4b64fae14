"""Judges a recorded history: is there one order of all writes that everything anybody was shown agrees with?

Revisions are that order, so nothing has to be searched: each read, refusal, list and watch is compared with what the
order says, between what was known when it began and what can have been when it ended. Pure; see `timeline` for how the
order is put together. What it finds is returned as sentences; an empty list means the history is strictly serialisable.
"""

from __future__ import annotations

from tests.history.record import OK, REFUSED, History, Op, Session, State, Told
from tests.history.timeline import Bounds, Timeline, explain, observations, put_together

MAX_PROBLEMS = 50
"""Reported at most: one broken rule breaks many others."""


def check(history: History) -> list[str]:
    """Return everything that is wrong with a history."""
    line, problems = put_together(history)
    by, more = explain(history, line)
    problems += more
    ends = {number: rev for rev, number in by.items() if history.ops[number].kind == "delete"}
    begun = [(history.ops[number].start, rev) for rev, number in by.items()]
    bounds = Bounds(observations(history, ends), begun)
    done = set(by.values())
    for number, op in enumerate(history.ops):
        if op.outcome == OK and op.kind in {"create", "put", "patch"} and number not in done:
            problems.append(f"acknowledged and lost: {op.kind} {op.token} of {op.name} by {op.client}")
        problems += _judge(op, line, bounds)
    for session in history.sessions:
        problems += _told_wrong(session, line)
    problems += _unseen(history, line)
    return problems[:MAX_PROBLEMS]


def _judge(op: Op, line: Timeline, bounds: Bounds) -> list[str]:
    if op.reason.startswith("5"):
        return [f"{op.kind} {op.name} by {op.client} was answered {op.reason}"]
    if op.kind == "list" and op.outcome == OK:
        return _list_problems(op, line, bounds)
    if op.kind == "get" and op.outcome == OK:
        return _get_problems(op, line, bounds)
    if op.outcome == REFUSED:
        return _refusal_problems(op, line, bounds)
    return []


def _get_problems(op: Op, line: Timeline, bounds: Bounds) -> list[str]:
    assert op.seen is not None
    low, high = bounds.floor(op.start), bounds.ceiling(op.end)
    for write in line.during((op.scope, op.name), low, high):
        if write is not None and write.rev == op.seen.rev:
            return []
    return [f"get {op.name} by {op.client} was shown {op.seen.rev}, which was not it from {low} to {high}"]


REFUSALS = {
    "NotFound": lambda state, _op: state is None,
    "AlreadyExists": lambda state, _op: state is not None,
    "Conflict": lambda state, op: state is not None and state.rev != op.expect,
}
"""By reason: what the object must have been, at some moment of the request."""


def _refusal_problems(op: Op, line: Timeline, bounds: Bounds) -> list[str]:
    fits = REFUSALS.get(op.reason)
    if fits is None or op.kind == "list":
        return []
    low, high = bounds.floor(op.start), bounds.ceiling(op.end)
    if any(fits(write, op) for write in line.during((op.scope, op.name), low, high)):
        return []
    wanted = f" of {op.expect}" if op.expect else ""
    return [f"{op.kind}{wanted} {op.name} by {op.client}: {op.reason}, which was not so from {low} to {high}"]


def _list_problems(op: Op, line: Timeline, bounds: Bounds) -> list[str]:
    low, high = bounds.floor(op.start), bounds.ceiling(op.end)
    if op.expect and op.rev != op.expect:
        return [f"list at {op.expect} by {op.client} was answered at {op.rev}"]
    if not op.expect and not low <= op.rev <= high:
        return [f"list by {op.client} at {op.rev}, which was not now from {low} to {high}"]
    return _differences(f"list by {op.client} at {op.rev}", op.items, line.all_at(op.scope, op.rev))


def _differences(who: str, shown: list[State], states: dict[str, State]) -> list[str]:
    found = {state.name: state for state in shown}
    if len(found) != len(shown):
        return [f"{who} shows an object twice"]
    return [
        f"{who} shows {name} as {found.get(name)}, and it was {states.get(name)}"
        for name in sorted(found.keys() | states.keys())
        if found.get(name) != states.get(name)
    ]


def _matches(state: State | None, label: str) -> bool:
    return state is not None and (not label or state.labels.get("l") == label)


def expected(line: Timeline, session: Session, after: int, up_to: int) -> list[Told]:
    """Return what a watch has to tell of the writes between two revisions."""
    events = []
    for rev in line.between(session.scope, after, up_to):
        write = line.writes[rev]
        old = line.at((session.scope, write.state.name), rev - 1)
        before = old.state if old is not None and _matches(old.state, session.label) else None
        if not write.gone and _matches(write.state, session.label):
            events.append(Told(0, "MODIFIED" if before else "ADDED", write.state))
        elif before is not None:
            left = State(before.name, rev, before.uid, before.labels, before.data)
            events.append(Told(0, "DELETED", left))
    return events


def _told_wrong(session: Session, line: Timeline) -> list[str]:
    """Return the first thing a watch told wrongly: skipped, repeated, out of order, or of the wrong type."""
    who = f"watch of {session.client} from {session.after}"
    told, after = session.told, session.after
    if session.initial:
        ends = [number for number, line_ in enumerate(told) if line_.type == "SYNCED"]
        if not ends:
            return []  # broken before it could say how new its initial events are
        after = told[ends[0]].state.rev
        first = [each.state for each in told[: ends[0]]]
        states = line.all_at(session.scope, after)
        wanted = {name: state for name, state in states.items() if _matches(state, session.label)}
        problems = _differences(f"{who}, initial events at {after},", first, wanted)
        if problems:
            return problems
        told = told[ends[0] + 1 :]
    last = max([session.until, *(each.state.rev for each in told)])
    wanted_events = iter(expected(line, session, after, last))
    next_ = next(wanted_events, None)
    for each in told:
        rev = each.state.rev
        if each.type == "BOOKMARK":
            if next_ is not None and next_.state.rev <= rev:
                return [
                    f"{who}: a bookmark at {rev} before {next_.type} {next_.state.name} at {next_.state.rev}"
                ]
            continue
        if next_ is None or (next_.type, next_.state) != (each.type, each.state):
            return [f"{who} told {each.type} {each.state} where {next_} was next"]
        next_ = next(wanted_events, None)
    return [f"{who} never told {next_.type} {next_.state}"] if next_ is not None else []


def _unseen(history: History, line: Timeline) -> list[str]:
    """Return collections of which no client watched everything: their order may miss writes."""
    seen_from: dict[tuple[str, str], int] = {}
    final: dict[str, int] = {}
    for session in history.sessions:
        final[session.scope] = max(final.get(session.scope, 0), session.until)
        if session.label or session.initial:
            continue
        key = (session.scope, session.client)
        reached = seen_from.setdefault(key, history.base)
        if session.after <= reached:
            seen_from[key] = max(reached, session.until, *(each.state.rev for each in session.told), 0)
    reached = {}
    for (scope, _client), rev in seen_from.items():
        reached[scope] = max(reached.get(scope, 0), rev)
    return [
        f"nobody watched all of {scope}: only up to {reached.get(scope, 0)} of {final.get(scope, 0)}"
        for scope in line.scopes
        if reached.get(scope, 0) < max(final.get(scope, 0), 1)
    ]
