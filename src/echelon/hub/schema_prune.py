"""Removes fields that a structural schema does not know, and fills in defaults.

What it decides: which fields of an object are unknown (and how kube-apiserver
names them), which nulls count as absent, and which defaults appear.

What it must never do: copy the object, or judge values; a field of the wrong
type stays for validation to refuse.

How: per schema node one closure, made at first use, that returns None when there
was nothing to do. Paths are put together only on the way back from an unknown
field, so the usual object costs one key-set comparison per nested object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from echelon.hub.schema_node import JSON, Schema
from echelon.hub.status import StatusError

Pruner = Callable[[JSON], "list[str] | None"]
Defaulter = Callable[[JSON], None]

TYPE_META = frozenset(("apiVersion", "kind", "metadata"))
_METADATA = frozenset(
    (
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)
_METADATA_ITEMS = {
    "ownerReferences": frozenset(("apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid")),
    "managedFields": frozenset(
        ("apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time")
    ),
}


def prune(schema: Schema, obj: JSON) -> list[str]:
    """Remove unknown fields of a whole resource in place; return their sorted paths."""
    return sorted(prune_in_order(schema, obj))


def prune_in_order(schema: Schema, obj: JSON) -> list[str]:
    """Do the same, but return the paths in the order in which they were found."""
    found = (
        _object_pruner(schema, root=True)(obj) if schema.prune_root_fn is None else schema.prune_root_fn(obj)
    )
    return found or []


def prune_part(schema: Schema, value: JSON) -> list[str]:
    """Remove unknown fields of a part of a resource (a scale, a default) in place."""
    found = _pruner(schema)(value)
    return sorted(found) if found else []


def prune_metadata(obj: dict[str, JSON]) -> list[str]:
    """Remove unknown fields of `metadata` in place; return their paths."""
    metadata = obj.get("metadata")
    if metadata.__class__ is not dict:
        return []
    unknown = [] if metadata.keys() <= _METADATA else [name for name in metadata if name not in _METADATA]
    for name in unknown:
        del metadata[name]
    paths = [f"metadata.{name}" for name in unknown]
    for name, known in _METADATA_ITEMS.items():
        items = metadata.get(name)
        if items.__class__ is not list:
            continue
        for index, item in enumerate(items):
            if item.__class__ is dict and not item.keys() <= known:
                for key in [key for key in item if key not in known]:
                    del item[key]
                    paths.append(f"metadata.{name}[{index}].{key}")
    return paths


def _pruner(schema: Schema) -> Pruner:
    if schema.prune_fn is None:
        schema.prune_fn = _make_pruner(schema)
    return schema.prune_fn


def _make_pruner(schema: Schema) -> Pruner:
    by_object = _object_pruner(schema, root=False)
    items = schema.items
    if items is None and schema.type != "array":
        return by_object

    def prune_list(value: JSON) -> list[str] | None:
        if value.__class__ is not list:
            return by_object(value)
        prune_item = _list_pruner(schema, items)
        found: list[str] | None = None
        for index, item in enumerate(value):
            if item.__class__ is dict or item.__class__ is list:
                below = prune_item(item)
                if below:
                    found = (found or []) + _prefixed(f"[{index}]", below)
        return found

    return prune_list


def _list_pruner(schema: Schema, items: Schema | None) -> Pruner:
    if items is None:
        return _keep_all if schema.preserve_unknown else _drop_all
    return _pruner(items)


def _keep_all(value: JSON) -> None:
    """Leave everything below a schema that preserves unknown fields."""


def _drop_all(value: JSON) -> list[str] | None:
    """Remove every field below a value that has no schema at all."""
    found: list[str] = []
    if value.__class__ is dict:
        found = list(value)
        value.clear()
    elif value.__class__ is list:
        for index, item in enumerate(value):
            found += _prefixed(f"[{index}]", _drop_all(item) or [])
    return found


def _prefixed(prefix: str, paths: list[str]) -> list[str]:
    return [f"{prefix}{path}" if path[0] == "[" else f"{prefix}.{path}" for path in paths]


def _object_pruner(schema: Schema, *, root: bool) -> Pruner:
    embedded = root or schema.embedded_resource
    known = frozenset(schema.properties) | (TYPE_META if embedded else frozenset())
    compound = [
        (name, child)
        for name, child in schema.properties.items()
        if _is_compound(child) and not (embedded and name in TYPE_META)
    ]
    additional = schema.additional
    keep_unknown = schema.preserve_unknown

    def prune_rest(value: dict[str, JSON]) -> list[str] | None:
        """Deal with fields that are not properties."""
        found: list[str] = []
        for name in [name for name in value if name not in known]:
            if additional is not None:
                below = (_drop_all if additional is True else _pruner(additional))(value[name])
                if below:
                    found += _prefixed(name, below)
            elif not keep_unknown:
                del value[name]
                if not (root and name in TYPE_META):
                    found.append(name)
        return found

    def prune_object(value: JSON) -> list[str] | None:
        if value.__class__ is not dict:
            return _drop_all(value) if value.__class__ is list and not keep_unknown else None
        found: list[str] | None = None
        if not value.keys() <= known:
            found = prune_rest(value)
        for name, child in compound:
            below = value.get(name)
            if below:
                below = (child.prune_fn or _pruner(child))(below)
                if below:
                    found = (found or []) + _prefixed(name, below)
        if embedded:
            meta = prune_metadata(value)
            if meta:
                found = (found or []) + meta
        return found

    if root:
        schema.prune_root_fn = prune_object
    return prune_object


def _is_compound(schema: Schema) -> bool:
    """Tell whether a value of this schema can hold fields or items that hold fields."""
    if schema.properties or schema.additional is not None or schema.embedded_resource:
        return True
    if schema.items is not None:
        return _is_compound(schema.items) or schema.items.type in (None, "object")
    return not schema.preserve_unknown and schema.type in ("object", "array")


def apply_defaults(schema: Schema, obj: JSON) -> None:
    """Drop nulls that count as absent, then fill in defaults, in place."""
    _filled.chars = 0
    (schema.default_fn or _defaulter(schema))(obj)


def buried(schema: Schema, obj: JSON, path: str = "") -> list[str]:
    """List fields of objects that stand where something else is expected: nobody knows them."""
    if obj.__class__ is list:
        inner = schema.items or schema
        return [text for at, item in enumerate(obj) for text in buried(inner, item, f"{path}[{at}]")]
    if obj.__class__ is not dict:
        return []
    plain = schema.type not in (None, "object") or schema.int_or_string
    if plain and not schema.preserve_unknown:
        return [f"{path}.{name}" for name in obj]
    found: list[str] = []
    for name, value in obj.items():
        child = schema.properties.get(name, schema.additional)
        if isinstance(child, Schema):
            found += buried(child, value, f"{path}.{name}" if path else name)
    return found


def refused_nulls(schema: Schema, obj: JSON) -> list[tuple[dict[str, JSON], str]]:
    """Find nulls that are not allowed and have no default: the object each is in, and its name."""
    found: list[tuple[dict[str, JSON], str]] = []
    if obj.__class__ is list and schema.items is not None:
        for item in obj:
            found += refused_nulls(schema.items, item)
    if obj.__class__ is not dict:
        return found
    for name, value in obj.items():
        child = schema.properties.get(name, schema.additional)
        if not isinstance(child, Schema):
            continue
        if value is None and not child.nullable and not child.has_default:
            found.append((obj, name))
        elif value.__class__ in _CONTAINERS:
            found += refused_nulls(child, value)
    return found


class _Filled:
    """What defaults have added to the object under way: a list of empty items may ask for gigabytes."""

    chars = 0

    def add(self, chars: int) -> None:
        self.chars += chars
        if self.chars > MAX_FILLED:
            raise StatusError(500, "", "etcdserver: request is too large")  # what would come of it later


_filled = _Filled()
MAX_FILLED = 2 * 1_572_864
"""Characters that defaults may add: twice the largest object that is kept."""


def _defaulter(schema: Schema) -> Defaulter:
    if schema.default_fn is None:
        schema.default_fn = _make_defaulter(schema)
    return schema.default_fn


def copy_json(value: JSON) -> JSON:
    """Copy a small JSON value; for defaults, which must not be shared between objects."""
    if value.__class__ is dict:
        return {name: copy_json(item) for name, item in value.items()}
    if value.__class__ is list:
        return [copy_json(item) for item in value]
    return value


def _make_defaulter(schema: Schema) -> Defaulter:
    properties = schema.properties
    defaults = [
        (name, child.default, len(name) + len(msgspec.json.encode(child.default)))
        for name, child in properties.items()
        if child.has_default
    ]
    compound = [(name, child) for name, child in properties.items() if _is_container(child)]
    additional = schema.additional if isinstance(schema.additional, Schema) else None
    items = schema.items

    def drop_nulls(value: dict[str, JSON]) -> None:
        for name in [name for name, item in value.items() if item is None]:
            child = properties.get(name, additional)
            if child is not None and not child.nullable:
                if child.has_default:
                    value[name] = copy_json(child.default)
                else:
                    del value[name]

    def default_object(value: JSON) -> None:
        if value.__class__ is dict:
            if None in value.values():
                drop_nulls(value)
            for name, default, chars in defaults:
                if name not in value:
                    _filled.add(chars)
                    value[name] = copy_json(default)
            for name, child in compound:
                below = value.get(name)
                if below.__class__ is dict or below:  # an empty object may have defaults inside
                    (child.default_fn or _defaulter(child))(below)
            if additional is not None:
                for name, item in value.items():
                    if name not in properties and item.__class__ in _CONTAINERS:
                        (additional.default_fn or _defaulter(additional))(item)
        elif value.__class__ is list and items is not None:
            default_list(value)

    def default_list(value: list[JSON]) -> None:
        assert items is not None
        if None in value and not items.nullable:
            value[:] = [copy_json(items.default) if item is None else item for item in value]
        if _is_container(items):
            each = items.default_fn or _defaulter(items)
            for item in value:
                each(item)

    return default_object


_CONTAINERS: tuple[Any, ...] = (dict, list)


def _is_container(schema: Schema) -> bool:
    return bool(schema.properties) or isinstance(schema.additional, Schema) or schema.items is not None
