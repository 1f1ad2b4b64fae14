"""Rows of storage drivers, admission, definitions, leases and all other kinds.

One function per kind, from an object and the time to its cells, in the order of the
columns in the data file.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from echelon.hub.tables_text import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    at,
    joined,
    named,
    selector_text,
    since,
)

Json = dict[str, Any]
Now = dt.datetime


def name(obj: Json) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def csi_driver(obj: Json, now: Now) -> list[Any]:
    """Print a csi driver."""
    spec = obj.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        name(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(each.get("audience", "") for each in tokens) if tokens else UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def csi_node(obj: Json, now: Now) -> list[Any]:
    """Print a csi node."""
    return [name(obj), len(at(obj, "spec", "drivers") or ()), age(obj, now)]


_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def storage_class(obj: Json, now: Now) -> list[Any]:
    """Print a storage class."""
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def volume_attachment(obj: Json, now: Now) -> list[Any]:
    """Print a volume attachment."""
    spec = obj.get("spec") or {}
    return [
        name(obj),
        spec.get("attacher", ""),
        at(spec, "source", "persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(at(obj, "status", "attached")),
        age(obj, now),
    ]


def attributes_class(obj: Json, now: Now) -> list[Any]:
    """Print an attributes class."""
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def _param_kind(obj: Json) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def validating_policy(obj: Json, now: Now) -> list[Any]:
    """Print a validating policy."""
    return [name(obj), len(at(obj, "spec", "validations") or ()), _param_kind(obj), age(obj, now)]


def mutating_policy(obj: Json, now: Now) -> list[Any]:
    """Print a mutating policy."""
    return [name(obj), len(at(obj, "spec", "mutations") or ()), _param_kind(obj), age(obj, now)]


def policy_binding(obj: Json, now: Now) -> list[Any]:
    """Print a policy binding."""
    ref = at(obj, "spec", "paramRef")
    shown = UNSET
    if ref:
        shown = (
            f"{ref['namespace']}/{ref.get('name', '')}"
            if ref.get("namespace")
            else "*/" + ref.get("name", "")
        )
        if ref.get("selector") is not None:
            shown = selector_text(ref["selector"])
    return [name(obj), at(obj, "spec", "policyName") or "", shown, age(obj, now)]


def webhooks(obj: Json, now: Now) -> list[Any]:
    """Print a webhook configuration of either kind."""
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def definition(obj: Json, _now: Now) -> list[Any]:
    """Print a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = [
        each["name"] + ("(storage)" if each.get("storage") else "")
        for each in spec.get("versions") or ()
        if each.get("served") or each.get("storage")
    ]
    return [
        name(obj),
        spec.get("scope", ""),
        ",".join(versions),
        obj["metadata"].get("creationTimestamp"),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        (named("Established", obj) or {}).get("status") == "True",
    ]


def api_service(obj: Json, now: Now) -> list[Any]:
    """Print an api service."""
    service = at(obj, "spec", "service")
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    condition = named("Available", obj)
    word = "Unknown" if condition is None else condition.get("status", "Unknown")
    if condition is not None and word != "True":
        word = f"{word} ({condition.get('reason', '')})"
    return [name(obj), where, word, age(obj, now)]


def priority_class(obj: Json, now: Now) -> list[Any]:
    """Print a priority class."""
    value, default = obj.get("value", 0), bool(obj.get("globalDefault"))
    return [name(obj), value, default, age(obj, now), obj.get("preemptionPolicy", "")]


def lease(obj: Json, now: Now) -> list[Any]:
    """Print a lease."""
    return [name(obj), at(obj, "spec", "holderIdentity") or "", age(obj, now)]


def runtime_class(obj: Json, now: Now) -> list[Any]:
    """Print a runtime class."""
    return [name(obj), obj.get("handler", ""), age(obj, now)]


def only_age(obj: Json, now: Now) -> list[Any]:
    """Print what has nothing to tell but its age."""
    return [name(obj), age(obj, now)]


