"""Whether an applied object is up, for every kind whose readiness can be told from the object itself.

`availability_of` is the one entry. Only exact group/version/plural matches are judged; anything unknown is
"not trackable", which callers treat as available. It never looks at other objects (Pods of a Deployment), so
one event about the object is enough to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

Live = Mapping[str, Any]


class Availability(Enum):
    """What can be said about an applied object."""

    AVAILABLE = "Available"
    NOT_YET = "ManifestNotAvailableYet"
    NOT_TRACKABLE = "NotTrackable"


AVAILABLE, NOT_YET, NOT_TRACKABLE = Availability.AVAILABLE, Availability.NOT_YET, Availability.NOT_TRACKABLE


def availability_of(group: str, version: str, plural: str, live: Live) -> Availability:
    """R-WORK-8: an object is judged by itself; a kind of which nothing can be told counts as available."""
    rule = _RULES.get((group, version, plural))
    return rule(live) if rule else NOT_TRACKABLE


def _yes(condition: bool) -> Availability:
    return AVAILABLE if condition else NOT_YET


def _part(live: Live, name: str) -> Mapping[str, Any]:
    return live.get(name) or {}


def _count(status: Mapping[str, Any], name: str) -> int:
    """Read a counter; the API leaves zeros out."""
    return int(status.get(name) or 0)


def _generation(live: Live) -> int:
    return int(_part(live, "metadata").get("generation") or 0)


def _is_observed(live: Live) -> bool:
    """Tell whether the object's controller has seen its newest spec."""
    return _count(_part(live, "status"), "observedGeneration") == _generation(live)


def _wanted_replicas(live: Live) -> int:
    replicas = _part(live, "spec").get("replicas")
    return 1 if replicas is None else int(replicas)


def _deployment(live: Live) -> Availability:
    status, wanted = _part(live, "status"), _wanted_replicas(live)
    return _yes(
        _is_observed(live)
        and _count(status, "availableReplicas") == wanted
        and _count(status, "updatedReplicas") == wanted
        and _count(status, "unavailableReplicas") == 0
    )


def _stateful_set(live: Live) -> Availability:
    status = _part(live, "status")
    return _yes(
        _is_observed(live)
        and _count(status, "availableReplicas") == _wanted_replicas(live)
        and _count(status, "currentReplicas") == _count(status, "updatedReplicas")
        and status.get("currentRevision") == status.get("updateRevision")
    )


def _daemon_set(live: Live) -> Availability:
    status = _part(live, "status")
    return _yes(
        _is_observed(live)
        and _count(status, "numberAvailable") == _count(status, "desiredNumberScheduled")
        and _count(status, "currentNumberScheduled") == _count(status, "updatedNumberScheduled")
    )


def _service(live: Live) -> Availability:
    spec = _part(live, "spec")
    kind = spec.get("type") or "ClusterIP"
    if kind in {"ClusterIP", "NodePort"}:
        addresses = spec.get("clusterIPs") or [""]
        return _yes(bool(addresses[0]))  # "None", a headless Service, is an answer too
    if kind == "LoadBalancer":
        entries = _part(_part(live, "status"), "loadBalancer").get("ingress") or [{}]
        return _yes(bool(entries[0].get("ip") or entries[0].get("hostname")))
    return NOT_TRACKABLE


def _condition(live: Live, type_: str) -> Mapping[str, Any]:
    for condition in _part(live, "status").get("conditions") or ():
        if condition.get("type") == type_:
            return dict(condition)
    return {}


def _crd(live: Live) -> Availability:
    return _yes(
        all(_condition(live, type_).get("status") == "True" for type_ in ("Established", "NamesAccepted"))
    )


def _disruption_budget(live: Live) -> Availability:
    condition = _condition(live, "DisruptionAllowed")
    is_allowed = _count(_part(live, "status"), "disruptionsAllowed") > 0
    wanted = ("True", "SufficientPods") if is_allowed else ("False", "InsufficientPods")
    said = (condition.get("status"), condition.get("reason"))
    return _yes(_is_observed(live) and said == wanted)


def _at_once(_: Live) -> Availability:
    return AVAILABLE


_RBAC, _STORAGE = "rbac.authorization.k8s.io", "storage.k8s.io"
_RULES: Mapping[tuple[str, str, str], Callable[[Live], Availability]] = {
    ("apps", "v1", "deployments"): _deployment,
    ("apps", "v1", "statefulsets"): _stateful_set,
    ("apps", "v1", "daemonsets"): _daemon_set,
    ("", "v1", "services"): _service,
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"): _crd,
    ("policy", "v1", "poddisruptionbudgets"): _disruption_budget,
    # A stored object of these kinds is in force: nothing has to start.
    **{
        ("", "v1", plural): _at_once
        for plural in (
            "namespaces",
            "secrets",
            "configmaps",
            "serviceaccounts",
            "limitranges",
            "resourcequotas",
        )
    },
    **{
        (_RBAC, "v1", plural): _at_once
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
    },
    **{("networking.k8s.io", "v1", plural): _at_once for plural in ("networkpolicies", "ingressclasses")},
    **{
        (_STORAGE, "v1", plural): _at_once
        for plural in ("csidrivers", "csinodes", "storageclasses", "csistoragecapacities")
    },
    ("apps", "v1", "controllerrevisions"): _at_once,
    ("scheduling.k8s.io", "v1", "priorityclasses"): _at_once,
}
