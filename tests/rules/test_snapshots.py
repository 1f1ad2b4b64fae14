"""Versions of resources and policies (numbers in brackets are the scenarios').

Rules: R-VERSION-1 to R-VERSION-5, R-POLICY-1, R-POLICY-2.
"""

import base64
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.rules.plan import Plan
from echelon.rules.policy_snapshots import hash_of as policy_hash
from echelon.rules.policy_snapshots import plan_policy_snapshot
from echelon.rules.snapshot_index import is_latest, resource_index
from echelon.rules.snapshots import AT_ONCE, MAX_PART_BYTES, Delays, content_of, hash_of, plan_snapshot, split
from tests.rules.pretend import SCOPES, Store, a_placement, namespace_of

scoped = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
DETECTED = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time"


def config(name, value="1"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}


def big(name, bytes_=500 * 1024):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"v": "x" * bytes_}}


class Desk:
    def __init__(self, scope, policy=None, **spec):
        self.scope, self.store = scope, Store()
        self.store.put(scope.placement, a_placement(scope, policy, **spec))

    @property
    def placement(self):
        return self.store.placement(self.scope)

    def plan(self, *resources, delays=AT_ONCE, now=None):
        return plan_snapshot(
            self.scope,
            self.placement,
            self.store.resource_snapshots(self.scope),
            resources,
            now or self.store.now,
            delays=delays,
        )

    def take(self, *resources, **more):
        version = self.plan(*resources, **more)
        self.store.perform(Plan(steps=version.steps))
        assert not self.plan(*resources, **more).steps or version.wake_at
        return version

    def edit(self, **spec):
        self.store.edit(self.scope.placement, "p", {"spec": spec}, namespace_of(self.scope))

    def policy(self):
        plan = plan_policy_snapshot(self.scope, self.placement, self.store.snapshots(self.scope))
        self.store.perform(Plan(steps=plan.steps))
        again = plan_policy_snapshot(self.scope, self.placement, self.store.snapshots(self.scope))
        assert not again.steps
        return plan.name

    def held(self):
        return {s.name: is_latest(s) for s in self.store.resource_snapshots(self.scope)}

    def policies(self):
        return {s.name: is_latest(s) for s in self.store.snapshots(self.scope)}


# --- resources -------------------------------------------------------------------------------------------------------
@scoped
def test_the_first_version_has_the_contracts_shape(scope):
    desk = Desk(scope)
    assert desk.take(config("a"), delays=Delays()).name == "p-0-snapshot"
    made = desk.store.resource_snapshots(scope)[0]
    assert made.metadata.labels == {
        "kubernetes-fleet.io/parent-CRP": "p",
        "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/resource-index": "0",
    }
    assert made.metadata.annotations == {
        "kubernetes-fleet.io/resource-hash": hash_of([config("a")]),
        "kubernetes-fleet.io/number-of-resource-snapshots": "1",
        "kubernetes-fleet.io/number-of-enveloped-object": "0",
    }
    owner = made.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
        scope.placement.kind,
        "p",
        True,
        True,
    )
    assert made.spec.selected_resources == (config("a"),)


@scoped
def test_a_version_is_made_only_of_other_content_than_the_latest(scope):
    desk = Desk(scope)
    desk.take(config("a"))
    desk.take(config("a"))
    assert desk.held() == {"p-0-snapshot": True}
    desk.take(config("a", "2"))
    desk.take(config("a", "1"))
    assert desk.held() == {"p-0-snapshot": False, "p-1-snapshot": False, "p-2-snapshot": True}


@scoped
def test_nothing_selected_is_a_version_too(scope):
    desk = Desk(scope)
    desk.take()
    made = desk.store.resource_snapshots(scope)[0]
    assert made.spec.selected_resources == ()
    assert made.metadata.annotations["kubernetes-fleet.io/number-of-resource-snapshots"] == "1"


