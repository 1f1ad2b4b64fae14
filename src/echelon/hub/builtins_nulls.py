"""Nulls inside lists and maps of built-in kinds: Go's decoder makes them the empty value of the element.

Looks only at requests that can hold a null; named fields that are null count as
absent elsewhere.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.schema_node import Schema

Json = dict[str, Any]

_EMPTY: dict[str | None, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def fill(schema: Schema, value: Any) -> None:
    """Replace nulls in place."""
    if isinstance(value, dict):
        additional = schema.additional if isinstance(schema.additional, Schema) else None
        for key, item in value.items():
            child = schema.properties.get(key)
            if child is not None:
                fill(child, item)
            elif additional is not None and item is None:
                value[key] = _empty(additional)
            elif additional is not None:
                fill(additional, item)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            if item is None:
                value[index] = _empty(schema.items)
            else:
                fill(schema.items, item)


def _empty(schema: Schema) -> Any:
    if schema.int_or_string:
        return "0" if schema.format == "quantity" else 0
    if schema.type == "array":
        return []
    if schema.type == "object" or schema.properties:
        return {}
    return _EMPTY.get(schema.type)
