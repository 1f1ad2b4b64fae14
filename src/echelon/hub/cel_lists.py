"""List and set functions of CEL: Kubernetes' lists library and the lists and sets extensions.

What it must never do: compare `true` with `1` as Python would.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.cel_overloads import function, method
from echelon.hub.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    list_of,
    optional_of,
)
from echelon.hub.cel_values import (
    NO_OVERLOAD,
    NONE,
    CelError,
    Duration,
    Maybe,
    UInt,
    check_int,
    check_uint,
    equal,
    key_of,
)

_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
MAX_RANGE = 1_000_000
"""Items `lists.range` makes at most."""


_ZEROES: dict[type, Any] = {int: 0, UInt: UInt(0), float: 0.0, Duration: Duration(0)}


def _sum(zero: Any) -> Any:
    def total(items: list[Any]) -> Any:
        kind = items[0].__class__ if items else zero.__class__
        if kind not in _ZEROES or any(item.__class__ is not kind for item in items):
            raise CelError(NO_OVERLOAD)
        if kind is Duration:
            return Duration(sum(item.nanos for item in items))
        if kind is float:
            return float(sum(items))
        return check_int(sum(items)) if kind is int else check_uint(sum(map(int, items)))

    return total


def _least(items: list[Any]) -> Any:
    if not items:
        raise CelError("min called on empty list")
    least = items[0]
    for item in items[1:]:
        least = min(least, item)
    return least


def _greatest(items: list[Any]) -> Any:
    if not items:
        raise CelError("max called on empty list")
    greatest = items[0]
    for item in items[1:]:
        greatest = max(greatest, item)
    return greatest


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def _is_sorted(items: list[Any]) -> bool:
    return not any(items[at + 1] < items[at] for at in range(len(items) - 1))


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if item.__class__ is list and depth > 0:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _range(count: int) -> list[int]:
    if count > MAX_RANGE:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(key_of(item), item)
    return list(found.values())


def _sort(items: list[Any]) -> list[Any]:
    if any(item.__class__ is not items[0].__class__ for item in items):
        raise CelError("list elements must have the same type")
    try:
        return sorted(items)
    except TypeError:
        raise CelError(NO_OVERLOAD) from None


def _lists() -> None:
    for kind, zero in ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0))):
        method("sum", (list_of(kind),), kind, _sum(zero))
    for kind in _COMPARABLE:
        items = list_of(kind)
        method("min", (items,), kind, _least)
        method("max", (items,), kind, _greatest)
        method("isSorted", (items,), BOOL, _is_sorted)
        method("sort", (items,), items, _sort)
    method("indexOf", (list_of(A), A), INT, _index_of)
    method("lastIndexOf", (list_of(A), A), INT, _last_index_of)
    method("slice", (list_of(A), INT, INT), list_of(A), _slice)
    method("flatten", (list_of(list_of(A)),), list_of(A), _flatten)
    method("flatten", (list_of(DYN), INT), list_of(DYN), _flatten)
    method("distinct", (list_of(A),), list_of(A), _distinct)
    method("reverse", (list_of(A),), list_of(A), lambda items: items[::-1])
    method("first", (list_of(A),), optional_of(A), lambda items: Maybe(items[0]) if items else NONE)
    method("last", (list_of(A),), optional_of(A), lambda items: Maybe(items[-1]) if items else NONE)
    function("lists.range", (INT,), list_of(INT), _range)


def _sets() -> None:
    both = (list_of(A), list_of(A))
    function("sets.contains", both, BOOL, lambda a, b: _set(b) <= _set(a))
    function("sets.intersects", both, BOOL, lambda a, b: not _set(a).isdisjoint(_set(b)))
    function("sets.equivalent", both, BOOL, lambda a, b: _set(a) == _set(b))


def _set(items: list[Any]) -> set[Any]:
    return set(map(key_of, items))


_lists()
_sets()
