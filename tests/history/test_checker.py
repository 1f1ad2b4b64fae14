"""The checker accepts what a right server does, and finds each way of being wrong."""

import copy
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.history.checker import check
from tests.history.model import SCOPE, correct
from tests.history.record import OK, REFUSED, UNKNOWN, History, Op, Session, State, Told, load

SEEDS = st.integers(0, 10**6)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_what_a_right_server_does_is_accepted(seed):
    assert check(correct(seed)) == []


def writes(history):
    return [op for op in history.ops if op.outcome == OK and op.token]


def forget_an_acknowledged_write(history, random):
    """A write that was answered is nowhere: the next state builds on what was before it."""
    op = one_of(random, writes(history))
    rev = op.seen.rev
    for session in history.sessions:
        session.told = [each for each in session.told if each.state.rev != rev]
    for other in history.ops:
        other.items = [item for item in other.items if item.rev != rev]


def one_of(random, options):
    """Choose where there is something to choose from."""
    assume(options)
    return random.choice(options)


def skip_an_event(history, random):
    told = [(each, event) for each in history.sessions for event in each.told if event.type != "BOOKMARK"]
    session, gone = one_of(random, told)
    session.told.remove(gone)
    session.until = max(session.until, gone.state.rev)


def swap_two_events(history, random):
    session = one_of(random, [each for each in history.sessions if len(each.told) > 1])
    at = random.randrange(len(session.told) - 1)
    one, two = session.told[at : at + 2]
    assume("BOOKMARK" not in {one.type, two.type})
    session.told[at : at + 2] = two, one


def repeat_an_event(history, random):
    session = one_of(random, [each for each in history.sessions if each.told])
    events = [each for each in session.told if each.type != "BOOKMARK"]
    assume(events)
    session.told.append(one_of(random, events))


def give_a_revision_twice(history, random):
    one, two = random.sample(writes(history), 2)
    two.seen = State(two.seen.name, one.seen.rev, two.seen.uid, two.seen.labels, two.seen.data)


def read_the_past(history, random):
    """A read shows what was replaced, and its replacement acknowledged, before the read began."""
    changed = [op for op in writes(history) if op.kind in {"put", "patch"}]
    assume(changed)
    new = one_of(random, changed)
    olds = [op.seen for op in writes(history) if op.name == new.name and op.seen.rev < new.seen.rev]
    assume(olds)
    start = new.end + 0.001
    history.ops.append(
        Op("late", "get", SCOPE, new.name, start, start + 0.1, OK, seen=max(olds, key=lambda old: old.rev))
    )


def lose_an_update(history, random):
    """A patch wrote over what somebody else had set a moment before."""
    patches = [op for op in writes(history) if op.kind == "patch" and len(op.seen.data) > 2]
    assume(patches)
    op = one_of(random, patches)
    state = op.seen
    lost = one_of(random, sorted(state.data.keys() - op.data.keys()))
    data = {name: value for name, value in state.data.items() if name != lost}
    new = State(state.name, state.rev, state.uid, state.labels, data)

    def shown(old):
        return new if old == state else old

    for other in history.ops:
        other.seen = shown(other.seen)
        other.items = [shown(item) for item in other.items]
    for session in history.sessions:
        for told in session.told:
            told.state = shown(told.state)


def do_what_was_refused(history, random):
    op = one_of(random, writes(history))
    op.outcome, op.seen = REFUSED, None


def let_a_stale_writer_win(history, random):
    op = one_of(random, [each for each in writes(history) if each.kind != "create"] or [None])
    assume(op is not None)
    op.expect = op.seen.rev - 500


def refuse_without_a_reason(history, random):
    """A conflict at a time when nobody else wrote."""
    last = history.ops[-1].items
    assume(last)
    state, late = last[0], 10_000.0
    history.ops.append(
        Op("late", "patch", SCOPE, state.name, late, late + 1, REFUSED, "Conflict", expect=state.rev)
    )


