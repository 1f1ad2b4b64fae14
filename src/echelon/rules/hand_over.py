"""Handing a binding over to delivery: pointed at a version and stamped RolloutStarted, in one decision.

Used by whoever rolls out, in steps of its own (rolling updates) or in stages (runs). The spec is written under
compare-and-swap, so its generation grows by exactly one and the stamp can name it in advance; delivery does nothing
before the stamp. Delivery's finalizer goes with the move: it will be needed, and a write of its own is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from echelon.api.binding import Binding
from echelon.api.meta import Condition, Conditions, NamespacedName
from echelon.api.names import FINALIZER_WORK_CLEANUP, BindingState
from echelon.api.placement import ApplyStrategy
from echelon.api.scope import Scope
from echelon.rules.binding_life import finalizers_with
from echelon.rules.merge import diff_merge
from echelon.rules.plan import Patch, ref_of

ROLLOUT_STARTED = "RolloutStarted"


class Target(NamedTuple):
    """What a rollout wants a cluster's binding to be."""

    snapshot: str
    overrides: tuple[NamespacedName, ...]
    cluster_overrides: tuple[str, ...]
    applied: ApplyStrategy | None


def conditions_of(binding: Binding) -> Conditions:
    """Return what is said about a binding."""
    return binding.status.conditions if binding.status else ()


def has_version(binding: Binding, target: Target) -> bool:
    """Whether version and overrides are the target's."""
    spec = binding.spec
    return (
        spec.resource_snapshot_name == target.snapshot
        and spec.resource_override_snapshots == target.overrides
        and spec.cluster_resource_override_snapshots == target.cluster_overrides
    )


def is_on_target(binding: Binding, target: Target) -> bool:
    """R-CLUSTER-1: version, overrides and apply strategy are the target's."""
    return has_version(binding, target) and binding.spec.apply_strategy == target.applied


def spec_patch(binding: Binding, target: Target) -> dict[str, Any]:
    """Return what brings a binding's spec to the target."""
    spec = binding.spec
    patch: dict[str, Any] = {}
    if spec.state != BindingState.BOUND:
        patch["state"] = BindingState.BOUND.value
    if spec.resource_snapshot_name != target.snapshot:
        patch["resourceSnapshotName"] = target.snapshot
    if spec.resource_override_snapshots != target.overrides:
        patch["resourceOverrideSnapshots"] = msgspec.to_builtins(target.overrides) or None
    if spec.cluster_resource_override_snapshots != target.cluster_overrides:
        patch["clusterResourceOverrideSnapshots"] = list(target.cluster_overrides) or None
    if spec.apply_strategy != target.applied:
        patch["applyStrategy"] = applied_patch(spec.apply_strategy, target.applied)
    return patch


def applied_patch(old: ApplyStrategy | None, new: ApplyStrategy | None) -> Any:
    """Return the merge patch that makes an apply strategy exactly the new one: what must go is named."""
    return None if new is None else diff_merge(msgspec.to_builtins(old) or {}, msgspec.to_builtins(new))


def move(scope: Scope, binding: Binding, spec: Mapping[str, Any], stamp: Condition | None) -> Patch:
    """R-HAND-1: change a binding's spec, and stamp the generation that this makes.

    Without a change of the spec, only the stamp is written. It comes first; what others said stays, for what it is
    worth.
    """
    body: dict[str, Any] = {"spec": spec} if spec else {}
    held = finalizers_with(binding, FINALIZER_WORK_CLEANUP) if spec else None
    if held is not None:
        body["metadata"] = {"finalizers": held}
    status = None
    if stamp is not None:
        others = (said for said in conditions_of(binding) if said.type != ROLLOUT_STARTED)
        status = {"conditions": [msgspec.to_builtins(said) for said in (stamp, *others)]}
    return Patch(ref=ref_of(scope.binding, binding), body=body, status=status)


def generation_after(binding: Binding, spec: Mapping[str, Any]) -> int:
    """Return the generation that a binding has once its spec is changed like this."""
    return binding.metadata.generation + (1 if spec else 0)
