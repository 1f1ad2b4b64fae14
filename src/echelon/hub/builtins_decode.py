"""Objects of built-in kinds as Go would decode them: a value of the wrong type is an error of reading.

What it decides: the first value that does not fit its field's type, worded as Go's
JSON decoder words it.

What it must never do: look at objects that fit; `schema_ok` has said yes or no first. Nor change others than those with
bytes that came as a list of numbers.
"""

from __future__ import annotations

import base64
from typing import Any

from echelon.hub.cel_values import CelError, parse_time
from echelon.hub.gotext import number
from echelon.hub.kinds import Kind
from echelon.hub.schema_node import JSON, Schema
from echelon.hub.schema_ok import is_ok
from echelon.hub.status import StatusError, bad_request
from echelon.rules.quantity import InvalidQuantity, parse_quantity

Json = dict[str, Any]

_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_RANGES = {"int32": 2**31, "int64": 2**63}
BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def unreadable(kind: Kind, problem: str) -> StatusError:
    """Answer that an object cannot be read as its kind."""
    return bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {problem}'
    )


def check(kind: Kind, schema: Schema, obj: Json) -> None:
    """Refuse an object that Go could not decode."""
    if is_ok(schema, obj):
        return
    found = _object(schema, obj, "", kind.kind)
    if found:
        raise unreadable(kind, found)
    read_bytes(schema, obj)


def problem(schema: Schema, obj: Json, name: str) -> str:
    """Say why Go could not decode an object, its metadata apart."""
    return "" if is_ok(schema, obj) else _object(schema, obj, "", name)


def _value(schema: Schema, value: JSON, path: str, struct: str) -> str:
    if value is None:
        return ""
    if schema.int_or_string:
        return _either(schema, value, path, struct)
    if schema.type is None or (schema.format == "byte" and _is_bytes(value)):
        return ""
    if schema.format == "byte" and type(value) is list:
        bad = next(item for item in value if not _is_bytes([item]))
        given = f"number {number(bad)}" if type(bad) in (int, float) else _NAMES[type(bad)]
        return f"json: cannot unmarshal {given} into Go struct field {_field(struct, path)} of type uint8"
    if type(value) not in _PYTHON[schema.type]:
        return _wrong(_NAMES[type(value)], schema, path, struct)
    if schema.type == "object":
        return _object(schema, value, path, struct)
    if schema.type == "array" and schema.items is not None:
        for item in value:
            wrong = _value(schema.items, item, path, struct)
            if wrong:
                return wrong
        return ""
    if schema.type == "integer":
        limit = _RANGES.get(schema.format, 2**63)
        whole = value.__class__ is int or value.is_integer()
        if not whole or not -limit <= value < limit or value.__class__ is float:
            return _wrong(f"number {number(value)}", schema, path, struct)
    if schema.format == "byte" and schema.type == "string":
        return _base64(value)
    if schema.format == "date-time":
        try:
            parse_time(value)
        except CelError as error:
            return str(error)
    return ""


def _is_bytes(value: JSON) -> bool:
    """Say whether a value is bytes as a list of numbers, which Go reads too; null is zero."""
    return type(value) is list and all(
        item is None or (type(item) is int and 0 <= item <= 255) for item in value
    )


def read_bytes(schema: Schema, value: JSON) -> JSON:
    """Return a value with bytes that came as lists of numbers written as everywhere else."""
    if schema.format == "byte" and _is_bytes(value):
        return base64.b64encode(bytes(item or 0 for item in value)).decode()
    if type(value) is dict:
        for key, item in value.items():
            child = schema.properties.get(key, schema.additional)
            if type(item) in (dict, list) and isinstance(child, Schema):
                value[key] = read_bytes(child, item)
    elif type(value) is list and schema.items is not None:
        value[:] = [read_bytes(schema.items, item) for item in value]
    return value


def _base64(text: str) -> str:
    """Check base64 as Go's decoder does, which names the first byte that is wrong."""
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        bad = (
            at
            for at, char in enumerate(text)
            if not char.isascii() or not (char.isalnum() or char in "+/\r\n")
        )
        return f"illegal base64 data at input byte {next(bad, len(text))}"
    return ""


def _either(schema: Schema, value: JSON, path: str, struct: str) -> str:
    if schema.format == "quantity":
        try:
            parse_quantity(str(value))
        except InvalidQuantity:
            return BAD_QUANTITY
        return "" if value.__class__ in (str, int, float) else BAD_QUANTITY
    if value.__class__ in (str, int):
        return ""
    return f"json: cannot unmarshal {_NAMES[value.__class__]} into Go struct field {_field(struct, path)} of type int32"


def _wrong(given: str, schema: Schema, path: str, struct: str) -> str:
    return f"json: cannot unmarshal {given} into Go struct field {_field(struct, path)} of type {go_type(schema)}"


def _field(struct: str, path: str) -> str:
    return f"{struct}.{path}" if path else struct


def go_type(schema: Schema) -> str:
    """Name the Go type of a field."""
    if schema.ref and schema.type == "object":
        *_, package, name = schema.ref.split(".")
        return f"{package}.{name}"
    if schema.type == "array":
        if schema.format == "byte":
            return "[]uint8"
        return f"[]{go_type(schema.items)}" if schema.items is not None else "[]interface {}"
    if schema.type == "object":
        inner = schema.additional if isinstance(schema.additional, Schema) else None
        return f"map[string]{go_type(inner)}" if inner is not None else "map[string]interface {}"
    if schema.type == "integer":
        return schema.format or "int64"
    if schema.type == "string" and schema.format == "byte":
        return "[]uint8"
    return {"string": "string", "boolean": "bool", "number": "float64"}.get(schema.type or "", "interface {}")


def _object(schema: Schema, value: Json, path: str, struct: str) -> str:
    name = schema.ref.rsplit(".", 1)[-1] if schema.ref else struct
    for key, item in value.items():
        child = schema.properties.get(key)
        if child is None and isinstance(schema.additional, Schema):
            wrong = _value(schema.additional, item, path, struct)
        elif child is None or (not path and key == "metadata"):
            continue
        else:
            wrong = _value(child, item, f"{path}.{key}" if path else key, name)
        if wrong:
            return wrong
    return ""
