"""What every logical cluster is born with: its system namespaces, roles and the API's own service.

Not written to the log: it is the same for all, is put in when a table is first
touched, and a member nobody talks to costs nothing. A change to one of these
objects is a write like any other and wins from then on.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from echelon.hub.entries import entry_of
from echelon.hub.kinds import encode
from echelon.hub.store import FIRST_REVISION, Entry

if TYPE_CHECKING:
    from echelon.hub.app import Hub

Json = dict[str, Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
BORN_AT = "2026-01-01T00:00:00Z"
"""The same for all clusters and starts, so that nothing needs to be stored."""


def born_with(hub: Hub) -> Callable[[str, str], list[Entry]]:
    """Return the store's source of base objects."""

    def base(cluster: str, resource: str) -> list[Entry]:
        make = BASE.get(resource)
        return make(hub, cluster) if make is not None else []

    return base


def stable_uid(*parts: str) -> str:
    """Return a uid that is the same at every start."""
    return str(uuid.UUID(bytes=hashlib.sha256("/".join(parts).encode()).digest()[:16], version=4))


def entry(api_version: str, kind: str, metadata: Json, rest: Json, cluster: str) -> Entry:
    """Return one base object."""
    namespace = metadata.get("namespace")
    meta: Json = {"name": metadata["name"]}
    if namespace:
        meta["namespace"] = namespace
    meta["uid"] = stable_uid(cluster, kind, namespace or "", metadata["name"])
    meta["resourceVersion"] = str(FIRST_REVISION)
    meta["creationTimestamp"] = BORN_AT
    meta.update({name: value for name, value in metadata.items() if name not in meta})
    body = encode({"apiVersion": api_version, "kind": kind, "metadata": meta, **rest})
    key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    return entry_of(key, FIRST_REVISION, body, meta)


def _namespaces(_hub: Hub, cluster: str) -> list[Entry]:
    return [
        entry(
            "v1",
            "Namespace",
            {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
            cluster,
        )
        for name in NAMESPACES
    ]


def _accounts(_hub: Hub, _cluster: str) -> list[Entry]:
    return [
        entry("v1", "ServiceAccount", {"name": "default", "namespace": name}, {}, "") for name in NAMESPACES
    ]


def _roots(hub: Hub, _cluster: str) -> list[Entry]:
    return [
        entry("v1", "ConfigMap", root_metadata(name), {"data": {"ca.crt": hub.root_certificate()}}, "")
        for name in NAMESPACES
    ]


def root_metadata(namespace: str) -> Json:
    """Return the metadata of the ConfigMap that tells pods whom to trust."""
    text = (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
        "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
    )
    return {
        "name": "kube-root-ca.crt",
        "namespace": namespace,
        "annotations": {"kubernetes.io/description": text},
    }


def _services(_hub: Hub, _cluster: str) -> list[Entry]:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    return [
        entry(
            "v1",
            "Service",
            {"name": "kubernetes", "namespace": "default", "labels": labels},
            {"spec": spec, "status": {"loadBalancer": {}}},
            "",
        )
    ]


RBAC = "rbac.authorization.k8s.io"


@lru_cache(maxsize=1)
def _access() -> dict[str, list[Entry]]:
    """Return the roles and bindings of a fresh cluster, shared by all logical clusters."""
    kinds = {
        "clusterroles": "ClusterRole",
        "clusterrolebindings": "ClusterRoleBinding",
        "roles": "Role",
        "rolebindings": "RoleBinding",
    }
    data = json.loads((files("echelon.hub") / "data" / "access.json").read_bytes())
    return {plural: [_access_entry(kind, fact) for fact in data[plural]] for plural, kind in kinds.items()}


def _access_entry(kind: str, fact: Json) -> Entry:
    metadata: Json = {"name": fact["name"]}
    if "namespace" in fact:
        metadata["namespace"] = fact["namespace"]
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults", **fact.get("labels", {})}
    metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    rest = {name: value for name, value in fact.items() if name not in {"name", "namespace", "labels"}}
    return entry(f"{RBAC}/v1", kind, metadata, rest, "")


BASE: dict[str, Callable[[Hub, str], list[Entry]]] = {
    "/namespaces": _namespaces,
    "/serviceaccounts": _accounts,
    "/configmaps": _roots,
    "/services": _services,
    **{
        f"{RBAC}/{plural}": (lambda _hub, _cluster, plural=plural: _access()[plural])  # type: ignore[misc]
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    },
}
