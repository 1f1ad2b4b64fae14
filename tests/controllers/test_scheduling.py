"""What wakes the scheduler, on the in-process hub with members written down by hand (scenarios 9, 33 to 36, 95, 96).

Rules: R-PICK-9.
"""

import asyncio

import pytest

from echelon.api import own
from echelon.api.builtin import NAMESPACES
from echelon.api.scope import NAMESPACED, SCOPES
from echelon.controllers.placement import Placements
from echelon.controllers.scheduler import Scheduler
from echelon.controllers.selection import Selection
from tests.rules.fleet_b import labelled, pick_fixed, pick_n, required, spread
from tests.rules.pretend import a_cluster
from tests.world import namespace, world

NODES = "kubernetes-fleet.io/node-count"


class Desk:
    """Placements and a scheduler of one scope; members are what a test writes down."""

    def __init__(self, w, scope):
        self.w, self.scope, self.hub = w, scope, w.client()
        self.namespace = "work" if scope.namespaced else None

    async def begin(self, *members):
        await self.w.install()
        await self.hub.create(NAMESPACES, namespace("work"))
        for name in members:
            await self.member(name)
        self.manager = await self.w.start(
            lambda manager: [
                Placements(manager.cache, Selection(manager.cache, manager.client), self.scope),
                Scheduler(manager.cache, self.scope),
            ]
        )

    async def member(self, name, labels=None, **more):
        """Write a member down, or anew."""
        body = a_cluster(name, labels, at=self.w.now(), **more)
        status = body.pop("status")
        body |= {"apiVersion": own.MEMBER_CLUSTERS.api_version, "kind": "MemberCluster"}
        if name not in {held.name for held in (await self.hub.list(own.MEMBER_CLUSTERS)).items}:
            await self.hub.create(own.MEMBER_CLUSTERS, body)
        else:
            meta = {"labels": body["metadata"]["labels"]}
            await self.hub.patch(own.MEMBER_CLUSTERS, name, None, {"metadata": meta, "spec": body["spec"]})
        await self.hub.patch(own.MEMBER_CLUSTERS, name, None, {"status": status}, subresource="status")

    async def place(self, policy=None, name="p", **spec):
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}
        if not self.namespace:
            selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
        spec = {"resourceSelectors": [selector], **spec, **({"policy": policy} if policy else {})}
        kind = self.scope.placement
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        await self.hub.create(kind, body, self.namespace)
        await self.w.settle()

    async def held(self, name="p"):
        found = (await self.hub.list(self.scope.binding, self.namespace)).items
        return {
            b.spec.target_cluster: b.spec.state
            for b in found
            if b.metadata.labels["kubernetes-fleet.io/parent-CRP"] == name
        }

    def looks(self):
        return int(
            self.manager.telemetry.decisions.labels(f"scheduler-{self.scope.name.lower()}")._value.get()
        )

    async def costs(self, change):
        """Return how many scheduling cycles a change costs."""
        await self.w.settle()
        before = self.looks()
        await change
        await self.w.settle()
        return self.looks() - before


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def desk(request):
    with world(31) as w:
        yield Desk(w, request.param)


def play(desk, scenario, *members):
    async def whole():
        await desk.begin(*members)
        await scenario()
        await desk.w.stop()

    desk.w.run(whole())


def test_a_heartbeat_costs_no_cycle(desk):
    async def scenario():
        await desk.place()
        await asyncio.sleep(60)
        assert await desk.costs(desk.member("m1")) == 0

    play(desk, scenario, "m1", "m2")


def test_only_what_a_policy_reads_wakes_it(desk):
    async def scenario():
        await desk.place(name="all")
        term = labelled(env="prod")
        term["propertySelector"] = {"matchExpressions": [{"name": NODES, "operator": "Ge", "values": ["3"]}]}
        await desk.place({"placementType": "PickAll", "affinity": required(term)}, name="choosy")
        assert await desk.costs(desk.member("m1", {"env": "test"}, properties={NODES: "2"})) == 0
        assert await desk.costs(desk.member("m1", {"env": "prod"}, properties={NODES: "2"})) == 0
        assert await desk.costs(desk.member("m1", {"env": "prod"}, properties={NODES: "3"})) == 1
        assert await desk.held("choosy") == {"m1": "Scheduled"}
        assert await desk.costs(desk.member("m1", {"env": "x"}, properties={NODES: "1"})) == 0
        assert await desk.held("choosy") == {"m1": "Scheduled"}

    play(desk, scenario, "m1")


