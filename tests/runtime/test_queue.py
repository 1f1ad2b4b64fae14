import asyncio

import pytest

from echelon.runtime.queue import MAX_RETRY_S, Queue
from echelon.runtime.simulation import Simulation


@pytest.fixture
def sim():
    simulation = Simulation(3)
    yield simulation
    simulation.close()


def test_a_key_added_twice_is_taken_once(sim):
    async def scenario():
        queue = Queue()
        queue.add("a")
        queue.add("a")
        key = await queue.take()
        queue.done(key)
        return key, len(queue)

    assert sim.run(scenario()) == ("a", 0)


def test_a_key_added_while_it_runs_runs_once_more_afterwards(sim):
    async def scenario():
        queue = Queue()
        queue.add("a")
        key = await queue.take()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0, "never twice at the same time"
        queue.done(key)
        return len(queue)

    assert sim.run(scenario()) == 1


def test_of_two_moments_the_earlier_counts(sim):
    async def scenario():
        queue = Queue()
        queue.add_in("a", 50)
        queue.add_in("a", 10)
        queue.add_in("a", 100)
        await queue.take()
        return asyncio.get_running_loop().time()

    assert sim.run(scenario()) == pytest.approx(10)


def test_a_cancelled_moment_never_comes(sim):
    async def scenario():
        queue = Queue()
        queue.add_in("a", 10)
        queue.cancel_timer("a")
        await asyncio.sleep(100)
        return len(queue)

    assert sim.run(scenario()) == 0


def test_back_off_grows_per_key_is_bounded_and_ends_with_success(sim):
    async def scenario():
        queue = Queue(sim.rng)
        delays = []
        for _ in range(30):
            delays.append(queue.retry("bad"))
            queue.cancel_timer("bad")
        fresh = queue.retry("good")
        queue.succeeded("bad")
        again = queue.retry("bad")
        queue.close()
        return delays, fresh, again

    delays, fresh, again = sim.run(scenario())
    assert max(delays) <= MAX_RETRY_S * 1.2
    assert delays[-1] > 0.8 * MAX_RETRY_S
    assert fresh < 0.01
    assert again < 0.01


def test_a_waiting_taker_is_woken(sim):
    async def scenario():
        queue = Queue()
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(1)
        queue.add("late")
        return await taker

    assert sim.run(scenario()) == "late"


def test_a_taker_that_gave_up_does_not_swallow_a_key(sim):
    async def scenario():
        queue = Queue()
        impatient = asyncio.create_task(queue.take())
        patient = asyncio.create_task(queue.take())
        await asyncio.sleep(1)
        impatient.cancel()
        queue.add("a")
        return await patient

    assert sim.run(scenario()) == "a"
