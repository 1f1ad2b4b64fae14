"""The kinds every Kubernetes API server has, from data distilled from a real one.

What it does: reads `data/builtin.json` once per process and makes the catalog that
all logical clusters share; schemas are compiled when a kind is first touched.

What it must never do: differ between clusters, or hold a fact about a kind that
the data file could hold.
"""

from __future__ import annotations

from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

import msgspec

from echelon.hub.builtins_versions import CONVERSIONS
from echelon.hub.kinds import Catalog, Kind, Subresource
from echelon.hub.schema_node import Definitions, Schema, compile_schema

Json = dict[str, Any]

SAME_STORE = {"events.k8s.io/events": "/events"}
"""Resources that are stored as another group's."""


@lru_cache(maxsize=1)
def data() -> Json:
    """Return the data file."""
    return msgspec.json.decode(files("echelon.hub").joinpath("data/builtin.json").read_bytes())  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def definitions() -> Definitions:
    """Return the schemas of all built-in kinds, with the nodes compiled so far."""
    return Definitions(data()["definitions"])


@lru_cache(maxsize=1)
def groups() -> dict[str, list[str]]:
    """Return the built-in groups and their versions in the order of discovery."""
    return {group["name"]: group["versions"] for group in data()["groups"]}


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """Return the shared catalog of built-in kinds."""
    kinds = Catalog()
    for row in data()["resources"]:
        for version in row["versions"]:
            kinds.add(_kind(row, version))
    return kinds


def schema_of(definition: str) -> Schema:
    """Return the compiled schema of a definition."""
    return compile_schema({"$ref": definition}, definitions())


def _kind(row: Json, version: Json) -> Kind:
    group, plural, name = row["group"], row["plural"], version["version"]
    resource = f"{group}/{plural}"
    storage_version, to_storage, from_storage = CONVERSIONS.get((resource, name), ("", None, None))
    return Kind(
        group=group,
        version=name,
        plural=plural,
        kind=row["kind"],
        singular=row["singular"],
        namespaced=row["namespaced"],
        list_kind=version.get("listKind", ""),
        short_names=tuple(row["shortNames"]),
        categories=tuple(row["categories"]),
        verbs=tuple(version["verbs"]),
        subresources={sub["name"]: _subresource(sub) for sub in version["subresources"]},
        columns=version.get("columns"),
        deprecation=version.get("warning", ""),
        load_schema=partial(schema_of, version["definition"]),
        definition=version["definition"],
        storage_hash=version.get("storageVersionHash", ""),
        storage=SAME_STORE.get(resource, ""),
        storage_version=storage_version,
        to_storage=to_storage,
        from_storage=from_storage,
    )


def _subresource(sub: Json) -> Subresource:
    return Subresource(
        name=sub["name"],
        kind=sub["kind"],
        group=sub["group"],
        version=sub["version"],
        verbs=tuple(sub["verbs"]),
        accepted=tuple(sub.get("acceptedTypes") or ()),
    )
