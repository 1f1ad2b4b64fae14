"""Scheduling by the contract's scenarios, for both scopes (numbers in brackets are the scenarios').

Rules: R-PICK-1 to R-PICK-7.
"""

from datetime import timedelta

import pytest

from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.rules.decisions import Score, fitting, outranked, picked
from echelon.rules.plan import NOTHING
from echelon.rules.schedule import schedule
from tests.rules.fleet_b import (
    HEALTHY,
    LEFT,
    UNHEALTHY,
    Desk,
    both,
    compared,
    full,
    labelled,
    pick_fixed,
    pick_n,
    preferred,
    required,
    sorted_by,
    spread,
)
from tests.rules.pretend import NOW, SCOPES, a_cluster

scoped = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
FOUND = "found all cluster needed as specified by the scheduling policy, found {} cluster(s)"
NOT_FOUND = (
    "could not find all clusters needed as specified by the scheduling policy, found {} cluster(s) instead"
)
NODES, COST = "kubernetes-fleet.io/node-count", "per-cpu-core-cost"
MEMORY = "resources.kubernetes-fleet.io/available-memory"


# --- PickAll ---------------------------------------------------------------------------------------------------------
@scoped
@pytest.mark.parametrize("policy", [None, {"placementType": "PickAll"}])
def test_pick_all_takes_every_eligible_cluster_7(scope, policy):
    desk = Desk(scope, policy).with_fleet_b()
    desk.cycle()
    assert desk.held() == dict.fromkeys(HEALTHY, "Scheduled")
    assert desk.picked() == dict.fromkeys(HEALTHY, (0, 0))
    assert desk.verdict() == ("True", "SchedulingPolicyFulfilled", FOUND.format(7))
    assert desk.filtered() == {
        LEFT: "ClusterUnschedulable, cluster is not connected to the fleet: member agent not joined yet",
        UNHEALTHY: (
            "ClusterUnschedulable, cluster is not connected to the fleet: unhealthy for a prolonged period of "
            "time (last transitioned 20.00 minutes ago)"
        ),
    }
    binding = desk.store.bindings(scope)[0]
    assert binding.metadata.labels == {"kubernetes-fleet.io/parent-CRP": "p"}
    assert binding.metadata.finalizers == ("kubernetes-fleet.io/scheduler-crb-cleanup",)
    assert binding.metadata.owner_references == ()
    assert binding.name.startswith("p-cluster-1-east-prod-")
    assert desk.decisions()[0].reason == (
        'Successfully scheduled resources for placement in "cluster-1-east-prod" '
        "(affinity score: 0, topology spread score: 0): picked by scheduling policy"
    )


