"""Built-in resources served in several versions: how each is stored as the one that is stored.

Pure conversions of decoded objects; what a version cannot say is left out, never
guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Convert = Callable[[Json], Json]

_EVENT_FIELDS = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
"""Names of events.k8s.io/v1 and of v1 for the same things."""


def event_to_core(obj: Json) -> Json:
    """Turn an events.k8s.io/v1 Event into the v1 Event that is stored."""
    names = dict(_EVENT_FIELDS)
    made = {names.get(name, name): value for name, value in obj.items()}
    made["apiVersion"] = "v1"
    return made


def event_from_core(obj: Json) -> Json:
    """Turn a stored v1 Event into an events.k8s.io/v1 one."""
    names = {core: new for new, core in _EVENT_FIELDS}
    made = {names.get(name, name): value for name, value in obj.items()}
    made["apiVersion"] = "events.k8s.io/v1"
    return made


_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


def autoscaler_to_v2(obj: Json) -> Json:
    """Turn an autoscaling/v1 autoscaler into v2: the CPU target becomes a metric."""
    made = {**obj, "apiVersion": "autoscaling/v2"}
    spec = dict(obj.get("spec") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    annotations = dict(obj["metadata"].get("annotations") or {})
    metrics = json.loads(annotations.pop(_METRICS, "[]"))
    if target is not None:
        resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
        metrics.insert(0, {"type": "Resource", "resource": resource})
    if metrics:
        spec["metrics"] = metrics
    behavior = annotations.pop(_BEHAVIOR, None)
    if behavior is not None:
        spec["behavior"] = json.loads(behavior)
    made["spec"] = spec
    made["metadata"] = _annotated(obj["metadata"], annotations)
    status = dict(obj.get("status") or {})
    status.pop("currentCPUUtilizationPercentage", None)
    if status:
        made["status"] = {"currentMetrics": None, **status}
    return made


def autoscaler_from_v2(obj: Json) -> Json:
    """Turn a stored v2 autoscaler into v1; what v1 cannot say is kept in annotations, as Kubernetes does."""
    made = {**obj, "apiVersion": "autoscaling/v1"}
    spec = dict(obj.get("spec") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        resource = metric.get("resource") or {}
        wanted = (resource.get("target") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and wanted is not None:
            spec["targetCPUUtilizationPercentage"] = wanted
        else:
            others.append(metric)
    annotations = dict(obj["metadata"].get("annotations") or {})
    if others:
        annotations[_METRICS] = json.dumps(others, separators=(",", ":"))
    behavior = spec.pop("behavior", None)
    if behavior is not None:
        annotations[_BEHAVIOR] = json.dumps(behavior, separators=(",", ":"))
    made["spec"] = spec
    made["metadata"] = _annotated(obj["metadata"], annotations)
    known = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
    status = {name: value for name, value in (obj.get("status") or {}).items() if name in known}
    made["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    return made


def _annotated(metadata: Json, annotations: Json) -> Json:
    made = {name: value for name, value in metadata.items() if name != "annotations"}
    if annotations:
        made["annotations"] = annotations
    return made


CONVERSIONS: dict[tuple[str, str], tuple[str, Convert | None, Convert | None]] = {
    ("events.k8s.io/events", "v1"): ("v1", event_to_core, event_from_core),
    ("autoscaling/horizontalpodautoscalers", "v1"): ("autoscaling/v2", autoscaler_to_v2, autoscaler_from_v2),
}
"""By resource and version: the version that is stored, and the way there and back."""
