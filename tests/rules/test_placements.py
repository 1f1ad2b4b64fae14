"""What a placement's status says, its copy, its events, its end (numbers in brackets are the scenarios').

Rules: R-STATUS-1 to R-STATUS-6, R-PLACE-1 to R-PLACE-6.
"""

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from echelon.api import own
from echelon.api.scope import CLUSTER
from echelon.rules.placement_status import Memory, View, status_of
from echelon.rules.placements import Options, Seen, step
from echelon.rules.select import Selected
from echelon.rules.snapshots import AT_ONCE
from tests.rules.pretend import NOW, SCOPES, Store, a_condition, a_placement, meta_for, namespace_of

scoped = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
GOLDEN = Path(__file__).parents[3] / "shared" / "contract" / "golden"
APP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "namespace": "work"}}
CONDITIONS = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]


class Desk:
    """One placement, played through with a scheduler and a delivery written down by hand."""

    def __init__(self, scope, policy=None, **spec):
        self.scope, self.store = scope, Store()
        self.store.put(scope.placement, a_placement(scope, policy, **spec))
        self.manifests, self.problem, self.options = [APP], "", Options(delays=AT_ONCE)
        self.namespaces = {"work"}
        self.memory = Memory()

    @property
    def placement(self):
        return self.store.placement(self.scope)

    def seen(self):
        return Seen(
            scope=self.scope,
            placement=self.placement,
            policy_snapshots=self.store.snapshots(self.scope),
            resource_snapshots=self.store.resource_snapshots(self.scope),
            bindings=self.store.bindings(self.scope),
            selected=None if self.problem else Selected(self.manifests),
            problem=self.problem,
            copy=self.store.get(own.PLACEMENT_STATUSES, "p", "work"),
            has_copy_namespace="work" in self.namespaces,
            options=self.options,
        )

    def look(self):
        seen = self.seen()
        plan = step(replace(seen, memory=self.memory), self.store.now)
        assert plan == step(seen, self.store.now), "what is remembered only saves time"
        self.store.perform(plan)
        writes = self.store.writes
        self.store.perform(step(self.seen(), self.store.now))
        assert self.store.writes == writes, "a second look writes nothing"

    def edit(self, **spec):
        self.store.edit(self.scope.placement, "p", {"spec": spec}, namespace_of(self.scope))

    def schedule(self, *picked, missing=(), generation=None):
        """Write the scheduler's answer."""
        snapshot = self.store.snapshots(self.scope)[-1]
        annotation = int(snapshot.metadata.annotations["kubernetes-fleet.io/CRP-generation"])
        fulfilled = not missing
        said = a_condition(
            "Scheduled",
            "True" if fulfilled else "False",
            reason="SchedulingPolicyFulfilled" if fulfilled else "SchedulingPolicyUnfulfilled",
            observedGeneration=snapshot.metadata.generation,
        )
        decisions = [{"clusterName": name, "selected": True, "reason": f"{name} it is"} for name in picked]
        decisions += [{"clusterName": name, "selected": False, "reason": f"not {name}"} for name in missing]
        status = {
            "observedCRPGeneration": annotation if generation is None else generation,
            "conditions": [said],
            "targetClusters": decisions,
        }
        place = namespace_of(self.scope)
        self.store.edit(self.scope.policy_snapshot, snapshot.name, {"status": status}, place, status=True)

    def bind(self, cluster, *said, snapshot="p-0-snapshot", policy="p-0", generation=1, **status):
        """Write a binding; said are conditions as "Applied" or ("Applied", "False", "Reason")."""
        rows = []
        for row in said:
            type_, value, reason = row if isinstance(row, tuple) else (row, "True", f"{row}Reason")
            rows.append(a_condition(type_, value, reason=reason, observedGeneration=generation))
        key = (self.scope.binding.plural, namespace_of(self.scope) or "", f"b-{cluster}")
        self.store.objects.pop(key, None)
        body = {
            "metadata": meta_for(self.scope, f"b-{cluster}"),
            "spec": {
                "state": "Bound",
                "resourceSnapshotName": snapshot,
                "schedulingPolicySnapshotName": policy,
                "targetCluster": cluster,
                "clusterDecision": {"clusterName": cluster, "selected": True, "reason": ""},
            },
            "status": {"conditions": rows, **status},
        }
        self.store.put(self.scope.binding, body)

    def total(self):
        prefix = self.scope.condition_prefix
        return {
            said.type.removeprefix(prefix): (said.status, said.reason)
            for said in self.placement.status.conditions
        }

    def message(self, type_):
        found = [s for s in self.placement.status.conditions if s.type == self.scope.condition_prefix + type_]
        return found[0].message

    def cluster(self, number=0):
        entry = self.placement.status.placement_statuses[number]
        return {said.type: (said.status, said.reason) for said in entry.conditions}


