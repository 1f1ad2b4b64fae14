"""How large values can be at most, by their schema: what the estimated cost of a CEL rule is made of.

Where a schema sets no limit, the largest request that a server takes is one.
"""

from __future__ import annotations

from typing import NamedTuple

from echelon.hub.cel_types import escape, with_type_meta
from echelon.hub.schema_node import Schema

UNKNOWN = 2**64 - 1
"""As much as there can be; costs and sizes never grow beyond it."""
MAX_REQUEST = 3 * 1024 * 1024
MIN_STRING, MIN_NUMBER, MIN_BOOLEAN = 2, 1, 4
BYTES_PER_CHARACTER = 4
_TEXTS = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""By format: characters at most, and bytes at least with the quotation marks."""


class Size(NamedTuple):
    """The least and most a value can measure: characters, items or entries."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """Return the size of both together."""
        return Size(min(self.least + other.least, UNKNOWN), min(self.most + other.most, UNKNOWN))

    def times(self, other: Size) -> Size:
        """Return the size of one in every one of the other."""
        return Size(min(self.least * other.least, UNKNOWN), min(self.most * other.most, UNKNOWN))

    def either(self, other: Size) -> Size:
        """Return the size of something that is one or the other."""
        return Size(min(self.least, other.least), max(self.most, other.most))


ANY = Size(0, UNKNOWN)
ONE = Size(1, 1)


class Extent:
    """What a schema says about the size of its values, and of those inside."""

    __slots__ = ("fields", "inner", "key", "least_bytes", "most")

    def __init__(self, most: int, least_bytes: int) -> None:
        self.most = most
        self.least_bytes = least_bytes
        """Bytes that the smallest value takes in a request."""
        self.fields: dict[str, Extent] = {}
        self.inner: Extent | None = None
        self.key: Extent | None = None

    @property
    def size(self) -> Size:
        """Return the size of a value."""
        return Size(0, self.most)


def extent_of(schema: Schema, *, root: bool = False) -> Extent | None:
    """Return the extent of a schema's values; None where rules cannot see them."""
    if schema.int_or_string:
        return Extent(MAX_REQUEST - 2, 1)
    if root or schema.embedded_resource:
        return _object(with_type_meta(schema))
    if schema.type == "array":
        return _array(schema)
    if schema.type == "object":
        return _map(schema, schema.additional) if isinstance(schema.additional, Schema) else _object(schema)
    if schema.type == "string":
        return _text(schema)
    if schema.type in ("integer", "number"):
        return Extent(0, MIN_NUMBER)
    return Extent(0, MIN_BOOLEAN) if schema.type == "boolean" else None


def _array(schema: Schema) -> Extent | None:
    inner = extent_of(schema.items) if schema.items is not None else None
    if inner is None:
        return None
    most = schema.max_items
    if most is None:
        most = (MAX_REQUEST - 2) // (inner.least_bytes + 1)
    made = Extent(max(most, 0), 2)
    made.inner = inner
    return made


def _map(schema: Schema, values: Schema) -> Extent | None:
    inner = extent_of(values)
    if inner is None:
        return None
    most = schema.max_properties
    if most is None:
        most = (MAX_REQUEST - 2) // (inner.least_bytes + 6)
    made = Extent(max(most, 0), 2)
    made.inner, made.key = inner, Extent(0, MIN_STRING)  # keys count for nothing
    return made


def _object(schema: Schema) -> Extent:
    made = Extent(0, 2)
    for name, child in schema.properties.items():
        inner = extent_of(child)
        if inner is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            made.fields[escaped] = inner
        if name in schema.required and not child.has_default:
            made.least_bytes += len(name) + inner.least_bytes + 4
    return made


def _text(schema: Schema) -> Extent:
    if schema.format in _TEXTS:
        return Extent(*_TEXTS[schema.format])
    if schema.max_length is not None:
        scale = 1 if schema.format == "byte" else BYTES_PER_CHARACTER
        return Extent(max(schema.max_length, 0) * scale, MIN_STRING)
    if schema.enum and schema.format != "byte":
        return Extent(max(len(value) for value in schema.enum if isinstance(value, str)), MIN_STRING)
    return Extent(MAX_REQUEST - 2, MIN_STRING)


def most_times(least_bytes: int) -> int:
    """Return how often a value can be there at most inside lists and maps without a limit."""
    return MAX_REQUEST // (least_bytes + 1)
