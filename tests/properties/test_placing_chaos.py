"""Placing survives everything around it, from seeds: engine deaths, cut members, shuffled events, edits at any time."""

import asyncio
from random import Random

import pytest

from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.scope import SCOPES
from echelon.sandbox.fleet import LINK
from tests.scenarios.placing import CONFIG_MAP, NAMESPACE, SUMMED, Place
from tests.world import world

SEEDS = range(4)
MEMBERS = 4


class Chaos:
    """A few placements under hands that never rest."""

    def __init__(self, place: Place, rng: Random):
        self.place, self.rng, self.value, self.count = place, rng, 0, 2

    async def edit_resource(self):
        self.value += 1
        await self.place.config("app", v=str(self.value))

    async def edit_count(self):
        self.count = self.rng.randint(0, MEMBERS)
        body = {"spec": {"policy": {"numberOfClusters": self.count}}}
        await self.place.hub.patch(self.place.scope.placement, "p", self.place.namespace, body)

    async def edit_speed(self):
        update = {
            "maxUnavailable": self.rng.choice([1, "25%", "100%"]),
            "maxSurge": self.rng.choice([0, 1, "50%"]),
        }
        body = {"spec": {"strategy": {"rollingUpdate": update}}}
        await self.place.hub.patch(self.place.scope.placement, "p", self.place.namespace, body)

    async def relabel(self):
        member = f"member{self.rng.randint(1, MEMBERS)}"
        await self.place.label(member, region=self.rng.choice(["east", "west"]))

    async def cut(self):
        member = f"member{self.rng.randint(1, MEMBERS)}"
        state = self.rng.choice(["cut", None, None])
        meta = {"metadata": {"annotations": {LINK: state}}}
        await self.place.hub.patch(MEMBER_CLUSTERS, member, None, meta)

    async def drop_binding(self):
        held = await self.place.list(self.place.scope.binding)
        if held:
            binding = self.rng.choice(held)
            await self.place.hub.delete(self.place.scope.binding, binding.name, binding.namespace)

    async def kill_engine(self):
        await self.place.fleet.stop_engine()
        await asyncio.sleep(self.rng.random())
        await self.place.fleet.restart_engine()

    async def act(self):
        doing = self.rng.choice(
            [self.edit_resource] * 3
            + [self.edit_count] * 2
            + [self.edit_speed, self.relabel, self.cut, self.drop_binding, self.kill_engine]
        )
        await doing()
        await asyncio.sleep(self.rng.choice([0.001, 0.02, 0.3, 2.0]))
        await self.invariants()

    async def invariants(self):
        live = [
            b
            for b in await self.place.list(self.place.scope.binding)
            if not b.metadata.is_deleting and b.spec.state != "Unscheduled"
        ]
        clusters = [b.spec.target_cluster for b in live]
        assert len(clusters) == len(set(clusters)), "never two live bindings on one cluster"
        marked = [
            s.name
            for s in await self.place.list(self.place.scope.resource_snapshot)
            if s.metadata.labels.get("kubernetes-fleet.io/is-latest-snapshot") == "true"
        ]
        assert len(marked) <= 1, "never two latest versions"

    async def peace(self):
        for number in range(1, MEMBERS + 1):
            meta = {"metadata": {"annotations": {LINK: None}}}
            await self.place.hub.patch(MEMBER_CLUSTERS, f"member{number}", None, meta)

    async def is_settled(self):
        placement = await self.place.get()
        if placement.status is None or len(placement.status.placement_statuses) != self.count:
            return False
        said = {
            c.type.removeprefix(self.place.scope.condition_prefix): (c.status, c.reason)
            for c in placement.status.conditions
            if c.observed_generation == placement.metadata.generation
        }
        wanted = SUMMED if self.count else {"Scheduled": SUMMED["Scheduled"]}
        held = [await self.place.has(name) for name in self.place.fleet.members]
        return said == wanted and sorted(filter(None, held), key=str) == [{"v": str(self.value)}] * self.count


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_whatever_happens_it_ends_where_it_should(scope, seed):
    with world(seed, shuffle=True) as w:
        place = Place(w, scope)

        async def scenario():
            await place.begin(members=MEMBERS)
            selectors = [CONFIG_MAP] if scope.namespaced else [NAMESPACE]
            await place.place(
                {"placementType": "PickN", "numberOfClusters": 2},
                resourceSelectors=selectors,
                strategy={"type": "RollingUpdate"},
            )
            chaos = Chaos(place, Random(seed))
            for _ in range(30):
                await chaos.act()
            await chaos.peace()
            await w.until(chaos.is_settled, within_s=1200)
            await place.rest(10)
            for resource in (scope.placement, scope.binding):
                for obj in await place.list(resource):
                    assert not obj.metadata.is_deleting
            before = place.fleet.manager.performer.write_count
            await asyncio.sleep(30)
            assert place.fleet.manager.performer.write_count - before <= 2 * MEMBERS, (
                "at rest only members report"
            )
            await w.stop()

        w.run(scenario())