@scoped
def test_a_new_placement_gets_finalizers_snapshots_and_a_pending_status(scope):
    desk = Desk(scope)
    desk.look()
    assert desk.placement.metadata.finalizers == (
        "kubernetes-fleet.io/crp-cleanup",
        "kubernetes-fleet.io/scheduler-cleanup",
    )
    assert [s.name for s in desk.store.snapshots(scope)] == ["p-0"]
    assert [s.name for s in desk.store.resource_snapshots(scope)] == ["p-0-snapshot"]
    assert desk.total() == {"Scheduled": ("Unknown", "SchedulePending")}
    assert desk.message("Scheduled") == "Scheduling has not completed"
    status = desk.placement.status
    assert (status.observed_resource_index, [r.name for r in status.selected_resources]) == ("0", ["app"])


@scoped
def test_all_conditions_and_events_once_everything_is_there(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1", "c2")
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2", *CONDITIONS)
    desk.look()
    assert desk.total() == {
        "Scheduled": ("True", "SchedulingPolicyFulfilled"),
        "RolloutStarted": ("True", "RolloutStarted"),
        "Overridden": ("True", "NoOverrideSpecified"),
        "WorkSynchronized": ("True", "WorkSynchronized"),
        "Applied": ("True", "ApplySucceeded"),
        "Available": ("True", "ResourceAvailable"),
    }
    assert desk.message("RolloutStarted") == "All 2 cluster(s) start rolling out the latest resource"
    assert desk.message("WorkSynchronized") == (
        "Work(s) are successfully created or updated in 2 target cluster(s)' namespaces"
    )
    assert desk.cluster()["Scheduled"] == ("True", "Scheduled")
    assert desk.cluster()["Available"] == ("True", "AvailableReason")
    assert desk.placement.status.placement_statuses[1].observed_resource_index == "0"
    assert [reason for reason, _ in desk.store.events] == [
        "PlacementRolloutStarted",
        "PlacementOverriddenSucceeded",
        "PlacementWorkSynchronized",
        "PlacementApplied",
        "PlacementAvailable",
        "PlacementRolloutCompleted",
    ]


@scoped
def test_a_cluster_walks_as_far_as_it_has_come(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1", "c2", "c3")
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2", "RolloutStarted", "Overridden")
    desk.bind("c3", "RolloutStarted", "Overridden", "WorkSynchronized", ("Applied", "False", "Broken"))
    desk.look()
    assert desk.cluster(1)["WorkSynchronized"] == ("Unknown", "WorkSynchronizedUnknown")
    assert desk.cluster(2)["Applied"] == ("False", "Broken")
    assert "Available" not in desk.cluster(2)
    assert desk.total()["WorkSynchronized"] == ("Unknown", "WorkSynchronizedUnknown")
    assert "1 cluster(s)" in desk.message("WorkSynchronized")
    assert "Applied" not in desk.total()
    desk.bind("c2", *CONDITIONS)
    desk.look()
    assert desk.total()["Applied"] == ("False", "ApplyFailed")
    assert desk.message("Applied") == (
        "Failed to apply resources to 1 cluster(s), please check the `failedPlacements` status"
    )


@scoped
def test_stale_words_of_a_binding_do_not_count(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS, generation=0)
    desk.look()
    assert desk.cluster() == {
        "Scheduled": ("True", "Scheduled"),
        "RolloutStarted": ("Unknown", "RolloutStartedUnknown"),
    }


@scoped
@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        (("RolloutStarted", "False", "RolloutNotStartedYet"), ("False", "RolloutNotStartedYet")),
        ("RolloutStarted", ("Unknown", "RolloutStartedUnknown")),
    ],
)
def test_a_cluster_on_an_older_version_is_blocked_or_undecided_83(scope, rollout, expected):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1")
    desk.manifests = [{**APP, "data": {"a": "1"}}]
    desk.bind("c1", rollout, *CONDITIONS[1:])
    desk.look()
    assert desk.cluster()["RolloutStarted"] == expected
    assert desk.total()["RolloutStarted"][0] == expected[0]
    assert desk.placement.status.placement_statuses[0].observed_resource_index == "1"


