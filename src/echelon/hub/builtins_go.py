"""Objects of built-in kinds as a Go program holds and prints them.

A real API server reads an object into structs, stores it as protocol buffers and prints it from structs again. So an
empty list, map, text, number or `false` is no value at all where the field may be left out, and a field that is always
printed is there even if nobody said anything: a list as null, a text as "", a struct as {}. Which fields are which
stands in `data/wire.json`.

What it must never do: judge values; one of the wrong type was refused before.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from echelon.hub.gotypes import Field, go_types

Json = dict[str, Any]

_ZEROS: dict[str, Any] = {"s": "", "i": 0, "b": False, "d": 0, "y": None, "I": 0, "Q": "0", "D": "0s"}
"""What a field that is always printed shows when nothing is in it; null if not named here."""


class GoType:
    """One struct, compiled: what to drop, what to add, and where to go on."""

    __slots__ = ("always", "below", "hidden")

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        """Fields that are not printed when they are empty."""
        self.always: list[tuple[str, Any]] = []
        """Fields that are always printed, with their zero; that of a struct is a `GoType`."""
        self.below: list[tuple[str, str, GoType]] = []
        """Fields that hold structs: name, shape (one, list or map) and the type."""

    def settle(self, obj: Json) -> None:
        """Take out what is empty and may be left out; add what is always printed."""
        for name in [name for name, value in obj.items() if not value and name in self.hidden]:
            del obj[name]
        for name, zero in self.always:
            if obj.get(name) is None:
                obj[name] = {} if isinstance(zero, GoType) else zero
        for name, shape, child in self.below:
            value = obj.get(name)
            if value is not None:
                for each in _structs(value, shape):
                    child.settle(each)

    def forget_empty(self, obj: Json) -> None:
        """Print empty lists as null: in store they are nothing."""
        for name, zero in self.always:
            if zero is None and obj.get(name) == []:
                obj[name] = None
        for name, shape, child in self.below:
            value = obj.get(name)
            if value:
                for each in _structs(value, shape):
                    child.forget_empty(each)


def _structs(value: Any, shape: str) -> list[Json]:
    if shape == "one":
        return [value] if value.__class__ is dict else []
    items = value if shape == "list" else value.values()
    return [item for item in items if item.__class__ is dict]


_made: dict[str, GoType] = {}


def go_type(name: str) -> GoType:
    """Return a struct by name; one that holds itself finds itself."""
    found = _made.get(name)
    if found is None:
        found = _made[name] = GoType()
        for field in go_types().types[name].values():
            _add(found, field)
    return found


def _add(into: GoType, field: Field) -> None:
    code = field.code
    if code[0] == "^":  # its fields belong to the object around it
        for inner in go_types().types[code[2:]].values():
            _add(into, inner)
        return
    target = code.rpartition("@")[2] if "@" in code else ""
    if target:
        shape = {"[": "list", "{": "map"}.get(code[0], "one")
        into.below.append((field.name, shape, go_type(target)))
    if field.always:
        into.always.append((field.name, go_type(target) if code[0] == "@" else _ZEROS.get(code[0])))
    elif code[0] in "[{sibdyV":
        into.hidden.add(field.name)


def settle(api_version: str, kind: str, obj: Json) -> None:
    """Make an object of a built-in kind what a Go program would print of it; its own metadata is left alone."""
    name = go_types().kinds.get(f"{api_version}/{kind}")
    if name is not None:
        _root(name).settle(obj)


def forget_empty(api_version: str, kind: str, obj: Json) -> None:
    """Make an object of a built-in kind what is printed of it once it was stored."""
    name = go_types().kinds.get(f"{api_version}/{kind}")
    if name is not None:
        _root(name).forget_empty(obj)


@cache
def _root(name: str) -> GoType:
    whole, root = go_type(name), GoType()
    apart = ("metadata", "apiVersion", "kind")
    root.hidden = whole.hidden.difference(apart)
    root.always = [pair for pair in whole.always if pair[0] not in apart]
    root.below = [entry for entry in whole.below if entry[0] not in apart]
    return root


@cache
def nothing(definition: str) -> Json:
    """Return what a Go program holds of a kind before anything is said: what is always printed, empty. Never change it."""
    name = definition.removeprefix("io.k8s.api.")
    made: Json = {}
    if name in go_types().types:
        _root(name).settle(made)
    return made
