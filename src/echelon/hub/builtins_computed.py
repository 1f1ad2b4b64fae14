"""Defaults of built-in kinds that are computed: what depends on more than one field.

What it does: `decoded` completes any object sent, at birth or later; `born` adds what
a new object gets from the server: its status, addresses, accounts and labels.
docs/hub-defaults.md lists them as observed on a real server.

What it must never do: refuse; validation comes after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from echelon.hub import builtins_defaults, builtins_services
from echelon.hub.builtins_pods import pod_born
from echelon.hub.call import Call
from echelon.hub.kinds import Kind
from echelon.hub.world import rfc3339

Json = dict[str, Any]

_TEMPLATES = {
    "/pods": ("spec",),
    "/podtemplates": ("template", "spec"),
    "/replicationcontrollers": ("spec", "template", "spec"),
    "apps/deployments": ("spec", "template", "spec"),
    "apps/replicasets": ("spec", "template", "spec"),
    "apps/daemonsets": ("spec", "template", "spec"),
    "apps/statefulsets": ("spec", "template", "spec"),
    "batch/jobs": ("spec", "template", "spec"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where a kind has a pod's spec."""


def decoded(kind: Kind, obj: Json) -> None:
    """Complete an object as it is read from a request."""
    builtins_defaults.apply(kind.definition, kind.kind, obj)
    path = _TEMPLATES.get(kind.resource)
    if path is not None:
        spec = _dict_at(obj, path)
        if spec is not None:
            _pod_spec(spec, alone=kind.resource == "/pods")
    rule = _DECODED.get(kind.resource)
    if rule is not None:
        rule(obj)


def _dict_at(obj: Any, path: tuple[str, ...]) -> Json | None:
    for name in path:
        if obj.__class__ is not dict:
            return None
        obj = obj.get(name)
    return obj if obj.__class__ is dict else None


