"""Validation of LimitRanges and ResourceQuotas: what may be limited, and which limits make sense together.

What it must never do: look at the pods they are about.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.builtins_pod_rules import Found, Rule, resource_name
from echelon.hub.metadata import qualified_problems
from echelon.rules.quantity import InvalidQuantity, quantity_of

Json = dict[str, Any]

_LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
_POD_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
_SCOPES = (*_POD_SCOPES, "CrossNamespacePodAffinity", "VolumeAttributesClass")
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
_STANDARD = (*_COMPUTE, *_COUNTED, "requests.storage")

_COMPARED = (
    ("min", "max", "min", "min", "min value {0} is greater than max value {1}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest",
     "min value {0} is greater than default request value {1}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest",
     "default request value {0} is greater than max value {1}"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest",
     "default request value {0} is greater than default limit value {1}"),
    ("min", "default", "default", "min", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "max", "default value {0} is greater than max value {1}"),
)  # fmt: skip
"""What must not be more than what: the two, where it is reported, whose value is shown, and the words."""


def _range(found: Found, obj: Json, _old: Json | None) -> None:
    """Check a LimitRange."""
    seen: set[str] = set()
    for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        for problem in qualified_problems(kind):
            found.invalid(f"{path}.type", kind, problem)
        if kind and "/" not in kind and kind not in _LIMITED:
            found.invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            found.duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    found.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (item.get(field) or {}) for field in ("min", "max")
        ):
            why = "either minimum or maximum storage value is required, but neither was provided"
            found.required(f"{path}.limits", why)
        _names(found, item, path)
        _bounds(found, item, path, () if kind == "Pod" else ("default", "defaultRequest"))


def _names(found: Found, item: Json, path: str) -> None:
    """Check what is limited."""
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name in item.get(field) or {}:
            where = f"{path}.{field}[{name}]"
            for problem in qualified_problems(name):
                found.invalid(where, name, problem)
            if not (_is_standard(name) or name == "storage"):
                found.invalid(where, name, "must be a standard resource type or fully qualified")
            elif item.get("type") in ("Pod", "Container"):
                resource_name(found, name, where)


def _bounds(found: Found, item: Json, path: str, defaults: tuple[str, ...]) -> None:
    """Check the amounts of one item among each other."""
    for low, high, field, shown, words in _COMPARED:
        if {low, high} & {"default", "defaultRequest"} - set(defaults):
            continue
        less, more = item.get(low) or {}, item.get(high) or {}
        for name in sorted(less.keys() & more.keys()):
            if amount_of(less[name]) > amount_of(more[name]):
                value = (item.get(shown) or {})[name]
                found.invalid(f"{path}.{field}[{name}]", value, words.format(less[name], more[name]))
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        if amount_of(ratio) < 1:
            why = f"ratio {ratio} is less than 1"
            found.invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, why)


def amount_of(text: Any) -> Any:
    """Read a quantity; what is none was refused before and counts as nothing."""
    try:
        return quantity_of(text)
    except (InvalidQuantity, TypeError):
        return 0


def _quota(found: Found, obj: Json, _old: Json | None) -> None:
    """Check a ResourceQuota."""
    spec = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, amount in sorted(hard.items()):
        path = f"spec.hard[{name}]"
        if not _is_standard(name):
            found.invalid(path, name, "must be a standard resource type or fully qualified")
            found.invalid(path, name, "must be a standard resource for quota")
        if amount_of(amount) < 0:
            found.invalid(path, amount, "must be greater than or equal to 0")
        elif (name in _COUNTED or name.startswith("count/")) and amount_of(amount).denominator != 1:
            found.invalid(path, amount, "must be an integer")
    scopes = spec.get("scopes") or []
    if any(scope not in _SCOPES for scope in scopes):
        found.invalid("spec.scopes", scopes, "unsupported scope")
        found.judged += [f"spec.scopes[{index}]" for index in range(len(scopes))]
    elif any(not _counts(scope, name) for scope in scopes for name in hard):
        found.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _CONFLICTING):
        found.invalid("spec.scopes", scopes, "conflicting scopes")


def _is_standard(name: str) -> bool:
    """Say whether a quota may name a resource so."""
    for prefix in ("requests.", "limits."):
        if name.startswith(prefix) and (name[len(prefix) :] in _COMPUTE or "/" in name):
            return True
    return name in _STANDARD or "/" in name or name.startswith(("hugepages-", "requests.hugepages-"))


def _counts(scope: str, name: str) -> bool:
    """Say whether a scope can choose among what a name counts."""
    if scope == "BestEffort":
        return name == "pods"
    if scope in _POD_SCOPES:
        return name == "pods" or name in _COMPUTE or name.startswith(("requests.", "limits."))
    return True


RULES: dict[str, Rule] = {"/limitranges": _range, "/resourcequotas": _quota}
