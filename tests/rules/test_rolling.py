"""Rolling updates by the contract's scenarios, for both scopes (numbers in brackets are the scenarios').

Rules: R-ROLL-1 to R-ROLL-7.
"""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api import own
from echelon.api.scope import CLUSTER
from echelon.rules.override import Candidates
from echelon.rules.plan import NOTHING, Delete, Patch
from echelon.rules.rolling import Seen, amount_of, is_failed, ready_at, step
from tests.rules.pretend import NOW, SCOPES, Store, a_cluster, a_condition, a_placement, meta_for

scoped = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
OLD, NEW = "p-0-snapshot", "p-1-snapshot"
STARTED = "Detected the new changes on the resources and started the rollout process"
BLOCKED = "The resources cannot be updated to the latest because of the rollout strategy"
APPLIED = {"comparisonOption": "PartialComparison", "type": "ClientSideApply"}
APPLIED |= {"whenToApply": "Always", "whenToTakeOver": "Always"}


def ready(age_s=3600, **more):
    return [a_condition("Available", "True", NOW - timedelta(seconds=age_s), observedGeneration=1, **more)]


def untrackable(age_s):
    return ready(age_s, reason="NotAllWorkAreAvailabilityTrackable")


FAILED = [a_condition("Applied", "False", reason="NotAllWorkHaveBeenApplied", observedGeneration=1)]


def own_reference(scope):
    kind = scope.placement
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": "p", "uid": f"uid-{kind.plural}-p"}


class Desk:
    """One placement with bindings, and the rolling update."""

    def __init__(self, scope, count=None, max_unavailable="20%", max_surge=3, period_s=60, **strategy):
        update = {
            "maxUnavailable": max_unavailable,
            "maxSurge": max_surge,
            "unavailablePeriodSeconds": period_s,
        }
        policy = None if count is None else {"placementType": "PickN", "numberOfClusters": count}
        self.scope, self.store = scope, Store()
        body = a_placement(
            scope, policy, strategy={"type": "RollingUpdate", "rollingUpdate": update, **strategy}
        )
        self.store.put(scope.placement, body)
        for name, is_latest in ((OLD, "false"), (NEW, "true")):
            labels = {
                "kubernetes-fleet.io/resource-index": name.split("-")[1],
                "kubernetes-fleet.io/is-latest-snapshot": is_latest,
                "kubernetes-fleet.io/parent-CRP": "p",
            }
            notes = {"kubernetes-fleet.io/resource-hash": name}
            owner = own_reference(scope)
            meta = meta_for(scope, name, labels=labels, annotations=notes, ownerReferences=[owner])
            self.store.put(scope.resource_snapshot, {"metadata": meta, "spec": {"selectedResources": []}})

    def bind(
        self, cluster, state="Bound", snapshot=OLD, conditions=(), *, deleting=False, was=None, name=None
    ):
        if self.store.get(own.MEMBER_CLUSTERS, cluster) is None:
            self.store.put(own.MEMBER_CLUSTERS, a_cluster(cluster))
        meta = meta_for(self.scope, name or f"b-{cluster}", finalizers=["work-cleanup"])
        if deleting:
            meta["deletionTimestamp"] = "2026-03-01T11:00:00Z"
        if was:
            meta["annotations"] = {"kubernetes-fleet.io/previous-binding-state": was}
        spec = {
            "state": state,
            "resourceSnapshotName": "" if state == "Scheduled" else snapshot,
            "schedulingPolicySnapshotName": "p-0",
            "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": ""},
            **({} if state == "Scheduled" else {"applyStrategy": APPLIED}),
        }
        body = {"metadata": meta, "spec": spec, "status": {"conditions": list(conditions)}}
        self.store.put(self.scope.binding, body)
        return self

    def seen(self):
        return Seen(
            scope=self.scope,
            placement=self.store.placement(self.scope),
            resource_snapshots=self.store.resource_snapshots(self.scope),
            bindings=self.store.bindings(self.scope),
            clusters=self.store.clusters(),
        )

    def plan(self):
        return step(self.seen(), NOW)

    def act(self):
        """Take a step and return (updated, removed, told to wait)."""
        plan = self.plan()
        self.store.perform(plan)
        acts = [action for part in plan.steps for action in part]
        updated = [a.ref.name[2:] for a in acts if isinstance(a, Patch) and a.body]
        removed = [a.ref.name[2:] for a in acts if isinstance(a, Delete)]
        waiting = [
            binding.spec.target_cluster
            for binding in self.store.bindings(self.scope)
            for said in (binding.status.conditions if binding.status else ())
            if (said.type, said.status) == ("RolloutStarted", "False")
        ]
        again = self.plan()
        assert not [a for part in again.steps for a in part if isinstance(a, Patch) and not a.body], again
        return updated, removed, waiting

    def binding(self, cluster):
        return next(b for b in self.store.bindings(self.scope) if b.spec.target_cluster == cluster)