@scoped
def test_a_held_cluster_that_falls_ill_is_kept_8(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    desk.bind_all()
    desk.cluster("cluster-1-east-prod", {"region": "east"}, health="sick")
    desk.edit(revisionHistoryLimit=3)
    desk.cycle()
    assert desk.held()["cluster-1-east-prod"] == "Bound"
    assert "cluster-1-east-prod" in desk.picked()


@scoped
def test_a_cluster_that_recovers_is_taken_without_touching_others_9(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    before = {b.name: b.metadata.resource_version for b in desk.store.bindings(scope)}
    desk.cluster(UNHEALTHY, {"region": "east"})
    desk.cycle()
    after = {b.name: b.metadata.resource_version for b in desk.store.bindings(scope)}
    assert desk.held()[UNHEALTHY] == "Scheduled"
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1


@scoped
def test_a_leaving_cluster_is_kept_until_it_has_left_10(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    leaving = desk.store.objects["memberclusters", "", "cluster-1-east-prod"]
    leaving["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z", finalizers=["x"])
    desk.cycle()
    assert desk.held()["cluster-1-east-prod"] == "Scheduled"
    desk.lose("cluster-1-east-prod")
    desk.cycle()
    assert desk.held()["cluster-1-east-prod"] == "Unscheduled"
    assert "cluster-1-east-prod" not in desk.picked()
    assert desk.verdict()[2] == FOUND.format(6)


@scoped
def test_pick_all_takes_only_what_matches_and_is_fulfilled_even_by_nothing_2_4(scope):
    policy = {"placementType": "PickAll", "affinity": required(labelled(region="east"))}
    desk = Desk(scope, policy).with_fleet_b()
    desk.cycle()
    assert list(desk.picked()) == full("123")
    assert desk.filtered()["cluster-4-central-prod"] == (
        "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"
    )
    nothing = {"placementType": "PickAll", "affinity": required(labelled(region="west", env="x"))}
    desk = Desk(scope, nothing).with_fleet_b()
    desk.cycle()
    assert desk.held() == {}
    assert desk.verdict() == ("True", "SchedulingPolicyFulfilled", FOUND.format(0))


@scoped
def test_a_new_policy_carries_over_what_still_matches_and_gives_up_the_rest_3(scope):
    desk = Desk(scope, {"placementType": "PickAll", "affinity": required(labelled(region="east"))})
    desk.with_fleet_b().cycle()
    desk.bind_all()
    kept = {b.spec.target_cluster: b.name for b in desk.store.bindings(scope)}
    desk.edit(policy={"affinity": required(labelled(env="canary"))})
    assert desk.snapshot.name == "p-1"
    desk.cycle()
    assert desk.held() == {
        "cluster-1-east-prod": "Unscheduled",
        "cluster-2-east-prod": "Unscheduled",
        "cluster-3-east-canary": "Bound",
        "cluster-7-west-canary": "Scheduled",
    }
    third = next(b for b in desk.store.bindings(scope) if b.spec.target_cluster == "cluster-3-east-canary")
    assert (third.name, third.spec.scheduling_policy_snapshot_name) == (
        kept["cluster-3-east-canary"],
        "p-1",
    )
    first = next(b for b in desk.store.bindings(scope) if b.spec.target_cluster == "cluster-1-east-prod")
    assert first.metadata.annotations == {"kubernetes-fleet.io/previous-binding-state": "Bound"}


@scoped
def test_properties_are_compared_as_quantities_and_all_must_hold_5_6(scope):
    total_cpu = "resources.kubernetes-fleet.io/total-cpu"
    demands = compared((NODES, "Ge", "3"), (total_cpu, "Lt", "10000"))
    desk = Desk(scope, {"placementType": "PickAll", "affinity": required(demands)})
    for name, nodes in (("c1", "2"), ("c2", "3"), ("c3", "4000m")):
        desk.cluster(name, properties={NODES: nodes}, usage={"capacity": {"cpu": "8"}})
    desk.cluster("c4", properties={NODES: "9"}, usage={"capacity": {"cpu": "10k"}})
    desk.cluster("c5", usage={"capacity": {"cpu": "1"}})
    desk.cycle()
    assert list(desk.picked()) == ["c2", "c3"]


@scoped
def test_a_demand_that_cannot_be_read_is_said_in_the_status(scope):
    demands = compared((NODES, "Ge", "many"))
    desk = Desk(scope, {"placementType": "PickAll", "affinity": required(demands)})
    desk.cluster("c1", properties={NODES: "2"})
    desk.cycle()
    status, reason, message = desk.verdict()
    assert (status, reason) == ("False", "SchedulingPolicyUnfulfilled")
    assert message.startswith(NOT_FOUND.format(0))
    assert "'many' is not a quantity" in message


# --- PickN -----------------------------------------------------------------------------------------------------------
def three_members(desk):
    desk.cluster("c1", {"region": "east", "env": "prod"}, **reports("2", "5Gi", "0.1"))
    desk.cluster("c2", {"region": "east", "env": "canary"}, **reports("3", "8Gi", "0.2"))
    desk.cluster("c3", {"region": "west", "env": "prod"}, **reports("4", "9Gi", "0.3"))
    return desk


def reports(nodes, memory, cost):
    return {"properties": {NODES: nodes, COST: cost}, "usage": {"available": {"memory": memory}}}


@scoped
def test_among_equals_the_last_name_is_picked_first_11_12_13(scope):
    desk = three_members(Desk(scope, pick_n(1)))
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled"}
    desk.edit(policy={"numberOfClusters": 2})
    assert desk.snapshot.name == "p-0"
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled", "c2": "Scheduled"}
    desk.edit(policy={"numberOfClusters": 1})
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled", "c2": "Unscheduled"}
    assert desk.snapshot.name == "p-0"


@scoped
def test_downscaling_to_nothing_14(scope):
    desk = three_members(Desk(scope, pick_n(2)))
    desk.cycle()
    desk.edit(policy={"numberOfClusters": 0})
    desk.cycle()
    assert desk.held() == {"c3": "Unscheduled", "c2": "Unscheduled"}
    assert desk.decisions() == []
    assert desk.verdict() == ("True", "SchedulingPolicyFulfilled", FOUND.format(0))


@scoped
def test_a_policy_changes_from_spread_to_preference_15_16(scope):
    affinity = required(labelled(region="east"))
    desk = three_members(Desk(scope, pick_n(2, affinity=affinity, topologySpreadConstraints=[spread("env")])))
    desk.cycle()
    assert desk.held() == {"c1": "Scheduled", "c2": "Scheduled"}
    first = {b.spec.target_cluster: b.name for b in desk.store.bindings(scope)}["c1"]
    desk.edit(
        policy={
            "affinity": {
                "clusterAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": None,
                    **preferred((20, labelled(env="prod")))["clusterAffinity"],
                }
            },
            "topologySpreadConstraints": [spread("region", "ScheduleAnyway")],
        }
    )
    desk.cycle()
    assert desk.snapshot.name == "p-1"
    assert desk.held() == {"c1": "Scheduled", "c2": "Unscheduled", "c3": "Scheduled"}
    kept = next(b for b in desk.store.bindings(scope) if b.name == first)
    assert kept.spec.scheduling_policy_snapshot_name == "p-1"


@scoped
def test_too_few_clusters_is_said_17(scope):
    desk = three_members(Desk(scope, pick_n(5, affinity=required(labelled(region="east")))))
    desk.cycle()
    assert desk.verdict() == ("False", "SchedulingPolicyUnfulfilled", NOT_FOUND.format(2))


@scoped
@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (preferred((20, sorted_by(NODES, "Ascending"))), {"c1", "c2"}),  # 18
        (
            preferred((20, sorted_by(NODES, "Ascending")), (20, sorted_by(MEMORY, "Descending"))),
            {"c3", "c2"},
        ),  # 19
        (
            preferred(
                (20, labelled(region="east") | sorted_by(NODES, "Ascending")),
                (20, labelled(env="canary") | sorted_by(MEMORY, "Descending")),
            ),
            {"c2", "c1"},
        ),  # 20
    ],
    ids=["18", "19", "20"],
)
def test_clusters_are_ranked_by_properties(scope, affinity, expected):
    desk = three_members(Desk(scope, pick_n(2, affinity=affinity)))
    desk.cycle()
    assert set(desk.held()) == expected


