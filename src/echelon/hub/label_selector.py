"""LabelSelectors inside objects: matchLabels and matchExpressions."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def matches(selector: Json, labels: dict[str, str]) -> bool:
    """Say whether a LabelSelector matches labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Json, labels: dict[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    operator = expression.get("operator")
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "Exists")
