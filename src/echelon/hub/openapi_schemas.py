"""The schemas of OpenAPI documents: built-in definitions and those of custom resources.

What it does: writes definitions the way clients expect them in version 3 and, from
the same source, version 2.

What it must never do: change the data it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from echelon.hub import builtins
from echelon.hub.kinds import Kind
from echelon.hub.openapi_paths import DELETE_OPTIONS, META, PATCH, SCALE, STATUS

Json = dict[str, Any]

COMPONENTS = "#/components/schemas/"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_NUMBER_OR_TEXT = [{"type": "string"}, {"type": "number"}]
FIXED: Json = {
    _INT_OR_STRING: {"format": "int-or-string", "oneOf": _EITHER},
    _QUANTITY: {"oneOf": _NUMBER_OR_TEXT},
    PATCH: {"type": "object", "description": "A patch of one of the kinds its content type names."},
}
"""Definitions whose wire form is not what the data file says about them."""
COMMON = (DELETE_OPTIONS, STATUS, PATCH)
_API_VERSION = {"type": "string", "description": "The API group and version this object is written in."}
_KIND = {"type": "string", "description": "The kind of this object."}


def needed(names: Iterable[str]) -> list[str]:
    """Return the built-in definitions that some need, themselves included."""
    definitions = builtins.data()["definitions"]
    found: dict[str, None] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found or (name not in definitions and name not in FIXED):
            continue
        found[name] = None
        if name not in FIXED:
            todo += refs_in(definitions[name])
    return sorted(found)


def refs_in(node: Any) -> list[str]:
    """Return the names a schema refers to."""
    if isinstance(node, dict):
        own = [node["$ref"].rsplit("/", 1)[-1]] if isinstance(node.get("$ref"), str) else []
        return own + [name for value in node.values() for name in refs_in(value)]
    if isinstance(node, list):
        return [name for value in node for name in refs_in(value)]
    return []


def built_in(name: str) -> Json:
    """Return a built-in definition as version 3 writes it."""
    made: Json = FIXED.get(name) or _version3(builtins.data()["definitions"][name])
    return made


def _version3(node: Any) -> Any:
    if isinstance(node, list):
        return [_version3(item) for item in node]
    if not isinstance(node, dict):
        return node
    target = node.get("$ref")  # a schema of schemas has a property of that name
    if not isinstance(target, str):
        return {key: _version3(value) for key, value in node.items()}
    made = {key: _version3(value) for key, value in node.items() if key != "$ref"}
    # Version 3 ignores what stands beside a $ref, so it goes into allOf.
    link = {"$ref": COMPONENTS + target}
    return {**made, "allOf": [link]} if made else link


def custom_name(kind: Kind) -> str:
    """Return the name of a custom resource's schema."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def custom(kind: Kind) -> Json:
    """Return the schemas of a custom resource and of its list."""
    name = custom_name(kind)
    openapi = dict(kind.openapi or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    properties = {
        **(openapi.get("properties") or {}),
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": {
            "description": "Name, labels and the rest that every object has.",
            "allOf": [{"$ref": f"{COMPONENTS}{META}ObjectMeta"}],
        },
    }
    of = {"group": kind.group, "version": kind.version}
    one = {
        **_with_embedded(openapi),
        "properties": {key: _with_embedded(value) for key, value in sorted(properties.items())},
        "x-kubernetes-group-version-kind": [{**of, "kind": kind.kind}],
    }
    many = {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _API_VERSION,
            "items": {"type": "array", "items": {"$ref": COMPONENTS + name}},
            "kind": _KIND,
            "metadata": {"allOf": [{"$ref": f"{COMPONENTS}{META}ListMeta"}]},
        },
        "x-kubernetes-group-version-kind": [{**of, "kind": kind.list_kind}],
    }
    return {name: one, list_name(kind): many}


def list_name(kind: Kind) -> str:
    """Return the name of the schema of a kind's list."""
    if kind.custom:
        return custom_name(kind).removesuffix(kind.kind) + kind.list_kind
    return kind.definition.removesuffix(kind.kind) + kind.list_kind


def _with_embedded(node: Any) -> Any:
    """Add the type metadata that embedded resources have."""
    if isinstance(node, list):
        return [_with_embedded(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _with_embedded(value) for key, value in node.items()}
    if made.get("x-kubernetes-embedded-resource") is True:
        meta = {"allOf": [{"$ref": f"{COMPONENTS}{META}ObjectMeta"}]}
        own = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": meta}
        made["properties"] = {**own, **(made.get("properties") or {})}
    if made.get("x-kubernetes-int-or-string") is True:
        made.setdefault("anyOf", _EITHER)
    return made


def roots(kind: Kind) -> list[str]:
    """Return the built-in definitions that a kind's operations refer to."""
    names = [*COMMON]
    if any(sub.kind == "Scale" for sub in kind.subresources.values()):
        names.append(SCALE)
    if kind.custom:
        return [*names, f"{META}ObjectMeta", f"{META}ListMeta"]
    return [*names, kind.definition, list_name(kind)]
