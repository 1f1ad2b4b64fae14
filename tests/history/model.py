"""A server that is right by construction, and requests that overlap in time: histories the checker must accept.

It has one log; every request takes effect at one moment between its start and its end. Now and then it dies: whoever
waits for an answer then never gets one, and half of those requests have been done all the same. The tests break these
histories in one place and expect the checker to find it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.history.record import OK, REFUSED, History, Op, Session, State, Told

SCOPE = "/maps"
NAMES = ("a", "b", "c")


@dataclass
class Model:
    """The log and what is there now."""

    random: Random
    history: History = field(default_factory=lambda: History(base=10))
    rev: int = 10
    live: dict[str, State] = field(default_factory=dict)
    log: list[tuple[float, str, State]] = field(default_factory=list)
    born: int = 0

    def decide(self, op: Op, now: float, *, answered: bool) -> None:
        """Let a request take effect, and note the answer if it arrives."""
        old = self.live.get(op.name)
        reason = ""
        if op.kind == "create":
            reason = "AlreadyExists" if old else ""
        elif op.kind != "list":
            reason = "NotFound" if old is None else ""
            if old is not None and op.expect and op.expect != old.rev:
                reason = "Conflict"
        if not reason:
            self._do(op, old, now)
        if not answered:
            op.seen, op.items, op.rev, op.uid = None, [], 0, ""
            return
        op.outcome, op.reason = (REFUSED, reason) if reason else (OK, "")

    def _do(self, op: Op, old: State | None, now: float) -> None:
        if op.kind == "get":
            op.seen = old
        elif op.kind == "list":
            op.items, op.rev = list(self.live.values()), self.rev
        elif op.kind == "delete":
            assert old is not None
            self.rev += self.random.randint(1, 3)  # other collections draw revisions too
            op.uid = old.uid
            del self.live[op.name]
            self.log.append((now, "DELETED", State(old.name, self.rev, old.uid, old.labels, old.data)))
        else:
            self.rev += self.random.randint(1, 3)
            self.born += old is None
            uid = old.uid if old else f"u{self.born}"
            patch = op.kind == "patch" and old is not None
            labels = {**old.labels, **op.labels} if patch else op.labels
            data = {**old.data, **op.data} if patch else op.data
            op.seen = self.live[op.name] = State(op.name, self.rev, uid, labels, data)
            self.log.append((now, "MODIFIED" if old else "ADDED", op.seen))


def correct(seed: int, requests: int = 60) -> History:
    """Make a history of a server that does everything right."""
    random = Random(seed)
    model = Model(random)
    ops = model.history.ops
    waiting: list[tuple[float, float, Op]] = []
    for number in range(requests):
        start = float(number)
        op = _request(random, number, start, model)
        ops.append(op)
        moment = start + random.uniform(0.1, 4)
        waiting.append((moment, moment + random.uniform(0.1, 4), op))
        waiting.sort(key=lambda each: each[0])
        while waiting and waiting[0][0] < start + 1:
            moment, end, op = waiting.pop(0)
            op.end = end
            model.decide(op, moment, answered=True)
        if random.random() < 0.05:  # it dies
            for moment, _, op in waiting:
                if random.random() < 0.5:
                    model.decide(op, moment, answered=False)
            waiting.clear()
    for moment, end, op in waiting:
        op.end = end
        model.decide(op, moment, answered=True)
    late = requests + 20.0
    ops.append(Op("reader", "list", SCOPE, "", late, late + 1))
    model.decide(ops[-1], late, answered=True)
    model.history.sessions += [*_follow(model, random, "w1", ""), *_follow(model, random, "w2", "x")]
    return model.history


def _request(random: Random, number: int, start: float, model: Model) -> Op:
    kind = random.choice(["create", "create", "put", "patch", "patch", "delete", "get", "list"])
    op = Op(f"c{number % 5}", kind, SCOPE, "" if kind == "list" else random.choice(NAMES), start)
    if kind in {"create", "put", "patch"}:
        op.token = f"t{number}"
        op.data = {"token": op.token, op.client: op.token}
        op.labels = {"l": random.choice("xy")}
    known = model.live.get(op.name)
    if known and (kind == "put" or (kind in {"patch", "delete"} and random.random() < 0.4)):
        op.expect = known.rev if random.random() < 0.8 else known.rev - 1
    elif kind == "put":
        op.expect = 7
    return op


def _follow(model: Model, random: Random, client: str, label: str) -> list[Session]:
    """Watch in several sessions, each from where the one before it broke."""
    sessions = [Session(client, SCOPE, after=10, label=label)]
    before: dict[str, State] = {}
    for moment, kind, state in model.log:
        old = before.pop(state.name, None)
        if kind != "DELETED":
            before[state.name] = state
        was = old is not None and (not label or old.labels["l"] == label)
        fits = kind != "DELETED" and (not label or state.labels["l"] == label)
        if fits or was:
            shown = state if fits else State(old.name, state.rev, old.uid, old.labels, old.data)
            type_ = ("MODIFIED" if was else "ADDED") if fits else "DELETED"
            sessions[-1].told.append(Told(moment + random.uniform(0, 0.05), type_, shown))
        if random.random() < 0.1:
            mark = State("", state.rev, "")
            sessions[-1].told.append(Told(moment + 0.05, "BOOKMARK", mark))
        if random.random() < 0.1:
            sessions.append(Session(client, SCOPE, after=state.rev, label=label))
    sessions[-1].until = model.rev
    return sessions
