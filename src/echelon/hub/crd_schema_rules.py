"""Validation of the schemas of definitions: structural, defaults that fit; its rules are `crd_cel_rules`'.

What it decides: which schemas the server would refuse, with its words and paths.

What it must never do: look at custom resources; only at what declares them.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import regex
from echelon.hub.builtins_pod_rules import Found
from echelon.hub.crd_cel_rules import check_rules, children
from echelon.hub.schema_node import Schema, compile_schema
from echelon.hub.schema_prune import copy_json, prune_part
from echelon.hub.schema_validate import explain

Json = dict[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LOGIC = ("allOf", "anyOf", "oneOf")
_NOT_IN_LOGIC = ("type", "default", "nullable", "additionalProperties", "description", "title")
MAX_DEPTH = 64
"""Nesting of a schema; deeper ones are refused instead of walked."""


def schema_rules(found: Found, value: Json, path: str, *, is_new: bool = True) -> None:
    """Check the schema of a version; what its rules cost is asked only of a new one."""
    root = value["openAPIV3Schema"]
    where = f"{path}.openAPIV3Schema"
    before = len(found.causes)
    _structural(found, root, where, root=True, depth=0)
    kind = root.get("type")
    if not kind:
        found.required(f"{where}.type", "must not be empty at the root")
    elif kind != "object":
        found.invalid(f"{where}.type", kind, "must be object at the root")
    _metadata(found, root, where)
    if len(found.causes) == before:  # defaults and rules are judged by schemas that make sense
        compiled = compile_schema(root)
        _defaults(found, compiled, where)
        check_rules(found, compiled, where, is_new=is_new)


def _metadata(found: Found, root: Json, where: str) -> None:
    own = (root.get("properties") or {}).get("metadata") or {}
    if set(own.get("properties") or ()) - {"name", "generateName"}:
        found.forbidden(
            f"{where}.properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        )


def _structural(found: Found, node: Json, path: str, *, root: bool, depth: int) -> None:
    if depth > MAX_DEPTH:
        found.forbidden(path, f"must not nest deeper than {MAX_DEPTH} levels")
        return
    for name, child in sorted((node.get("properties") or {}).items()):
        _structural(found, child, f"{path}.properties[{name}]", root=False, depth=depth + 1)
    for field in ("items", "additionalProperties"):
        child = node.get(field)
        if isinstance(child, dict):
            _structural(found, child, f"{path}.{field}", root=False, depth=depth + 1)
    _type(found, node, path, root=root)
    if node.get("$ref"):
        found.forbidden(f"{path}.$ref", "$ref is not supported")
    if node.get("uniqueItems"):
        found.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if node.get("properties") and node.get("additionalProperties") not in (None, False):
        found.forbidden(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    problem = regex.problem(node["pattern"]) if node.get("pattern") else None
    if problem is not None:
        found.invalid(
            f"{path}.pattern", node["pattern"], f"must be a valid regular expression, but isn't: {problem}"
        )
    _lists(found, node, path)
    for field in _LOGIC:
        for index, branch in enumerate(node.get(field) or ()):
            _branch(
                found, branch, f"{path}.{field}[{index}]", free=bool(node.get("x-kubernetes-int-or-string"))
            )
    if isinstance(node.get("not"), dict):
        _branch(found, node["not"], f"{path}.not", free=False)


def _type(found: Found, node: Json, path: str, *, root: bool) -> None:
    kind = node.get("type")
    free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    if kind and kind not in TYPES:
        found.unsupported(f"{path}.type", kind, list(TYPES))
    elif not kind and not free and not root and not node.get("$ref"):
        where = "array items" if path.endswith(".items") else "object fields"
        found.required(f"{path}.type", f"must not be empty for specified {where}")
    if kind == "array" and not isinstance(node.get("items"), dict):
        found.required(f"{path}.items", "must be specified")


def _branch(found: Found, node: Json, path: str, *, free: bool) -> None:
    for name, child in sorted((node.get("properties") or {}).items()):
        _branch(found, child, f"{path}.properties[{name}]", free=False)
    if isinstance(node.get("items"), dict):
        _branch(found, node["items"], f"{path}.items", free=False)
    for field in _LOGIC:
        for index, branch in enumerate(node.get(field) or ()):
            _branch(found, branch, f"{path}.{field}[{index}]", free=False)
    for field in _NOT_IN_LOGIC:
        if node.get(field) not in (None, "", False) and not (free and field == "type"):
            found.forbidden(f"{path}.{field}", "must be empty to be structural")


def _lists(found: Found, node: Json, path: str) -> None:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys") or []
    where = f"{path}.x-kubernetes-list-map-keys"
    if kind and kind not in ("atomic", "set", "map"):
        found.unsupported(f"{path}.x-kubernetes-list-type", kind, ["atomic", "set", "map"])
    if kind and node.get("type") != "array":
        found.invalid(
            f"{path}.type", node.get("type", ""), "must be array if x-kubernetes-list-type is specified"
        )
    if kind != "map":
        if keys:
            found.forbidden(where, "must be empty if x-kubernetes-list-type is not map") if kind else None
        return
    if not keys:
        found.required(where, "must not be empty if x-kubernetes-list-type is map")
        return
    items = node.get("items") or {}
    properties = items.get("properties") or {}
    if any(key not in properties for key in keys):
        found.invalid(where, keys, "entries must all be names of item properties")
        return
    for key in keys:
        if key not in (items.get("required") or ()) and "default" not in properties[key]:
            found.required(
                f"{path}.items.properties[{key}].default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )


def _defaults(found: Found, schema: Schema, path: str) -> None:
    if schema.has_default and schema.default is not None:
        pruned = copy_json(schema.default)
        if prune_part(schema, pruned):
            found.invalid(f"{path}.default", schema.default, "must not have unknown fields")
        for cause in explain(schema, schema.default, prefix=f"{path}.default"):
            found.add(cause.reason, cause.field, cause.message)
    for child, where in children(schema, path):
        _defaults(found, child, where)
