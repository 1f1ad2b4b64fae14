"""From a CustomResourceDefinition to the kinds it makes the cluster serve."""

from __future__ import annotations

from typing import Any

from echelon.hub.kinds import ALL_VERBS, Kind, Subresource

Json = dict[str, Any]


def kinds_of(crd: Json) -> list[Kind]:
    """Return one kind for each served version."""
    spec = crd["spec"]
    names = spec["names"]
    group = spec["group"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    kinds = []
    for version in spec["versions"]:
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
                custom=True,
                scale_paths=scale,
                selectable=tuple(
                    field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()
                ),
                storage_version=f"{group}/{storage}",
                openapi=(version.get("schema") or {}).get("openAPIV3Schema"),
            )
        )
    return kinds
