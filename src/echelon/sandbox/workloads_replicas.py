"""ReplicaSets, and what all controllers of pods share: new pods, and which pods count. Decisions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.builtin import PODS, REPLICA_SETS
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import (
    MAX_CREATED_AT_ONCE,
    Obj,
    WorkloadOptions,
    compact,
    condition_of,
    created_at,
    is_deleting,
    labels,
    meta,
    moment,
    owned_by,
    replicas,
    spec,
    status,
)

TEMPLATE_HASH = "pod-template-hash"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A ReplicaSet and its pods."""

    replica_set: Obj
    pods: tuple[Obj, ...] = ()
    nodes: tuple[str, ...] = ()
    options: WorkloadOptions = WorkloadOptions()


def step(seen: Seen, now: datetime) -> Plan:
    """Make as many pods as are wanted, and report."""
    owner = seen.replica_set
    if is_deleting(owner):
        return NOTHING
    active = [pod for pod in seen.pods if is_active(pod)]
    surplus = len(active) - replicas(owner)
    actions: list[Action] = []
    if surplus < 0:
        name = meta(owner)["name"]
        wanted = range(min(-surplus, MAX_CREATED_AT_ONCE))
        actions += [
            Create(resource=PODS, body=new_pod(owner, spec(owner)["template"], node, generate=name))
            for node in (seen.nodes[(len(active) + index) % len(seen.nodes)] for index in wanted)
        ]
    elif surplus > 0:
        actions += [delete_pod(pod, seen.options) for pod in sorted(active, key=_dispensable)[:surplus]]
    new, wake_at = _report(owner, active, now)
    events: tuple[Emit, ...] = ()
    if actions and seen.options.all_events:
        verb = "Created" if surplus < 0 else "Deleted"
        reason = "SuccessfulCreate" if surplus < 0 else "SuccessfulDelete"
        about = ref_of(REPLICA_SETS, owner)
        events = (Emit(about=about, reason=reason, message=f"{verb} {len(actions)} pod(s)"),)
    return Plan(
        steps=(tuple(actions),) if actions else (),
        status=StatusWrite(ref=_unversioned(owner), old=status(owner), new=new),
        events=events,
        wake_at=wake_at,
        why=f"{len(active)} of {replicas(owner)} pods",
    )


def _unversioned(owner: Obj) -> Any:
    return msgspec.structs.replace(ref_of(REPLICA_SETS, owner), resource_version="")


def _report(owner: Obj, active: Sequence[Obj], now: datetime) -> tuple[dict[str, Any], datetime | None]:
    wait_s = int(spec(owner).get("minReadySeconds") or 0)
    available, wake_at = count_available(active, wait_s, now)
    template = (spec(owner)["template"].get("metadata") or {}).get("labels") or {}
    new = compact(
        {
            "fullyLabeledReplicas": sum(template.items() <= labels(pod).items() for pod in active),
            "readyReplicas": sum(is_ready(pod) for pod in active),
            "availableReplicas": available,
            "terminatingReplicas": 0,
        }
    )
    new["replicas"] = len(active)
    new["observedGeneration"] = int(meta(owner).get("generation") or 1)
    return new, wake_at


def _dispensable(pod: Obj) -> tuple[bool, bool, int, str]:
    """Order pods by how little they are missed: not ready before ready, new before old."""
    created = moment(created_at(pod))
    return (is_ready(pod), _is_begun(pod), -int(created.timestamp()) if created else 0, meta(pod)["name"])


def _is_begun(pod: Obj) -> bool:
    return status(pod).get("phase") == "Running"


# shared ---------------------------------------------------------------------------------------------------------


def new_pod(
    owner: Obj,
    template: Obj,
    node: str,
    *,
    generate: str = "",
    name: str = "",
    more_labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make a pod from a template, already bound to a node."""
    made = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "namespace": meta(owner)["namespace"],
        "labels": {**(made.get("labels") or {}), **(more_labels or {})},
        "ownerReferences": owned_by(owner),
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{generate}-"
    if made.get("annotations"):
        metadata["annotations"] = made["annotations"]
    pod_spec = dict(template.get("spec") or {})
    if node:
        pod_spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}


def delete_pod(pod: Obj, options: WorkloadOptions) -> Delete:
    """Stop a pod; when stopping takes no time it is gone at once."""
    return Delete(ref=_by_name(pod), grace_s=None if options.stop_delay_s else 0)


def _by_name(pod: Obj) -> Any:
    return msgspec.structs.replace(ref_of(PODS, pod), resource_version="")


def is_active(pod: Obj) -> bool:
    """Tell whether a pod counts: it neither ended nor is it on its way out."""
    return not is_deleting(pod) and status(pod).get("phase") not in {"Succeeded", "Failed"}


def is_ready(pod: Obj) -> bool:
    """Tell whether a pod is ready."""
    ready = condition_of(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def count_available(pods: Sequence[Obj], wait_s: int, now: datetime) -> tuple[int, datetime | None]:
    """Count pods that are ready for long enough, and tell when the next one will be."""
    available, next_at = 0, None
    for pod in pods:
        ready = condition_of(pod, "Ready")
        if ready is None or ready["status"] != "True":
            continue
        due = (moment(ready["lastTransitionTime"]) or now) + timedelta(seconds=wait_s)
        if not wait_s or now >= due:
            available += 1
        else:
            next_at = due if next_at is None else min(next_at, due)
    return available, next_at