def delete_nothing(history, random):
    history.ops.append(Op("late", "delete", SCOPE, "a", 9_000.0, 9_001.0, OK, uid="never"))


def answer_5xx(history, random):
    history.ops.append(Op("late", "get", SCOPE, "a", 9_000.0, 9_001.0, REFUSED, "500 InternalError"))


def mark_too_early(history, random):
    session = one_of(random, [each for each in history.sessions if each.told])
    events = [number for number, each in enumerate(session.told) if each.type != "BOOKMARK"]
    assume(events)
    at = one_of(random, events)
    session.told.insert(at, Told(session.told[at].at, "BOOKMARK", session.told[at].state))


@pytest.mark.parametrize(
    "spoil",
    [
        forget_an_acknowledged_write,
        skip_an_event,
        swap_two_events,
        repeat_an_event,
        give_a_revision_twice,
        read_the_past,
        lose_an_update,
        do_what_was_refused,
        let_a_stale_writer_win,
        refuse_without_a_reason,
        delete_nothing,
        answer_5xx,
        mark_too_early,
    ],
)
@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_each_violation_is_found(spoil, seed):
    history = correct(seed)
    assume(len(writes(history)) > 5)
    spoil(history, Random(seed))
    assert check(history) != []


def state(rev, token, name="a", uid="u", **labels):
    return State(name, rev, uid, labels, {"token": token})


def wrote(client, kind, token, start, end, rev, **more):
    return Op(
        client,
        kind,
        SCOPE,
        "a",
        start,
        end,
        OK,
        token=token,
        data={"token": token},
        seen=state(rev, token),
        **more,
    )


def told(*events):
    return [Session("w", SCOPE, after=1, told=[Told(9.0, *event) for event in events], until=9)]


def test_of_two_writers_that_saw_the_same_one_must_lose():
    ops = [
        wrote("c1", "create", "t1", 0, 1, 2),
        wrote("c1", "put", "t2", 2, 3, 3, expect=2),
        wrote("c2", "put", "t3", 2, 3, 4, expect=2),
    ]
    events = told(("ADDED", state(2, "t1")), ("MODIFIED", state(3, "t2")), ("MODIFIED", state(4, "t3")))
    assert check(History(1, ops, events)) == ["put t3 of a by c2 at 4 demanded 2 and met 3"]


def test_a_request_without_an_answer_may_have_been_done_or_not():
    ops = [
        wrote("c1", "create", "t1", 0, 1, 2),
        Op("c1", "patch", SCOPE, "a", 2, token="t2", data={"token": "t2"}),
    ]
    assert ops[1].outcome == UNKNOWN
    assert check(History(1, ops, told(("ADDED", state(2, "t1"))))) == []
    done = told(("ADDED", state(2, "t1")), ("MODIFIED", state(3, "t2")))
    assert check(History(1, ops, done)) == []


def test_it_may_not_have_been_done_twice():
    ops = [
        wrote("c1", "create", "t1", 0, 1, 2),
        Op("c1", "patch", SCOPE, "a", 2, token="t2", data={"token": "t2"}),
    ]
    twice = told(("ADDED", state(2, "t1")), ("MODIFIED", state(3, "t2")), ("MODIFIED", state(4, "t2")))
    assert check(History(1, ops, twice)) == ["patch t2 of a by c1 was done twice, at 3 and 4"]


def test_a_history_that_nobody_watched_to_its_end_is_not_proved():
    ops = [wrote("c1", "create", "t1", 0, 1, 2)]
    assert check(History(1, ops, [])) == [f"nobody watched all of {SCOPE}: only up to 0 of 0"]


def test_a_history_is_read_as_it_was_kept(tmp_path):
    history = correct(1)
    history.save(tmp_path / "history.json")
    assert load(tmp_path / "history.json") == history
    assert copy.deepcopy(history) == history
