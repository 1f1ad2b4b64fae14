"""Validation of built-in kinds: what kubectl users see refused, in the server's words.

What it does: runs the rules of a kind, then asks its schema for values outside
enumerations and for required texts that are empty.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from echelon.hub import (
    builtins_access_rules,
    builtins_core_rules,
    builtins_defaults,
    builtins_hook_rules,
    builtins_limit_rules,
    builtins_network_rules,
    builtins_policy_rules,
    builtins_workload_rules,
)
from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.crd_rules import definition
from echelon.hub.kinds import Kind
from echelon.hub.schema_node import Schema
from echelon.hub.schema_ok import is_ok

Json = dict[str, Any]

REQUIRED: dict[str, tuple[str, ...]] = {
    "AWSElasticBlockStoreVolumeSource": ("volumeID",),
    "AzureDiskVolumeSource": ("diskName", "diskURI"),
    "AzureFileVolumeSource": ("secretName", "shareName"),
    "CSIVolumeSource": ("driver",),
    "ConfigMapKeySelector": ("key",),
    "ConfigMapProjection": ("name",),
    "ConfigMapVolumeSource": ("name",),
    "CrossVersionObjectReference": ("kind", "name"),
    "GlusterfsVolumeSource": ("endpoints", "path"),
    "HostPathVolumeSource": ("path",),
    "HTTPIngressRuleValue": ("paths",),
    "IngressServiceBackend": ("name",),
    "KeyToPath": ("key", "path"),
    "LimitRangeItem": ("type",),
    "NFSVolumeSource": ("server", "path"),
    "PersistentVolumeClaimVolumeSource": ("claimName",),
    "RBDVolumeSource": ("image",),
    "RuleWithOperations": ("operations", "apiGroups", "apiVersions", "resources"),
    "SecretKeySelector": ("key",),
    "SecretVolumeSource": ("secretName",),
    "admissionregistration.v1.ServiceReference": ("namespace", "name"),
}
"""By definition: texts and lists that must not be empty, wherever the definition is used.

A definition whose name another group has too is named with its group and version.
"""

RULES: dict[str, Rule] = {
    **builtins_workload_rules.RULES,
    **builtins_core_rules.RULES,
    **builtins_access_rules.RULES,
    **builtins_hook_rules.RULES,
    **builtins_network_rules.RULES,
    **builtins_policy_rules.RULES,
    **builtins_limit_rules.RULES,
    "apiextensions.k8s.io/customresourcedefinitions": definition,
}


def problems(kind: Kind, schema: Schema, obj: Json, old: Json | None) -> list[dict[str, str]]:
    """Return why an object of a built-in kind may not be stored."""
    found = Found()
    rule = RULES.get(kind.resource)
    if rule is not None:
        rule(found, obj, old)
    if _has_required(schema.ref or "") or not is_ok(schema, obj):
        for name, child in schema.properties.items():
            if name not in ("metadata", "status") and name in obj:
                _walk(found, child, obj[name], name)
    return found.causes


def _required(definition: str) -> tuple[str, ...]:
    """Return what must not be empty in a definition."""
    parts = definition.split(".")
    return REQUIRED.get(parts[-1]) or REQUIRED.get(".".join(parts[-3:]), ())


@cache
def _has_required(definition: str) -> bool:
    """Say whether a definition, or one that it leads to, has something that must not be empty."""
    seen, waiting = set(), [definition]
    known = builtins_defaults.definitions()
    while waiting:
        name = waiting.pop()
        if _required(name):
            return True
        if name not in seen:
            seen.add(name)
            nodes = (known.get(name, {}).get("properties") or {}).values()
            waiting += [builtins_defaults.target(node)[0] for node in nodes]
    return False


def _walk(found: Found, schema: Schema, value: Any, path: str) -> None:
    """Report values outside an enumeration and what is missing; what a rule already said is not said twice."""
    if value.__class__ is str:
        if schema.enum is not None and value and value not in schema.enum and not found.has(path):
            found.unsupported(path, value, list(schema.enum))
    elif value.__class__ is list and schema.items is not None:
        for index, item in enumerate(value):
            _walk(found, schema.items, item, f"{path}[{index}]")
    elif value.__class__ is dict:
        for name in _required(schema.ref or ""):
            if not value.get(name) and not found.has(f"{path}.{name}"):
                found.required(f"{path}.{name}")
        for name, item in value.items():
            child = schema.properties.get(name)
            if child is not None:
                _walk(found, child, item, f"{path}.{name}")