@scoped
def test_envelopes_are_counted(scope):
    envelope = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "e"},
        "data": {"a": config("a")},
    }
    desk = Desk(scope)
    desk.take(config("a"), envelope)
    notes = desk.store.resource_snapshots(scope)[0].metadata.annotations
    assert notes["kubernetes-fleet.io/number-of-enveloped-object"] == "1"


@scoped
def test_a_big_version_is_a_group_of_parts_58(scope):
    desk = Desk(scope)
    resources = [config("a"), big("s1"), big("s2", 200 * 1024), big("s3")]
    desk.take(*resources)
    assert desk.held() == {"p-0-snapshot": True, "p-0-0": False}
    parts = {s.name: s for s in desk.store.resource_snapshots(scope)}
    second = parts["p-0-0"].metadata
    assert (
        parts["p-0-snapshot"].metadata.annotations["kubernetes-fleet.io/number-of-resource-snapshots"] == "2"
    )
    assert second.annotations == {"kubernetes-fleet.io/subindex-of-resource-snapshot": "0"}
    assert "kubernetes-fleet.io/is-latest-snapshot" not in second.labels
    assert content_of(parts.values(), 0) == resources


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 900 * 1024), max_size=8))
def test_no_part_is_too_big_and_nothing_is_lost(sizes):
    resources = [big(str(number), size) for number, size in enumerate(sizes)]
    parts = split(resources)
    assert [manifest for part in parts for manifest in part] == resources
    for part in parts[1:]:
        assert part
    for part in parts:
        assert len(part) <= 1 or sum(len(manifest["data"]["v"]) for manifest in part) <= MAX_PART_BYTES


