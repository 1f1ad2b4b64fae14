"""Validation of Leases, disruption budgets and autoscalers.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

import re
from typing import Any

from echelon.hub.builtins_limit_rules import amount_of
from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.builtins_selector_rules import label_selector

Json = dict[str, Any]


def _lease(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        found.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        found.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def _disruption_budget(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if value.__class__ is int and value < 0:
            found.invalid(f"spec.{field}", value, "must be greater than or equal to 0")
        elif value.__class__ is str and not re.fullmatch(r"[0-9]+%", value):
            found.invalid(f"spec.{field}", value, _PERCENT)
        elif value.__class__ is str and int(value[:-1]) > 100:
            found.invalid(f"spec.{field}", value, "must not be greater than 100%")
    label_selector(found, spec.get("selector"), "spec.selector")


_SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_TARGETS = ("Utilization", "Value", "AverageValue")


def _autoscaler(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        found.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        found.invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        found.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    _reference(found, spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for index, metric in enumerate(spec.get("metrics") or ()):
        _metric(found, metric, f"spec.metrics[{index}]")


def _reference(found: Found, target: Json, path: str) -> None:
    for field in ("kind", "name"):
        value = target.get(field) or ""
        if not value:
            found.required(f"{path}.{field}")
        elif value in (".", "..") or "/" in value or "%" in value:
            found.invalid(f"{path}.{field}", value, "may not contain '/' or '%', and may not be '.' or '..'")
    version = target.get("apiVersion") or ""
    if version.count("/") > 1:
        found.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and target.get("kind") != "ReplicationController":
        found.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric(found: Found, metric: Json, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        found.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        found.unsupported(f"{path}.type", kind, sorted(_SOURCES))
    for name, field in _SOURCES.items():
        source = metric.get(field)
        if source is None:
            continue
        if name != kind:
            found.forbidden(f"{path}.{field}", "must populate the given metric source only")
        _source(found, name, source, f"{path}.{field}")
    if kind in _SOURCES and metric.get(_SOURCES[kind]) is None:
        found.required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")


def _source(found: Found, kind: str, source: Json, path: str) -> None:
    if kind in ("Resource", "ContainerResource"):
        if not source.get("name"):
            found.required(f"{path}.name", "must specify a resource name")
        if kind == "ContainerResource" and not source.get("container"):
            found.required(f"{path}.container", "must specify a container")
    elif not (source.get("metric") or {}).get("name"):
        found.required(f"{path}.metric.name", "must specify a metric name")
    if kind == "Object":
        _reference(found, source.get("describedObject") or {}, f"{path}.describedObject")
    _target(found, kind, source.get("target") or {}, f"{path}.target")


def _target(found: Found, kind: str, target: Json, path: str) -> None:
    wanted = target.get("type") or ""
    if not wanted:
        found.required(f"{path}.type", "must specify a metric target type")
    if wanted not in _TARGETS:
        found.invalid(f"{path}.type", wanted, "must be either Utilization, Value, or AverageValue")
    share, value, average = (target.get(name) for name in ("averageUtilization", "value", "averageValue"))
    if share is not None and share < 1:
        found.invalid(f"{path}.averageUtilization", share, "must be greater than 0")
    for name, amount in (("value", value), ("averageValue", average)):
        if amount is not None and amount_of(amount) <= 0:
            found.invalid(f"{path}.{name}", str(amount), "must be positive")
    if kind in ("Resource", "ContainerResource"):
        if share is not None and average is not None:
            found.forbidden(
                f"{path}.averageValue", "may not set both a target raw value and a target utilization"
            )
        elif share is None and average is None:
            found.required(
                f"{path}.averageUtilization", "must set either a target raw value or a target utilization"
            )
    elif kind == "Pods" and average is None:
        found.required(f"{path}.averageValue", "must specify a positive target averageValue")
    elif kind in ("Object", "External") and value is None and average is None:
        found.required(f"{path}.averageValue", "must set either a target value or averageValue")


RULES: dict[str, Rule] = {
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "coordination.k8s.io/leases": _lease,
    "policy/poddisruptionbudgets": _disruption_budget,
}
