"""The life of a binding as the scheduler sees it: made, carried over to a newer policy, unscheduled, let go.

A binding's name is worked out from the placement, the cluster and how many came before, never drawn at random:
making it twice, from however old a view, makes it once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.names import (
    ANNOTATION_PREVIOUS_BINDING_STATE,
    FINALIZER_SCHEDULER_CRB_CLEANUP,
    LABEL_PARENT_CRP,
    BindingState,
    binding_name,
)
from echelon.api.placement import Placement
from echelon.api.resource import Resource
from echelon.api.scope import Scope
from echelon.api.snapshot import ClusterDecision, PolicySnapshot
from echelon.rules.plan import Create, Delete, Patch, ref_of

SUFFIX_LENGTH = 8


class Held(NamedTuple):
    """A placement's bindings, each in exactly one class, in name order."""

    released: Sequence[Binding]  # being deleted and still kept by the scheduler's finalizer
    unscheduled: Sequence[Binding]
    dangling: Sequence[Binding]  # their cluster is gone
    obsolete: Sequence[Binding]  # made for an older policy
    scheduled: Sequence[Binding]
    bound: Sequence[Binding]

    def current_by_cluster(self) -> Mapping[str, Binding]:
        """Return the bindings of the current policy by cluster."""
        return {binding.spec.target_cluster: binding for binding in (*self.scheduled, *self.bound)}

    def reusable(self) -> Mapping[str, Binding]:
        """Return the bindings a pick can take over, by cluster; obsolete ones rather than unscheduled ones."""
        return {
            binding.spec.target_cluster: binding
            for binding in (*reversed(self.unscheduled), *reversed(self.obsolete))
        }

    @staticmethod
    def decisions(bindings: Iterable[Binding]) -> list[ClusterDecision]:
        """Return the decisions that made these bindings."""
        return [binding.spec.cluster_decision for binding in bindings]


def sort_bindings(
    bindings: Iterable[Binding], latest: PolicySnapshot | None, clusters: Mapping[str, MemberCluster]
) -> Held:
    """R-PICK-7: every binding is in exactly one class; a second live binding of a cluster counts as obsolete."""
    held = Held([], [], [], [], [], [])
    rows: dict[str, list[Binding]] = {name: getattr(held, name) for name in Held._fields}
    current: set[str] = set()
    for binding in sorted(bindings, key=_bound_first):
        name = _class_of(binding, latest, clusters)
        if name in ("scheduled", "bound"):
            name = "obsolete" if binding.spec.target_cluster in current else name
            current.add(binding.spec.target_cluster)
        if name:
            rows[name].append(binding)
    for row in rows.values():
        row.sort(key=lambda binding: binding.name)
    return held


def _bound_first(binding: Binding) -> tuple[bool, str]:
    return binding.spec.state != BindingState.BOUND, binding.name


def _class_of(binding: Binding, latest: PolicySnapshot | None, clusters: Mapping[str, MemberCluster]) -> str:
    if binding.metadata.is_deleting:
        return "released" if is_kept_by_scheduler(binding) else ""
    if binding.spec.state == BindingState.UNSCHEDULED:
        return "unscheduled"
    if binding.spec.target_cluster not in clusters:
        return "dangling"
    if latest is None or binding.spec.scheduling_policy_snapshot_name != latest.name:
        return "obsolete"
    return "bound" if binding.spec.state == BindingState.BOUND else "scheduled"


def is_kept_by_scheduler(binding: Binding) -> bool:
    """Whether the scheduler's finalizer is on the binding."""
    return FINALIZER_SCHEDULER_CRB_CLEANUP in binding.metadata.finalizers


def free_name(placement: Placement, cluster: str, taken: Collection[str]) -> str:
    """Return the first name of this placement on this cluster that no binding has."""
    attempt = 0
    while True:
        said = f"{placement.metadata.uid}/{cluster}/{attempt}"
        suffix = hashlib.sha256(said.encode()).hexdigest()[:SUFFIX_LENGTH]
        # a binding's name becomes a label value and part of a host name: dots of long names are replaced
        name = binding_name(placement.name.replace(".", "-"), cluster.replace(".", "-"), suffix)
        if name not in taken:
            return name
        attempt += 1


