"""Static types of CEL expressions, and how schemas declare them.

What it decides: which type a schema node has inside CEL, how raw JSON becomes a
value of that type (a `number` is a double even when written `1`), whether an
argument fits a parameter, and how types are printed in compile errors.

What it must never do: look at the objects; that is the evaluator's.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from echelon.hub.cel_values import CelError, parse_date, parse_loose_duration, parse_time
from echelon.hub.schema_node import JSON, Schema

Convert = Callable[[Any], Any]


class Type:
    """A static type: a kind, its arguments, and for objects and typed lists their schema."""

    __slots__ = ("_fields", "args", "is_open", "kind", "schema")

    def __init__(
        self, kind: str, args: tuple[Type, ...] = (), schema: Schema | None = None, *, is_open: bool = False
    ) -> None:
        self.kind = kind
        self.is_open = is_open
        """Any field may be selected; its type is not known."""
        self.args = args
        self.schema = schema
        self._fields: dict[str, tuple[str, Type]] | None = None

    def __str__(self) -> str:
        if self.kind == "optional" or not self.args:
            name = _PRINTED.get(self.kind, self.kind)
            return f"{name}({', '.join(map(str, self.args))})" if self.args else name
        return f"{self.kind}({', '.join(map(str, self.args))})"

    def __repr__(self) -> str:
        return str(self)

    def field(self, name: str) -> tuple[str, Type] | None:
        """Return the JSON name and the type of an object's field."""
        if self._fields is None:
            self._fields = _object_fields(self.schema) if self.schema is not None else {}
        return self._fields.get(name)


_PRINTED = {"null_type": "null", "optional": "optional_type", "param": "A"}

INT, UINT, DOUBLE, BOOL, STRING, BYTES = map(Type, ("int", "uint", "double", "bool", "string", "bytes"))
NULL, DYN, ERROR, TYPE = map(Type, ("null_type", "dyn", "error", "type"))
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
A, B = Type("param"), Type("param")


def list_of(item: Type, schema: Schema | None = None) -> Type:
    """Return the type of lists of `item`."""
    return Type("list", (item,), schema)


FREE = Type("dyn")
"""What an empty literal holds: anything that what stands beside it holds."""
EMPTY_LIST = list_of(FREE)
"""The type of `[]`: the other side of a conditional says what it is a list of."""


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    """Return the type of optional values."""
    return Type("optional", (item,))