@scoped
def test_required_and_preferred_terms_work_together_21(scope):
    demands = compared((COST, "Ge", "0"), (NODES, "Ne", "3"))
    affinity = both(
        required(labelled(env="prod") | demands),
        preferred((30, sorted_by(NODES, "Ascending")), (40, sorted_by(MEMORY, "Descending"))),
    )
    desk = three_members(Desk(scope, pick_n(1, affinity=affinity)))
    desk.cycle()
    assert set(desk.held()) == {"c3"}


@scoped
def test_preferred_terms_score_and_the_rest_is_told_so_22(scope):
    affinity = preferred((10, labelled(region="central", env="prod")))
    desk = Desk(scope, pick_n(4, affinity=affinity)).with_fleet_b()
    desk.cycle()
    assert desk.picked() == {**dict.fromkeys(full("54"), (10, 0)), **dict.fromkeys(full("76"), (0, 0))}
    assert desk.outranked() == dict.fromkeys(full("321"), (0, 0))
    assert set(desk.filtered()) == {LEFT, UNHEALTHY}
    assert next(d.reason for d in desk.decisions() if d.cluster_name == "cluster-1-east-prod") == (
        'Cluster "cluster-1-east-prod" does not score high enough (affinity score: 0, topology spread score: 0)'
    )


