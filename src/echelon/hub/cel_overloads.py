"""Overloads: which functions CEL has for which types, and how one is chosen.

What it does: keeps the table of functions and methods that the library modules
fill at import, and makes the call: by the static types where they tell, by the
classes of the values where an argument is dynamic.

What it must never do: know syntax, or evaluate lazily: arguments are values here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from echelon.hub.cel_types import Bound, Type, fits, join, resolve
from echelon.hub.cel_values import NO_OVERLOAD, CelError, Duration, Maybe, Timestamp, TypeValue, UInt


class Overload(NamedTuple):
    """One signature of a function and what computes it."""

    params: tuple[Type, ...]
    result: Type
    fn: Callable[..., Any]


FUNCTIONS: dict[str, list[Overload]] = {}
"""Global functions and operators, by name; a namespaced one as `sets.contains`."""
METHODS: dict[str, list[Overload]] = {}
"""Methods by name; the target is the first parameter."""


def function(name: str, params: tuple[Type, ...], result: Type, fn: Callable[..., Any]) -> None:
    """Add a signature of a global function."""
    FUNCTIONS.setdefault(name, []).append(Overload(params, result, fn))


def method(name: str, params: tuple[Type, ...], result: Type, fn: Callable[..., Any]) -> None:
    """Add a signature of a method."""
    METHODS.setdefault(name, []).append(Overload(params, result, fn))


_CLASSES: dict[str, type] = {
    "int": int,
    "uint": UInt,
    "double": float,
    "bool": bool,
    "string": str,
    "bytes": bytes,
    "list": list,
    "map": dict,
    "object": dict,
    "timestamp": Timestamp,
    "duration": Duration,
    "null_type": type(None),
    "type": TypeValue,
    "optional": Maybe,
}


def opaque(kind: str, of: type) -> Type:
    """Declare a type of values that only library functions can look into."""
    _CLASSES[kind] = of
    return Type(kind)


class Choice(NamedTuple):
    """What a call resolves to: its result type and the function to call with the values."""

    result: Type
    fn: Callable[..., Any]


def choose(overloads: list[Overload], args: list[Type]) -> Choice | None:
    """Choose by static types; with dynamic arguments the choice is made again for each call."""
    found: list[tuple[Overload, Bound]] = []
    for overload in overloads:
        if len(overload.params) != len(args):
            continue
        bound: Bound = {}
        if all(fits(arg, param, bound) for arg, param in zip(args, overload.params, strict=True)):
            found.append((overload, bound))
    if not found:
        return None
    result = resolve(found[0][0].result, found[0][1])
    for overload, bound in found[1:]:
        result = join(result, resolve(overload.result, bound))
    if len(found) == 1 and not any(
        _unsure(arg, param) for arg, param in zip(args, found[0][0].params, strict=True)
    ):
        return Choice(result, found[0][0].fn)
    return Choice(result, _at_run_time([overload for overload, _ in found]))


def _unsure(arg: Type, param: Type) -> bool:
    return arg.kind in ("dyn", "error", "param") and param.kind in _CLASSES


def _at_run_time(overloads: list[Overload]) -> Callable[..., Any]:
    table = [
        (tuple(_CLASSES.get(param.kind) for param in overload.params), overload.fn) for overload in overloads
    ]

    def call(*values: Any) -> Any:
        for classes, fn in table:
            for value, wanted in zip(values, classes, strict=True):
                if wanted is not None and value.__class__ is not wanted:
                    break
            else:
                return fn(*values)
        raise CelError(NO_OVERLOAD)

    return call
