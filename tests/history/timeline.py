"""The one order of all writes, put together from everything that anybody was shown, and who wrote what.

A revision stands for one write for ever. So whatever shows a revision (answers, reads, lists, watches) must show the
same, each write must be explained by exactly one request, and its outcome by the state before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from tests.history.record import OK, REFUSED, UNKNOWN, History, Op, State

Key = tuple[str, str]


@dataclass(frozen=True)
class Write:
    """What became of one object at one revision."""

    scope: str
    state: State
    gone: bool

    @property
    def rev(self) -> int:
        return self.state.rev


@dataclass
class Timeline:
    """All writes by revision, and those of each object and collection in order."""

    writes: dict[int, Write] = field(default_factory=dict)
    objects: dict[Key, list[int]] = field(default_factory=dict)
    scopes: dict[str, list[int]] = field(default_factory=dict)

    def at(self, key: Key, rev: int) -> Write | None:
        """Return what an object was at a revision; None when it was not there."""
        revs = self.objects.get(key, [])
        index = bisect_right(revs, rev)
        write = self.writes[revs[index - 1]] if index else None
        return None if write is None or write.gone else write

    def during(self, key: Key, low: int, high: float) -> Iterator[Write | None]:
        """Go through everything an object was from one revision to another."""
        yield self.at(key, low)
        revs = self.objects.get(key, [])
        for rev in revs[bisect_right(revs, low) :]:
            if rev > high:
                return
            write = self.writes[rev]
            yield None if write.gone else write

    def all_at(self, scope: str, rev: int) -> dict[str, State]:
        """Return what a collection was at a revision."""
        found = (self.at(key, rev) for key in self.objects if key[0] == scope)
        return {write.state.name: write.state for write in found if write is not None}

    def between(self, scope: str, after: int, up_to: int) -> list[int]:
        """Return the revisions of a collection's writes."""
        revs = self.scopes.get(scope, [])
        return revs[bisect_right(revs, after) : bisect_right(revs, up_to)]


def put_together(history: History) -> tuple[Timeline, list[str]]:
    """Return the order of all writes, and where witnesses contradict each other."""
    line, problems = Timeline(), []
    for write, source in _shown(history):
        known = line.writes.setdefault(write.rev, write)
        if known.gone != write.gone and known.scope == write.scope and known.state.same(write.state):
            problems.append(f"{source}: revision {write.rev} is an end to one and a state to another")
        elif known.scope != write.scope or not known.state.same(write.state):
            problems.append(
                f"revision {write.rev} is two writes: {known.state} and, for {source}, {write.state}"
            )
    objects: dict[Key, list[int]] = defaultdict(list)
    scopes: dict[str, list[int]] = defaultdict(list)
    for rev in sorted(line.writes):
        write = line.writes[rev]
        objects[write.scope, write.state.name].append(rev)
        scopes[write.scope].append(rev)
    line.objects, line.scopes = dict(objects), dict(scopes)
    return line, problems


def _shown(history: History) -> Iterator[tuple[Write, str]]:
    for session in history.sessions:
        if session.label:  # its DELETED may be a change that left the selection
            continue
        for told in session.told:
            if told.type in {"ADDED", "MODIFIED", "DELETED"}:
                write = Write(session.scope, told.state, told.type == "DELETED")
                yield write, f"watch of {session.client}"
    for op in history.ops:
        for state in (*op.items, *((op.seen,) if op.seen else ())):
            yield Write(op.scope, state, gone=False), f"{op.kind} of {op.client}"


class Bounds:
    """What time says about revisions: what was known before a moment is before whatever begins after it."""

    def __init__(self, observed: Iterable[tuple[float, int]], begun: Iterable[tuple[float, int]]) -> None:
        self._times, self._highest = _running(sorted(observed), max)
        times, lowest = _running(sorted(begun, reverse=True), min)
        self._starts, self._lowest = times[::-1], lowest[::-1]

    def floor(self, start: float) -> int:
        """Return the newest revision that anybody had been shown before a moment."""
        index = bisect_left(self._times, start)
        return self._highest[index - 1] if index else 0

    def ceiling(self, end: float) -> float:
        """Return the newest revision there can have been at a moment: later requests wrote what is above it."""
        index = bisect_right(self._starts, end)
        return self._lowest[index] - 1 if index < len(self._starts) else inf


def _running(
    pairs: list[tuple[float, int]], pick: Callable[[int, int], int]
) -> tuple[list[float], list[int]]:
    times, values = [], []
    for time, rev in pairs:
        times.append(time)
        values.append(pick(values[-1], rev) if values else rev)
    return times, values


