"""Which clusters a policy demands (required terms, taints) and which it would rather have (scores).

Reads labels, taints, properties and resource usage as the cluster last reported them. A property a cluster does
not report, or reports as something that is no quantity, never matches and never scores: one cluster's odd report
must not stop the scheduling of the others. A malformed demand is the author's error and raises UnusablePolicy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from echelon.api.cluster import MemberCluster, Taint
from echelon.api.names import PROPERTY_RESOURCE_PREFIX, SortOrder, TolerationOperator
from echelon.api.placement import (
    ClusterAffinity,
    ClusterSelectorTerm,
    PlacementPolicy,
    PreferredClusterSelector,
    PropertySelectorRequirement,
    PropertySorter,
    Toleration,
)
from echelon.rules.labels import InvalidSelector, matches
from echelon.rules.quantity import InvalidQuantity, parse_quantity, quantity_of

_COMPARE: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Lt": operator.lt,
    "Le": operator.le,
}


class UnusablePolicy(ValueError):
    """The policy asks for something that cannot be evaluated on any cluster."""


def affinity_of(policy: PlacementPolicy | None) -> ClusterAffinity:
    """Return the policy's cluster affinity, empty when it has none."""
    if policy is None or policy.affinity is None or policy.affinity.cluster_affinity is None:
        return ClusterAffinity()
    return policy.affinity.cluster_affinity


def property_of(cluster: MemberCluster, name: str) -> Fraction | None:
    """Return a property's value, or None when the cluster does not report it as a quantity.

    `resources.kubernetes-fleet.io/{total|allocatable|available}-{resource}` reads the resource usage; every other
    name the collected properties.
    """
    status = cluster.status
    if status is None:
        return None
    value: float | str | None
    if name.startswith(PROPERTY_RESOURCE_PREFIX):
        which, _, resource = name.removeprefix(PROPERTY_RESOURCE_PREFIX).partition("-")
        usage = status.resource_usage
        if usage is None:
            return None
        match which:
            case "total":
                value = usage.capacity.get(resource)
            case "allocatable":
                value = usage.allocatable.get(resource)
            case "available":
                value = usage.available.get(resource)
            case _:
                raise UnusablePolicy(
                    f'property "{name}" must begin with {PROPERTY_RESOURCE_PREFIX} and total-, allocatable- or available-'
                )
    else:
        held = status.properties.get(name)
        value = held.value if held else None
    if value is None:
        return None
    try:
        return quantity_of(value)
    except InvalidQuantity:
        return None


def is_required(policy: PlacementPolicy | None, cluster: MemberCluster) -> bool:
    """Whether the cluster matches some required term, or there is none."""
    required = affinity_of(policy).required
    if required is None or not required.cluster_selector_terms:
        return True
    return any(_fits(term, cluster) for term in required.cluster_selector_terms)


def _fits(term: ClusterSelectorTerm, cluster: MemberCluster) -> bool:
    if term.label_selector is not None and not _labels_fit(term, cluster):
        return False
    if term.property_selector is None:
        return True
    return all(_holds(demand, cluster) for demand in term.property_selector.match_expressions)


def _labels_fit(term: ClusterSelectorTerm, cluster: MemberCluster) -> bool:
    try:
        return term.label_selector is None or matches(term.label_selector, cluster.metadata.labels)
    except InvalidSelector as error:
        raise UnusablePolicy(f"invalid label selector in a cluster selector term: {error}") from error


def _holds(demand: PropertySelectorRequirement, cluster: MemberCluster) -> bool:
    compare = _COMPARE.get(demand.operator)
    if compare is None:
        raise UnusablePolicy(
            f'operator "{demand.operator}" for property "{demand.name}" is not Gt, Ge, Eq, Ne, Lt or Le'
        )
    if len(demand.values) != 1:
        raise UnusablePolicy(f'property "{demand.name}" needs exactly one value, has {len(demand.values)}')
    try:
        wanted = parse_quantity(demand.values[0])
    except InvalidQuantity as error:
        raise UnusablePolicy(f'value for property "{demand.name}": {error}') from error
    value = property_of(cluster, demand.name)
    return value is not None and compare(value, wanted)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that no toleration tolerates."""
    held = tuple(tolerations)
    for taint in taints:
        if not any(_tolerates(toleration, taint) for toleration in held):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, taint.effect):
        return False
    if toleration.operator == TolerationOperator.EXISTS:
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


class Preferences:
    """The preferred terms of a policy, with the fleet-wide range of each sorted property worked out once."""

    def __init__(self, policy: PlacementPolicy | None, clusters: Iterable[MemberCluster]) -> None:
        self._terms = tuple(term for term in affinity_of(policy).preferred if term.weight)
        sorters = {t.preference.property_sorter.name for t in self._terms if t.preference.property_sorter}
        fleet = tuple(clusters) if sorters else ()
        self._ranges = {name: _range_of(name, fleet) for name in sorters}

    def score(self, cluster: MemberCluster) -> int:
        """Return the cluster's affinity score."""
        return sum(self._points(term, cluster) for term in self._terms)

    def _points(self, term: PreferredClusterSelector, cluster: MemberCluster) -> int:
        if not _labels_fit(term.preference, cluster):
            return 0
        sorter = term.preference.property_sorter
        return term.weight if sorter is None else self._interpolate(term.weight, sorter, cluster)

    def _interpolate(self, weight: int, sorter: PropertySorter, cluster: MemberCluster) -> int:
        found = self._ranges[sorter.name]
        value = property_of(cluster, sorter.name)
        if found is None or value is None:
            return 0
        return weigh(weight, sorter.sort_order, float(value), found)


def weigh(weight: int, order: SortOrder, value: float, bounds: tuple[float, float]) -> int:
    """Place a value between the fleet's smallest and largest and return its share of the weight."""
    low, high = bounds
    if low == high:
        return 0
    share = (value - low) / (high - low)
    points = weight * share if order == SortOrder.DESCENDING else weight * (1 - share)
    return int(math.copysign(math.floor(abs(points) + 0.5), points))  # half away from zero


def _range_of(name: str, clusters: Iterable[MemberCluster]) -> tuple[float, float] | None:
    values = [float(value) for cluster in clusters if (value := property_of(cluster, name)) is not None]
    return (min(values), max(values)) if values else None