def names(*numbers):
    return [f"c{number}" for number in numbers]


@scoped
def test_what_has_failed_is_updated_at_once_and_the_rest_waits_70(scope):
    desk = Desk(scope).bind("c1", conditions=FAILED)
    for name in names(2, 3, 4, 5):
        desk.bind(name)
    assert desk.act() == (names(1), [], names(2, 3, 4, 5))
    updated = desk.binding("c1")
    assert (updated.spec.resource_snapshot_name, updated.spec.state) == (NEW, "Bound")
    stamp = next(said for said in updated.status.conditions if said.type == "RolloutStarted")
    assert (stamp.status, stamp.reason, stamp.message) == ("True", "RolloutStarted", STARTED)
    assert stamp.observed_generation == updated.metadata.generation == 2
    blocked = desk.binding("c2").status.conditions[0]
    assert (blocked.reason, blocked.message) == ("RolloutNotStartedYet", BLOCKED)


@scoped
def test_ready_ones_wait_while_too_many_have_failed_71(scope):
    desk = Desk(scope)
    for name in names(1, 2, 3):
        desk.bind(name, conditions=FAILED)
    for name in names(4, 5):
        desk.bind(name, conditions=ready())
    assert desk.act() == (names(1, 2, 3), [], names(4, 5))


@scoped
def test_nothing_is_updated_in_place_when_nothing_may_be_unavailable_72(scope):
    desk = Desk(scope, max_unavailable=0)
    for name in names(1, 2, 3, 4, 5):
        desk.bind(name, conditions=ready())
    assert desk.plan().wake_at is None
    assert desk.act() == ([], [], names(1, 2, 3, 4, 5))


@scoped
def test_a_new_cluster_starts_while_an_old_one_is_on_its_way_73(scope):
    desk = Desk(scope, 3).bind("c1").bind("c2", "Scheduled")
    assert desk.act() == (names(2), [], names(1))
    started = desk.binding("c2")
    assert (started.spec.state, started.spec.resource_snapshot_name) == ("Bound", NEW)
    assert started.spec.apply_strategy is not None


@scoped
def test_as_many_are_removed_as_may_be_unavailable_74(scope):
    desk = Desk(scope, 2)
    desk.bind("c1", "Unscheduled", conditions=ready()).bind("c2", "Unscheduled", conditions=ready())
    assert desk.act() == ([], names(1), [])


@scoped
def test_what_clusters_that_are_gone_had_is_let_go_at_once(scope):
    desk = Desk(scope, max_unavailable="25%", max_surge=1)
    for number in range(3):
        desk.bind(f"gone{number}", "Unscheduled")
        desk.store.delete(own.MEMBER_CLUSTERS, f"gone{number}")
    desk.bind("here", "Unscheduled")
    assert desk.act()[1] == ["gone0", "gone1", "gone2"]


@scoped
def test_waiting_is_exactly_as_long_as_it_takes_75(scope):
    desk = Desk(scope, 3, period_s=60)
    desk.bind("c1", conditions=untrackable(35)).bind("c2", conditions=ready()).bind("c3", conditions=ready())
    assert desk.plan().wake_at == NOW + timedelta(seconds=25)


@scoped
def test_what_may_become_ready_counts_against_the_surge_76(scope):
    desk = Desk(scope, 2, max_unavailable=0, max_surge=1)
    desk.bind("c1", "Unscheduled", deleting=True).bind("c2", "Unscheduled")
    desk.bind("c3", "Scheduled").bind("c4", "Scheduled")
    assert desk.act() == (names(3), [], names(4))


@scoped
def test_what_is_going_is_not_counted_as_staying_ready_77(scope):
    desk = Desk(scope, 2, max_unavailable=2, max_surge=0)
    desk.bind("c1", "Unscheduled", deleting=True, conditions=ready()).bind(
        "c2", "Unscheduled", conditions=ready()
    )
    desk.bind("c3", "Scheduled").bind("c4", "Scheduled")
    assert desk.act() == ([], names(2), names(3, 4))