@scoped
def test_several_preferred_terms_add_up_23(scope):
    affinity = preferred(
        (10, labelled(region="central", env="prod")), (20, labelled(region="east", env="canary"))
    )
    desk = Desk(scope, pick_n(4, affinity=affinity)).with_fleet_b()
    desk.cycle()
    assert desk.picked() == {
        full("3")[0]: (20, 0),
        **dict.fromkeys(full("54"), (10, 0)),
        full("7")[0]: (0, 0),
    }


def decisions_of(desk):
    return {d.cluster_name: d for d in (b.spec.cluster_decision for b in desk.store.bindings(desk.scope))}


def scores_on_bindings(desk):
    return {
        name: (d.cluster_score.affinity_score or 0, d.cluster_score.priority_score or 0)
        for name, d in decisions_of(desk).items()
    }


@scoped
def test_spread_picks_one_by_one_24(scope):
    desk = Desk(scope, pick_n(2, topologySpreadConstraints=[spread("region")])).with_fleet_b()
    desk.cycle()
    assert scores_on_bindings(desk) == {full("7")[0]: (0, -1), full("5")[0]: (0, 0)}
    assert desk.filtered()[full("6")[0]] == (
        'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)'
    )
    assert desk.outranked() == dict.fromkeys(full("4321"), (0, 0))


@scoped
def test_two_spread_constraints_25(scope):
    constraints = [spread("region"), spread("env")]
    desk = Desk(scope, pick_n(2, topologySpreadConstraints=constraints)).with_fleet_b()
    desk.cycle()
    assert scores_on_bindings(desk) == {full("7")[0]: (0, -2), full("5")[0]: (0, 1)}
    assert desk.outranked() == dict.fromkeys(full("421"), (0, 1))
    assert set(full("36")) <= set(desk.filtered())


@scoped
def test_a_loose_constraint_only_scores_26(scope):
    constraints = [spread("region", "ScheduleAnyway")]
    desk = Desk(scope, pick_n(2, topologySpreadConstraints=constraints)).with_fleet_b()
    desk.cycle()
    assert scores_on_bindings(desk) == {full("7")[0]: (0, -1), full("5")[0]: (0, 0)}
    assert desk.outranked()[full("6")[0]] == (0, -1000)


@scoped
def test_affinity_and_both_kinds_of_spread_27(scope):
    no_canary = {
        "labelSelector": {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["canary"]}]}
    }
    policy = pick_n(
        3,
        affinity=both(required(no_canary), preferred((40, labelled(region="east")))),
        topologySpreadConstraints=[spread("region"), spread("env", "ScheduleAnyway", 2)],
    )
    desk = Desk(scope, policy).with_fleet_b()
    desk.cycle()
    assert scores_on_bindings(desk) == {
        full("2")[0]: (40, -2),
        full("6")[0]: (0, -1),
        full("5")[0]: (0, -999),
    }
    assert desk.outranked() == {full("4")[0]: (0, -999)}
    assert set(full("137")) <= set(desk.filtered())


@scoped
def test_downscaling_gives_up_the_smallest_names_first_28(scope):
    desk = Desk(scope, pick_n(3)).with_fleet_b()
    desk.cycle()
    assert set(desk.held()) == set(full("765"))
    desk.edit(policy={"numberOfClusters": 1})
    desk.cycle()
    assert desk.held() == {
        full("7")[0]: "Scheduled",
        full("6")[0]: "Unscheduled",
        full("5")[0]: "Unscheduled",
    }
    given_up = next(b for b in desk.store.bindings(scope) if b.spec.target_cluster == full("5")[0])
    assert given_up.metadata.annotations == {"kubernetes-fleet.io/previous-binding-state": "Scheduled"}
    assert [d.cluster_name for d in desk.decisions()] == full("7")
    assert desk.verdict() == ("True", "SchedulingPolicyFulfilled", FOUND.format(1))


