"""Bindings: one placement on one cluster.

The scheduler creates them, rollouts point them at a version, delivery reports on them. Shapes only. One type serves ClusterResourceBinding and ResourceBinding.
"""

from typing import Annotated

from echelon.api.meta import Conditions, NamespacedName, Object
from echelon.api.placement import (
    MAX_DETAILS,
    ApplyStrategy,
    DiffedPlacement,
    DriftedPlacement,
    FailedPlacement,
)
from echelon.api.schema import Wire, doc
from echelon.api.snapshot import ClusterDecision


class BindingSpec(Wire, frozen=True, kw_only=True):
    """Which version goes to which cluster."""

    state: Annotated[
        str,
        doc(
            "Scheduled: the cluster was picked, nothing is delivered yet. Bound: a rollout delivers the version "
            "below. Unscheduled: the cluster is no longer picked, the next rollout step removes the resources."
        ),
    ]
    resource_snapshot_name: Annotated[
        str, doc("The master resource snapshot to deliver; empty until a rollout sets it.")
    ]
    resource_override_snapshots: Annotated[
        tuple[NamespacedName, ...],
        doc("The namespaced override snapshots to apply, in this order."),
    ] = ()
    cluster_resource_override_snapshots: Annotated[
        tuple[str, ...], doc("The cluster-scoped override snapshots to apply first, in this order.")
    ] = ()
    scheduling_policy_snapshot_name: Annotated[
        str, doc("The policy snapshot for which the cluster was picked.")
    ]
    target_cluster: Annotated[str, doc("The member cluster.")]
    cluster_decision: Annotated[ClusterDecision, doc("Why the cluster was picked.")]
    apply_strategy: Annotated[ApplyStrategy | None, doc("How manifests are applied on the member.")] = None


class BindingStatus(Wire, frozen=True, kw_only=True):
    """How far delivery is."""

    failed_placements: Annotated[
        tuple[FailedPlacement, ...],
        doc("Objects that could not be applied or are not available, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    drifted_placements: Annotated[
        tuple[DriftedPlacement, ...],
        doc("Objects that were changed on the member, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    diffed_placements: Annotated[
        tuple[DiffedPlacement, ...],
        doc("Objects that differ between hub and member, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    conditions: Annotated[
        Conditions,
        doc(
            "RolloutStarted, Overridden, WorkSynchronized, Applied, Available (or DiffReported instead of the "
            "last two), each at this binding's generation.",
            list_map_keys=("type",),
        ),
    ] = ()


class Binding(Object, frozen=True, kw_only=True):
    """Ties one placement to one member cluster."""

    spec: Annotated[BindingSpec, doc("Which version goes to which cluster.")]
    status: Annotated[BindingStatus | None, doc("How far delivery is.")] = None
