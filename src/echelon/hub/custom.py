"""From a CustomResourceDefinition to the kinds it makes the cluster serve."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

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


def kinds_of(crd: Json) -> list[Kind]:
    """Return one kind for each served version; none for a definition that is not established."""
    conditions = {one["type"]: one["status"] for one in (crd.get("status") or {}).get("conditions") or ()}
    if conditions.get("Established", "True") != "True":
        return []
    spec = crd["spec"]
    names = spec["names"]
    group = spec["group"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    kinds = []
    for version in spec["versions"]:
        openapi = (version.get("schema") or {}).get("openAPIV3Schema")
        if not version.get("served"):
            continue
        subresources: dict[str, Subresource] = {}
        declared = version.get("subresources") or {}
        scale = declared.get("scale")
        if "status" in declared:
            subresources["status"] = Subresource(
                name="status", kind=names["kind"], group=group, version=version["name"]
            )
        if scale is not None:
            subresources["scale"] = Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")
        kinds.append(
            Kind(
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
                subresources=subresources,
                columns=version.get("additionalPrinterColumns"),
                deprecation=_deprecation(spec, version),
                custom=True,
                ending="deletionTimestamp" in crd["metadata"],
                scale_paths=scale,
                selectable=tuple(
                    field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()
                ),
                storage_version=f"{group}/{storage}",
                openapi=openapi,
                load_schema=partial(compiled, openapi),
            )
        )
    return kinds
