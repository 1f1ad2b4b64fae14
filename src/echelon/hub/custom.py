"""From a CustomResourceDefinition to the kinds it makes the cluster serve."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

from echelon.hub.conversion import conversion_of
from echelon.hub.kinds import ALL_VERBS, Kind, Subresource, encode, version_order
from echelon.hub.schema import Schema, compile_schema

Json = dict[str, Any]

MAX_SHARED_SCHEMAS = 500
"""Compiled schemas kept for clusters that install the same definitions, which a fleet's members do."""

_compiled: OrderedDict[bytes, Schema] = OrderedDict()


def compiled(openapi: Json | None) -> Schema | None:
    """Return the compiled schema of one version, one for all clusters that declare the same."""
    if openapi is None:
        return None
    key = encode(openapi)
    schema = _compiled.get(key)
    if schema is None:
        schema = _compiled[key] = compile_schema(openapi)
        if len(_compiled) > MAX_SHARED_SCHEMAS:
            _compiled.popitem(last=False)
    return schema


def _deprecation(spec: Json, version: Json) -> str:
    """Return the warning that a version's answers carry."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    better = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    text = f"{group}/{version['name']} {kind} is deprecated"
    if not better:
        return text
    return f"{text}; use {group}/{min(better, key=version_order)} {kind}"


def shape_of_versions(crd: Json) -> bytes:
    """Return what objects of a definition look like: while it is the same, what is stored fits."""
    return encode([(one["name"], one.get("storage"), one.get("schema")) for one in crd["spec"]["versions"]])


def kinds_of(crd: Json, since: int = 0) -> list[Kind]:
    """Return one kind for each served version; none for a definition that is not established."""
    conditions = {one["type"]: one["status"] for one in (crd.get("status") or {}).get("conditions") or ()}
    if conditions.get("Established", "True") != "True":
        return []
    spec = crd["spec"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    versions = {version["name"]: _kind(crd, version, storage) for version in spec["versions"]}
    stored = versions[storage]
    for kind in versions.values():
        kind.since = since
        kind.versions = versions
        kind.conversion = conversion_of(spec)
        if kind is not stored:
            kind.stored_as = stored
            kind.plain = kind.conversion is None and kind.openapi == stored.openapi
    return [versions[version["name"]] for version in spec["versions"] if version.get("served")]


def _kind(crd: Json, version: Json, storage: str) -> Kind:
    """Return the kind of one version."""
    spec = crd["spec"]
    names, group = spec["names"], spec["group"]
    openapi = (version.get("schema") or {}).get("openAPIV3Schema")
    declared = version.get("subresources") or {}
    return Kind(
        group=group,
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or "",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=ALL_VERBS,
        subresources=_subresources(names["kind"], group, version["name"], declared),
        columns=version.get("additionalPrinterColumns"),
        deprecation=_deprecation(spec, version),
        custom=True,
        ending="deletionTimestamp" in crd["metadata"],
        scale_paths=declared.get("scale"),
        selectable=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
        storage_version=f"{group}/{storage}",
        openapi=openapi,
        load_schema=partial(compiled, openapi),
    )


def _subresources(kind: str, group: str, version: str, declared: Json) -> dict[str, Subresource]:
    """Return the subresources that a version declares."""
    made: dict[str, Subresource] = {}
    if "status" in declared:
        made["status"] = Subresource(name="status", kind=kind, group=group, version=version)
    if declared.get("scale") is not None:
        made["scale"] = Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")
    return made
