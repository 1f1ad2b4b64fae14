"""Validation of label selectors, wherever a kind has one.

What it must never do: match; `label_selector` does.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import Found

Json = dict[str, Any]

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")


def label_selector(found: Found, selector: Json | None, path: str) -> None:
    """Check a LabelSelector."""
    if not selector:
        return
    found.causes += metadata.label_problems(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        _requirement(found, one, f"{path}.matchExpressions[{index}]")


def _requirement(found: Found, one: Json, path: str) -> None:
    operator, values = one.get("operator", ""), one.get("values") or []
    if operator in _WITH_VALUES and not values:
        found.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values:
        found.forbidden(
            f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        found.invalid(f"{path}.operator", operator, "not a valid selector operator")
    for text in metadata.qualified_problems(one.get("key", ""), "a valid label key"):
        found.invalid(f"{path}.key", one.get("key", ""), text)
    for at, value in enumerate(values):
        for cause in metadata.label_problems({"a": value}, f"{path}.values[{at}]"):
            found.causes.append(cause)