def make(
    scope: Scope, placement: Placement, policy_snapshot: str, name: str, decision: ClusterDecision
) -> Create:
    """Make a binding for a cluster that was just picked."""
    meta: dict[str, Any] = {
        "name": name,
        "labels": {LABEL_PARENT_CRP: placement.name},
        "finalizers": [FINALIZER_SCHEDULER_CRB_CLEANUP],
    }
    if placement.namespace:
        meta["namespace"] = placement.namespace
    body = {
        "apiVersion": scope.binding.api_version,
        "kind": scope.binding.kind,
        "metadata": meta,
        "spec": {
            "state": BindingState.SCHEDULED.value,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": policy_snapshot,
            "targetCluster": decision.cluster_name,
            "clusterDecision": msgspec.to_builtins(decision),
        },
    }
    return Create(resource=scope.binding, body=body)


def take_over(scope: Scope, binding: Binding, policy_snapshot: str, decision: ClusterDecision) -> Patch:
    """Carry a binding over to the current policy; an unscheduled one gets back the state it had."""
    spec: dict[str, Any] = {
        "schedulingPolicySnapshotName": policy_snapshot,
        "clusterDecision": _replacing(decision),
    }
    body: dict[str, Any] = {"spec": spec}
    if binding.spec.state == BindingState.UNSCHEDULED:
        spec["state"] = previous_state(binding)
        body["metadata"] = {"annotations": {ANNOTATION_PREVIOUS_BINDING_STATE: None}}
    return Patch(ref=ref_of(scope.binding, binding), body=body)


def _replacing(decision: ClusterDecision) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(decision)
    return {"clusterScore": None, **plain}


def previous_state(binding: Binding) -> str:
    """Return the state an unscheduled binding had; without a note of it, by whether anything was delivered."""
    noted = binding.metadata.annotations.get(ANNOTATION_PREVIOUS_BINDING_STATE)
    if noted in (BindingState.SCHEDULED, BindingState.BOUND):
        return noted
    delivered = bool(binding.spec.resource_snapshot_name)
    return BindingState.BOUND.value if delivered else BindingState.SCHEDULED.value


def unschedule(scope: Scope, binding: Binding) -> Patch:
    """Give a cluster up: the next rollout step removes what is there. The note replaces all annotations."""
    annotations: dict[str, str | None] = dict.fromkeys(binding.metadata.annotations)
    annotations[ANNOTATION_PREVIOUS_BINDING_STATE] = binding.spec.state
    body = {"metadata": {"annotations": annotations}, "spec": {"state": BindingState.UNSCHEDULED.value}}
    return Patch(ref=ref_of(scope.binding, binding), body=body, gone_ok=True)


def release(scope: Scope, binding: Binding) -> Patch:
    """Take the scheduler's finalizer off a binding."""
    return without_finalizer(scope.binding, binding, FINALIZER_SCHEDULER_CRB_CLEANUP)


def delete(scope: Scope, binding: Binding) -> Delete:
    """Delete a binding as it is now, whatever was written to it since it was seen."""
    ref = msgspec.structs.replace(ref_of(scope.binding, binding), resource_version="")
    return Delete(ref=ref)


def without_finalizer(resource: Resource, seen: Any, finalizer: str) -> Patch:
    """Take a finalizer off an object."""
    left = [name for name in seen.metadata.finalizers if name != finalizer]
    return Patch(ref=ref_of(resource, seen), body={"metadata": {"finalizers": left}}, gone_ok=True)


def with_finalizer(resource: Resource, seen: Any, *wanted: str) -> Patch | None:
    """Put finalizers on an object, as far as they are not there."""
    finalizers = finalizers_with(seen, *wanted)
    if finalizers is None:
        return None
    return Patch(ref=ref_of(resource, seen), body={"metadata": {"finalizers": finalizers}})


def finalizers_with(seen: Any, *wanted: str) -> list[str] | None:
    """Return an object's finalizers and those wanted; None when it has them all."""
    missing = [finalizer for finalizer in wanted if finalizer not in seen.metadata.finalizers]
    return [*seen.metadata.finalizers, *missing] if missing else None
