"""Label selectors: does a set of labels match, and is the selector itself well formed.

An absent selector matches nothing, an empty one everything, as everywhere in Kubernetes. A malformed selector is
the author's error and is named; it never silently matches or misses.
"""

from __future__ import annotations

from collections.abc import Mapping

from echelon.api.meta import LabelSelector, LabelSelectorRequirement


class InvalidSelector(ValueError):
    """A label selector that no API would accept."""


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether all of the selector's demands hold for these labels."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(_holds(demand, labels) for demand in selector.match_expressions)


def _holds(demand: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(demand.key)
    match demand.operator:
        case "In":
            return value is not None and value in demand.values
        case "NotIn":
            return value is None or value not in demand.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise InvalidSelector(f'"{demand.operator}" is not a valid label selector operator')


def check(selector: LabelSelector | None) -> None:
    """Raise InvalidSelector when the selector is malformed."""
    for demand in selector.match_expressions if selector else ():
        match demand.operator:
            case "In" | "NotIn":
                if not demand.values:
                    raise InvalidSelector(
                        f"values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty "
                        f"(key {demand.key!r})"
                    )
            case "Exists" | "DoesNotExist":
                if demand.values:
                    raise InvalidSelector(
                        "values: Invalid value: values set must be empty for exists and does not exist "
                        f"(key {demand.key!r})"
                    )
            case _:
                raise InvalidSelector(f'"{demand.operator}" is not a valid label selector operator')
