"""Whether a change of one member cluster can change what is decided for a placement.

A fleet has many clusters and many placements, and clusters report all the time. So a change is first described by
its facets (labels, taints, what it reports, whether it can receive anything), a policy by the facets it reads, and
only where they meet is the one cluster looked at again. Nobody looks at all clusters because one changed.

Says only whether to look; what to decide is `schedule.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from echelon.api.cluster import MemberCluster, MemberClusterStatus
from echelon.api.conditions import find_condition
from echelon.api.meta import TRUE
from echelon.api.names import PROPERTY_RESOURCE_PREFIX, MemberCondition, PlacementCondition, PlacementType
from echelon.api.placement import ClusterSelectorTerm, PlacementPolicy
from echelon.api.snapshot import ClusterDecision, PolicySnapshot
from echelon.rules.affinity import UnusablePolicy, affinity_of
from echelon.rules.decisions import MAX_UNSELECTED, filtered
from echelon.rules.eligible import why_ineligible, without_minutes
from echelon.rules.schedule import why_filtered

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Facet(StrEnum):
    """What can change about a cluster, as far as scheduling is concerned."""

    ELIGIBILITY = "eligibility"
    TAINTS = "taints"
    LABELS = "labels"
    PROPERTIES = "properties"
    RESOURCES = "resources"
    NAMESPACES = "namespaces"


def heard_at(cluster: MemberCluster) -> datetime:
    """Return when the cluster's agents last reported: the time by which its eligibility is compared."""
    agents = cluster.status.agent_status if cluster.status else ()
    return max((a.last_received_heartbeat for a in agents if a.last_received_heartbeat), default=_LONG_AGO)


def facets_changed(old: MemberCluster, new: MemberCluster) -> set[Facet]:
    """Return in what two states of a cluster differ. Only what lets more in counts for eligibility and taints."""
    found: set[Facet] = set()
    now = max(heard_at(old), heard_at(new))
    if why_ineligible(new, now) is None and why_ineligible(old, now) is not None:
        found.add(Facet.ELIGIBILITY)
    if any(taint not in new.spec.taints for taint in old.spec.taints):
        found.add(Facet.TAINTS)
    if old.metadata.labels != new.metadata.labels:
        found.add(Facet.LABELS)
    for facet, read in _REPORTED.items():
        if read(old.status) != read(new.status):
            found.add(facet)
    return found


def _values(status: MemberClusterStatus | None) -> dict[str, str]:
    return {name: held.value for name, held in status.properties.items()} if status else {}


def _amounts(status: MemberClusterStatus | None) -> tuple[Any, ...]:
    usage = status.resource_usage if status else None
    return (usage.capacity, usage.allocatable, usage.available) if usage else ()


def _collected(status: MemberClusterStatus | None) -> tuple[bool, frozenset[str]]:
    if status is None:
        return False, frozenset()
    collects = find_condition(status.conditions, MemberCondition.NAMESPACE_COLLECTION_SUCCEEDED)
    return collects is not None, frozenset(status.namespaces)


_REPORTED: Mapping[Facet, Callable[[MemberClusterStatus | None], Any]] = {
    Facet.PROPERTIES: _values,
    Facet.RESOURCES: _amounts,
    Facet.NAMESPACES: _collected,
}


def facets_read(policy: PlacementPolicy | None, *, namespaced: bool) -> frozenset[Facet]:
    """Return what a policy looks at in a cluster."""
    if policy is not None and policy.placement_type == PlacementType.PICK_FIXED:
        return frozenset({Facet.ELIGIBILITY})
    read = {Facet.ELIGIBILITY, Facet.TAINTS}
    if namespaced:
        read.add(Facet.NAMESPACES)
    if policy is not None and policy.topology_spread_constraints:
        read.add(Facet.LABELS)
    for term in _terms(policy):
        if term.label_selector is not None:
            read.add(Facet.LABELS)
        names = (
            [demand.name for demand in term.property_selector.match_expressions]
            if term.property_selector
            else []
        )
        names += [term.property_sorter.name] if term.property_sorter else []
        for name in names:
            read.add(Facet.RESOURCES if name.startswith(PROPERTY_RESOURCE_PREFIX) else Facet.PROPERTIES)
    return frozenset(read)


def _terms(policy: PlacementPolicy | None) -> Iterable[ClusterSelectorTerm]:
    affinity = affinity_of(policy)
    if affinity.required is not None:
        yield from affinity.required.cluster_selector_terms
    for preferred in affinity.preferred:
        yield preferred.preference


class Decided(msgspec.Struct, frozen=True):
    """What was decided for a placement, as far as it takes to judge one cluster."""

    snapshot: PolicySnapshot
    decisions: Mapping[str, ClusterDecision]  # by cluster
    unselected_count: int
    is_fulfilled: bool


def decided(snapshot: PolicySnapshot) -> Decided:
    """Sort a policy snapshot's decisions by cluster."""
    status = snapshot.status
    decisions = {said.cluster_name: said for said in status.cluster_decisions} if status else {}
    scheduled = find_condition(status.conditions, PlacementCondition.SCHEDULED) if status else None
    return Decided(
        snapshot,
        decisions,
        sum(not said.selected for said in decisions.values()),
        scheduled is not None and scheduled.status == TRUE,
    )


def is_concerned(held: Decided, cluster: MemberCluster, *, is_held: bool, namespace: str | None) -> bool:
    """R-PICK-9: a cluster's change matters where this one cluster could be decided upon otherwise.

    `is_held` says whether the placement has the cluster already; then nothing about it matters any more.
    """
    policy = held.snapshot.spec.policy
    kind = policy.placement_type if policy else PlacementType.PICK_ALL
    if kind != PlacementType.PICK_ALL and held.is_fulfilled:
        return False
    if policy is not None and kind == PlacementType.PICK_FIXED:
        return cluster.name in policy.cluster_names
    if policy is not None and policy.topology_spread_constraints:
        return True  # any cluster's labels may make room on another
    if is_held:
        return False
    try:
        why = why_filtered(policy, cluster, namespace, heard_at(cluster))
    except UnusablePolicy:
        return False  # no cluster can help
    said = held.decisions.get(cluster.name)
    if why is None:
        return True
    if said is None:
        return held.unselected_count < MAX_UNSELECTED
    return without_minutes(said.reason) != without_minutes(filtered(cluster.name, why).reason)
