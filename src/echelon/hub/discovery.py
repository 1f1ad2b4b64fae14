"""Discovery: which groups, versions and resources a logical cluster serves."""

from __future__ import annotations

from typing import Any

from echelon.hub.call import Request, Response
from echelon.hub.cluster import Cluster
from echelon.hub.kinds import Kind
from echelon.hub.negotiate import PLAIN, accept, document
from echelon.hub.status import no_such_resource

Json = dict[str, Any]


def serve(cluster: Cluster, path: str, request: Request) -> Response:
    """Answer /api, /apis and what is below them."""
    form = accept(request.headers.get("accept", "")) or PLAIN
    parts = path.strip("/").split("/")
    kinds = cluster.catalog.all()
    if form.shape == "APIGroupDiscoveryList" and len(parts) == 1:
        response = document(_aggregated(kinds, parts[0] == "api"))
        response.content_type = (
            f"application/json;g=apidiscovery.k8s.io;v={form.version};as=APIGroupDiscoveryList"
        )
        return response
    if parts == ["api"]:
        return document(
            {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
                ],
            }
        )
    if parts == ["apis"]:
        return document(
            {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [
                    {
                        key: value
                        for key, value in _group(name, kinds).items()
                        if key not in {"kind", "apiVersion"}
                    }
                    for name in _groups(kinds)
                ],
            }
        )
    if parts[0] == "api" and len(parts) == 2:
        return document(_resources("", parts[1], kinds))
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups(kinds):
        return document(_group(parts[1], kinds))
    if parts[0] == "apis" and len(parts) == 3:
        return document(_resources(parts[1], parts[2], kinds))
    raise no_such_resource()


def _groups(kinds: list[Kind]) -> list[str]:
    return list(dict.fromkeys(kind.group for kind in kinds if kind.group))


def _versions(group: str, kinds: list[Kind]) -> list[str]:
    found = list(dict.fromkeys(kind.version for kind in kinds if kind.group == group))
    return sorted(found, key=version_order)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort versions as Kubernetes does: GA before beta before alpha, newest first."""
    import re  # noqa: PLC0415

    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not found:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found.group(2)]
    return (stage, -int(found.group(1)), -int(found.group(3) or 0), version)


def _group(name: str, kinds: list[Kind]) -> Json:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in _versions(name, kinds)
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _resources(group: str, version: str, kinds: list[Kind]) -> Json:
    served = [kind for kind in kinds if kind.group == group and kind.version == version]
    if not served:
        raise no_such_resource()
    resources: list[Json] = []
    for kind in served:
        row: Json = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": sorted(kind.verbs),
        }
        if kind.short_names:
            row["shortNames"] = list(kind.short_names)
        if kind.categories:
            row["categories"] = list(kind.categories)
        resources.append(row)
        for sub in kind.subresources.values():
            row = {
                "name": f"{kind.plural}/{sub.name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": sub.kind,
                "verbs": sorted(sub.verbs),
            }
            if (sub.group, sub.version) != (kind.group, kind.version):
                row["group"], row["version"] = sub.group, sub.version
            resources.append(row)
    api_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }


def _aggregated(kinds: list[Kind], core: bool) -> Json:
    groups = [""] if core else _groups(kinds)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None}
                if name
                else {"creationTimestamp": None},
                "versions": [_version(name, version, kinds) for version in _versions(name, kinds)],
            }
            for name in groups
        ],
    }


def _version(group: str, version: str, kinds: list[Kind]) -> Json:
    resources = []
    for kind in kinds:
        if kind.group != group or kind.version != version:
            continue
        row: Json = {
            "resource": kind.plural,
            "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": sorted(kind.verbs),
        }
        if kind.short_names:
            row["shortNames"] = list(kind.short_names)
        if kind.categories:
            row["categories"] = list(kind.categories)
        if kind.subresources:
            row["subresources"] = [
                {
                    "subresource": sub.name,
                    "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                    "verbs": sorted(sub.verbs),
                }
                for sub in kind.subresources.values()
            ]
        resources.append(row)
    return {"version": version, "resources": resources, "freshness": "Current"}