@scoped
def test_what_the_member_reports_is_shown_where_it_belongs(scope):
    thing = {"version": "v1", "kind": "ConfigMap", "name": "app"}
    failed = [{**thing, "condition": a_condition("Applied", "False")}]
    drifted = [
        {
            **thing,
            "observationTime": "2026-03-01T12:00:00Z",
            "targetClusterObservedGeneration": 1,
            "firstDriftedObservedTime": "2026-03-01T12:00:00Z",
        }
    ]
    diffed = [
        {
            **thing,
            "observationTime": "2026-03-01T12:00:00Z",
            "firstDiffedObservedTime": "2026-03-01T12:00:00Z",
        }
    ]
    lists = {"failedPlacements": failed, "driftedPlacements": drifted, "diffedPlacements": diffed}
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1", "c2", "c3")
    desk.bind("c1", *CONDITIONS[:3], ("Applied", "False", "Broken"), **lists)
    desk.bind("c2", *CONDITIONS, **lists)
    desk.bind("c3", *CONDITIONS[:2], **lists)
    desk.look()
    shown = [
        (len(entry.failed_placements), len(entry.drifted_placements), len(entry.diffed_placements))
        for entry in desk.placement.status.placement_statuses
    ]
    assert shown == [(1, 1, 1), (0, 1, 0), (0, 0, 0)]


@scoped
def test_clusters_that_could_not_be_found_are_listed_with_their_reasons_17_87(scope):
    desk = Desk(scope, {"placementType": "PickN", "numberOfClusters": 3})
    desk.look()
    desk.schedule(missing=("c1", "c2"))
    desk.look()
    assert desk.total() == {"Scheduled": ("False", "SchedulingPolicyUnfulfilled")}
    entries = desk.placement.status.placement_statuses
    assert [(e.cluster_name, e.observed_resource_index) for e in entries] == [("", ""), ("", "")]
    assert [e.conditions[0].message for e in entries] == ["not c1", "not c2"]
    assert desk.cluster() == {"Scheduled": ("False", "ScheduleFailed")}


@scoped
def test_pick_all_never_lists_what_it_does_not_pick_2(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1")
    snapshot = desk.store.objects[scope.policy_snapshot.plural, namespace_of(scope) or "", "p-0"]
    snapshot["status"]["targetClusters"].append({"clusterName": "x", "selected": False, "reason": "no"})
    desk.look()
    assert len(desk.placement.status.placement_statuses) == 1


@scoped
def test_a_partly_scheduled_placement_drops_what_was_true_before_88(scope):
    desk = Desk(scope, {"placementType": "PickN", "numberOfClusters": 2})
    desk.look()
    desk.schedule("c1", "c2")
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2", *CONDITIONS)
    desk.look()
    desk.edit(policy={"numberOfClusters": 3})
    desk.look()
    for cluster in ("c1", "c2"):
        desk.store.delete(scope.binding, f"b-{cluster}", namespace_of(scope))
    desk.schedule("c1", missing=("c2",))
    desk.look()
    assert desk.total() == {
        "Scheduled": ("False", "SchedulingPolicyUnfulfilled"),
        "RolloutStarted": ("Unknown", "RolloutStartedUnknown"),
    }
    assert desk.placement.status.placement_statuses[0].observed_resource_index == ""
    assert len(desk.placement.status.placement_statuses) == 2


@scoped
def test_until_the_scheduler_has_seen_the_edit_nothing_else_is_said_37_89(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS)
    desk.look()
    desk.edit(revisionHistoryLimit=3)
    desk.look()
    assert desk.total()["Scheduled"] == ("Unknown", "SchedulePending")
    assert desk.total()["Available"] == ("True", "ResourceAvailable")
    assert desk.placement.status.placement_statuses == ()
    desk.schedule("c1")
    desk.look()
    assert len(desk.placement.status.placement_statuses) == 1
    generations = {said.observed_generation for said in desk.placement.status.conditions}
    assert generations == {2}


@scoped
def test_no_cluster_at_all_leaves_only_scheduled_4_14(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule()
    desk.look()
    assert list(desk.total()) == ["Scheduled"]
    assert desk.placement.status.observed_resource_index == "0"


@scoped
def test_reporting_differences_has_its_own_station_90(scope):
    desk = Desk(scope, strategy={"type": "RollingUpdate", "applyStrategy": {"type": "ReportDiff"}})
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS[:3], ("DiffReported", "False", "InProgress"))
    desk.look()
    assert desk.total()["DiffReported"] == ("False", "DiffReportingIncompleteOrFailed")
    assert "Applied" not in desk.total()
    desk.edit(strategy={"applyStrategy": {"type": "ClientSideApply"}})
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS)
    desk.look()
    assert "DiffReported" not in desk.total()
    assert desk.total()["Available"][0] == "True"


