"""Shapes: what managed fields need to know of a schema, one small node a field.

What it decides: which maps and lists are one value (atomic), which have members
with owners of their own, how list items are identified, and which fields of
built-in kinds always exist because their Go type is a struct.

What it must never do: look at objects. A `Shape` is built lazily, field by
field, because definitions are recursive, and is kept beside the schema it came
from, so a kind pays for it once.

Rules: a list without `list_type` is atomic, unless a patch strategy makes it a
list that merges; a map is granular unless its `map_type` says atomic; where no
schema says anything, maps are granular and lists atomic.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar

import msgspec

from echelon.hub import builtins_go
from echelon.rules.gojson import format_value

JSON = Any

ATOMIC = 0
"""The list is one value."""
SET = 1
"""Items are scalars and their own identity."""
MAP = 2
"""Items are objects, identified by key fields."""


class Shape:
    """One node; `field(name)` and `item` are its children."""

    __slots__ = (
        "_fields",
        "_item",
        "_lenient",
        "_schema",
        "keys",
        "list_kind",
        "map_atomic",
        "named",
        "rigid",
        "struct",
        "typed",
    )

    def __init__(self, schema: Any, *, typed: bool, lenient: bool = False, struct: bool = False) -> None:
        """Read one schema node; `typed`: of a built-in kind, `lenient`: below one that preserves unknown fields."""
        self._schema = schema
        self.typed = typed
        self.struct = struct
        """The Go field is a struct: it exists even where the JSON does not show it."""
        self._fields: dict[str, Shape] = {}
        self._item: Shape | None = None
        self.named: Any = schema.properties or {}
        """Fields the schema names; other keys of a map own their entry themselves."""
        self._lenient = lenient or schema.preserve_unknown
        self.rigid = bool(self.named) and schema.additional is None and not self._lenient
        """No other fields than the named ones are known."""
        self.map_atomic = schema.map_type == "atomic" or (typed and schema.ref in _ATOMIC_DEFINITIONS)
        self.list_kind, self.keys = _list_kind(schema)
        if schema.embedded_resource:
            self.know_metadata()

    def zero(self, name: str, child: Shape, absent: JSON) -> JSON:
        """Return what a member that is not shown counts as, or `absent`.

        In built-in kinds, fields whose Go type is a struct, and required ones,
        exist always: an absent one is the same as an empty one.
        """
        if not self.typed:
            return absent
        if child.struct:
            return {}
        return child.zero_value if name in self._schema.required else absent

    @property
    def nothing(self) -> Any:
        """Return the object of this kind that a new one is compared with: empty, but for what Go always has."""
        return builtins_go.nothing(self._schema.ref) if self.typed and self._schema.ref else {}

    @property
    def zero_value(self) -> JSON:
        """Return Go's zero value of this type, as JSON."""
        return _ZEROS.get(self._schema.type)

    def misfit(self, value: JSON) -> str | None:
        """Say why a value (not null) has the wrong type for this node, in the server's words; None if it fits."""
        schema = self._schema
        wanted = schema.type
        if wanted is None:
            if schema.ref == _QUANTITY and type(value) in (dict, list):
                return f"expected any scalar, got &{{{format_value(value)}}}"
            return None
        return _MISFITS[wanted](value, schema.format) if wanted in _MISFITS else None

    def know_metadata(self) -> None:
        """Take the well-known part of every object for granted, whatever the schema says of it."""
        self.named = {**self.named, **_ROOT_FIELDS}
        self._fields["metadata"] = OBJECT_META

    def field(self, name: str) -> Shape:
        """Return the shape of one member of a map."""
        found = self._fields.get(name)
        if found is None:
            child = self.named.get(name)
            if child is not None:
                struct = self.typed and name in _structs().get(self._schema.ref or "", ())
                found = self._fields[name] = Shape(
                    child, typed=self.typed, lenient=self._lenient, struct=struct
                )
            else:
                # Not kept by name: the names of map entries are the users' and have no bound.
                found = self._other()
        return found

    def _other(self) -> Shape:
        found = self._fields.get("")
        if found is None:
            additional = self._schema.additional
            found = DEDUCED if additional is None or additional is True else self._child(additional)
            self._fields[""] = found
        return found

    def _child(self, schema: Any) -> Shape:
        return Shape(schema, typed=self.typed, lenient=self._lenient)

    @property
    def item(self) -> Shape:
        """Return the shape of the items of a list."""
        if self._item is None:
            items = self._schema.items
            self._item = DEDUCED if items is None else self._child(items)
        return self._item

    def with_parents(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a field set with every named field that has members in it made a member itself."""
        out: dict[str, Any] = {}
        for element, node in fields.items():
            if not node or element == ".":
                out[element] = node
                continue
            if element.startswith("f:"):
                name = element[2:]
                inner = self.field(name).with_parents(node)
                out[element] = {".": {}, **inner} if name in self.named and "." not in inner else inner
            else:
                out[element] = self.item.with_parents(node)
        return out

    def key_default(self, key: str) -> JSON:
        """Return the default of a key field of this item, or None."""
        child = self.named.get(key)
        if child is None:
            return None
        if self.typed and key in self._schema.required:
            return self.field(key).zero_value  # Go has it always
        return child.default if child.has_default else None


class _NoSchema:
    """Stands for "no schema": anything goes."""

    properties: ClassVar[dict[str, Any]] = {}
    additional = True
    preserve_unknown = True
    items = None
    map_type = None
    list_type = None
    list_map_keys = ()
    patch_strategy = ""
    patch_merge_key = ""
    embedded_resource = False
    required = ()
    type = None
    format = ""
    int_or_string = False
    has_default = False
    default = None
    ref = None


_ATOMIC_DEFINITIONS = frozenset({"io.k8s.apimachinery.pkg.runtime.RawExtension"})
"""Definitions whose content is opaque to the server although their schema says object."""


def _list_kind(schema: Any) -> tuple[int, tuple[str, ...]]:
    if schema.list_type == "map":
        return MAP, tuple(sorted(schema.list_map_keys))
    if schema.list_type == "set":
        return SET, ()
    if schema.list_type is None and "merge" in (schema.patch_strategy or "").split(","):
        return (MAP, (schema.patch_merge_key,)) if schema.patch_merge_key else (SET, ())
    return ATOMIC, ()


def _node(**facts: Any) -> Any:
    return type("SchemaFacts", (_NoSchema,), {"additional": None, "preserve_unknown": False, **facts})


def _not_map(value: JSON, _: str) -> str | None:
    return None if type(value) is dict else f"expected map, got &{{{format_value(value)}}}"


def _not_list(value: JSON, _: str) -> str | None:
    return None if type(value) is list else f"expected list, got &{{{format_value(value)}}}"


def _not_string(value: JSON, form: str) -> str | None:
    if type(value) is str:
        return None
    if form not in ("", "byte"):  # other formats are any scalar to the server
        return f"expected any scalar, got &{{{format_value(value)}}}" if type(value) in (dict, list) else None
    return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"


def _not_number(value: JSON, _: str) -> str | None:
    kind = type(value)
    return (
        None if kind in (int, float) else f"expected numeric (int or float), got {_GO_TYPES.get(kind, 'nil')}"
    )


def _not_boolean(value: JSON, _: str) -> str | None:
    return None if type(value) is bool else f"expected boolean, got &{{{format_value(value)}}}"


_MISFITS = {
    "object": _not_map,
    "array": _not_list,
    "string": _not_string,
    "integer": _not_number,
    "number": _not_number,
    "boolean": _not_boolean,
}
_GO_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}
_ZEROS: dict[str | None, JSON] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def _go_syntax(value: JSON) -> str:
    """Write a value as Go's %#v does."""
    if type(value) is str:
        return f'"{value}"'
    if type(value) is dict:
        inner = ", ".join(f'"{key}":{_go_syntax(value[key])}' for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if type(value) is list:
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return format_value(value)


_TEXT = _node()
_TEXTS = _node(type="object", additional=_node(type="string"))
_OBJECT_META = _node(
    properties={
        "annotations": _TEXTS,
        "creationTimestamp": _TEXT,
        "deletionGracePeriodSeconds": _TEXT,
        "deletionTimestamp": _TEXT,
        "finalizers": _node(type="array", items=_node(type="string"), list_type="set"),
        "generateName": _TEXT,
        "generation": _TEXT,
        "labels": _TEXTS,
        "managedFields": _node(list_type="atomic"),
        "name": _TEXT,
        "namespace": _TEXT,
        "ownerReferences": _node(
            type="array",
            list_type="map",
            list_map_keys=("uid",),
            items=_node(
                map_type="atomic",
                properties=dict.fromkeys(
                    ("apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"), _TEXT
                ),
            ),
        ),
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
    },
)
"""ObjectMeta; CRDs rarely describe it, the server always knows it."""


@lru_cache(maxsize=1)
def _structs() -> dict[str, list[str]]:
    """Return the fields of built-in definitions that are structs in Go."""
    raw = files("echelon.hub").joinpath("data/structs.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, list[str]])


def shape_of(schema: Any) -> Shape:
    """Return the shape of a kind's root schema; None means nothing is known of the kind."""
    if schema is None:
        return NO_SCHEMA
    shape: Shape | None = schema.shape
    if shape is None:
        shape = schema.shape = Shape(schema, typed=schema.ref is not None)
        if not shape.typed:
            shape.know_metadata()
    return shape


_ROOT_FIELDS = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _OBJECT_META}

DEDUCED = Shape(_NoSchema, typed=False)
OBJECT_META = Shape(_OBJECT_META, typed=True)
NO_SCHEMA = Shape(_NoSchema, typed=False)
NO_SCHEMA.know_metadata()
