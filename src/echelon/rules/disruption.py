"""How many clusters a placement may lose right now: the arithmetic of a disruption budget.

`total` counts the placement's bindings in any state, `available` those whose resources are available at their
current generation and that are not going away. Percentages are of the wanted clusters and are rounded up.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from echelon.api.binding import Binding
from echelon.api.conditions import is_true_at
from echelon.api.eviction import BudgetSpec
from echelon.api.meta import IntOrString
from echelon.api.names import PlacementCondition, PlacementType
from echelon.api.placement import Placement


class Misconfigured(Exception):
    """The budget cannot be applied to this kind of placement."""


class Counted(NamedTuple):
    """A placement's clusters, counted."""

    available: int
    total: int


def count(bindings: Sequence[Binding]) -> Counted:
    """Count the clusters of a placement."""
    return Counted(sum(1 for binding in bindings if is_available(binding)), len(bindings))


def is_available(binding: Binding) -> bool:
    """Whether a cluster has the resources, available, and is to keep them."""
    conditions = binding.status.conditions if binding.status else ()
    return not binding.metadata.is_deleting and is_true_at(
        conditions, PlacementCondition.AVAILABLE, binding.metadata.generation
    )


def allowed_disruptions(budget: BudgetSpec, placement: Placement, counted: Counted) -> int:
    """R-EVICT-3: percentages are of the wanted clusters, rounded up; a budget without a limit lets none go."""
    policy = placement.spec.policy
    picks_all = policy is None or policy.placement_type == PlacementType.PICK_ALL
    if picks_all and (budget.max_unavailable is not None or isinstance(budget.min_available, str)):
        raise Misconfigured
    wanted = 0 if picks_all or policy is None else policy.number_of_clusters or 0
    if budget.max_unavailable is not None:
        return scale(budget.max_unavailable, wanted) - (counted.total - counted.available)
    if budget.min_available is not None:
        return counted.available - scale(budget.min_available, wanted)
    return 0


def scale(value: IntOrString, wanted: int) -> int:
    """Return a number as it is, a percentage as that part of the wanted clusters, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * wanted // 100)