@pytest.mark.parametrize("health", ["absent", "unjoined", "sick", "silent"])
def test_a_member_that_becomes_eligible_is_taken_9_33(desk, health):
    async def scenario():
        await desk.member("m2", health=health)
        await desk.place()
        await desk.place(pick_n(2), name="two")
        await desk.place(pick_fixed("m2"), name="fixed")
        assert await desk.held() == {"m1": "Scheduled"}
        await asyncio.sleep(30)
        await desk.member("m2")
        await desk.w.settle()
        for name in ("p", "two"):
            assert await desk.held(name) == {"m1": "Scheduled", "m2": "Scheduled"}
        assert await desk.held("fixed") == {"m2": "Scheduled"}

    play(desk, scenario, "m1")


def test_a_new_member_is_taken_when_it_is_ready(desk):
    async def scenario():
        await desk.place()
        await desk.member("m2")
        await desk.w.settle()
        assert await desk.held() == {"m1": "Scheduled", "m2": "Scheduled"}

    play(desk, scenario, "m1")


def test_a_satisfied_count_is_not_asked_again(desk):
    async def scenario():
        await desk.place(pick_n(1))
        assert await desk.held() == {"m2": "Scheduled"}
        assert await desk.costs(desk.member("m9")) == 0
        assert await desk.held() == {"m2": "Scheduled"}

    play(desk, scenario, "m1", "m2")


def test_a_taint_that_goes_lets_a_member_in_and_one_that_comes_changes_nothing(desk):
    async def scenario():
        taint = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
        await desk.member("m2", taints=taint)
        await desk.place()
        assert await desk.held() == {"m1": "Scheduled"}
        assert await desk.costs(desk.member("m1", taints=taint)) == 0
        await desk.member("m2")
        await desk.w.settle()
        assert await desk.held() == {"m1": "Scheduled", "m2": "Scheduled"}

    play(desk, scenario, "m1")


def test_a_member_that_is_gone_is_given_up_by_those_that_had_it_10_34(desk):
    async def scenario():
        await desk.place()
        await desk.place(pick_fixed("m1"), name="other")
        assert await desk.costs(desk.hub.delete(own.MEMBER_CLUSTERS, "m2")) == 1
        assert await desk.held() == {"m1": "Scheduled", "m2": "Unscheduled"}

    play(desk, scenario, "m1", "m2")


def test_a_new_region_makes_room_for_another_member_36(desk):
    async def scenario():
        for name, region in (("e1", "east"), ("e2", "east"), ("w1", "west"), ("e3", "east")):
            await desk.member(name, {"region": region})
        await desk.place(pick_n(5, topologySpreadConstraints=[spread("region")]))
        assert len(await desk.held()) == 3
        await desk.member("w2", {"region": "west"})
        await desk.w.settle()
        assert set(await desk.held()) == {"e1", "e2", "e3", "w1", "w2"}

    play(desk, scenario)


def test_a_binding_that_is_deleted_is_made_anew(desk):
    async def scenario():
        await desk.place()
        old = (await desk.hub.list(desk.scope.binding, desk.namespace)).items[0]
        await desk.hub.delete(desk.scope.binding, old.name, desk.namespace)
        await desk.w.settle()
        held = (await desk.hub.list(desk.scope.binding, desk.namespace)).items
        assert [b.spec.target_cluster for b in held] == ["m1"]
        assert held[0].metadata.uid != old.metadata.uid

    play(desk, scenario, "m1")


def test_a_namespace_that_appears_on_a_member_lets_it_in_96():
    with world(31) as w:
        desk = Desk(w, NAMESPACED)

        async def scenario():
            await desk.member("m1", namespaces={"work": ""})
            await desk.member("m2", namespaces={"other": ""})
            await desk.place()
            assert await desk.held() == {"m1": "Scheduled", "m3": "Scheduled"}
            await desk.member("m2", namespaces={"other": "", "work": "x"})
            await desk.w.settle()
            assert set(await desk.held()) == {"m1", "m2", "m3"}

        play(desk, scenario, "m3")


def test_nothing_is_written_again_after_a_restart(desk):
    async def scenario():
        await desk.place()
        await desk.place(pick_n(1), name="one")
        await desk.place(pick_fixed("m1", "nowhere"), name="fixed")
        await desk.manager.stop()
        desk.w.managers.clear()
        await asyncio.sleep(30)
        fresh = await desk.w.start(
            lambda manager: [
                Placements(manager.cache, Selection(manager.cache, manager.client), desk.scope),
                Scheduler(manager.cache, desk.scope),
            ]
        )
        await desk.w.settle()
        assert fresh.performer.write_count == 0

    play(desk, scenario, "m1", "m2")


def test_what_happened_while_the_engine_was_away_is_made_up_for(desk):
    async def scenario():
        await desk.place()
        await desk.manager.stop()
        desk.w.managers.clear()
        await desk.member("m2")
        await desk.hub.delete(own.MEMBER_CLUSTERS, "m1")
        await desk.w.start(lambda manager: [Scheduler(manager.cache, desk.scope)])
        await desk.w.settle()
        assert await desk.held() == {"m1": "Unscheduled", "m2": "Scheduled"}

    play(desk, scenario, "m1")
