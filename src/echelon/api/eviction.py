"""Evictions: a request to take a placement off one cluster, and budgets that limit how many may go.

Shapes only. Both kinds exist for cluster-scoped placements.
"""

from typing import Annotated

from echelon.api.meta import Conditions, IntOrString, Object
from echelon.api.schema import Cel, Wire, doc

_COUNT_RULE = Cel(
    "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
    "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer"
    " must be greater than or equal to 0",
)


class EvictionSpec(Wire, frozen=True, kw_only=True):
    """What to take off where."""

    placement_name: Annotated[
        str,
        doc(
            "The ClusterResourcePlacement whose resources are to be removed.",
            max_length=255,
            cel=(Cel("self == oldSelf", "The PlacementName field is immutable"),),
        ),
    ]
    cluster_name: Annotated[
        str,
        doc(
            "The cluster they are to be removed from.",
            max_length=255,
            cel=(Cel("self == oldSelf", "The ClusterName field is immutable"),),
        ),
    ]


class EvictionStatus(Wire, frozen=True, kw_only=True):
    """What became of it."""

    conditions: Annotated[
        Conditions,
        doc("Valid: the request makes sense. Executed: it was carried out, or why a budget forbids it."),
    ] = ()


class Eviction(Object, frozen=True, kw_only=True):
    """Asks once to take a placement off a cluster. To ask again, delete it and create another."""

    spec: Annotated[EvictionSpec, doc("What to take off where. Cannot be changed.")]
    status: Annotated[EvictionStatus | None, doc("What became of it.")] = None


class BudgetSpec(Wire, frozen=True, kw_only=True):
    """How many clusters may go at the same time."""

    max_unavailable: Annotated[
        IntOrString | None,
        doc(
            "How many of the wanted clusters may be without the resources: a number, or a percentage rounded up. "
            "Not for PickAll placements.",
            cel=(_COUNT_RULE,),
        ),
    ] = None
    min_available: Annotated[
        IntOrString | None,
        doc(
            "How many clusters must keep the resources: a number, or a percentage of the wanted clusters rounded "
            "up (only a number for PickAll placements).",
            cel=(_COUNT_RULE,),
        ),
    ] = None


class DisruptionBudget(Object, frozen=True, kw_only=True):
    """Limits evictions of the placement with the same name."""

    spec: Annotated[
        BudgetSpec,
        doc(
            "How many clusters may go at the same time; either limit, not both. With neither, none may go.",
            cel=(
                Cel(
                    "!(has(self.maxUnavailable) && has(self.minAvailable))",
                    "Both MaxUnavailable and MinAvailable cannot be specified",
                ),
            ),
        ),
    ]
