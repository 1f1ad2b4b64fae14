"""What single built-in kinds do on create and update beyond their schema.

A table from resource to function, so that the write path stays the same for
every kind.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from echelon.hub import builtins_computed, builtins_pods, builtins_services, crd_status, pod_warnings
from echelon.hub.call import Call
from echelon.hub.cluster import CRDS
from echelon.hub.kinds import Kind
from echelon.hub.status import StatusError, not_found

Json = dict[str, Any]

KEEP_STATUS_ON_CREATE = frozenset({"/nodes", "apiregistration.k8s.io/apiservices:none"})
CREATE_ON_UPDATE = frozenset(
    {
        "/events",
        "/endpoints",
        "/services",
        "/limitranges",
        "coordination.k8s.io/leases",
        "rbac.authorization.k8s.io/roles",
        "rbac.authorization.k8s.io/rolebindings",
        "rbac.authorization.k8s.io/clusterroles",
        "rbac.authorization.k8s.io/clusterrolebindings",
    }
)
"""Resources that PUT creates when they are absent."""

NEED_REVISION = frozenset(
    {
        "coordination.k8s.io/leases",
        "apiextensions.k8s.io/customresourcedefinitions",
        "policy/poddisruptionbudgets",
    }
)
"""Built-in resources that are never replaced without saying which revision was read."""


def on_decoded(call: Call, obj: Json) -> None:
    """Complete what a client sent, before it is recorded who set which field."""
    rule = ON_DECODED.get(call.kind.resource)
    if rule is not None:
        rule(call, obj)


def on_create(call: Call, obj: Json) -> None:
    """Let the kind complete a new object."""
    if call.kind.namespaced:
        namespace_allows(call)
    pod_warnings.remark(call, obj)
    rule = ON_CREATE.get(call.kind.resource)
    if rule is not None:
        rule(call, obj)
    builtins_computed.born(call, obj)


def on_update(call: Call, new: Json, old: Json) -> None:
    """Let the kind complete a changed object."""
    rule = ON_UPDATE.get(call.kind.resource)
    if rule is not None:
        rule(call, new, old)


def on_status(kind: Kind, new: Json, old: Json) -> None:
    """Put right what a write to the status cannot change."""
    if kind.resource == CRDS:
        crd_status.keep_stored(new)
    if kind.resource == "batch/jobs" and not new["metadata"].get("labels"):
        template = (new.get("spec") or {}).get("template") or {}  # none of its own: those of its template
        labels = (template.get("metadata") or {}).get("labels")
        if labels:
            new["metadata"]["labels"] = dict(labels)
    if kind.resource == "apps/daemonsets":
        annotations = new["metadata"].get("annotations") or {}
        kept = (old["metadata"].get("annotations") or {}).get(_GENERATION, "0")
        new["metadata"]["annotations"] = {**annotations, _GENERATION: kept}
    if kind.resource == "/pods" and (old.get("status") or {}).get("qosClass"):
        new["status"] = {**(new.get("status") or {}), "qosClass": old["status"]["qosClass"]}


def namespace_allows(call: Call) -> None:
    """Refuse to create in a namespace that is absent or on its way out."""
    table = call.hub.store.table(call.cluster.name, "/namespaces")
    entry = table.head(call.namespace)
    if entry is None:
        raise not_found("", "namespaces", call.namespace)
    if b'"deletionTimestamp":"' not in entry.body:
        return
    message = f"unable to create new content in namespace {call.namespace} because it is being terminated"
    what = call.kind.qualified
    name = call.name
    raise StatusError(
        403,
        "Forbidden",
        f'{what} "{name}" is forbidden: {message}',
        {
            "name": name,
            **({"group": call.kind.group} if call.kind.group else {}),
            "kind": call.kind.plural,
            "causes": [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {call.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        },
    )


def _new_namespace(_call: Call, obj: Json) -> None:
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}
    finalizers = list((obj.get("spec") or {}).get("finalizers") or ())
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["spec"] = {"finalizers": finalizers}
    obj["status"] = {"phase": "Active"}


def _changed_namespace(call: Call, new: Json, old: Json) -> None:
    new["spec"] = old.get("spec", {})
    meta = new["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": call.name}


def _secret(_call: Call, obj: Json) -> None:
    clear = obj.pop("stringData", None)
    if clear:
        data = dict(obj.get("data") or {})
        for key, value in clear.items():
            data[key] = base64.b64encode(str(value).encode()).decode()
        obj["data"] = data
    obj.setdefault("type", "Opaque")


def _labelled(_call: Call, obj: Json) -> None:
    meta = obj["metadata"]
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}


def _definition(_call: Call, obj: Json) -> None:
    if isinstance(obj.get("spec"), dict):
        obj["spec"] = dict(obj["spec"])
        crd_status.complete(obj["spec"])


_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set(_call: Call, obj: Json) -> None:
    """Show the number that counts a DaemonSet's templates, which every version keeps in an annotation."""
    meta = obj["metadata"]
    meta["annotations"] = {_GENERATION: "0", **(meta.get("annotations") or {})}


def _new_daemon_set(_call: Call, obj: Json) -> None:
    annotations = obj["metadata"]["annotations"]
    if annotations[_GENERATION] == "0":
        obj["metadata"]["annotations"] = {**annotations, _GENERATION: "1"}


def _changed_daemon_set(_call: Call, new: Json, old: Json) -> None:
    count = int((old["metadata"].get("annotations") or {}).get(_GENERATION, "0"))
    moved = (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
    new["metadata"]["annotations"] = {
        **(new["metadata"].get("annotations") or {}),
        _GENERATION: str(count + moved),
    }


ON_DECODED: dict[str, Callable[[Call, Json], None]] = {
    "/namespaces": _labelled,
    "/secrets": _secret,
    "apps/daemonsets": _daemon_set,
    CRDS: _definition,
}
ON_CREATE: dict[str, Callable[[Call, Json], None]] = {
    "/namespaces": _new_namespace,
    "apps/daemonsets": _new_daemon_set,
    CRDS: crd_status.born,
}
ON_UPDATE: dict[str, Callable[[Call, Json, Json], None]] = {
    "/pods": builtins_pods.pod_changed,
    "/namespaces": _changed_namespace,
    "/services": builtins_services.changed,
    "apps/daemonsets": _changed_daemon_set,
    CRDS: crd_status.changed,
}
