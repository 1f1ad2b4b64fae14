"""What calls cost: a table of functions whose cost grows with the size of their arguments.

All that is not named here costs 1, whatever it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from echelon.hub.cel_sizes import ANY, ONE, UNKNOWN, Extent, Size
from echelon.hub.cel_types import Type

TRAVERSAL, REGEX = 0.1, 0.25
"""Cost of a character that is read, and of one of a pattern."""
LIST, MAP = 10, 30
"""Cost of making a list or a map."""
_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_OPAQUE = ("kubernetes.", "net.")


class Part(NamedTuple):
    """One node: what it costs, how large its value can be, and what its schema says about it."""

    cost: int
    type: Type
    known: Size | None = None
    extent: Extent | None = None
    literal: object = None

    @property
    def size(self) -> Size:
        """Return the size of the value, as far as it is known."""
        if self.known is not None:
            return self.known
        if self.extent is not None and self.extent is not LOST:
            return self.extent.size
        return ONE if self.type.kind in _SCALARS or self.type.kind.startswith(_OPAQUE) else ANY


LOST = Extent(UNKNOWN, 0)
"""Stands for what a schema does not describe although it describes what is around it."""


def capped(cost: int) -> int:
    """Return a cost that does not exceed what can be counted."""
    return min(cost, UNKNOWN)


def scaled(amount: int, factor: float) -> int:
    """Return a part of an amount, rounded up."""
    return min(math.ceil(float(amount) * factor), UNKNOWN)


Cost = tuple[int, "Size | None"]
Call = Callable[[list[Part]], Cost]


def _read(index: int, factor: float = TRAVERSAL, *, is_kept: bool = False) -> Call:
    """Cost of reading one argument from end to end."""
    return lambda args: (scaled(args[index].size.most, factor), args[index].size if is_kept else None)


def _matches(args: list[Part]) -> Cost:
    text = scaled(capped(args[0].size.most + 1), TRAVERSAL)
    return capped(text * scaled(args[1].size.most, REGEX)), None


def _find(args: list[Part]) -> Cost:
    return _matches(args)[0], args[0].size


def _find_all(args: list[Part]) -> Cost:
    return _matches(args)[0], Size(0, args[0].size.most)


def _within(base: int) -> Call:
    """Cost of looking for an address or a network in a network; one that is text is read first."""

    def cost(args: list[Part]) -> Cost:
        read = scaled(args[1].size.most, TRAVERSAL) if args[1].type.kind == "string" else 0
        return capped(base + read), None

    return cost


def _contains(args: list[Part]) -> Cost:
    return capped(scaled(args[0].size.most, TRAVERSAL) * scaled(args[1].size.most, TRAVERSAL)), None


def _plus(args: list[Part]) -> Cost:
    kinds = {arg.type.kind for arg in args}
    size = args[0].size.plus(args[1].size)
    if "list" in kinds:
        return 1, size
    if kinds & {"string", "bytes"} or kinds == {"dyn"}:
        return scaled(size.most, TRAVERSAL), size
    return 1, None


def _in(args: list[Part]) -> Cost:
    return (1 if args[1].type.kind == "map" else args[1].size.most), None


def _over_items(args: list[Part]) -> Cost:
    """Cost of comparing every item of a list, or of searching a text."""
    target = args[0]
    if target.type.kind == "string":
        return scaled(target.size.most, TRAVERSAL), None
    each = 1
    if target.type.args and target.type.args[0].kind in ("string", "bytes"):
        inner = target.extent.inner.size if target.extent is not None and target.extent.inner else ANY
        each = capped(1 + scaled(inner.most, TRAVERSAL))
    return capped(target.size.most * each), None


def _replace(args: list[Part]) -> Cost:
    text, old, new = (arg.size for arg in args[:3])
    kept = text.most
    if old.least == 0:
        count = capped(text.most + 1)
    elif new.most <= old.least:
        count = 0
    else:
        count, kept = math.ceil(text.most / old.least), 0
    size = Size(0, capped(capped(count * new.most) + kept))
    return scaled(text.most, 2 * TRAVERSAL), size


def _split(args: list[Part]) -> Cost:
    text = args[0].size
    most = text.most
    if len(args) > 2 and isinstance(args[2].literal, int):
        most = args[2].literal if args[2].literal >= 0 else UNKNOWN
    return scaled(text.most, 2 * TRAVERSAL), Size(0, most)


def _join(args: list[Part]) -> Cost:
    items = args[0].size
    inner = args[0].extent.inner.size if args[0].extent is not None and args[0].extent.inner else ANY
    size = items.times(inner)
    if len(args) > 1:
        size = size.plus(args[1].size.times(Size(max(items.least - 1, 0), max(items.most - 1, 0))))
    return scaled(size.most, TRAVERSAL), size


def _sets(factor: int) -> Call:
    return lambda args: (capped(capped(args[0].size.most * args[1].size.most) * factor + 1), None)


def _bytes(args: list[Part]) -> Cost:
    if args[0].type.kind not in ("string", "dyn"):
        return 1, None
    size = args[0].size
    return scaled(size.most, TRAVERSAL), Size(size.least, capped(size.most * 4))


def _string(args: list[Part]) -> Cost:
    if args[0].type.kind not in ("bytes", "dyn"):
        return 1, None
    size = args[0].size
    return scaled(size.most, TRAVERSAL), Size(size.least // 4, size.most)


def _quote(args: list[Part]) -> Cost:
    size = args[0].size
    return scaled(size.most, TRAVERSAL), Size(size.least + 2, capped(size.most * 2 + 2))


def _validate(args: list[Part]) -> Cost:
    return capped(scaled(args[1].size.most, TRAVERSAL) * scaled(FORMAT, REGEX)), None


def _range(args: list[Part]) -> Cost:
    count = args[0].literal if isinstance(args[0].literal, int) else UNKNOWN
    return capped(count + LIST + 1), Size(count, count)


def _distinct(args: list[Part]) -> Cost:
    most = args[0].size.most
    return capped(2 * most * most + LIST + 1), None


def sorted_cost(args: list[Part]) -> Cost:
    """Cost of comparing each item of a list with each other."""
    target = args[0]
    texts = bool(target.type.args) and target.type.args[0].kind in ("string", "bytes")
    each = (
        2
        if target.extent is None or target.extent.inner is None
        else scaled(target.extent.inner.most, TRAVERSAL)
    )
    return capped(_distinct(args)[0] + (each * target.size.most if texts else 0)), None


def _slice(args: list[Part]) -> Cost:
    start, end = (arg.literal for arg in args[1:3])
    most = args[0].size.most
    if isinstance(start, int) and isinstance(end, int):
        most = min(most, max(end - start, 0))
    return capped(most + LIST + 1), Size(0, most)


def _copied(args: list[Part]) -> Cost:
    return capped(args[0].size.most + LIST + 1), args[0].size


FORMAT = 128
"""Characters of the pattern that a named format counts as."""

CALLS: dict[str, Call] = {
    "bytes": _bytes,
    "dyn": lambda args: (1, args[0].size),
    "lists.range": _range,
    "distinct": _distinct,
    "flatten": _copied,
    "reverse": _copied,
    "slice": _slice,
    "sort": sorted_cost,
    "string": _string,
    "strings.quote": _quote,
    "validate": _validate,
    "_+_": _plus,
    "@in": _in,
    "matches": _matches,
    "containsCIDR": _within(7),
    "containsIP": _within(4),
    "find": _find,
    "findAll": _find_all,
    "contains": _contains,
    "startsWith": _read(1),
    "endsWith": _read(1),
    "lowerAscii": _read(0, is_kept=True),
    "upperAscii": _read(0, is_kept=True),
    "substring": _read(0, is_kept=True),
    "trim": _read(0, is_kept=True),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "indexOf": _over_items,
    "lastIndexOf": _over_items,
    "sum": _over_items,
    "min": _over_items,
    "max": _over_items,
    "isSorted": _over_items,
    "format": _read(0),
    "url": _read(0),
    "ip": _read(0),
    "ip.isCanonical": _read(0, 2 * TRAVERSAL),
    "isIP": _read(0),
    "cidr": _read(0),
    "isCIDR": _read(0),
    "quantity": _read(0),
    "isQuantity": _read(0),
    "semver": _read(0),
    "isSemver": _read(0),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