@scoped
def test_applicable_overrides_are_shown_once_the_rollout_has_started(scope):
    desk = Desk(scope)
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS)
    body = {"spec": {"clusterResourceOverrideSnapshots": ["o-0"]}}
    desk.store.edit(scope.binding, "b-c1", body, namespace_of(scope))
    conditions = [a_condition(type_, observedGeneration=2) for type_ in CONDITIONS]
    status = {"status": {"conditions": conditions}}
    desk.store.edit(scope.binding, "b-c1", status, namespace_of(scope), status=True)
    desk.look()
    assert desk.placement.status.placement_statuses[0].applicable_cluster_resource_overrides == ("o-0",)
    assert desk.total()["Overridden"] == ("True", "OverriddenSucceeded")


def details(count, fields):
    row = {
        "version": "v1",
        "kind": "ConfigMap",
        "observationTime": "2026-03-01T12:00:00Z",
        "targetClusterObservedGeneration": 1,
        "firstDriftedObservedTime": "2026-03-01T12:00:00Z",
        "observedDrifts": [{"path": f"/data/{n}", "valueInMember": "x" * 50} for n in range(fields)],
    }
    return [{**row, "name": f"app-{number}"} for number in range(count)]


@pytest.mark.parametrize(
    ("clusters", "count", "fields", "kept", "is_worded"),
    [(3, 100, 2, 100, True), (20, 100, 20, 100, True), (100, 100, 5, 10, True), (1000, 0, 0, 0, False)],
)
def test_a_status_is_never_too_big_to_be_stored(clusters, count, fields, kept, is_worded):
    names = [f"a-member-with-quite-a-long-name-{number:04}" for number in range(clusters)]
    desk = Desk(CLUSTER)
    desk.look()
    desk.schedule(*names)
    drifted = details(count, fields)
    for name in names:
        desk.bind(name, *CONDITIONS, driftedPlacements=drifted)
        words = "a sentence of the usual length about {} on this cluster, in words"
        said = [a_condition(type_, observedGeneration=1, message=words.format(type_)) for type_ in CONDITIONS]
        desk.store.edit(CLUSTER.binding, f"b-{name}", {"status": {"conditions": said}}, status=True)
    desk.look()
    status = desk.placement.status
    assert len(msgspec.json.encode(status)) < 1_250_000
    assert {len(entry.drifted_placements) for entry in status.placement_statuses} == {kept}
    assert len(status.placement_statuses) == clusters
    assert bool(status.placement_statuses[0].conditions[1].message) == is_worded
    assert desk.total()["Available"] == ("True", "ResourceAvailable")


def test_a_big_status_is_written_at_a_pace_but_news_at_once():
    names = [f"c{number:03}" for number in range(100)]
    desk = Desk(CLUSTER)
    desk.look()
    desk.schedule(*names)
    for name in names:
        desk.bind(name, "RolloutStarted")
    desk.look()

    def plan(since_s):
        seen = msgspec.structs.replace(desk.seen(), written_at=NOW - timedelta(seconds=since_s))
        return step(seen, NOW)

    desk.bind("c000", "RolloutStarted", "Overridden")
    assert plan(0.1).status is None
    assert plan(0.1).wake_at == NOW + timedelta(seconds=0.4)
    assert plan(0.6).status is not None
    for name in names:
        desk.bind(name, "RolloutStarted", "Overridden")
    assert plan(0.1).status is not None, "one more station is news"
    assert [event.reason for event in plan(0.1).events] == ["PlacementOverriddenSucceeded"]


def test_a_small_status_is_written_whenever_it_changes():
    desk = Desk(CLUSTER)
    desk.look()
    desk.schedule("c1", "c2")
    desk.look()
    desk.bind("c1", "RolloutStarted")
    seen = msgspec.structs.replace(desk.seen(), written_at=NOW)
    assert step(seen, NOW).status is not None


