"""How tables print ages, labels, selectors and containers: the words every printer shares.

What it must never do: read a clock; `now` is an argument.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


def human_duration(seconds: float) -> str:
    """Print a length of time as kubectl does: two units at most, coarser the longer it is."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def moment(text: str) -> dt.datetime | None:
    """Read an RFC 3339 time."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def since(text: str | None, now: dt.datetime) -> str:
    """Print how long ago a time was."""
    if not text:
        return UNKNOWN
    then = moment(text)
    return human_duration((now - then).total_seconds()) if then is not None else "<invalid>"


def age(obj: Json, now: dt.datetime) -> str:
    """Print how old an object is."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def labels_text(labels: dict[str, str] | None) -> str:
    """Print labels as a selector."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


_OPERATORS = {"In": "in", "NotIn": "notin"}


def selector_text(selector: Json | None) -> str:
    """Print a label selector."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator"), term.get("key", "")
        if operator in _OPERATORS:
            parts.append(f"{key} {_OPERATORS[operator]} ({','.join(sorted(term.get('values') or ()))})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts) or NONE


def at(obj: Any, *path: str) -> Any:
    """Return what an object has at a path, or None."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def containers(template: Json | None) -> tuple[str, str]:
    """Print the names and images of a pod template's containers."""
    found = at(template, "spec", "containers") or ()
    names = ",".join(each.get("name", "") for each in found)
    return names, ",".join(each.get("image", "") for each in found)


def joined(values: Iterable[Any], most: int = 0) -> str:
    """Join values; beyond `most`, say how many more there are."""
    texts = list(map(str, values))
    if most and len(texts) > most:
        return f"{','.join(texts[:most])} + {len(texts) - most} more..."
    return ",".join(texts)


def named(condition: str, obj: Json) -> Json | None:
    """Return a condition of an object's status."""
    found = at(obj, "status", "conditions") or ()
    return next((each for each in found if each.get("type") == condition), None)