@scoped
def test_free_places_are_taken_without_any_surge_78(scope):
    desk = Desk(scope, 4, max_unavailable=0, max_surge=0)
    desk.bind("c1", deleting=True, conditions=ready()).bind("c2", snapshot=NEW, conditions=ready())
    desk.bind("c3", "Scheduled").bind("c4", "Scheduled")
    assert desk.act()[0] == names(3, 4)


@scoped
@pytest.mark.parametrize(
    ("state", "was"), [("Unscheduled", "Scheduled"), ("Unscheduled", None), ("Bound", None)]
)
def test_a_cluster_whose_old_binding_is_going_waits_alone_79(scope, state, was):
    desk = Desk(scope, 2, max_surge=2).bind("c1", state, deleting=True, was=was, name="b-old")
    desk.bind("c1", "Scheduled").bind("c2", "Scheduled")
    assert desk.act()[0] == names(2)
    del desk.store.objects[scope.binding.plural, meta_for(scope, "").get("namespace") or "", "b-old"]
    assert desk.act()[0] == names(1)


def binding_with(conditions):
    return Desk(SCOPES[0]).bind("c1", conditions=conditions).binding("c1")


@pytest.mark.parametrize(
    ("conditions", "since_s"),
    [
        (ready(100), -100),
        (untrackable(100), -40),
        (untrackable(35), 25),
        ([a_condition("Available", observedGeneration=0)], None),
        ([a_condition("DiffReported", observedGeneration=1)], 0),
        ([a_condition("DiffReported", "False", observedGeneration=1)], None),
        ([a_condition("DiffReported", observedGeneration=0), *ready(100)], -100),
        ([], None),
    ],
)
def test_since_when_a_binding_is_ready_80(conditions, since_s):
    at = ready_at(binding_with(conditions), timedelta(seconds=60))
    assert at == (None if since_s is None else NOW + timedelta(seconds=since_s))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("ApplyInProgress", False), ("ApplyPending", False), ("NotAllWorkHaveBeenApplied", True)],
)
def test_being_on_the_way_is_no_failure(reason, expected):
    conditions = [a_condition("Applied", "False", reason=reason, observedGeneration=1)]
    assert is_failed(binding_with(conditions)) is expected
    stale = [a_condition("Applied", "False", reason=reason, observedGeneration=0)]
    assert not is_failed(binding_with(stale))


@scoped
def test_an_apply_strategy_reaches_every_live_binding_at_once_81(scope):
    changed = {"type": "ServerSideApply"}
    desk = Desk(scope, max_unavailable=0, applyStrategy=changed)
    stamp = a_condition("RolloutStarted", reason="RolloutStarted", observedGeneration=1)
    desk.bind("c1", snapshot=NEW, conditions=[stamp, *ready()]).bind("c2", "Unscheduled", conditions=ready())
    desk.bind("c3", deleting=True)
    desk.store.perform(desk.plan())
    kinds = {b.spec.target_cluster: b.spec.apply_strategy.type for b in desk.store.bindings(scope)}
    assert kinds == {"c1": "ServerSideApply", "c2": "ServerSideApply", "c3": "ClientSideApply"}
    assert desk.binding("c1").spec.apply_strategy.server_side_apply_config is not None
    held = desk.binding("c1")
    followed = next(said for said in held.status.conditions if said.type == "RolloutStarted")
    assert followed.observed_generation == held.metadata.generation == 2
    assert not desk.plan().steps


@scoped
def test_a_placement_that_leaves_its_rollout_to_runs_is_left_alone_82(scope):
    desk = Desk(scope).bind("c1").bind("c2", "Unscheduled", conditions=ready()).bind("c3", "Scheduled")
    edited = {"spec": {"strategy": {"type": "External", "applyStrategy": {"type": "ReportDiff"}}}}
    desk.store.edit(scope.placement, "p", edited, desk.store.placement(scope).namespace)
    assert desk.plan() == NOTHING


@scoped
def test_a_place_becomes_free_only_by_deletion_86(scope):
    desk = Desk(scope, 2, max_surge=0)
    desk.bind("c1", snapshot=NEW, conditions=ready()).bind("c2", snapshot=NEW).bind("c3", "Scheduled")
    assert desk.act()[:2] == ([], [])
    desk.store.edit(scope.binding, "b-c1", {"spec": {"state": "Unscheduled"}}, desk.binding("c1").namespace)
    assert desk.act()[:2] == ([], [])
    desk.store.objects.pop((scope.binding.plural, desk.binding("c1").namespace or "", "b-c1"))
    assert desk.act()[0] == names(3)