# --- controlled from outside -----------------------------------------------------------------------------------------
def external(scope, versions=2):
    desk = Desk(scope)
    for number in range(versions):
        desk.manifests = [{**APP, "data": {"v": str(number)}}]
        desk.look()
    desk.edit(strategy={"type": "External"})
    desk.look()
    desk.schedule("c1", "c2")
    return desk


@scoped
def test_before_any_run_the_status_says_where_to_look_91(scope):
    desk = external(scope)
    desk.bind("c1", snapshot="")
    desk.bind("c2", snapshot="")
    desk.look()
    assert desk.total()["RolloutStarted"] == ("Unknown", "RolloutControlledByExternalController")
    assert desk.message("RolloutStarted") == (
        "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters. "
        f"To determine rollout status, check the {scope.run.kind} resources with spec.placementName matching this "
        "placement"
    )
    status = desk.placement.status
    assert (status.observed_resource_index, status.selected_resources) == ("", ())
    assert desk.cluster()["RolloutStarted"] == ("Unknown", "RolloutStartedUnknown")


@scoped
def test_between_versions_nothing_is_said_of_the_whole_91(scope):
    desk = external(scope)
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2", *CONDITIONS, snapshot="p-1-snapshot")
    desk.look()
    assert desk.message("RolloutStarted") == (
        "Rollout is controlled by an external controller and different resource snapshot versions are observed "
        "across clusters"
    )
    indexes = [entry.observed_resource_index for entry in desk.placement.status.placement_statuses]
    assert (indexes, desk.placement.status.observed_resource_index) == (["0", "1"], "")
    assert set(desk.total()) == {"Scheduled", "RolloutStarted"}


@scoped
def test_a_common_older_version_is_the_placements_91(scope):
    desk = external(scope)
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2", *CONDITIONS)
    desk.look()
    assert desk.placement.status.observed_resource_index == "0"
    assert [r.name for r in desk.placement.status.selected_resources] == ["app"]
    assert desk.total()["Available"] == ("True", "ResourceAvailable")


@scoped
def test_one_undecided_cluster_is_named_91(scope):
    desk = external(scope)
    desk.bind("c1", *CONDITIONS)
    desk.bind("c2")
    desk.look()
    assert desk.message("RolloutStarted") == (
        "Rollout is controlled by an external controller and cluster c2 is in RolloutStarted Unknown state"
    )
    assert desk.placement.status.observed_resource_index == "0"


@scoped
def test_an_external_placement_makes_no_versions(scope):
    desk = Desk(scope, strategy={"type": "External"})
    desk.look()
    assert desk.store.resource_snapshots(scope) == []


# --- the author's errors and the copy in a namespace ---------------------------------------------------------------------
@scoped
def test_an_invalid_selector_says_so_and_changes_nothing_else_53(scope):
    desk = Desk(scope)
    desk.problem = "failed to process the request due to a client error: because"
    desk.look()
    assert desk.total() == {"Scheduled": ("False", "InvalidResourceSelectors")}
    assert desk.message("Scheduled") == (
        "The resource selectors are invalid: failed to process the request due to a client error: because"
    )
    assert desk.store.snapshots(scope) == []
    assert desk.placement.status.observed_resource_index == ""
    desk.problem = ""
    desk.look()
    assert desk.total() == {"Scheduled": ("Unknown", "SchedulePending")}


def accessible():
    namespace = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
    desk = Desk(CLUSTER, statusReportingScope="NamespaceAccessible", resourceSelectors=[namespace])
    desk.manifests = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "work"}}]
    return desk


def test_the_status_is_copied_into_the_namespace_92():
    desk = accessible()
    desk.look()
    copy = desk.store.get(own.PLACEMENT_STATUSES, "p", "work")
    assert [said.type for said in copy.source_status.conditions] == ["ClusterResourcePlacementScheduled"]
    assert copy.metadata.owner_references[0].name == "p"
    assert desk.total()["StatusSynced"] == ("True", "StatusSyncSucceeded")
    assert desk.message("StatusSynced") == (
        "Successfully created or updated ClusterResourcePlacementStatus in namespace 'work'"
    )
    desk.store.now = NOW + timedelta(minutes=5)
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS)
    desk.look()
    again = desk.store.get(own.PLACEMENT_STATUSES, "p", "work")
    shown = tuple(s for s in desk.placement.status.conditions if not s.type.endswith("StatusSynced"))
    assert again.source_status.conditions == shown
    assert again.source_status.placement_statuses == desk.placement.status.placement_statuses
    assert again.last_updated_time == desk.store.now
    desk.store.delete(own.PLACEMENT_STATUSES, "p", "work")
    desk.look()
    assert desk.store.get(own.PLACEMENT_STATUSES, "p", "work") is not None


