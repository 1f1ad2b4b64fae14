"""A short history of a hub that is killed, with everything judged; `python -m tests.history` records long ones."""

from tests.history.checker import check
from tests.history.record import UNKNOWN
from tests.history.server import Process
from tests.history.workload import record


async def test_one_order_explains_all_answers_and_watches_through_kills(tmp_path):
    process = Process(tmp_path, members=1)
    try:
        history = await record(process, seed=7, rounds=3, writers=6, longest_s=0.5)
    finally:
        await process.kill()
    assert check(history) == []
    assert any(op.outcome == UNKNOWN for op in history.ops)
    assert any(session.told for session in history.sessions if session.label)
