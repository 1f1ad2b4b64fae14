"""One leader at a time, handed over when it goes or falls silent."""

import asyncio

import pytest

from echelon.api.builtin import LEASES, NAMESPACES
from echelon.runtime.lease import Election
from tests.world import namespace, world


@pytest.fixture
def w():
    with world(6) as made:
        yield made


def candidate(w, identity):
    return Election(w.client(link=identity), w, name="engine", namespace="fleet-system", identity=identity)


async def prepared(w):
    await w.client().create(NAMESPACES, namespace("fleet-system"))
    return candidate(w, "one"), candidate(w, "two")


def test_a_second_candidate_waits_while_the_first_renews(w):
    async def scenario():
        first, second = await prepared(w)
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(120)
        assert first.is_leader
        assert not waiting.done()
        holding.cancel()
        waiting.cancel()

    w.run(scenario())


def test_a_leader_that_lets_go_is_followed_within_a_retry(w):
    async def scenario():
        first, second = await prepared(w)
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(1)
        await first.release()
        await asyncio.wait_for(waiting, 3)
        assert second.is_leader

    w.run(scenario())


def test_a_silent_leader_steps_down_before_another_takes_over(w):
    async def scenario():
        first, second = await prepared(w)
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        w.links["one"].cut()
        await asyncio.wait_for(holding, 15)
        assert not first.is_leader
        assert not waiting.done(), "the lease has not run out yet"
        await asyncio.wait_for(waiting, 10)
        assert second.is_leader

    w.run(scenario())


def test_a_candidate_says_why_it_cannot_take_the_lease(w):
    async def scenario():
        alone = candidate(w, "one")
        waiting = asyncio.create_task(alone.acquire())
        await asyncio.sleep(5)
        assert 'namespaces "fleet-system" not found' in alone.error
        waiting.cancel()

    w.run(scenario())


def test_a_server_that_never_answers_does_not_keep_a_leader_in_office(w):
    async def scenario():
        first, second = await prepared(w)
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        w.links["one"].latency_s = (600.0, 600.0)
        await asyncio.wait_for(holding, 13)
        assert not first.is_leader
        assert not second.is_leader
        await asyncio.wait_for(waiting, 10)

    w.run(scenario())


def test_a_leader_that_sees_another_one_in_office_steps_down_at_once(w):
    async def scenario():
        first, second = await prepared(w)
        await first.acquire()
        await w.client().patch(
            LEASES, "engine", "fleet-system", {"spec": {"holderIdentity": "two", "renewTime": None}}
        )
        await asyncio.wait_for(first.hold(), 3)
        assert not first.is_leader
        await asyncio.wait_for(second.acquire(), 1)

    w.run(scenario())