_RESERVED = (
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def escape(name: str) -> str | None:
    """Return the CEL name of a field, or None if it has none."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    for text, escaped in _ESCAPES:
        name = name.replace(text, escaped)
    return name


def _object_fields(schema: Schema) -> dict[str, tuple[str, Type]]:
    fields: dict[str, tuple[str, Type]] = {}
    for name, child in schema.properties.items():
        escaped = escape(name)
        declared = type_of(child)
        if escaped is not None and declared is not None:
            fields[escaped] = (name, declared)
    return fields


def with_type_meta(schema: Schema) -> Schema:
    """Return the schema of a resource with the fields that rules may always use."""
    node = Schema()
    node.type = "object"
    node.properties = dict(schema.properties)
    node.required = schema.required
    node.preserve_unknown = schema.preserve_unknown
    node.list_type, node.map_type = schema.list_type, schema.map_type
    text = Schema()
    text.type = "string"
    metadata = Schema()
    metadata.type = "object"
    metadata.properties = {"name": text, "generateName": text}
    node.properties |= {"apiVersion": text, "kind": text, "metadata": metadata}
    return node


def type_of(schema: Schema, *, root: bool = False) -> Type | None:
    """Return the CEL type of a schema node, or None if rules cannot see it."""
    if schema.int_or_string:
        return DYN
    if root or schema.embedded_resource:
        return Type("object", (), with_type_meta(schema))
    if schema.type == "array":
        item = type_of(schema.items) if schema.items is not None else None
        if item is None:
            return None
        return list_of(item, schema if schema.list_type in ("set", "map") else None)
    if schema.type == "object":
        return _type_of_object(schema)
    if schema.preserve_unknown and schema.type is None:
        return None
    kind = schema.type or ""
    return _SCALARS.get((kind, schema.format or "")) or _SCALARS.get((kind, ""))


def _type_of_object(schema: Schema) -> Type | None:
    if isinstance(schema.additional, Schema):
        value = type_of(schema.additional)
        return map_of(STRING, value) if value is not None else None
    return Type("object", (), schema)


_SCALARS = {
    ("string", ""): STRING,
    ("string", "byte"): BYTES,
    ("string", "date-time"): TIMESTAMP,
    ("string", "date"): TIMESTAMP,
    ("string", "duration"): DURATION,
    ("integer", ""): INT,
    ("number", ""): DOUBLE,
    ("boolean", ""): BOOL,
}


def converter(schema: Schema) -> Convert | None:
    """Return how raw JSON of this schema becomes a CEL value, or None if it is one already."""
    if schema.int_or_string:
        return None
    if schema.type == "number":
        return lambda value: float(value) if value.__class__ is int else value
    if schema.type == "string":
        return _STRING_CONVERTERS.get(schema.format)
    if schema.type == "array" and schema.items is not None:
        item = converter(schema.items)
        if item is not None:
            return lambda value: [each if each is None else item(each) for each in value]
    elif schema.type == "object" and isinstance(schema.additional, Schema):
        inner = converter(schema.additional)
        if inner is not None:
            return lambda value: {key: each if each is None else inner(each) for key, each in value.items()}
    return None


def _bytes(text: JSON) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise CelError("type conversion error: illegal base64 data") from None


_STRING_CONVERTERS: dict[str, Convert] = {
    "byte": _bytes,
    "date-time": parse_time,
    "date": parse_date,
    "duration": parse_loose_duration,
}


Bound = dict[int, Type]
"""What the type parameters A and B stand for, by identity."""


def fits(argument: Type, parameter: Type, bound: Bound) -> bool:
    """Tell whether an argument may be passed for a parameter; binds type parameters."""
    if parameter.kind == "param":
        known = bound.get(id(parameter))
        if known is None or known.kind in ("dyn", "error"):
            bound[id(parameter)] = argument
            return True
        if fits(argument, known, bound):
            return True
        if fits(known, argument, bound):  # null may give way to what is more telling
            bound[id(parameter)] = argument
            return True
        return False
    if argument.kind in ("dyn", "error", "param") or parameter.kind in ("dyn", "error"):
        return True
    if argument.kind != parameter.kind:
        return argument.kind == "null_type" and parameter.kind in _NULLABLE
    if argument.kind == "object":
        return argument.schema is parameter.schema or (
            argument.schema is not None
            and parameter.schema is not None
            and argument.schema.properties.keys() == parameter.schema.properties.keys()
        )
    return all(fits(a, p, bound) for a, p in zip(argument.args, parameter.args, strict=False))


_NULLABLE = frozenset(("object", "timestamp", "duration", "optional"))


def resolve(declared: Type, bound: Bound) -> Type:
    """Replace type parameters by what they stand for."""
    if declared.kind == "param":
        return bound.get(id(declared), DYN)
    if not declared.args:
        return declared
    return Type(declared.kind, tuple(resolve(item, bound) for item in declared.args), declared.schema)


def alike(left: Type, right: Type) -> bool:
    """Tell whether two values may stand in one literal: all its items are of one type, and dyn is one of its own."""
    if left is FREE or right is FREE:
        return True
    if left.kind == "object":
        return fits(left, right, {})
    return (
        left.kind == right.kind
        and len(left.args) == len(right.args)
        and all(map(alike, left.args, right.args))
    )


def join(left: Type, right: Type) -> Type:
    """Return the type of something that is either of two."""
    if left is EMPTY_LIST and right.kind == "list":
        return right
    if left.kind in ("dyn", "error"):
        return right if left.kind == "error" else DYN
    if right.kind in ("dyn", "error"):
        return left if right.kind == "error" else DYN
    if fits(right, left, {}):
        return left
    return right if fits(left, right, {}) else DYN
