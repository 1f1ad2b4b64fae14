"""Edges of work generation that no ordinary day brings: unreadable marks, taken names, reserved namespaces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import names as n
from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.scope import CLUSTER, NAMESPACED, Key
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.work import Work
from echelon.rules.override_apply import OverrideFailure
from echelon.rules.work_generation import explain, step
from echelon.rules.work_generation_content import has_version, hash_namespaced, order_group, second_name
from echelon.rules.work_generation_seen import Seen
from tests.rules.pretend import NOW, a_cluster, a_condition


def a_snapshot(name: str = "web-0-snapshot", *, index: str = "0", **notes: str) -> ResourceSnapshot:
    body = {
        "metadata": {"name": name, "labels": {n.LABEL_RESOURCE_INDEX: index}, "annotations": notes},
        "spec": {"selectedResources": []},
    }
    return msgspec.convert(body, ResourceSnapshot)


def a_binding(namespace: str = "", **spec: Any) -> Binding:
    body = {
        "metadata": {
            "name": "b",
            "uid": "u",
            "generation": 1,
            "labels": {n.LABEL_PARENT_CRP: "web"},
            **({"namespace": namespace} if namespace else {}),
        },
        "spec": {
            "state": "Bound",
            "resourceSnapshotName": "web-0-snapshot",
            "schedulingPolicySnapshotName": "",
            "targetCluster": "m1",
            "clusterDecision": {"clusterName": "m1", "selected": True, "reason": ""},
            **spec,
        },
        "status": {"conditions": [a_condition("RolloutStarted", observedGeneration=1)]},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Binding)


def a_work(
    name: str, placement: str = "other", *, notes: dict[str, str] | None = None, index: str = "0"
) -> Work:
    labels = {n.LABEL_PARENT_CRP: placement, n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX: index}
    return msgspec.convert({"metadata": {"name": name, "labels": labels, "annotations": notes or {}}}, Work)


def seen(binding: Binding, **more: Any) -> Seen:
    member = msgspec.json.decode(msgspec.json.encode(a_cluster("m1")), type=MemberCluster)
    scope = NAMESPACED if binding.namespace else CLUSTER
    master = a_snapshot(**{n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "1"})
    return Seen(scope=scope, binding=binding, cluster=member, **{"master": master, **more})


@pytest.mark.parametrize("count", ["", "0", "-1", "x", "\u0661", None])
def test_a_master_that_does_not_tell_its_parts_is_refused(count):
    notes = {} if count is None else {n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: count}
    with pytest.raises(OverrideFailure, match="a number of at least 1 is expected"):
        order_group(a_snapshot(**notes), [], Key(None, "web"))


def test_a_part_that_does_not_tell_its_number_is_refused():
    master = a_snapshot(**{n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "2"})
    part = a_snapshot("web-0-x", **{n.ANNOTATION_SUBINDEX: "first"})
    with pytest.raises(OverrideFailure, match="resource snapshot web-0-x has an invalid value 'first'"):
        order_group(master, [part], Key(None, "web"))


def test_parts_are_ordered_by_number_the_master_first():
    master = a_snapshot(**{n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "12"})
    parts = [a_snapshot(f"web-0-{part}", **{n.ANNOTATION_SUBINDEX: str(part)}) for part in range(1, 12)]
    ordered = order_group(master, [*reversed(parts), master], Key(None, "web"))
    assert [s.name for s in ordered] == ["web-0-snapshot", *(f"web-0-{part}" for part in range(1, 12))]


def test_a_work_without_its_note_is_known_by_its_index():
    binding = a_binding()
    assert has_version([a_work("w", "web")], binding)
    assert not has_version([a_work("w", "web", index="1")], binding)
    noted = a_work("w", "web", notes={n.ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME: "web-1-snapshot"})
    assert not has_version([noted], binding)
    assert not has_version([], binding)


def test_an_empty_list_of_overrides_is_hashed_as_absent():
    assert hash_namespaced(()) == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"


@pytest.mark.parametrize("space", ["kube-system", "fleet-system", "fleet-member-m1"])
def test_nothing_is_delivered_for_a_binding_in_a_reserved_namespace(space):
    assert step(seen(a_binding(space)), NOW).steps == ()


@pytest.mark.parametrize(
    "change", [{"state": "Scheduled"}, {"state": "Nonsense"}, {"resourceSnapshotName": ""}]
)
def test_nothing_is_delivered_for_a_binding_without_a_version(change):
    assert step(seen(a_binding(**change)), NOW).steps == ()


def test_when_both_names_are_taken_it_is_said():
    binding = a_binding()
    plan = step(seen(binding, find_work=a_work), NOW)
    message = plan.status.new.conditions[-1].message
    assert message.endswith("both names of work web-work in namespace fleet-member-m1 are taken")


def test_a_refusal_of_a_binding_that_is_not_ours_is_not_told():
    assert explain(seen(a_binding(state="Scheduled")), "no", NOW).status is None


@pytest.mark.parametrize(
    ("refusal", "shown"),
    [
        (
            'patch: Invalid value: "{"data":{"p":"s3cret"}}": unknown',
            "patch: Invalid value: (not shown): unknown",
        ),
        ('x: Invalid value: {"p":"s3cret"}: json: no', "x: Invalid value: (not shown): json: no"),
        ('Invalid value: [{"p":"s3cret"}]: no', "Invalid value: (not shown): no"),
        ('spec.x: Invalid value: "short": too short', 'spec.x: Invalid value: "short": too short'),
    ],
)
def test_objects_that_a_server_quotes_are_not_repeated(refusal, shown):
    plan = explain(seen(a_binding()), refusal, NOW)
    assert plan.status.new.conditions[-1].message == f"Failed to synchronize the work to the latest: {shown}"


@given(st.text("ab-.1", min_size=1, max_size=260))
def test_second_names_differ_from_first_ones_and_fit(name):
    second = second_name(name, a_binding())
    assert second != name
    assert len(second) <= 253