@scoped
def test_without_a_version_nothing_is_done(scope):
    desk = Desk(scope).bind("c1", "Scheduled")
    for name in (OLD, NEW):
        desk.store.delete(scope.resource_snapshot, name, desk.binding("c1").namespace)
    assert desk.plan() == NOTHING


@scoped
def test_an_override_that_makes_no_sense_holds_the_rollout_and_says_so(scope):
    desk = Desk(scope).bind("c1", "Scheduled")
    term = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}
    rule = {"clusterSelector": {"clusterSelectorTerms": [term]}, "overrideType": "Delete"}
    spec = {"clusterResourceSelectors": [], "policy": {"overrideRules": [rule]}}
    body = {"metadata": {"name": "o-0"}, "spec": {"overrideSpec": spec, "overrideHash": ""}}
    override = desk.store.put(CLUSTER.override_snapshot, body)
    seen = msgspec.structs.replace(desk.seen(), overrides=Candidates(cluster=[override]))
    plan = step(seen, NOW)
    assert plan.steps == ()
    assert [(event.type, event.reason) for event in plan.events] == [("Warning", "InvalidOverride")]
    assert "is not a valid label selector operator" in plan.events[0].message


@scoped
def test_a_version_is_rolled_out_when_all_its_parts_are_there(scope):
    desk = Desk(scope).bind("c1", "Scheduled")
    note = {"kubernetes-fleet.io/number-of-resource-snapshots": "2"}
    place = desk.binding("c1").namespace
    desk.store.edit(scope.resource_snapshot, NEW, {"metadata": {"annotations": note}}, place)
    assert desk.plan() == NOTHING
    labels = {"kubernetes-fleet.io/resource-index": "1", "kubernetes-fleet.io/parent-CRP": "p"}
    meta = meta_for(scope, "p-1-0", labels=labels, ownerReferences=[own_reference(scope)])
    desk.store.put(scope.resource_snapshot, {"metadata": meta, "spec": {"selectedResources": []}})
    assert desk.act()[0] == ["c1"]


@scoped
def test_a_settled_placement_is_not_written_to(scope):
    desk = Desk(scope).bind("c1", snapshot=NEW, conditions=ready()).bind("c2", "Scheduled")
    desk.act()
    writes = desk.store.writes
    desk.act()
    assert desk.store.writes == writes


@pytest.mark.parametrize(
    ("value", "target", "amount"),
    [("25%", 3, 1), ("25%", 4, 1), ("25%", 5, 2), (2, 9, 2), ("100%", 7, 7), ("x", 3, 0)],
)
def test_percentages_are_rounded_up(value, target, amount):
    assert amount_of(value, target) == amount


# --- what must never happen -------------------------------------------------------------------------------------------
STATES = st.sampled_from(["Bound", "Scheduled", "Unscheduled"])
REPORTS = st.sampled_from([(), tuple(ready()), tuple(FAILED), tuple(untrackable(35))])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(STATES, st.sampled_from([OLD, NEW]), REPORTS, st.booleans()), max_size=8),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_never_more_is_disturbed_or_started_than_allowed(rows, max_unavailable, max_surge):
    desk = Desk(SCOPES[0], max_unavailable=max_unavailable, max_surge=max_surge)
    for number, (state, snapshot, report, deleting) in enumerate(rows):
        desk.bind(f"c{number}", state, snapshot, report, deleting=deleting)
    before = desk.store.bindings(SCOPES[0])
    target = sum(b.spec.state != "Unscheduled" for b in before)
    is_ready = {
        b.name: (at := ready_at(b, timedelta(seconds=60))) is not None and at <= NOW
        for b in before
        if b.spec.state != "Scheduled" and not b.metadata.is_deleting
    }
    acts = [action for part in desk.plan().steps for action in part]
    disturbed = [a.ref.name for a in acts if isinstance(a, Delete) or (isinstance(a, Patch) and a.body)]
    lost = sum(is_ready.get(name, False) for name in disturbed)
    if lost:
        assert sum(is_ready.values()) - lost >= target - max_unavailable
    started = [name for name in disturbed if name not in is_ready]
    on_the_way = sum(b.spec.state != "Scheduled" and not is_failed(b) for b in before)
    assert not started or on_the_way + len(started) <= target + max_surge
    assert not set(disturbed) & {b.name for b in before if b.metadata.is_deleting}