def taint_rule(obj: Json, now: Now) -> list[Any]:
    """Print a taint rule."""
    taint = at(obj, "spec", "taint") or {}
    added = since(taint.get("timeAdded"), now) if taint.get("timeAdded") else UNKNOWN
    words = (taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))
    return [name(obj), *words, added, age(obj, now)]


def resource_claim(obj: Json, now: Now) -> list[Any]:
    """Print a resource claim."""
    status = obj.get("status") or {}
    words = [
        word
        for field, word in (("allocation", "allocated"), ("reservedFor", "reserved"))
        if status.get(field)
    ]
    if obj["metadata"].get("deletionTimestamp"):
        words.insert(0, "deleted")
    return [name(obj), ",".join(words) or "pending", age(obj, now)]


def resource_slice(obj: Json, now: Now) -> list[Any]:
    """Print a resource slice."""
    spec = obj.get("spec") or {}
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else UNSET)
    return [name(obj), node, spec.get("driver", ""), at(spec, "pool", "name") or "", age(obj, now)]


def flow_schema(obj: Json, now: Now) -> list[Any]:
    """Print a flow schema."""
    spec = obj.get("spec") or {}
    dangling = named("Dangling", obj)
    return [
        name(obj),
        at(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        at(spec, "distinguisherMethod", "type") or NONE,
        age(obj, now),
        dangling.get("status", "?") if dangling else "?",
    ]


def priority_level(obj: Json, now: Now) -> list[Any]:
    """Print a priority level."""
    spec = obj.get("spec") or {}
    limited = spec.get("limited") or {}
    queuing = at(limited, "limitResponse", "queuing") or {}
    queues = (queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit"))
    shares = limited.get("nominalConcurrencyShares", NONE)
    return [name(obj), spec.get("type", ""), shares, *queues, age(obj, now)]


def migration(obj: Json, _now: Now) -> list[Any]:
    """Print a migration."""
    resource = at(obj, "spec", "resource") or {}
    shown = joined([part for part in (resource.get("resource"), resource.get("group")) if part]).replace(
        ",", "."
    )
    word = next(
        (
            kind
            for kind in ("Succeeded", "Failed", "Running")
            if (named(kind, obj) or {}).get("status") == "True"
        ),
        "Pending",
    )
    return [name(obj), shown, word]


_ADMISSION = "admissionregistration.k8s.io/"
ROWS = {
    _ADMISSION + "mutatingadmissionpolicies": mutating_policy,
    _ADMISSION + "mutatingadmissionpolicybindings": policy_binding,
    _ADMISSION + "mutatingwebhookconfigurations": webhooks,
    _ADMISSION + "validatingadmissionpolicies": validating_policy,
    _ADMISSION + "validatingadmissionpolicybindings": policy_binding,
    _ADMISSION + "validatingwebhookconfigurations": webhooks,
    "apiextensions.k8s.io/customresourcedefinitions": definition,
    "apiregistration.k8s.io/apiservices": api_service,
    "coordination.k8s.io/leases": lease,
    "flowcontrol.apiserver.k8s.io/flowschemas": flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": priority_level,
    "node.k8s.io/runtimeclasses": runtime_class,
    "resource.k8s.io/deviceclasses": only_age,
    "resource.k8s.io/devicetaintrules": taint_rule,
    "resource.k8s.io/resourceclaims": resource_claim,
    "resource.k8s.io/resourceclaimtemplates": only_age,
    "resource.k8s.io/resourceslices": resource_slice,
    "scheduling.k8s.io/priorityclasses": priority_class,
    "storage.k8s.io/csidrivers": csi_driver,
    "storage.k8s.io/csinodes": csi_node,
    "storage.k8s.io/storageclasses": storage_class,
    "storage.k8s.io/volumeattachments": volume_attachment,
    "storage.k8s.io/volumeattributesclasses": attributes_class,
    "storagemigration.k8s.io/storageversionmigrations": migration,
}
