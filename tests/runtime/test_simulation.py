import asyncio
from datetime import timedelta

import pytest

from echelon.runtime.simulation import START, Simulation, Stalled


def test_hours_pass_in_no_time():
    sim = Simulation()

    async def scenario():
        await asyncio.sleep(10 * 3600)
        return sim.now()

    assert sim.run(scenario()) == START + timedelta(hours=10)
    sim.close()


def test_a_simulation_that_waits_for_nothing_says_so_instead_of_hanging():
    sim = Simulation()

    async def scenario():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stalled):
        sim.run(scenario())
    sim.close()


def trace(seed):
    sim = Simulation(seed, shuffle=True)
    order = []

    async def worker(name):
        for _ in range(5):
            await asyncio.sleep(0)
            order.append(name)
            await asyncio.sleep(sim.rng.random())

    async def scenario():
        await asyncio.gather(*(worker(name) for name in "abcdef"))

    sim.run(scenario())
    sim.close()
    return "".join(order)


def test_the_same_seed_replays_the_same_run_and_another_seed_another():
    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_what_would_be_a_thread_runs_inline():
    sim = Simulation()

    async def scenario():
        return await asyncio.to_thread(lambda: 42)

    assert sim.run(scenario()) == 42
    sim.close()