@scoped
@pytest.mark.parametrize(
    ("count", "kept"), [(4, "7653"), (3, "765"), (2, "76"), (1, "7")], ids=["less", "equal", "more", "most"]
)
def test_downscaling_gives_up_scheduled_before_bound_29(scope, count, kept):
    desk = Desk(scope, pick_n(3)).with_fleet_b()
    desk.cycle()
    desk.bind_all()  # 7, 6, 5
    desk.edit(policy={"numberOfClusters": 5})
    desk.cluster(full("4")[0], health="sick")
    desk.cycle()  # and 3, 2 scheduled
    desk.edit(policy={"numberOfClusters": count})
    desk.cycle()
    assert {name for name, state in desk.held().items() if state != "Unscheduled"} == set(full(kept))


def test_a_status_holds_the_picked_ones_and_a_few_others_30():
    def some(word, count, make):
        return [make(f"{word}-{number}", Score()) for number in range(count)]

    few = fitting(some("in", 10, picked), some("out", 50, outranked))
    assert [d.selected for d in few] == [True] * 10 + [False] * 20
    assert len(fitting(some("in", 980, picked), some("out", 50, outranked))) == 1000
    full_list = fitting(some("in", 1100, picked), some("out", 5, outranked))
    assert [d.cluster_name for d in full_list] == [f"in-{number}" for number in range(1000)]


