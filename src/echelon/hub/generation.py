"""When metadata.generation moves, kind by kind, exactly as in Kubernetes.

Generation counts what was asked for, never what was observed. Kinds that do
not carry it in Kubernetes do not carry it here.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.kinds import Kind
from echelon.rules.merge import same

Json = dict[str, Any]

_SPEC = ("spec",)
COUNTED: dict[str, tuple[str, ...]] = {
    "/pods": _SPEC,
    "/replicationcontrollers": _SPEC,
    "apps/deployments": ("spec", "metadata.annotations"),
    "apps/replicasets": _SPEC,
    "apps/daemonsets": _SPEC,
    "apps/statefulsets": _SPEC,
    "batch/jobs": _SPEC,
    "batch/cronjobs": _SPEC,
    "networking.k8s.io/ingresses": _SPEC,
    "networking.k8s.io/ingressclasses": _SPEC,
    "networking.k8s.io/networkpolicies": _SPEC,
    "policy/poddisruptionbudgets": _SPEC,
    "apiextensions.k8s.io/customresourcedefinitions": _SPEC,
    "admissionregistration.k8s.io/validatingadmissionpolicies": _SPEC,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": _SPEC,
    "admissionregistration.k8s.io/mutatingadmissionpolicies": _SPEC,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": _SPEC,
    "admissionregistration.k8s.io/validatingwebhookconfigurations": ("webhooks",),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": ("webhooks",),
    "flowcontrol.apiserver.k8s.io/flowschemas": _SPEC,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": _SPEC,
    "autoscaling/horizontalpodautoscalers": _SPEC,
    "discovery.k8s.io/endpointslices": ("endpoints", "ports", "metadata.labels", "metadata.annotations"),
    "scheduling.k8s.io/priorityclasses": ("value",),
    "resource.k8s.io/deviceclasses": _SPEC,
}
"""Built-in resources that carry a generation, and what they count changes of."""


def first(kind: Kind) -> int:
    """Return the generation of a new object, 0 for none."""
    return 1 if kind.custom or kind.resource in COUNTED else 0


def moved(kind: Kind, new: Json, old: Json) -> bool:
    """Say whether an update asks for something new."""
    if kind.custom:
        skip = {"metadata", "status", "apiVersion"} if kind.has_status else {"metadata", "apiVersion"}
        names = [name for name in new.keys() | old.keys() if name not in skip]
        return not all(same(new.get(name), old.get(name)) for name in names)
    paths = COUNTED.get(kind.resource, ())
    return not all(same(_at(new, path), _at(old, path)) for path in paths)


def _at(obj: Json, path: str) -> Any:
    if path.startswith("metadata."):
        return obj["metadata"].get(path.removeprefix("metadata."))
    return obj.get(path)
