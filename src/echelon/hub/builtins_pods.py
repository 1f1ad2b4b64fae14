"""What a new pod gets from the server: its account, tolerations, priority and first status.

What it must never do: refuse a pod for an account that is not there yet; members
are simulated, and nothing in them needs the token.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from echelon.hub.call import Call

Json = dict[str, Any]

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CLASSES = "scheduling.k8s.io/priorityclasses"
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def pod_born(call: Call, obj: Json) -> None:
    """Complete a new pod."""
    spec = obj.get("spec")
    if spec.__class__ is not dict:
        return
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    if spec.get("automountServiceAccountToken") is not False:
        _mount_token(obj["metadata"]["uid"], spec)
    _tolerate(spec)
    _priority(call, spec)
    obj["status"] = {"phase": "Pending", "qosClass": quality(spec)}


def _mount_token(uid: str, spec: Json) -> None:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bare = [each for each in containers if each.__class__ is dict and not _mounts_there(each)]
    if not bare:
        return
    digest = hashlib.sha256(uid.encode()).digest()
    name = "kube-api-access-" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])
    for container in bare:
        mount = {"mountPath": _TOKEN_PATH, "name": name, "readOnly": True}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": _token_volume()}]


def _mounts_there(container: Json) -> bool:
    return any(mount.get("mountPath") == _TOKEN_PATH for mount in container.get("volumeMounts") or ())


def _token_volume() -> Json:
    namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
    root = {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}
    return {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": root},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }


def pod_changed(_call: Call, new: Json, _old: Json) -> None:
    """Let a changed pod tolerate what every pod tolerates."""
    if isinstance(new.get("spec"), dict):
        new["spec"] = dict(new["spec"])
        _tolerate(new["spec"])


def _tolerate(spec: Json) -> None:
    have = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        covered = any(
            each.get("key") in (key, None, "") and each.get("effect") in ("NoExecute", None, "")
            for each in have
        )
        if not covered:
            have.append({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300})
    if have:
        spec["tolerations"] = have


def _priority(call: Call, spec: Json) -> None:
    wanted = spec.get("priorityClassName")
    table = call.hub.store.table(call.cluster.name, _CLASSES)
    found: Json | None = None
    if wanted:
        entry = table.live.get(wanted)
        found = msgspec.json.decode(entry.body) if entry is not None else None
        if found is None and wanted in SYSTEM_PRIORITIES:
            found = {"value": SYSTEM_PRIORITIES[wanted]}
    elif table.live:
        classes = (msgspec.json.decode(entry.body) for entry in table.live.values())
        defaults = [each for each in classes if each.get("globalDefault")]
        found = min(defaults, key=lambda each: each["value"], default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found["value"] if found else 0
    spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")


def quality(spec: Json) -> str:
    """Return the quality of service class of a pod."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    guaranteed, any_amount = bool(containers), False
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            if limits.get(name) or requests.get(name):
                any_amount = True
            if not limits.get(name) or limits.get(name) != requests.get(name, limits.get(name)):
                guaranteed = False
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
