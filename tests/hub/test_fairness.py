"""One noisy client does not starve another; limits are told, not felt."""

import asyncio

import pytest

from echelon.hub.call import ADMIN, User
from echelon.hub.fairness import Fairness
from echelon.hub.status import StatusError

NOISY, QUIET = User("noisy"), User("quiet")


async def serve(fairness, user, order, gate):
    await fairness.enter(user)
    order.append(user.name)
    await gate.wait()
    fairness.leave()


async def test_below_the_limit_nobody_waits():
    fairness = Fairness(active=2, queued=1)
    await fairness.enter(NOISY)
    await fairness.enter(QUIET)
    assert (fairness.active, fairness.waiting) == (2, 0)


async def test_clients_take_turns():
    fairness = Fairness(active=1, queued=50)
    order, gate = [], asyncio.Event()
    tasks = [asyncio.create_task(serve(fairness, NOISY, order, gate)) for _ in range(20)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(serve(fairness, QUIET, order, gate)) for _ in range(2)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert order[:5] == ["noisy", "noisy", "quiet", "noisy", "quiet"]
    assert (fairness.active, fairness.waiting) == (0, 0)


async def test_a_full_queue_is_answered_with_429_and_when_to_come_again():
    fairness = Fairness(active=1, queued=1)
    await fairness.enter(NOISY)
    waiting = asyncio.create_task(fairness.enter(NOISY))
    await asyncio.sleep(0)
    with pytest.raises(StatusError) as caught:
        await fairness.enter(NOISY)
    assert caught.value.code == 429
    assert caught.value.headers["Retry-After"] == "1"
    quiet = asyncio.create_task(fairness.enter(QUIET))
    await asyncio.sleep(0)
    fairness.leave()
    await waiting
    fairness.leave()
    await quiet
    fairness.leave()
    assert fairness.active == 0


async def test_a_client_that_leaves_takes_its_place_along():
    fairness = Fairness(active=1, queued=5)
    await fairness.enter(NOISY)
    gone = asyncio.create_task(fairness.enter(NOISY))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert fairness.waiting == 0
    fairness.leave()
    assert fairness.active == 0
    late = asyncio.create_task(fairness.enter(QUIET))
    await asyncio.sleep(0)
    assert late.done()


async def test_a_turn_that_comes_as_the_client_leaves_is_passed_on():
    fairness = Fairness(active=1, queued=5)
    await fairness.enter(NOISY)
    gone = asyncio.create_task(fairness.enter(NOISY))
    await asyncio.sleep(0)
    next_ = asyncio.create_task(fairness.enter(QUIET))
    await asyncio.sleep(0)
    fairness.leave()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await asyncio.wait_for(next_, 1)
    assert fairness.active == 1


async def test_administrators_do_not_wait():
    fairness = Fairness(active=1, queued=1)
    await fairness.enter(NOISY)
    await fairness.enter(ADMIN)
    assert fairness.active == 2
