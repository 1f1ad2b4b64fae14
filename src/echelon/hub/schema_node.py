"""The node of a compiled structural schema, and its compiler.

What it does: turns one OpenAPI v3 schema (of a CRD, or of a built-in kind with
its definitions) into a graph of `Schema` nodes that pruning, defaulting,
validation, merge patches and managed fields walk. `$ref`s are resolved by name
and memoised, so recursive definitions become cyclic graphs.

What it must never do: decide whether a schema is *acceptable* (that is
`crd.py`), look at objects, or change the mapping it compiles from.

Why a graph of slotted nodes instead of the OpenAPI dicts: everything above asks
the same questions for each field of each object on each request; attribute
reads are several times cheaper than chained dict look-ups with defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

JSON = Any
"""A decoded JSON value: dict, list, str, int, float, bool or None."""

MISSING: Any = object()
"""Marks "there is no value" where None is a value (JSON null)."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of `x-kubernetes-validations`."""

    rule: str = ""
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


class Schema:
    """One node of a structural schema; see `compile_schema`.

    `additional` is the schema of map values, True for "anything", or None.
    `programs` is filled by `schema_cel` at first use and belongs to it, the
    `*_fn` slots hold the closures of the pruning, defaulting and validation
    modules, also filled at first use.
    """

    __slots__ = (
        "additional",
        "all_of",
        "any_of",
        "default",
        "default_fn",
        "embedded_resource",
        "enum",
        "exclusive_maximum",
        "exclusive_minimum",
        "format",
        "has_default",
        "int_or_string",
        "items",
        "list_map_keys",
        "list_type",
        "map_type",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "not_",
        "nullable",
        "ok_fn",
        "one_of",
        "patch_merge_key",
        "patch_strategy",
        "pattern",
        "preserve_unknown",
        "programs",
        "properties",
        "prune_fn",
        "prune_root_fn",
        "ref",
        "required",
        "rules",
        "shape",
        "type",
        "unique_items",
    )

    def __init__(self) -> None:
        """Make a node that accepts anything; the compiler fills it in."""
        self.type: str | None = None
        self.properties: dict[str, Schema] = {}
        self.items: Schema | None = None
        self.additional: Schema | Literal[True] | None = None
        self.required: tuple[str, ...] = ()
        self.enum: tuple[JSON, ...] | None = None
        self.default: JSON = None
        self.has_default = False
        self.nullable = False
        self.int_or_string = False
        self.preserve_unknown = False
        self.embedded_resource = False
        self.format = ""
        self.pattern: str | None = None
        self.minimum: float | None = None
        self.maximum: float | None = None
        self.exclusive_minimum = False
        self.exclusive_maximum = False
        self.multiple_of: float | None = None
        self.min_length: int | None = None
        self.max_length: int | None = None
        self.min_items: int | None = None
        self.max_items: int | None = None
        self.min_properties: int | None = None
        self.max_properties: int | None = None
        self.unique_items = False
        self.list_type: str | None = None
        self.list_map_keys: tuple[str, ...] = ()
        self.map_type: str | None = None
        self.patch_strategy = ""
        self.patch_merge_key = ""
        self.rules: tuple[Rule, ...] = ()
        self.one_of: tuple[Schema, ...] = ()
        self.any_of: tuple[Schema, ...] = ()
        self.all_of: tuple[Schema, ...] = ()
        self.not_: Schema | None = None
        self.ref: str | None = None
        """Name of the definition this node was made from, if any."""
        self.programs: Any = None
        self.shape: Any = None
        """What managed fields know of this node; belongs to `hub/shape.py`."""
        self.prune_fn: Callable[..., Any] | None = None
        self.prune_root_fn: Callable[..., Any] | None = None
        self.default_fn: Callable[..., Any] | None = None
        self.ok_fn: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        """Say the type and where it came from; the graph may be cyclic."""
        return f"<Schema {self.ref or self.type or 'any'}>"


