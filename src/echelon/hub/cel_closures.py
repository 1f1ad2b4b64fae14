"""Closures that compiled expressions are made of: calls, lists, maps, and what they cost.

What it must never do: know types; the compiler has checked them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from echelon.hub.cel_types import Type
from echelon.hub.cel_values import NO_OVERLOAD, NONE, CelError

Frame = list[Any]
Eval = Callable[[Frame], Any]
NOT_CONSTANT: Any = object()
"""Marks a part whose value is not known when the expression is compiled."""

MAX_WORK = 1_000_000
"""Steps one evaluation may take, as kube-apiserver limits a call."""
OVER_LIMIT = "operation cancelled: actual cost limit exceeded"


class Term(NamedTuple):
    """A compiled part: what type it has, how to get its value, and its constant value if it has one."""

    type: Type
    get: Eval
    constant: Any = NOT_CONSTANT

    @property
    def is_constant(self) -> bool:
        """Tell whether the value is known now."""
        return self.constant is not NOT_CONSTANT


def never(_frame: Frame) -> Any:
    """Fail: stands where a part could not be compiled."""
    raise CelError(NO_OVERLOAD)


def list_with_optionals(gets: list[Eval], optional: frozenset[int]) -> Eval:
    """Return a list literal some of whose items may be absent."""

    def make(frame: Frame) -> list[Any]:
        made = []
        for index, get in enumerate(gets):
            value = get(frame)
            if index not in optional:
                made.append(value)
            elif value is not NONE:
                made.append(value.value)
        return made

    return make


def made_map(frame: Frame, pairs: list[tuple[Eval, Eval, bool]]) -> dict[Any, Any]:
    """Return the value of a map literal."""
    made: dict[Any, Any] = {}
    for key, item, optional in pairs:
        name, value = key(frame), item(frame)
        if optional:
            if value is NONE:
                continue
            value = value.value
        if name in made:
            raise CelError(f"insert failed: key {name} already exists")
        made[name] = value
    return made


def call_with(fn: Callable[..., Any], gets: list[Eval], *, cost: bool = False) -> Eval:
    """Return the closure that calls a function with the values of its arguments."""
    if cost:
        return _paid(fn, gets)
    if len(gets) == 2:
        first, second = gets
        return lambda frame: fn(first(frame), second(frame))
    if len(gets) == 1:
        only = gets[0]
        return lambda frame: fn(only(frame))
    return lambda frame: fn(*[get(frame) for get in gets])


def _paid(fn: Callable[..., Any], gets: list[Eval]) -> Eval:
    def call(frame: Frame) -> Any:
        values = [get(frame) for get in gets]
        for value in values:
            if value.__class__ in _SIZED:
                frame[0] -= 1 + len(value) // 10
                if frame[0] > 0 and value.__class__ is list and not _NESTED.isdisjoint(map(type, value)):
                    frame[0] -= _tenths(value, frame[0])
        if frame[0] < 0:
            raise CelError(OVER_LIMIT)
        made = fn(*values)
        if made.__class__ in _SIZED and len(made) > FREE_SIZE:
            frame[0] -= len(made) // 10
            if frame[0] < 0:
                raise CelError(OVER_LIMIT)
        return made

    return call


FREE_SIZE = 16
"""Texts, lists and maps up to this size are compared and returned for nothing."""


def compare_with(fn: Callable[[Any, Any], bool], left: Eval, right: Eval) -> Eval:
    """Return the closure of == or != over values that may be large; it pays for their size."""

    def compared(frame: Frame) -> bool:
        first, second = left(frame), right(frame)
        if first.__class__ in _SIZED:
            if first is second:
                return fn((), ())
            frame[0] -= _tenths(first, frame[0])
            if frame[0] < 0:
                raise CelError(OVER_LIMIT)
        return fn(first, second)

    return compared


def _tenths(value: Any, budget: int) -> int:
    """Return a tenth of the number of a value's parts, or a little more than the budget.

    The counting itself is bounded: the same list may be in a value a million times.
    """
    parts, limit = 0, budget * 10 + 9
    left: list[Any] = [value]
    while left and parts <= limit:
        part = left.pop()
        kind = type(part)
        if kind is str or kind is bytes:
            parts += len(part) // 10
        else:
            parts += len(part)
            inner: Iterable[Any] = part if kind is list else part.values()
            left.extend(item for item in inner if type(item) in _SIZED)
    return parts // 10


_NESTED = frozenset((list, dict))
_SIZED = frozenset((str, bytes, list, dict))
COSTLY = frozenset(
    [
        "matches",
        "find",
        "findAll",
        "contains",
        "indexOf",
        "lastIndexOf",
        "replace",
        "split",
        "join",
        "format",
        "charAt",
        "substring",
        "lowerAscii",
        "upperAscii",
        "trim",
        "reverse",
        "_+_",
        "@in",
        "sum",
        "min",
        "max",
        "isSorted",
        "quantity",
        "url",
        "ip",
        "cidr",
        "sets.contains",
        "sets.intersects",
        "sets.equivalent",
        "flatten",
        "lists.range",
        "slice",
        "distinct",
        "sort",
    ]
)