def test_without_the_namespace_there_is_no_copy_92_94():
    desk = accessible()
    desk.namespaces = set()
    desk.look()
    assert desk.total() == {
        "Scheduled": ("Unknown", "SchedulePending"),
        "StatusSynced": ("False", "StatusSyncFailed"),
    }
    assert desk.store.get(own.PLACEMENT_STATUSES, "p", "work") is None
    desk.namespaces = {"work"}
    desk.look()
    assert desk.total()["StatusSynced"][0] == "True"


def test_an_invalid_selector_is_copied_too_94():
    desk = accessible()
    desk.problem = "x"
    desk.look()
    assert desk.total() == {
        "Scheduled": ("False", "InvalidResourceSelectors"),
        "StatusSynced": ("True", "StatusSyncSucceeded"),
    }
    copy = desk.store.get(own.PLACEMENT_STATUSES, "p", "work")
    assert copy.source_status.conditions[0].reason == "InvalidResourceSelectors"


def test_the_namespace_of_a_copied_status_cannot_be_switched_93():
    desk = accessible()
    desk.look()
    desk.schedule("c1")
    desk.bind("c1", *CONDITIONS)
    desk.look()
    before = {said.type: said for said in desk.placement.status.conditions}
    other = {"group": "", "version": "v1", "kind": "Namespace", "name": "other"}
    desk.edit(resourceSelectors=[other])
    desk.look()
    after = {said.type: said for said in desk.placement.status.conditions}
    changed = {type_ for type_ in after if after[type_] != before[type_]}
    assert changed == {"ClusterResourcePlacementScheduled"}
    assert desk.message("Scheduled") == (
        "namespace resource selector is choosing a different namespace 'other' from what was originally picked "
        "'work'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
    )
    assert after["ClusterResourcePlacementScheduled"].observed_generation == 2
    desk.edit(resourceSelectors=[{**other, "name": "work"}])
    desk.look()
    desk.schedule("c1")
    desk.look()
    assert desk.total()["Scheduled"][0] == "True"


@scoped
def test_a_status_that_stays_in_the_cluster_scope_has_no_copy_92(scope):
    desk = Desk(scope, statusReportingScope="NamespaceAccessible" if scope.namespaced else "ClusterScopeOnly")
    desk.look()
    assert "StatusSynced" not in desk.total()
    assert desk.store.get(own.PLACEMENT_STATUSES, "p", "work") is None


# --- the end ---------------------------------------------------------------------------------------------------------
@scoped
def test_a_deleted_placement_takes_its_snapshots_with_it_99(scope):
    desk = Desk(scope)
    desk.look()
    desk.store.delete(scope.placement, "p", namespace_of(scope))
    desk.look()
    assert desk.store.snapshots(scope) == []
    assert desk.store.resource_snapshots(scope) == []
    assert desk.placement.metadata.finalizers == ("kubernetes-fleet.io/scheduler-cleanup",)
    assert desk.store.events == [
        (
            "PlacementCleanupFinalizerRemoved",
            "Deleted the snapshots and removed the placement cleanup finalizer",
        )
    ]


# --- as recorded from the peer ------------------------------------------------------------------------------------------
@pytest.mark.contract
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the contract is not beside this clone")
@pytest.mark.parametrize("file", ["success", "stop-resume"])
def test_external_statuses_are_what_the_peer_recorded(file):
    """From the recorded policy snapshot, bindings and resource snapshots, the recorded status comes out."""
    compared = 0
    for moment, objects in json.loads((GOLDEN / f"{file}.json").read_text()).items():
        placement = msgspec.convert(objects["clusterresourceplacements"][0], CLUSTER.placement.type)
        policies, bindings, snapshots = (
            [msgspec.convert(row, resource.type) for row in objects.get(resource.plural, ())]
            for resource in (CLUSTER.policy_snapshot, CLUSTER.binding, CLUSTER.resource_snapshot)
        )
        status = status_of(View(CLUSTER, placement, policies[-1], bindings, snapshots, None, NOW))
        recorded = msgspec.to_builtins(placement.status)
        assert msgspec.to_builtins(status) == recorded, moment
        compared += 1
    assert compared > 3
