"""Selecting fields: `self.spec`, `has(self.spec)`, `self.?spec`, on objects, maps and dynamic values.

What it decides: the type of a field by the schema, and what an absent or null
field means: in objects with declared properties a null counts as absent.

What it must never do: report; problems go back to the compiler as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.hub.cel_types import BOOL, DYN, Convert, Type, converter, optional_of
from echelon.hub.cel_values import NO_OVERLOAD, NONE, CelError, Maybe

Eval = Callable[[list[Any]], Any]
Found = tuple[Type, Eval]


def field_of(operand: Type, name: str) -> tuple[str, Type, Convert | None, bool] | str:
    """Return the JSON name, type and converter of a field and whether null is absence; or what is wrong."""
    if operand.kind == "object":
        known = operand.field(name)
        if known is None:
            return f"undefined field '{name}'"
        json_name, declared = known
        schema = operand.schema.properties[json_name] if operand.schema is not None else None
        return json_name, declared, converter(schema) if schema is not None else None, True
    if operand.kind == "map" and operand.args[0].kind in ("string", "dyn"):
        return name, operand.args[1], None, False
    if operand.kind == "dyn" or operand.is_open:
        return name, DYN, None, False
    return f"type '{operand}' does not support field selection"


def select(operand: Type, get: Eval, name: str, *, optional: bool) -> Found | str:
    """Return the type and closure of a selection, or what is wrong with it."""
    through = operand.kind == "optional"
    inner = operand.args[0] if through else operand
    field = field_of(inner, name)
    if isinstance(field, str):
        return field
    json_name, declared, convert, _null_is_absent = field
    if not optional and not through:
        if inner.kind == "object":
            return declared, _field_of_object(get, json_name, convert)
        return declared, _field_of_map(get, json_name)
    result = declared if declared.kind == "optional" else optional_of(declared)
    return result, _maybe(get, json_name, convert, through=through)


def present(operand: Type, get: Eval, name: str) -> Found | str:
    """Return the closure of `has(operand.name)`, or what is wrong with it."""
    through = operand.kind == "optional"
    field = field_of(operand.args[0] if through else operand, name)
    if isinstance(field, str):
        return field
    json_name, _, _, null_is_absent = field
    if through:
        look = _maybe(get, json_name, None, through=True)
        return BOOL, lambda frame: look(frame) is not NONE
    if null_is_absent and isinstance(get, Variable):
        slot = get.slot
        return BOOL, lambda frame: frame[slot].get(json_name) is not None
    if null_is_absent:
        return BOOL, lambda frame: get(frame).get(json_name) is not None

    def has_key(frame: list[Any]) -> bool:
        value = get(frame)
        if not isinstance(value, dict):
            raise CelError(NO_OVERLOAD)
        return json_name in value

    return BOOL, has_key


class Variable:
    """The value of a name; fields selected from it read the frame themselves, which saves a call."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __call__(self, frame: list[Any]) -> Any:
        """Return the value."""
        return frame[self.slot]


def _field_of_object(get: Eval, name: str, convert: Convert | None) -> Eval:
    if isinstance(get, Variable) and convert is None:
        return _field_of_variable(get.slot, name)

    def field(frame: list[Any]) -> Any:
        value = get(frame).get(name)
        if value is None:
            raise CelError(f"no such key: {name}")
        return value

    if convert is None:
        return field
    return lambda frame: convert(field(frame))


def _field_of_variable(slot: int, name: str) -> Eval:
    def field(frame: list[Any]) -> Any:
        value = frame[slot].get(name)
        if value is None:
            raise CelError(f"no such key: {name}")
        return value

    return field


def _field_of_map(get: Eval, name: str) -> Eval:
    def field(frame: list[Any]) -> Any:
        holder = get(frame)
        if not isinstance(holder, dict):  # the variables of a policy are a dict that works them out
            raise CelError(NO_OVERLOAD)
        if name not in holder:
            raise CelError(f"no such key: {name}")
        return holder[name]

    return field


def _maybe(get: Eval, name: str, convert: Convert | None, *, through: bool) -> Eval:
    def field(frame: list[Any]) -> Any:
        holder = get(frame)
        if through:
            if holder is NONE:
                return NONE
            holder = holder.value
        if holder.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        value = holder.get(name)
        if value is None:
            return NONE
        return Maybe(convert(value) if convert is not None else value)

    return field
