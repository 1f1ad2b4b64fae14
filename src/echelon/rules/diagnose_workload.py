"""Why a workload does not come up, told by the object and its pods on the member.

Pure over plain Kubernetes objects. Looks at what the kubelet and the workload controllers say themselves (waiting
reasons, PodScheduled, ReplicaFailure); it never guesses from a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from echelon.rules.diagnose_causes import BLAME
from echelon.rules.diagnose_parts import Evidence, OnMember, Spotted

_BY_REASON: Mapping[str, str] = {
    "InvalidImageName": "image-name-invalid",
    "ErrImagePull": "image-pull",
    "ImagePullBackOff": "image-pull",
    "ErrImageNeverPull": "image-pull",
    "ImageInspectError": "image-pull",
    "RegistryUnavailable": "image-pull",
    "CrashLoopBackOff": "crash-loop",
    "RunContainerError": "crash-loop",
    "CreateContainerConfigError": "config-missing",
    "CreateContainerError": "config-missing",
}
# two words of the kubelet for one thing: told as the one it settles on, so clusters group
_SETTLED = {"ErrImagePull": "ImagePullBackOff"}


def spot_workload(found: OnMember) -> Spotted | None:
    """Return the cause that explains most, among the object and its pods."""
    spotted = [*_of_object(found.object or {})]
    for pod in found.pods:
        spotted += _of_pod(pod)
    return min(spotted, key=lambda one: BLAME[one.cause], default=None)


def _of_object(obj: Mapping[str, Any]) -> Iterator[Spotted]:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            text = condition.get("message") or condition.get("reason") or ""
            yield Spotted(
                cause="pods-refused",
                words={"detail": text},
                evidence=(_quote(_name(obj), condition),),
            )


def _of_pod(pod: Mapping[str, Any]) -> list[Spotted]:
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return []
    spotted = [*_of_containers(pod)]
    return spotted or [*_of_conditions(pod)]


def _of_containers(pod: Mapping[str, Any]) -> Iterator[Spotted]:
    status = pod.get("status") or {}
    own = {"pod": pod["metadata"]["name"]}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        cause = _BY_REASON.get(reason)
        if cause is None:
            continue
        says = f"container {container.get('name')}: {reason}"
        if waiting.get("message"):
            says += f": {waiting['message']}"
        words = {
            "image": container.get("image") or "",
            "container": container.get("name") or "",
            "reason": _SETTLED.get(reason, reason),
        }
        if cause == "config-missing":
            words["detail"] = waiting.get("message") or "see the pod"
        since = _moment(status.get("startTime") or pod["metadata"].get("creationTimestamp"))
        evidence = Evidence(object=_name(pod), says=says, since=since)
        yield Spotted(cause=cause, words=words, evidence=(evidence,), own=own)


def _of_conditions(pod: Mapping[str, Any]) -> Iterator[Spotted]:
    status = pod.get("status") or {}
    own = {"pod": pod["metadata"]["name"]}
    for condition in status.get("conditions") or ():
        if condition.get("status") != "False":
            continue
        if condition.get("type") == "PodScheduled":
            words = {"detail": condition.get("message") or condition.get("reason") or "Unschedulable"}
            yield Spotted(
                cause="unschedulable", words=words, evidence=(_quote(_name(pod), condition),), own=own
            )
        elif condition.get("type") == "Ready" and status.get("phase") == "Running":
            yield Spotted(cause="pods-not-ready", evidence=(_quote(_name(pod), condition),), own=own)


def _name(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata") or {}
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind') or 'Pod'} {where}{meta.get('name', '')}"


def _quote(object_: str, condition: Mapping[str, Any]) -> Evidence:
    says = f"{condition.get('type')}={condition.get('status')} {condition.get('reason') or ''}".rstrip()
    if condition.get("message"):
        says += f": {condition['message']}"
    return Evidence(object=object_, says=says, since=_moment(condition.get("lastTransitionTime")))


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except (TypeError, ValueError):
        return None


def pods_of(obj: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the pods that an object's selector picks (or the object itself, if it is a pod)."""
    if obj.get("kind") == "Pod":
        return [obj]
    wanted = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    if not wanted:
        return []
    return [
        pod for pod in pods if wanted.items() <= ((pod.get("metadata") or {}).get("labels") or {}).items()
    ]
