"""Delivery and evictions over a bad link, with the engine killed in between: the end is the same, from many seeds."""

from __future__ import annotations

import asyncio

import pytest

from echelon.api import names as n
from echelon.api.own import CLUSTER_BINDINGS, EVICTIONS, WORKS
from echelon.api.scope import SCOPES
from echelon.client.errors import NotFound
from echelon.controllers.delivery import Delivery
from echelon.controllers.eviction import Evictions
from echelon.controllers.overrides import Overrides
from tests.deliveries import Desk, config_map
from tests.scenarios.test_evictions import NAME, Hub
from tests.world import World, world

SEEDS = range(6)


async def bad_engine(w: World, desk: Desk, number: int):
    """Start an engine whose link loses requests, answers and watches."""
    name = f"engine {number}"
    client = w.client(link=name)
    link = w.links[name]
    link.latency_s = (0.0, 0.05)
    link.lose_request, link.lose_answer, link.drop_watch = 0.05, 0.05, 0.02
    return await w.start(lambda m: [Delivery(m.cache, desk.scope), Overrides(m.cache, desk.scope)], client)


async def answers(desk: Desk) -> None:
    """Answer as members do: each Work, whenever it changes."""
    while True:
        for work in (await desk.client.list(WORKS)).items:
            conditions = work.status.conditions if work.status else ()
            if any(c.observed_generation != work.metadata.generation for c in conditions) or not conditions:
                cluster = (work.namespace or "").removeprefix(n.MEMBER_NAMESPACE_PREFIX)
                try:
                    await desk.report(work.name, cluster)
                except NotFound:
                    continue
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_cluster_ends_with_what_it_was_told_last(scope, seed):
    with world(seed, shuffle=True) as w:
        desk = Desk(w, scope)

        async def scenario():
            await desk.begin("m1", "m2", "m3")
            for index in range(4):
                parts = 1 + index % 3
                await desk.snapshot(index, config_map(f"v{index}"), parts=parts)
                for part in range(1, parts):
                    await desk.snapshot(index, config_map(f"v{index}-{part}"), subindex=part)
            members = asyncio.create_task(answers(desk))
            engine = await bad_engine(w, desk, 0)
            names = [await desk.bind(cluster) for cluster in ("m1", "m2", "m3")]
            for number in range(1, 6):
                for position, name in enumerate(names):
                    await desk.retry_move(name, (number + position) % 4)
                await asyncio.sleep(w.sim.rng.uniform(0.0, 1.0))
                if number % 2:
                    await engine.stop()
                    w.managers.remove(engine)
                    engine = await bad_engine(w, desk, number)
            wanted = {name: (5 + position) % 4 for position, name in enumerate(names)}

            async def is_there(name):
                found = await desk.conditions(name)
                return found.get("Available") == ("True", "AllWorkAreAvailable")

            for name in wanted:
                await w.until(lambda name=name: is_there(name))
            for position, (name, index) in enumerate(wanted.items()):
                works = await desk.works(f"m{position + 1}")
                parts = 1 + index % 3
                assert set(works) == {desk.work_name(part or None) for part in range(parts)}
                held = {m["metadata"]["name"] for work in works.values() for m in work.spec.manifests}
                assert held == {f"v{index}", *(f"v{index}-{part}" for part in range(1, parts))}
                assert (await desk.binding(name)).metadata.finalizers == (n.FINALIZER_WORK_CLEANUP,)
            for name in names:
                await desk.client.delete(scope.binding, name, desk.namespace)
            for name in names:
                await w.until(lambda name=name: desk.is_gone(name))
            assert (await desk.client.list(WORKS)).items == []
            members.cancel()
            await w.stop()

        w.run(scenario())


@pytest.mark.parametrize("seed", SEEDS)
def test_evictions_over_a_bad_link_never_use_a_budget_twice(seed):
    with world(seed, shuffle=True) as w:
        hub = Hub(w)

        async def scenario():
            await w.install()
            await hub.place()
            clusters = [f"c{number}" for number in range(6)]
            for cluster in clusters:
                await hub.bind(cluster)
            await hub.budget(minAvailable=4)
            for cluster in clusters:
                spec = {"placementName": NAME, "clusterName": cluster}
                await hub.make(EVICTIONS, f"evict-{cluster}", spec)
            for number in range(4):
                name = f"engine {number}"
                client = w.client(link=name)
                w.links[name].latency_s = (0.0, 0.05)
                w.links[name].lose_request = w.links[name].lose_answer = 0.1
                engine = await w.start(lambda m: [Evictions(m.cache)], client)
                await asyncio.sleep(w.sim.rng.uniform(0.0, 1.5))
                if number < 3:
                    await engine.stop()
                    w.managers.remove(engine)

            async def all_answered():
                found = [await hub.client.get(EVICTIONS, f"evict-{cluster}") for cluster in clusters]
                return all(e.status and len(e.status.conditions) == 2 for e in found)

            await w.until(all_answered)
            bindings = (await hub.client.list(CLUSTER_BINDINGS)).items
            assert sum(1 for binding in bindings if binding.metadata.is_deleting) == 2
            await w.stop()

        w.run(scenario())