def observations(history: History, ends: dict[int, int]) -> Iterator[tuple[float, int]]:
    """Go through what was shown to whom when; `ends` are the revisions of acknowledged deletes."""
    for session in history.sessions:
        yield from (
            (told.at, told.state.rev) for told in session.told if told.type != "ADDED" or not session.initial
        )
    for number, op in enumerate(history.ops):
        if op.outcome == OK:
            rev = op.seen.rev if op.seen else ends.get(number, op.rev)
            yield op.end, rev


def explain(history: History, line: Timeline) -> tuple[dict[int, int], list[str]]:
    """Return the request (its number) behind each write, and what no request, or more than one, explains."""
    makers = {op.token: number for number, op in enumerate(history.ops) if op.token}
    problems: list[str] = []
    deleted = {
        (write.scope, write.state.name, write.state.uid): rev
        for rev, write in line.writes.items()
        if write.gone
    }
    ends: dict[int, int] = {}
    by: dict[int, int] = {}
    for number, op in enumerate(history.ops):
        if op.kind == "delete" and op.outcome == OK:
            rev = deleted.get((op.scope, op.name, op.uid), 0)
            if not rev:
                problems.append(f"the acknowledged {_words(op)} never happened")
            elif rev in by:
                problems.append(f"{op.name} {op.uid} was deleted twice, by {op.client} too")
            else:
                ends[number] = rev
                by[rev] = number
    bounds = Bounds(observations(history, ends), ())
    unsure: dict[Key, list[int]] = defaultdict(list)
    for number, op in enumerate(history.ops):
        if op.kind == "delete" and op.outcome == UNKNOWN:
            unsure[op.scope, op.name].append(number)
    for key, revs in line.objects.items():
        before: Write | None = None
        for rev in revs:
            write = line.writes[rev]
            if rev > history.base:
                number = by.get(rev)
                if number is None and write.gone:
                    number = _unsure_delete(history, unsure[key], before, bounds, rev)
                elif number is None:
                    number = makers.get(write.state.data.get("token", ""))
                if number is None:
                    problems.append(f"nobody asked for what {key[1]} became at {rev}: {write}")
                else:
                    by[rev] = number
                    problems += _contradictions(history.ops[number], before, write, bounds)
            before = write
    taken: dict[int, int] = {}
    for rev, number in by.items():
        if number in taken:
            problems.append(f"{_words(history.ops[number])} was done twice, at {taken[number]} and {rev}")
        taken[number] = rev
    return by, problems


def _unsure_delete(
    history: History, candidates: list[int], before: Write | None, bounds: Bounds, rev: int
) -> int | None:
    fitting = [
        number
        for number in candidates
        if bounds.floor(history.ops[number].start) < rev
        and history.ops[number].expect in {0, before.rev if before else 0}
    ]
    if not fitting:
        return None
    chosen = max(fitting, key=lambda number: history.ops[number].expect)  # the others may fit another end
    candidates.remove(chosen)
    return chosen


def _contradictions(op: Op, before: Write | None, write: Write, bounds: Bounds) -> list[str]:
    """Return what cannot be about a write, given the state before it and who asked for it."""
    found, rev, there = [], write.rev, before is not None and not before.gone
    if op.outcome == REFUSED:
        found.append(f"{_words(op)} was refused and yet done at {rev}")
    if op.outcome == OK and op.seen is not None and op.seen.rev != rev:
        found.append(f"{_words(op)} was answered with {op.seen.rev} and done at {rev}")
    if bounds.floor(op.start) >= rev:
        found.append(f"{_words(op)} got revision {rev} after {bounds.floor(op.start)} was known")
    if op.kind == "create":
        if there:
            found.append(f"{_words(op)} at {rev} while it was there")
        if (op.labels, op.data) != (write.state.labels, write.state.data):
            found.append(f"{_words(op)} at {rev} left {write.state}")
        return found
    if before is None or not there:
        return [*found, f"{_words(op)} at {rev} while it was not there"]
    if op.expect and op.expect != before.rev:
        found.append(f"{_words(op)} at {rev} demanded {op.expect} and met {before.rev}")
    if before.state.uid != write.state.uid:
        found.append(f"{_words(op)} at {rev} changed another object: {before.state.uid}, {write.state.uid}")
    labels, data = _meant(op, before.state)
    if (labels, data) != (write.state.labels, write.state.data):
        found.append(f"an update was lost: {_words(op)} at {rev} left {write.state}, after {before.state}")
    return found


def _meant(op: Op, old: State) -> tuple[dict[str, str], dict[str, str]]:
    if op.kind == "delete":
        return old.labels, old.data
    if op.kind == "put":
        return op.labels, op.data
    return {**old.labels, **op.labels}, {**old.data, **op.data}


def _words(op: Op) -> str:
    return f"{op.kind} {op.token} of {op.name} by {op.client}"