class Definitions(dict[str, Any]):
    """Named schemas plus the nodes already compiled from them.

    Wrap the built-in definitions in one of these and pass it to every
    `compile_schema`, so that kinds share their common nodes.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        """Keep the named schemas; nothing is compiled yet."""
        super().__init__(definitions)
        self.nodes: dict[str, Schema] = {}


_OPAQUE = (
    "FieldsV1",
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
    "RawExtension",
)
"""Built-in definitions that hold any JSON although their schema does not say so."""

_SCALARS: tuple[tuple[str, str], ...] = (
    ("type", "type"),
    ("nullable", "nullable"),
    ("x-kubernetes-int-or-string", "int_or_string"),
    ("x-kubernetes-preserve-unknown-fields", "preserve_unknown"),
    ("x-kubernetes-embedded-resource", "embedded_resource"),
    ("pattern", "pattern"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("exclusiveMinimum", "exclusive_minimum"),
    ("exclusiveMaximum", "exclusive_maximum"),
    ("multipleOf", "multiple_of"),
    ("minLength", "min_length"),
    ("maxLength", "max_length"),
    ("minItems", "min_items"),
    ("maxItems", "max_items"),
    ("minProperties", "min_properties"),
    ("maxProperties", "max_properties"),
    ("uniqueItems", "unique_items"),
    ("x-kubernetes-list-type", "list_type"),
    ("x-kubernetes-map-type", "map_type"),
    ("x-kubernetes-patch-strategy", "patch_strategy"),
    ("x-kubernetes-patch-merge-key", "patch_merge_key"),
)


def compile_schema(openapi: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> Schema:
    """Compile one OpenAPI v3 schema; `$ref`s are looked up in `definitions`."""
    known = definitions if isinstance(definitions, Definitions) else Definitions(definitions or {})
    return _compile(openapi, known)


def _compile(openapi: Mapping[str, Any], known: Definitions) -> Schema:
    openapi, name = _resolve(openapi, known)
    if name is None:
        node = Schema()
        _fill(node, openapi, known)
        return node
    found = known.nodes.get(name)
    if found is None:
        found = known.nodes[name] = Schema()
        found.ref = name.split("?", 1)[0]
        _fill(found, openapi, known)
    return found


def _resolve(openapi: Mapping[str, Any], known: Definitions) -> tuple[Mapping[str, Any], str | None]:
    """Follow `$ref`, and `allOf` of a single `$ref`, which is how OpenAPI v3 adds a default to one."""
    siblings: dict[str, Any] = {}
    name: str | None = None
    while True:
        ref = openapi.get("$ref")
        if ref is None:
            parts = openapi.get("allOf")
            if parts is None or len(parts) != 1 or "$ref" not in parts[0] or "type" in openapi:
                break
            siblings = {k: v for k, v in openapi.items() if k not in ("allOf", "description")} | siblings
            ref = parts[0]["$ref"]
        else:
            siblings = {k: v for k, v in openapi.items() if k not in ("$ref", "description")} | siblings
        name = ref.rsplit("/", 1)[-1]
        openapi = known[name]
    if siblings:
        openapi = {**openapi, **siblings}
    if name is not None and siblings:
        name = f"{name}?{msgspec.json.encode(siblings, order='sorted').decode()}"
    return openapi, name


def _fill(node: Schema, openapi: Mapping[str, Any], known: Definitions) -> None:
    for wire, attribute in _SCALARS:
        value = openapi.get(wire)
        if value is not None:
            setattr(node, attribute, value)
    node.format = openapi.get("format") or ""
    if node.format == "int-or-string":
        # Built-in definitions say it by format, CRDs by extension; one meaning for readers.
        node.int_or_string = True
        node.type = None
    node.required = tuple(openapi.get("required") or ())
    node.list_map_keys = tuple(openapi.get("x-kubernetes-list-map-keys") or ())
    if openapi.get("enum"):
        node.enum = tuple(openapi["enum"])
    if "default" in openapi:
        node.default, node.has_default = openapi["default"], True
    rules = openapi.get("x-kubernetes-validations")
    if rules:
        node.rules = tuple(msgspec.convert(rules, list[Rule]))
    if node.ref is not None and node.ref.rsplit(".", 1)[-1] in _OPAQUE:
        node.preserve_unknown = True
    _fill_children(node, openapi, known)


def _fill_children(node: Schema, openapi: Mapping[str, Any], known: Definitions) -> None:
    for name, child in (openapi.get("properties") or {}).items():
        node.properties[name] = _compile(child, known)
    additional = openapi.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = _compile(additional, known)
    elif additional is True:
        node.additional = True
    items = openapi.get("items")
    if isinstance(items, Mapping):
        node.items = _compile(items, known)
    if openapi.get("not") is not None:
        node.not_ = _compile(openapi["not"], known)
    for wire, attribute in (("oneOf", "one_of"), ("anyOf", "any_of"), ("allOf", "all_of")):
        branches = openapi.get(wire)
        if branches:
            setattr(node, attribute, tuple(_compile(branch, known) for branch in branches))