@scoped
def test_a_held_cluster_that_no_longer_passes_is_listed_once_31(scope):
    desk = Desk(scope, pick_n(2)).with_fleet_b()
    desk.cycle()
    desk.cluster(full("7")[0], taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    desk.edit(policy={"numberOfClusters": 3})
    desk.cycle()
    assert [d.cluster_name for d in desk.decisions()].count(full("7")[0]) == 1
    assert set(desk.picked()) == set(full("765"))


@scoped
def test_an_unscheduled_cluster_that_is_picked_again_gets_its_state_back_32(scope):
    desk = Desk(scope, pick_n(2)).with_fleet_b()
    desk.cycle()
    desk.bind_all()
    names = {b.name for b in desk.store.bindings(scope)}
    desk.edit(policy={"numberOfClusters": 0})
    desk.cycle()
    desk.edit(policy={"numberOfClusters": 2})
    desk.cycle()
    assert desk.held() == {full("7")[0]: "Bound", full("6")[0]: "Bound"}
    assert {b.name for b in desk.store.bindings(scope)} == names
    assert all(not b.metadata.annotations for b in desk.store.bindings(scope))


@scoped
def test_without_a_note_of_its_state_a_binding_is_what_its_version_says_32(scope):
    desk = Desk(scope, pick_n(2)).with_fleet_b()
    desk.cycle()
    for binding in desk.store.bindings(scope):
        desk.store.edit(scope.binding, binding.name, {"spec": {"state": "Unscheduled"}}, binding.namespace)
    desk.cycle()
    assert desk.held() == dict.fromkeys(full("76"), "Scheduled")


@scoped
def test_a_missing_cluster_is_picked_when_it_joins_33_34(scope):
    desk = three_members(Desk(scope, pick_n(4)))
    desk.cycle()
    assert desk.verdict()[0] == "False"
    desk.cluster("c4")
    desk.cycle()
    assert set(desk.picked()) == {"c1", "c2", "c3", "c4"}
    assert desk.verdict()[0] == "True"
    desk.lose("c4")
    desk.cycle()
    assert desk.held()["c4"] == "Unscheduled"
    assert desk.verdict() == ("False", "SchedulingPolicyUnfulfilled", NOT_FOUND.format(3))


@scoped
@pytest.mark.parametrize("change", ["label", "nodes", "illness", "taint"])
def test_a_picked_cluster_stays_picked_35_48(scope, change):
    term = labelled(env="prod") | compared((NODES, "Ge", "4"))
    desk = three_members(Desk(scope, pick_n(1, affinity=required(term))))
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled"}
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    changed = {
        "label": {"labels": {"env": "x"}, "properties": {NODES: "4"}},
        "nodes": {"labels": {"env": "prod"}, "properties": {NODES: "1"}},
        "illness": {"labels": {"env": "prod"}, "properties": {NODES: "4"}, "health": "sick"},
        "taint": {"labels": {"env": "prod"}, "properties": {NODES: "4"}, "taints": taints},
    }[change]
    desk.cluster("c3", **changed)
    writes = desk.store.writes
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled"}
    assert desk.store.writes == writes


@scoped
def test_a_new_cluster_may_make_room_for_another_36(scope):
    desk = Desk(scope, pick_n(5, topologySpreadConstraints=[spread("region")]))
    for name, region in (("e1", "east"), ("e2", "east"), ("w1", "west"), ("new-e3", "east")):
        desk.cluster(name, {"region": region})
    desk.cycle()
    assert len(desk.picked()) == 3
    assert desk.verdict()[0] == "False"
    desk.cluster("w2", {"region": "west"})
    desk.cycle()
    assert set(desk.picked()) == {"e1", "e2", "w1", "new-e3", "w2"}


@scoped
def test_an_edit_that_changes_no_policy_only_moves_the_generation_37(scope):
    desk = three_members(Desk(scope, pick_n(2)))
    desk.cycle()
    bindings = desk.store.bindings(scope)
    desk.edit(revisionHistoryLimit=5)
    assert desk.snapshot.name == "p-0"
    assert desk.snapshot.metadata.annotations["kubernetes-fleet.io/CRP-generation"] == "2"
    desk.cycle()
    assert desk.snapshot.status.observed_crp_generation == 2
    assert desk.store.bindings(scope) == bindings


# --- PickFixed -------------------------------------------------------------------------------------------------------
@scoped
def test_named_clusters_are_picked_and_given_up_38_43(scope):
    desk = Desk(scope, pick_fixed("c1", "c2"))
    three_members(desk).cycle()
    desk.bind_all()
    desk.edit(policy={"clusterNames": ["c2", "c3"]})
    desk.cycle()
    assert desk.held() == {"c1": "Unscheduled", "c2": "Bound", "c3": "Scheduled"}
    kept = next(b for b in desk.store.bindings(scope) if b.spec.target_cluster == "c2")
    assert kept.spec.scheduling_policy_snapshot_name == "p-1"
    assert desk.verdict() == ("True", "SchedulingPolicyFulfilled", FOUND.format(2))
    assert desk.decisions()[0].reason == (
        'Successfully scheduled resources for placement in "c2": picked by scheduling policy'
    )
    assert desk.decisions()[0].cluster_score is None


@scoped
def test_named_clusters_that_cannot_be_used_are_told_why_39(scope):
    desk = Desk(scope, pick_fixed("sick", "left", "nowhere"))
    desk.cluster("sick", health="absent")
    desk.cluster("left", health="unjoined")
    desk.cycle()
    assert desk.held() == {}
    assert desk.verdict() == ("False", "SchedulingPolicyUnfulfilled", NOT_FOUND.format(0))
    yet = "is not eligible for resource placement yet: cluster is not connected to the fleet: "
    assert [d.reason for d in desk.decisions()] == [
        f'Cluster "sick" {yet}member agent not online yet',
        f'Cluster "left" {yet}member agent not joined yet',
        'Specified cluster "nowhere" is not found',
    ]


@scoped
def test_naming_nothing_says_nothing_and_keeps_what_is_there_40(scope):
    desk = Desk(scope, pick_fixed("c1"))
    three_members(desk).cycle()
    desk.edit(policy={"clusterNames": []})
    desk.cycle()
    assert desk.snapshot.status is None
    assert desk.held() == {"c1": "Scheduled"}
    desk.edit(policy={"clusterNames": ["c2"]})
    desk.cycle()
    assert desk.held() == {"c1": "Unscheduled", "c2": "Scheduled"}


@scoped
def test_a_named_cluster_joins_leaves_or_falls_ill_42(scope):
    desk = Desk(scope, pick_fixed("fake"))
    desk.cluster("fake", health="absent")
    desk.cycle()
    assert desk.verdict()[0] == "False"
    desk.cluster("fake")
    desk.cycle()
    assert desk.held() == {"fake": "Scheduled"}
    desk.cluster("fake", health="sick")
    desk.cycle()
    assert (desk.held(), desk.verdict()[0]) == ({"fake": "Scheduled"}, "True")
    desk.lose("fake")
    desk.cycle()
    assert (desk.held(), desk.verdict()[0]) == ({"fake": "Unscheduled"}, "False")


@scoped
def test_taints_do_not_matter_for_named_clusters_44(scope):
    desk = Desk(scope, pick_fixed("c1"))
    desk.cluster("c1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    desk.cycle()
    assert desk.held() == {"c1": "Scheduled"}


# --- taints ----------------------------------------------------------------------------------------------------------
def taint(value):
    return [{"key": "region", "value": value, "effect": "NoSchedule"}]


@scoped
def test_tainted_clusters_are_left_out_until_tolerated_45_46(scope):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.cluster("c1", taints=taint("east"))
    desk.cluster("c2", taints=taint("west"))
    desk.cluster("c3")
    desk.cycle()
    assert desk.held() == {"c3": "Scheduled"}
    assert desk.filtered()["c1"] == (
        "ClusterUnschedulable, taint &{Key:region Value:east Effect:NoSchedule} cannot be tolerated"
    )
    desk.cluster("c1")
    desk.cycle()
    assert set(desk.held()) == {"c1", "c3"}
    tolerations = [{"key": "region", "operator": "Equal", "value": "west", "effect": "NoSchedule"}]
    desk.edit(policy={"tolerations": tolerations})
    desk.cycle()
    assert set(desk.held()) == {"c1", "c2", "c3"}


@scoped
def test_the_first_reason_in_filter_order_is_reported_47(scope):
    tolerations = [{"key": "region", "operator": "Equal", "value": "east", "effect": "NoSchedule"}]
    policy = pick_n(
        2,
        affinity=required(labelled(region="east")),
        topologySpreadConstraints=[spread("env")],
        tolerations=tolerations,
    )
    desk = Desk(scope, policy)
    desk.cluster("c1", {"region": "east", "env": "prod"}, taints=taint("east"))
    desk.cluster("c2", {"region": "east", "env": "canary"}, taints=taint("west"))
    desk.cluster("c3", {"region": "west", "env": "prod"})
    desk.cycle()
    assert set(desk.picked()) == {"c1"}
    assert desk.verdict()[0] == "False"
    assert desk.filtered()["c2"].endswith(
        "taint &{Key:region Value:west Effect:NoSchedule} cannot be tolerated"
    )


# --- namespaces ------------------------------------------------------------------------------------------------------
def test_a_namespaced_placement_goes_where_its_namespace_is_95_96():
    desk = Desk(NAMESPACED).with_fleet_b()
    for name in full("12"):
        desk.cluster(name, namespaces={"work": "", "other": ""})
    for name in full("45"):
        desk.cluster(name, namespaces={"other": ""})
    desk.cycle()
    assert set(desk.held()) == set(full("12367"))
    assert desk.filtered()[full("4")[0]] == (
        "ClusterUnschedulable, target namespace does not exist on cluster"
    )
    desk.cluster(full("4")[0], namespaces={"work": ""})
    desk.cycle()
    assert set(desk.held()) == set(full("123467"))
    cluster_scoped = Desk(CLUSTER)
    cluster_scoped.cluster("c1", namespaces={"other": ""})
    cluster_scoped.cycle()
    assert set(cluster_scoped.held()) == {"c1"}


def test_a_cluster_that_collects_but_knows_no_namespace_is_left_out():
    desk = Desk(NAMESPACED)
    desk.cluster("c1", namespaces={})
    desk.cycle()
    assert desk.filtered() == {"c1": "ClusterUnschedulable, cluster has no namespace information available"}


# --- bindings --------------------------------------------------------------------------------------------------------
@scoped
def test_a_deleted_binding_is_let_go_and_its_cluster_picked_anew(scope):
    desk = Desk(scope, pick_n(1)).with_fleet_b()
    desk.cycle()
    old = desk.store.bindings(scope)[0]
    patch = {"metadata": {"finalizers": [*old.metadata.finalizers, "kubernetes-fleet.io/work-cleanup"]}}
    desk.store.edit(scope.binding, old.name, patch, old.namespace)
    desk.store.delete(scope.binding, old.name, old.namespace)
    desk.cycle()
    bindings = {b.name: b for b in desk.store.bindings(scope)}
    assert bindings[old.name].metadata.finalizers == ("kubernetes-fleet.io/work-cleanup",)
    assert desk.held() == {full("7")[0]: "Scheduled"}
    assert len(bindings) == 2


@scoped
def test_two_bindings_of_one_cluster_become_one(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    desk.bind_all()
    first = desk.store.bindings(scope)[0]
    twin = desk.store.objects[scope.binding.plural, first.namespace or "", first.name]
    body = {
        "metadata": {
            "name": "p-twin",
            "labels": twin["metadata"]["labels"],
            **({"namespace": first.namespace} if first.namespace else {}),
        },
        "spec": {**twin["spec"], "state": "Scheduled"},
    }
    desk.store.put(scope.binding, body)
    desk.cycle()
    states = sorted(
        b.spec.state for b in desk.store.bindings(scope) if b.spec.target_cluster == first.spec.target_cluster
    )
    assert states == ["Bound", "Unscheduled"]


@scoped
def test_a_deleted_placement_lets_all_bindings_go_99(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    desk.store.delete(scope.placement, "p", desk.store.placement(scope).namespace)
    desk.store.perform(schedule(desk.seen(), NOW))
    assert desk.store.bindings(scope) == []
    placement = desk.store.placement(scope)
    assert "kubernetes-fleet.io/scheduler-cleanup" not in placement.metadata.finalizers
    assert schedule(desk.seen(), NOW) == NOTHING


@scoped
def test_the_passing_of_time_alone_writes_nothing(scope):
    desk = Desk(scope).with_fleet_b()
    desk.cycle()
    later = schedule(desk.seen(), NOW + timedelta(minutes=3))
    assert later == NOTHING


@scoped
def test_a_placement_name_with_dots_gets_bindings_too(scope):
    desk = Desk(scope)
    desk.store.objects.clear()
    body = {"metadata": {"name": "a.b", **({"namespace": "work"} if scope.namespaced else {})}}
    placement = desk.store.put(scope.placement, {**body, "spec": {"resourceSelectors": []}})
    desk.cluster("c1")
    from echelon.rules.plan import Plan
    from echelon.rules.policy_snapshots import plan_policy_snapshot
    from echelon.rules.schedule import Seen

    desk.store.perform(Plan(steps=plan_policy_snapshot(scope, placement, ()).steps))
    seen = Seen(
        scope=scope,
        placement=placement,
        snapshots=desk.store.snapshots(scope),
        bindings=(),
        clusters=desk.store.clusters(),
    )
    desk.store.perform(schedule(seen, NOW))
    assert "." not in desk.store.bindings(scope)[0].name


def test_fixture_clusters_read_as_meant():
    assert a_cluster("x", health="absent")["status"]["agentStatus"] == []
