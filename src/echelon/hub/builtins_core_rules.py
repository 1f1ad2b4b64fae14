"""Validation of ConfigMaps, Secrets, Services, storage, networking and the rest that is no workload.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

import re
from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_network_rules import address
from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.builtins_pod_rules import port as check_port
from echelon.rules.quantity import InvalidQuantity, quantity_of

Json = dict[str, Any]

_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_KEY_ADVICE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MAX_CONFIG = 1024 * 1024
"""Bytes of a ConfigMap's or Secret's data together."""


def _config_keys(found: Found, values: Json, field: str) -> None:
    for key in sorted(values):
        if key in (".", "..") or key.startswith("..") or not _KEY.match(key):
            advice = _KEY_ADVICE
            if key in (".", ".."):
                advice = f"must not be '{key}'"
            elif _KEY.match(key):
                advice = "must not start with '..'"
            found.invalid(f"{field}[{key}]", key, advice)
        elif len(key) > 253:
            found.invalid(f"{field}[{key}]", key, "must be no more than 253 characters")


def _sealed(found: Found, obj: Json, old: Json | None) -> None:
    """Refuse to change what declared itself immutable."""
    if old is None or not old.get("immutable"):
        return
    fields = [] if obj.get("immutable") else ["immutable"]
    for field in fields + [name for name in ("data", "binaryData") if obj.get(name) != old.get(name)]:
        found.forbidden(field, "field is immutable when `immutable` is set")


def _config_map(found: Found, obj: Json, old: Json | None) -> None:
    _sealed(found, obj, old)
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    _config_keys(found, data, "data")
    _config_keys(found, binary, "binaryData")
    for key in sorted(data.keys() & binary.keys()):
        found.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    _sized(found, [*data.values(), *binary.values()], "[]")


def _sized(found: Found, values: list[str], field: str) -> None:
    if sum(len(value) for value in values) > MAX_CONFIG:
        found.add("FieldValueTooLong", field, f"Too long: may not be more than {MAX_CONFIG} bytes")


_SECRET_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _secret(found: Found, obj: Json, old: Json | None) -> None:
    _sealed(found, obj, old)
    if old is not None and obj.get("type") != old.get("type"):
        found.invalid("type", obj.get("type"), "field is immutable")
    data = obj.get("data") or {}
    _config_keys(found, data, "data")
    _sized(found, list(data.values()), "data")
    kind = obj.get("type", "")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.required(f"data[{key}]")
    annotations = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(
        "kubernetes.io/service-account.name"
    ):
        found.required("metadata.annotations[kubernetes.io/service-account.name]")


def _service(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        found.required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        found.required("spec.externalName")
    names: set[str] = set()
    taken: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            found.required(f"{path}.name")
        elif name and (problems := metadata.label_name_problems(name)):
            for text in problems:
                found.invalid(f"{path}.name", name, text)
        elif name in names:
            found.duplicate(f"{path}.name", name)
        names.add(name)
        key = (port.get("protocol"), port.get("port"))
        if key in taken:
            found.duplicate(f"spec.ports[{index}]", port)
        taken.add(key)
        check_port(found, port.get("port", 0), f"{path}.port")
        check_port(found, port.get("targetPort"), f"{path}.targetPort")
        node_port = port.get("nodePort")
        if node_port and not 30000 <= node_port <= 32767:
            found.invalid(
                f"{path}.nodePort",
                node_port,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            )
    if spec.get("selector"):
        found.causes += metadata.label_problems(spec["selector"], "spec.selector")
    for index, each in enumerate(spec.get("clusterIPs") or ()):
        if each != "None":
            address(found, each, f"spec.clusterIPs[{index}]")
    for index, each in enumerate(spec.get("externalIPs") or ()):
        address(found, each or "", f"spec.externalIPs[{index}]")
    if old is not None and kind != "ExternalName" and (old.get("spec") or {}).get("type") != "ExternalName":
        before, after = (old.get("spec") or {}).get("clusterIPs"), spec.get("clusterIPs")
        if before and spec.get("clusterIP") != before[0]:
            found.invalid("spec.clusterIPs[0]", after, "may not change once set")


ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _claim(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        found.required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in ACCESS_MODES:
            found.unsupported("spec.accessModes", mode, list(ACCESS_MODES))
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        found.required("spec.resources[storage]")
    elif _amount(requests["storage"]) <= 0:
        found.invalid("spec.resources[storage]", str(requests["storage"]), "must be greater than zero")
    name = spec.get("storageClassName") or ""
    for text in metadata.subdomain_problems(name) if name else ():
        found.invalid("spec.storageClassName", name, text)
    if old is None:
        return
    was, now = dict(old.get("spec") or {}), dict(spec)
    free = ["volumeAttributesClassName", *(["volumeName"] if not was.get("volumeName") else [])]
    if (old.get("status") or {}).get("phase") == "Bound":
        free.append("resources")
    if was.get("storageClassName") is None:
        free.append("storageClassName")
    if any(was.get(name) != now.get(name) for name in was.keys() | now.keys() if name not in free):
        found.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )


def _storage_class(found: Found, obj: Json, old: Json | None) -> None:
    if not obj.get("provisioner"):
        found.required("provisioner")
    else:
        for text in metadata.qualified_problems(obj["provisioner"].lower()):
            found.invalid("provisioner", obj["provisioner"], text)
    for field in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        if old is not None and obj.get(field) != old.get(field):
            found.forbidden(field, f"updates to {field} are forbidden.")


def _priority_class(found: Found, obj: Json, old: Json | None) -> None:
    if old is not None and obj.get("value") != old.get("value"):
        found.forbidden("value", "may not be changed in an update.")


def _volume(found: Found, obj: Json, _old: Json | None) -> None:
    """Check a PersistentVolume."""
    spec = obj.get("spec") or {}
    capacity = spec.get("capacity")
    if not capacity:
        found.required("spec.capacity")
    if not isinstance(capacity, dict) or set(capacity) != {"storage"}:
        found.unsupported("spec.capacity", capacity, ["storage"])
    elif _amount(capacity["storage"]) <= 0:
        found.invalid("spec.capacity[storage]", str(capacity["storage"] or 0), "must be greater than zero")
    if not spec.get("accessModes"):
        found.required("spec.accessModes")
    if not set(spec) - _NOT_SOURCES:
        found.required("spec", "must specify a volume type")


_NOT_SOURCES = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)


def _amount(value: Any) -> Any:
    try:
        return quantity_of(value) if value is not None else 0
    except InvalidQuantity:
        return 0


def _runtime_class(found: Found, obj: Json, old: Json | None) -> None:
    handler = obj.get("handler", "")
    if not re.fullmatch(metadata.LABEL_FMT, handler):
        found.invalid("handler", handler, metadata.LABEL_MESSAGE)
    if old is not None and handler != old.get("handler"):
        found.invalid("handler", handler, "field is immutable")


RULES: dict[str, Rule] = {
    "/configmaps": _config_map,
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    "/secrets": _secret,
    "/services": _service,
    "node.k8s.io/runtimeclasses": _runtime_class,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "storage.k8s.io/storageclasses": _storage_class,
}