def containers_of(spec: Json) -> Iterator[Json]:
    """Yield every container of a pod's spec."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            if container.__class__ is dict:
                yield container


_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"(?:(?=[^/]*[.:A-Z]|localhost/)[A-Za-z0-9.-]+(?::[0-9]+)?/)?"
    rf"{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)
"""What an image may be called; anything else is never pulled always."""


def pull_policy(image: str) -> str:
    """Return when an image is pulled if nothing is said: always, if its name does not fix its content."""
    last = image.rpartition("/")[2]
    if "@" in last or not _IMAGE.fullmatch(image):
        return "IfNotPresent"
    tag = last.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _pod_spec(spec: Json, *, alone: bool) -> None:
    for container in containers_of(spec):
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = pull_policy(str(container.get("image") or ""))
        if alone and spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if port.__class__ is dict and not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
        if alone:
            _requests(container)
    for volume in spec.get("volumes") or ():
        image = volume.get("image") if volume.__class__ is dict else None
        if image.__class__ is dict and not image.get("pullPolicy"):
            image["pullPolicy"] = pull_policy(str(image.get("reference") or ""))
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _requests(container: Json) -> None:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if isinstance(resources, dict) and isinstance(limits, dict) and limits:
        requests = resources.get("requests") or {}
        resources["requests"] = {**limits, **requests}


def _controller(obj: Json) -> None:
    """Complete a ReplicationController from the labels of its template."""
    labels = (_dict_at(obj, ("spec", "template", "metadata")) or {}).get("labels")
    spec = obj.get("spec")
    if not labels or spec.__class__ is not dict:
        return
    if not spec.get("selector"):
        spec["selector"] = dict(labels)
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _limit_range(obj: Json) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        if default:
            item["default"] = default
        if request:
            item["defaultRequest"] = request


def _phased(obj: Json) -> None:
    """Give what has no phase the first one, whoever reads it."""
    status = obj.get("status")
    if not isinstance(status, dict) or not status.get("phase"):
        obj["status"] = {**(status or {}), "phase": "Pending"}


def _claim(obj: Json) -> None:
    _phased(obj)
    spec = obj.get("spec")
    if spec.__class__ is not dict:
        return
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _definition(obj: Json) -> None:
    names = (obj.get("spec") or {}).get("names")
    if names.__class__ is dict and names.get("kind").__class__ is str:
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"


def _binding(obj: Json) -> None:
    """Give the namespace of a RoleBinding to accounts that name none; a ClusterRoleBinding has no such place."""
    for subject in obj.get("subjects") or ():
        if subject.get("kind") == "ServiceAccount":
            subject.pop("apiGroup", None)


def _stateful_set(obj: Json) -> None:
    """Complete claims on every read, or applying a set again would look like a change of its claims."""
    spec = obj.get("spec")
    for claim in (spec.get("volumeClaimTemplates") or ()) if isinstance(spec, dict) else ():
        if isinstance(claim, dict) and not (claim.get("status") or {}).get("phase"):
            claim["status"] = {**(claim.get("status") or {}), "phase": "Pending"}


def _job(obj: Json) -> None:
    """Give a job without labels those of its template."""
    labels = (_dict_at(obj, ("spec", "template", "metadata")) or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


_DECODED: dict[str, Callable[[Json], None]] = {
    "apps/statefulsets": _stateful_set,
    "batch/jobs": _job,
    "/services": builtins_services.decoded,
    "/replicationcontrollers": _controller,
    "/limitranges": _limit_range,
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _phased,
    "apiextensions.k8s.io/customresourcedefinitions": _definition,
    "rbac.authorization.k8s.io/rolebindings": _binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _binding,
}


def born(call: Call, obj: Json) -> None:
    """Add what a new object gets from the server."""
    if call.kind.custom:
        return
    status = builtins_defaults.status_at_birth(call.kind.definition)
    if status is not None and "status" not in obj:
        obj["status"] = status
    rule = _BORN.get(call.kind.resource)
    if rule is not None:
        rule(call, obj)


_UID, _NAME = "controller-uid", "job-name"


def _job_born(_call: Call, obj: Json) -> None:
    spec = obj.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(template, dict) or spec.get("manualSelector"):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    own = {_UID: uid, _NAME: name, f"batch.kubernetes.io/{_UID}": uid, f"batch.kubernetes.io/{_NAME}": name}
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **own}
    template["metadata"] = {**meta, "labels": labels}
    if (obj["metadata"].get("labels") or {}) in (
        {},
        meta.get("labels"),
    ):  # none of its own: those of its template
        obj["metadata"]["labels"] = dict(labels)
    spec["selector"] = {
        **(spec.get("selector") or {}),
        "matchLabels": {f"batch.kubernetes.io/{_UID}": uid},
    }


def _protected(finalizer: str) -> Callable[[Call, Json], None]:
    def add(call: Call, obj: Json) -> None:
        held = obj["metadata"].setdefault("finalizers", [])
        if finalizer not in held:
            held.append(finalizer)
        obj["status"] = {"phase": "Pending"}
        if call.kind.resource == "/persistentvolumes":
            obj["status"]["lastPhaseTransitionTime"] = rfc3339(call.hub.world.now())

    return add


_NODE_INFO = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
]


def _node_born(_call: Call, obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == _NOT_READY for taint in taints):
        spec["taints"] = [*taints, {"effect": "NoSchedule", "key": _NOT_READY}]
    status = obj.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **(status.get("nodeInfo") or {})}


def _quota_born(_call: Call, obj: Json) -> None:
    obj.setdefault("spec", {})


_NOT_READY = "node.kubernetes.io/not-ready"

_BORN: dict[str, Callable[[Call, Json], None]] = {
    "/pods": pod_born,
    "/services": builtins_services.born,
    "/nodes": _node_born,
    "/resourcequotas": _quota_born,
    "/persistentvolumes": _protected("kubernetes.io/pv-protection"),
    "/persistentvolumeclaims": _protected("kubernetes.io/pvc-protection"),
    "batch/jobs": _job_born,
}
