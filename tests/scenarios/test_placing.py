"""Where things go, end to end on a whole fleet (contract scenarios 1 to 48; numbers in brackets)."""

import pytest

from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.scope import CLUSTER, SCOPES
from echelon.client.errors import NotFound
from tests.rules.fleet_b import labelled, pick_fixed, pick_n, required
from tests.scenarios.placing import EACH, SUMMED, Place
from tests.world import world

ALL = ("member1", "member2", "member3")


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def place(request):
    with world(21) as w:
        yield Place(w, request.param)


@pytest.fixture
def wide():
    with world(21) as w:
        yield Place(w, CLUSTER)


def play(place, scenario, **begin):
    async def whole():
        await place.begin(**begin)
        await scenario()
        await place.w.stop()

    place.w.run(whole())


def test_without_a_policy_every_member_gets_it_1(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        resources = [("ConfigMap", "app")]
        assert await place.resources() == (
            resources if place.namespace else [("Namespace", "work"), *resources]
        )
        placement = await place.get()
        assert placement.metadata.finalizers == (
            "kubernetes-fleet.io/crp-cleanup",
            "kubernetes-fleet.io/scheduler-cleanup",
        )

    play(place, scenario)


def test_a_new_policy_moves_the_resources_and_makes_no_version_2_3(place):
    async def scenario():
        await place.place({"placementType": "PickAll", "affinity": required(labelled(region="east"))})
        await place.done("member1", "member2")
        await place.edit(policy={"affinity": required(labelled(env="prod"))})
        await place.done("member1", "member3")

    play(place, scenario)


def test_a_policy_that_fits_nowhere_is_fulfilled_by_nothing_4(place):
    async def scenario():
        nothing = labelled(region="west", env="canary")
        await place.place({"placementType": "PickAll", "affinity": required(nothing)})
        assert await place.summed() == {"Scheduled": SUMMED["Scheduled"]}
        assert await place.message("Scheduled") == (
            "found all cluster needed as specified by the scheduling policy, found 0 cluster(s)"
        )
        assert (await place.entries(), await place.index(), await place.where()) == ({}, "0", set())

    play(place, scenario)


def test_a_number_of_clusters_goes_up_and_down_11_12_13_14(place):
    async def scenario():
        await place.place(pick_n(1))
        await place.done("member3")
        await place.edit(policy={"numberOfClusters": 2})
        await place.done("member3", "member2")
        await place.edit(policy={"numberOfClusters": 1})
        await place.done("member3")
        snapshots = await place.list(place.scope.policy_snapshot)
        assert [s.name for s in snapshots] == ["p-0"]
        assert snapshots[0].metadata.annotations["kubernetes-fleet.io/number-of-clusters"] == "1"
        await place.edit(policy={"numberOfClusters": 0})
        assert await place.summed() == {"Scheduled": SUMMED["Scheduled"]}
        assert await place.where() == set()

    play(place, scenario)


def test_too_few_clusters_do_not_hold_up_those_that_are_there_17_33_34(place):
    async def scenario():
        await place.place(pick_n(4, affinity=required(labelled(region="east"))))
        assert await place.summed() == {**SUMMED, "Scheduled": ("False", "SchedulingPolicyUnfulfilled")}
        entries = await place.entries()
        assert {name: entries[name] for name in ("member1", "member2")} == dict.fromkeys(
            ("member1", "member2"), EACH
        )
        assert await place.unscheduled() == [
            "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"
        ]
        await place.label("member3", region="east")
        await place.rest()
        assert set(await place.where()) == set(ALL)

    play(place, scenario)


def test_named_clusters_38_40(place):
    async def scenario():
        await place.place(pick_fixed("member1"))
        await place.done("member1")
        await place.edit(policy={"clusterNames": ["member2"]})
        await place.done("member2")

    play(place, scenario)


def test_naming_nothing_stays_pending_40(place):
    async def scenario():
        await place.place(pick_fixed())
        assert await place.summed() == {"Scheduled": ("Unknown", "SchedulePending")}
        assert (await place.index(), len(await place.resources()) > 0) == ("0", True)
        await place.edit(policy={"clusterNames": ["member1"]})
        await place.done("member1")

    play(place, scenario)


def test_named_clusters_that_cannot_be_used_39(place):
    async def scenario():
        await place.place(pick_fixed("nowhere"))
        assert await place.summed() == {"Scheduled": ("False", "SchedulingPolicyUnfulfilled")}
        assert await place.unscheduled() == ['Specified cluster "nowhere" is not found']

    play(place, scenario)


def test_taints_and_tolerations_45_46_48(place):
    async def scenario():
        taint = {"key": "region", "value": "east", "effect": "NoSchedule"}
        await place.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})
        await place.place({"placementType": "PickAll"})
        await place.done("member2", "member3")
        await place.edit(policy={"tolerations": [{**taint, "operator": "Equal"}]})
        await place.done(*ALL)
        await place.hub.patch(MEMBER_CLUSTERS, "member2", None, {"spec": {"taints": [{**taint, "key": "x"}]}})
        await place.rest()
        await place.done(*ALL)

    play(place, scenario)


def test_a_taint_that_is_taken_away_lets_the_cluster_in_46(place):
    async def scenario():
        taint = {"key": "region", "value": "east", "effect": "NoSchedule"}
        await place.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})
        await place.place()
        await place.done("member2", "member3")
        await place.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": None}})
        await place.rest()
        await place.done(*ALL)

    play(place, scenario)


def test_a_member_that_leaves_is_given_up_when_it_is_gone_10(place):
    async def scenario():
        await place.place()
        await place.hub.delete(MEMBER_CLUSTERS, "member3")

        async def gone():
            try:
                await place.hub.get(MEMBER_CLUSTERS, "member3")
            except NotFound:
                return True
            return False

        await place.w.until(gone)
        await place.rest()
        assert set(await place.entries()) == {"member1", "member2"}
        assert len(await place.list(place.scope.binding)) == 2

    play(place, scenario)


def test_deleting_a_placement_empties_the_members_99(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        foreign = {"metadata": {"finalizers": ["example.com/mine"]}}
        held = await place.get()
        foreign["metadata"]["finalizers"] += held.metadata.finalizers
        await place.hub.patch(place.scope.placement, "p", place.namespace, foreign)
        await place.hub.delete(place.scope.placement, "p", place.namespace)

        async def is_given_up():
            kinds = (place.scope.binding, place.scope.policy_snapshot, place.scope.resource_snapshot)
            left = [one for kind in kinds for one in await place.list(kind)]
            return not left and (await place.get()).metadata.finalizers == ("example.com/mine",)

        await place.w.until(is_given_up)
        assert await place.where() == set()

    play(place, scenario)


def test_a_restart_of_the_engine_writes_nothing(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        before = await revisions(place)
        await place.fleet.stop_engine()
        await place.fleet.restart_engine()
        await place.rest(5)
        assert await revisions(place) == before
        writes = place.fleet.manager.performer.write_count
        assert writes == 0

    play(place, scenario)


async def revisions(place):
    scope = place.scope
    kinds = (scope.placement, scope.policy_snapshot, scope.resource_snapshot, scope.binding)
    return {
        (kind.kind, row.name): row.metadata.resource_version
        for kind in kinds
        for row in await place.list(kind)
    }
