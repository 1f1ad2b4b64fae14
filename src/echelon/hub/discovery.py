"""Discovery: which groups, versions and resources a logical cluster serves.

What it does: renders the plain documents of `/api` and `/apis` and the aggregated
ones, once for all clusters that serve the same kinds.

What it must never do: cost anything for a cluster nobody asks, or keep a document
for each of many clusters that would all say the same.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from echelon.hub import builtins, health
from echelon.hub.call import Request, Response
from echelon.hub.cluster import Cluster
from echelon.hub.kinds import Kind, Subresource, encode, version_order
from echelon.hub.negotiate import PLAIN, Form, accept, document
from echelon.hub.status import no_such_resource, not_acceptable

Json = dict[str, Any]

MAX_DOCUMENTS = 200
"""Aggregated documents kept: one for each different set of definitions in the fleet, newest first."""

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs of custom resources, in the order in which the server has always listed them."""

_documents: OrderedDict[bytes, tuple[bytes, str]] = OrderedDict()


def serve(cluster: Cluster, path: str, request: Request) -> Response:
    """Answer /api, /apis and what is below them."""
    form = accept(request.headers.get("accept", ""))
    if form is None:
        raise not_acceptable(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
    parts = path.strip("/").split("/")
    if form.shape == "APIGroupDiscoveryList":
        if len(parts) == 1 and form.version in {"v2", "v2beta1", ""}:
            return _aggregated(cluster, parts[0], form, request)
        form = PLAIN
    found = _plain(cluster, parts, request)
    return document(found, 200, form) if found is not None else health.page_not_found()


def _plain(cluster: Cluster, parts: list[str], request: Request) -> Json | None:
    """Return a document; None where a group is not served, or not in this version."""
    if parts == ["api"]:
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
    groups = groups_of(cluster)
    if parts == ["apis"]:
        found = [_group(name, versions) for name, versions in groups.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    if parts[0] == "api" and len(parts) == 2:
        return _resources(cluster, "", parts[1])
    if parts[0] == "apis" and len(parts) > 1 and not groups.get(parts[1]):
        return None
    if parts[0] == "apis" and len(parts) == 2:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    if parts[0] == "apis" and len(parts) == 3:
        custom = parts[1] not in builtins.groups()
        return (
            None if custom and parts[2] not in groups[parts[1]] else _resources(cluster, parts[1], parts[2])
        )
    raise no_such_resource()


def groups_of(cluster: Cluster) -> dict[str, list[str]]:
    """Return the groups and their versions, preferred first: the built-in ones, then others by name."""
    found = dict(builtins.groups())
    own: dict[str, set[str]] = {}
    for kind in cluster.catalog.own():
        own.setdefault(kind.group, set()).add(kind.version)
    for group in sorted(own):
        known = found.get(group, [])
        found[group] = [*known, *sorted(own[group] - set(known), key=version_order)]
    return found


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def kinds_of(cluster: Cluster, group: str, version: str) -> list[Kind]:
    """Return the kinds of a group and version: built-in ones as distilled, others by name."""
    shared = [kind for kind in builtins.catalog().own() if (kind.group, kind.version) == (group, version)]
    own = [kind for kind in cluster.catalog.own() if (kind.group, kind.version) == (group, version)]
    return shared + sorted(own, key=lambda kind: kind.plural)


def storage_hash(kind: Kind) -> str:
    """Return the short hash of the version a kind is stored in."""
    if not kind.custom:
        return kind.storage_hash
    digest = hashlib.sha256(f"{kind.storage_version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _verbs(kind: Kind) -> list[str]:
    return list(CUSTOM_VERBS) if kind.custom else list(kind.verbs)


def _resources(cluster: Cluster, group: str, version: str) -> Json:
    served = kinds_of(cluster, group, version)
    if not served:
        raise no_such_resource()
    resources: list[Json] = []
    for kind in served:
        row: Json = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _verbs(kind),
            **_names(kind),
        }
        stored = storage_hash(kind)
        if stored:
            row["storageVersionHash"] = stored
        resources.append(row)
        resources += [_subresource(kind, sub) for sub in kind.subresources.values()]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
    if not group:
        head = {"kind": "APIResourceList", "groupVersion": version}  # the oldest list says no apiVersion
    return {**head, "resources": resources}


def _names(kind: Kind) -> Json:
    found: Json = {}
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    return found


def _subresource(kind: Kind, sub: Subresource) -> Json:
    row: Json = {
        "name": f"{kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.group, sub.version) != (kind.group, kind.version):
        row["group"], row["version"] = sub.group, sub.version
    return row


def _aggregated(cluster: Cluster, root: str, form: Form, request: Request) -> Response:
    version = form.version or "v2"
    own = cluster.catalog.own() if root == "apis" else []
    body, etag = _shared(root, version, own, lambda: _items(cluster, root))
    content = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
    if request.headers.get("if-none-match") == etag:
        return Response(304, b"", content, headers)
    return Response(200, body, content, headers)


def _shared(root: str, version: str, own: list[Kind], items: Callable[[], list[Json]]) -> tuple[bytes, str]:
    """Return a document and its ETag, made once for all clusters with the same definitions."""
    rows = sorted((kind.group, kind.version, kind.plural) for kind in own)
    key = hashlib.sha256(encode([root, version, rows, [_item(kind) for kind in own]])).digest()
    found = _documents.get(key)
    if found is None:
        body = encode(
            {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": items(),
            }
        )
        found = _documents[key] = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        if len(_documents) > MAX_DOCUMENTS:
            _documents.popitem(last=False)
    return found


def _items(cluster: Cluster, root: str) -> list[Json]:
    found = []
    for group, versions in groups_of(cluster).items():
        if (root == "api") is not (group == ""):
            continue
        listed = [
            {"version": version, "resources": resources, "freshness": "Current"}
            for version in versions
            if (resources := [_item(kind) for kind in kinds_of(cluster, group, version)])
        ]
        found.append({"metadata": {"name": group} if group else {}, "versions": listed})
    return found


@lru_cache(maxsize=1024)
def _item(kind: Kind) -> Json:
    row: Json = {
        "resource": kind.plural,
        "responseKind": _kind_of(kind, kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
        **_names(kind),
    }
    if kind.subresources:
        row["subresources"] = [_item_of_subresource(kind, sub) for sub in kind.subresources.values()]
    return row


def _item_of_subresource(kind: Kind, sub: Subresource) -> Json:
    row: Json = {
        "subresource": sub.name,
        "responseKind": _kind_of(kind, sub.group, sub.version, sub.kind),
        "verbs": list(sub.verbs),
    }
    if sub.accepted:
        row["acceptedTypes"] = list(sub.accepted)
    return row


def _kind_of(kind: Kind, group: str, version: str, name: str) -> Json:
    if not kind.custom and (group, version) == (kind.group, kind.version):
        group = version = ""  # "as the list around it", which is how the server says it of its own kinds
    return {"group": group, "version": version, "kind": name}
