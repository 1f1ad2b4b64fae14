"""Services and disruption budgets: who is behind a Service, and how many pods may go. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import ENDPOINT_SLICES, POD_DISRUPTION_BUDGETS, SERVICES
from echelon.rules.plan import NOTHING, Action, Create, Patch, Plan, StatusWrite, ref_of
from echelon.sandbox.images import address_of
from echelon.sandbox.workloads_objects import (
    Obj,
    amount,
    is_deleting,
    labels,
    matches,
    meta,
    owned_by,
    spec,
    stamp,
    status,
    with_condition,
)
from echelon.sandbox.workloads_replicas import is_active, is_ready

MAX_ENDPOINTS = 1000  # of one slice, the API's limit; what is beyond is not listed
_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


class SeenService(msgspec.Struct, frozen=True, kw_only=True):
    """A Service, the pods of its namespace that it selects, and its slice."""

    service: Obj
    pods: tuple[Obj, ...] = ()
    endpoint_slice: Obj | None = None


def selects(service: Obj, pod_labels: Any) -> bool:
    """Tell whether a Service selects pods of these labels."""
    selector = spec(service).get("selector") or {}
    return bool(selector) and bool(selector.items() <= pod_labels.items())


def step_service(seen: SeenService, _now: datetime) -> Plan:
    """Keep a Service's slice of endpoints, and give a load balancer an address."""
    service = seen.service
    if is_deleting(service):
        return NOTHING
    write = None
    if spec(service).get("type") == "LoadBalancer" and not (status(service).get("loadBalancer") or {}).get(
        "ingress"
    ):
        ingress = [{"ip": address_of(meta(service)["uid"], "172.19"), "ipMode": "VIP"}]
        ref = msgspec.structs.replace(ref_of(SERVICES, service), resource_version="")
        new = {**status(service), "loadBalancer": {"ingress": ingress}}
        write = StatusWrite(ref=ref, old=status(service), new=new)
    actions = _slice(seen) if spec(service).get("selector") else []
    return Plan(steps=(tuple(actions),) if actions else (), status=write, why="endpoints")


def _slice(seen: SeenService) -> list[Action]:
    service = seen.service
    endpoints = [
        _endpoint(pod)
        for pod in sorted(seen.pods, key=lambda pod: str(meta(pod)["name"]))
        if status(pod).get("podIP") and status(pod).get("phase") == "Running"
    ][:MAX_ENDPOINTS]
    ports = [_port(one, seen.pods) for one in spec(service).get("ports") or ()]
    held = seen.endpoint_slice
    if held is None:
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{meta(service)['name']}-{meta(service)['uid'][:5]}",
                "namespace": meta(service)["namespace"],
                "labels": {
                    _SERVICE_NAME: meta(service)["name"],
                    _MANAGED_BY: "endpointslice-controller.k8s.io",
                },
                "ownerReferences": owned_by(service),
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": ports,
        }
        return [Create(resource=ENDPOINT_SLICES, body=body)]
    if (held.get("endpoints") or []) == endpoints and (held.get("ports") or []) == ports:
        return []
    ref = msgspec.structs.replace(ref_of(ENDPOINT_SLICES, held), resource_version="")
    return [Patch(ref=ref, body={"endpoints": endpoints, "ports": ports}, gone_ok=True)]


def _endpoint(pod: Obj) -> dict[str, Any]:
    ready = is_ready(pod) and not is_deleting(pod)
    return {
        "addresses": [status(pod)["podIP"]],
        "conditions": {"ready": ready, "serving": is_ready(pod), "terminating": is_deleting(pod)},
        "nodeName": spec(pod).get("nodeName") or "",
        "targetRef": {
            "kind": "Pod",
            "name": meta(pod)["name"],
            "namespace": meta(pod)["namespace"],
            "uid": meta(pod)["uid"],
        },
    }


def _port(port: Obj, pods: Sequence[Obj]) -> dict[str, Any]:
    target = port.get("targetPort", port["port"])
    if isinstance(target, str):
        named = (
            one["containerPort"]
            for pod in pods
            for container in spec(pod)["containers"]
            for one in container.get("ports") or ()
            if one.get("name") == target
        )
        target = next(named, port["port"])
    return {"name": port.get("name") or "", "port": target, "protocol": port.get("protocol") or "TCP"}


# disruption budgets ---------------------------------------------------------------------------------------------


class SeenBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget and the pods of its namespace."""

    budget: Obj
    pods: tuple[Obj, ...] = ()


def step_budget(seen: SeenBudget, now: datetime) -> Plan:
    """Count how many pods may be evicted."""
    budget = seen.budget
    if is_deleting(budget):
        return NOTHING
    pods = [pod for pod in seen.pods if is_active(pod) and matches(spec(budget).get("selector"), labels(pod))]
    healthy = sum(map(is_ready, pods))
    expected = len(pods)
    if spec(budget).get("maxUnavailable") is not None:
        wanted = max(expected - amount(spec(budget)["maxUnavailable"], expected, round_up=True), 0)
    else:
        wanted = amount(spec(budget).get("minAvailable", 1), expected, round_up=True)
    allowed = max(healthy - wanted, 0) if expected else 0
    value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    generation = int(meta(budget).get("generation") or 1)
    conditions = with_condition(
        status(budget).get("conditions") or (),
        "DisruptionAllowed",
        value,
        reason,
        "",
        stamp(now),
        observedGeneration=generation,
    )
    for one in conditions:
        one.setdefault("message", "")
    report = {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
        "conditions": conditions,
    }
    ref = msgspec.structs.replace(ref_of(POD_DISRUPTION_BUDGETS, budget), resource_version="")
    return Plan(status=StatusWrite(ref=ref, old=status(budget), new=report), why="counting")