@scoped
def test_after_a_crash_the_marker_comes_back_68(scope):
    desk = Desk(scope)
    desk.take(config("a"))
    unmark = {"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "false"}}}
    desk.store.edit(scope.resource_snapshot, "p-0-snapshot", unmark, namespace_of(scope))
    desk.take(config("a"))
    assert desk.held() == {"p-0-snapshot": True}
    desk.store.edit(scope.resource_snapshot, "p-0-snapshot", unmark, namespace_of(scope))
    assert desk.take(config("b"), delays=Delays()).index == 1, "nothing is waited for after a crash"


@scoped
def test_after_a_crash_only_the_missing_part_is_made_68(scope):
    desk = Desk(scope)
    desk.take(big("s1"), big("s2"))
    desk.store.delete(scope.resource_snapshot, "p-0-0", namespace_of(scope))
    version = desk.plan(big("s1"), big("s2"))
    made = [action.body["metadata"]["name"] for step in version.steps for action in step]
    assert made == ["p-0-0"]


@scoped
@pytest.mark.parametrize(("limit", "kept"), [(1, [3]), (2, [2, 3]), (3, [1, 2, 3]), (10, [0, 1, 2, 3])])
def test_history_is_cut_to_the_limit_57(scope, limit, kept):
    desk = Desk(scope, revisionHistoryLimit=limit)
    for number in range(4):
        desk.take(config("a", str(number)))
    assert sorted(map(resource_index, desk.store.resource_snapshots(scope))) == kept


@scoped
def test_the_limit_counts_parts_but_cuts_whole_versions(scope):
    desk = Desk(scope, revisionHistoryLimit=2)
    desk.take(big("s1"), big("s2"))
    desk.take(config("a"))
    assert sorted(desk.held()) == ["p-0-0", "p-0-snapshot", "p-1-snapshot"]
    desk.take(config("b"))
    assert sorted(desk.held()) == ["p-1-snapshot", "p-2-snapshot"]


@scoped
@pytest.mark.parametrize(
    ("interval_s", "collection_s", "age_s", "noticed_s_ago", "wait_s"),
    [
        (300, 30, 5, None, 295),
        (300, 30, 10, 5, 290),
        (60, 30, 3600, None, 30),
        (60, 60, 40, None, 60),
        (0, 30, 60, 10, 20),
        (300, 0, 5, None, 295),
        (0, 0, 5, None, None),
    ],
)
def test_changes_are_collected_for_a_while_67(scope, interval_s, collection_s, age_s, noticed_s_ago, wait_s):
    desk = Desk(scope)
    desk.take(config("a"))
    now = desk.store.now + timedelta(seconds=age_s)
    if noticed_s_ago is not None:
        noticed = (now - timedelta(seconds=noticed_s_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        note = {"metadata": {"annotations": {DETECTED: noticed}}}
        desk.store.edit(scope.resource_snapshot, "p-0-snapshot", note, namespace_of(scope))
    delays = Delays(
        minimum_interval=timedelta(seconds=interval_s), collection=timedelta(seconds=collection_s)
    )
    version = desk.plan(config("b"), delays=delays, now=now)
    desk.store.perform(Plan(steps=version.steps))
    notes = desk.store.resource_snapshots(scope)[0].metadata.annotations
    if wait_s is None:
        assert (version.wake_at, version.index) == (None, 1)
        assert DETECTED not in notes
        return
    assert version.wake_at == now + timedelta(seconds=wait_s)
    assert (version.index, list(version.resources)) == (0, [config("a")])
    assert DETECTED in notes
    assert desk.plan(config("b"), delays=delays, now=version.wake_at).index == 1


@scoped
def test_a_change_that_is_taken_back_is_forgotten(scope):
    desk = Desk(scope)
    desk.take(config("a"))
    later = desk.store.now + timedelta(hours=1)
    desk.take(config("b"), delays=Delays(), now=later)
    desk.take(config("a"), delays=Delays(), now=later + timedelta(seconds=1))
    much_later = later + timedelta(hours=1)
    assert desk.plan(config("b"), delays=Delays(), now=much_later).wake_at == much_later + timedelta(
        seconds=15
    )


@scoped
def test_what_the_placement_does_not_own_is_neither_used_nor_touched(scope):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.take(config("a"))
    desk.policy()
    forged = []
    for resource, held in ((scope.resource_snapshot, "p-0-snapshot"), (scope.policy_snapshot, "p-0")):
        body = desk.store.objects[resource.plural, namespace_of(scope) or "", held]
        labels = {"kubernetes-fleet.io/resource-index": "7", "kubernetes-fleet.io/policy-index": "7"}
        meta = {
            "name": held.replace("0", "7"),
            "labels": {**body["metadata"]["labels"], **labels},
            "annotations": {"kubernetes-fleet.io/resource-hash": hash_of([config("evil")])},
            **({"namespace": "work"} if scope.namespaced else {}),
        }
        forged.append(desk.store.put(resource, {"metadata": meta, "spec": body["spec"]}))
    desk.take(config("b"))
    desk.edit(policy={"tolerations": [{"operator": "Exists"}]})
    desk.policy()
    assert desk.held() == {"p-0-snapshot": False, "p-1-snapshot": True, "p-7-snapshot": True}
    assert desk.policies() == {"p-0": False, "p-1": True, "p-7": True}
    assert desk.store.get(scope.resource_snapshot, "p-7-snapshot", namespace_of(scope)) == forged[0]


@scoped
def test_a_name_that_somebody_else_holds_is_skipped(scope):
    desk = Desk(scope)
    meta = {"name": "p-0-snapshot", **({"namespace": "work"} if scope.namespaced else {})}
    desk.store.put(scope.resource_snapshot, {"metadata": meta, "spec": {"selectedResources": []}})
    assert desk.take(config("a")).name == "p-1-snapshot"


# --- policies --------------------------------------------------------------------------------------------------------
def test_policies_hash_as_recorded_from_the_peer():
    desk = Desk(SCOPES[0], {"placementType": "PickAll"})
    recorded = "OGNjNTdkZWU1OTY4NGZmODg3NjZlMjY5MzZjOGZiMTI1ZjRiZGUyMzRhMmJlYjVjNTRhZGVkNDU2OWRiMGQ1YQ=="
    assert policy_hash(desk.placement.spec.policy).encode() == base64.b64decode(recorded)
    assert policy_hash(None) == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    desk.policy()
    stored = desk.store.objects[desk.scope.policy_snapshot.plural, "", "p-0"]
    assert stored["spec"] == {"policy": {"placementType": "PickAll"}, "policyHash": recorded}


def test_resources_hash_as_recorded_from_the_peer():
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"labels": {"kubernetes.io/metadata.name": "ga-ns"}, "name": "ga-ns"},
        "spec": {"finalizers": ["kubernetes"]},
    }
    config_map = {
        "apiVersion": "v1",
        "data": {"v": "1"},
        "kind": "ConfigMap",
        "metadata": {"name": "ga-cm", "namespace": "ga-ns"},
    }
    assert (
        hash_of([namespace, config_map]) == "aad87dfb6f1130f6bad1eaa33e3f88850a479e1fa2f8e437b0461e5bb1cb17a0"
    )


@scoped
def test_a_policy_snapshot_follows_generation_and_count(scope):
    desk = Desk(scope, {"placementType": "PickN", "numberOfClusters": 2})
    assert desk.policy() == "p-0"
    made = desk.store.snapshots(scope)[0]
    assert made.metadata.labels == {
        "kubernetes-fleet.io/parent-CRP": "p",
        "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/policy-index": "0",
    }
    desk.edit(policy={"numberOfClusters": 5})
    assert desk.policy() == "p-0"
    again = desk.store.snapshots(scope)[0]
    assert again.metadata.annotations == {
        "kubernetes-fleet.io/CRP-generation": "2",
        "kubernetes-fleet.io/number-of-clusters": "5",
    }
    assert again.spec == made.spec


@scoped
def test_another_policy_is_another_snapshot_69(scope):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.policy()
    desk.edit(policy={"tolerations": [{"operator": "Exists"}]})
    assert desk.policy() == "p-1"
    assert desk.policies() == {"p-0": False, "p-1": True}


@scoped
def test_after_a_crash_the_newest_policy_is_marked_again_69(scope):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.policy()
    unmark = {"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "false"}}}
    desk.store.edit(scope.policy_snapshot, "p-0", unmark, namespace_of(scope))
    desk.policy()
    assert desk.policies() == {"p-0": True}


@scoped
def test_of_two_latest_policies_the_newer_stays_69(scope):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.policy()
    desk.edit(policy={"tolerations": [{"operator": "Exists"}]})
    desk.policy()
    mark = {"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "true"}}}
    desk.store.edit(scope.policy_snapshot, "p-0", mark, namespace_of(scope))
    desk.policy()
    assert desk.policies() == {"p-0": False, "p-1": True}


@scoped
@pytest.mark.parametrize("index", [None, "-1", "x"])
def test_an_unreadable_index_stops_nothing_69(scope, index):
    desk = Desk(scope, {"placementType": "PickAll"})
    desk.policy()
    spoil = {"metadata": {"labels": {"kubernetes-fleet.io/policy-index": index}}}
    desk.store.edit(scope.policy_snapshot, "p-0", spoil, namespace_of(scope))
    desk.edit(policy={"tolerations": [{"operator": "Exists"}]})
    desk.policy()
    assert desk.policies() == {"p-0": False, "p-1": True}


@scoped
@pytest.mark.parametrize(
    ("limit", "kept"), [(1, ["p-3"]), (2, ["p-2", "p-3"]), (10, ["p-0", "p-1", "p-2", "p-3"])]
)
def test_policies_are_cut_to_the_limit_57(scope, limit, kept):
    desk = Desk(scope, {"placementType": "PickAll"}, revisionHistoryLimit=limit)
    desk.policy()
    for number in range(3):
        desk.edit(policy={"tolerations": [{"key": f"k{number}", "operator": "Exists"}]})
        desk.policy()
    assert sorted(desk.policies()) == kept
