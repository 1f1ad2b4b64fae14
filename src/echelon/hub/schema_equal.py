"""Equality by schema: lists of type set and map are equal in any order.

What it must never do: run where no such list is below; `has_unordered` tells.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.cel_values import equal
from echelon.hub.schema_node import JSON, Schema
from echelon.hub.schema_ok import frozen


def has_unordered(schema: Schema, seen: frozenset[int] = frozenset()) -> bool:
    """Tell whether a list of type set or map is at or below a schema."""
    if schema.list_type in ("set", "map"):
        return True
    if id(schema) in seen:
        return False
    seen |= {id(schema)}
    below = [*schema.properties.values(), *(() if schema.items is None else (schema.items,))]
    if isinstance(schema.additional, Schema):
        below.append(schema.additional)
    return any(has_unordered(child, seen) for child in below)


def key_of(schema: Schema, item: JSON) -> Any:
    """Return what identifies an item of a set or map list."""
    if schema.list_type == "map" and item.__class__ is dict:
        return tuple(frozen(item.get(name)) for name in schema.list_map_keys)
    return frozen(item)


def equal_by(schema: Schema | None, left: JSON, right: JSON) -> bool:
    """Tell whether two values are equal as their schema understands them."""
    if schema is None:
        return equal(left, right)
    if left.__class__ is dict and right.__class__ is dict:
        if left.keys() != right.keys():
            return False
        other = schema.additional if isinstance(schema.additional, Schema) else None
        return all(
            equal_by(schema.properties.get(name, other), item, right[name]) for name, item in left.items()
        )
    if left.__class__ is list and right.__class__ is list:
        if len(left) != len(right):
            return False
        if schema.list_type in ("set", "map"):
            by_key = {key_of(schema, item): item for item in right}
            return all(
                key_of(schema, item) in by_key and equal_by(schema.items, item, by_key[key_of(schema, item)])
                for item in left
            )
        return all(equal_by(schema.items, a, b) for a, b in zip(left, right, strict=True))
    return equal(left, right)


def merge_lists(schema: Schema, left: list[JSON], right: list[JSON]) -> list[JSON]:
    """Add two lists: of a set the union, of a map list the right item where both have the key."""
    if schema.list_type not in ("set", "map"):
        return left + right
    merged = {key_of(schema, item): item for item in left}
    for item in right:
        key = key_of(schema, item)
        if schema.list_type == "map" or key not in merged:
            merged[key] = item
    return list(merged.values())
