"""The row of a pod: what its many states are called in one word.

What it must never do: know about watches or HTTP.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from echelon.hub.tables_text import NONE, age, at, named, since

Json = dict[str, Any]

_DONE = {
    "Succeeded": ("Completed", "Succeeded", "The pod has completed successfully."),
    "Failed": ("Completed", "Failed", "The pod failed."),
}


def conditions(obj: Json) -> list[Json]:
    """Return the conditions of a pod's row, by which `kubectl get` tells finished pods."""
    done = _DONE.get(at(obj, "status", "phase"))
    if done is None:
        return []
    return [{"type": done[0], "status": "True", "reason": done[1], "message": done[2]}]


def pod(obj: Json, now: dt.datetime) -> list[Any]:
    """Return the cells of a pod."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    reason, restarts, restarted_at, ready, total = _state(obj, spec, status)
    shown = str(restarts)
    if restarts and restarted_at:
        shown = f"{restarts} ({since(restarted_at, now)} ago)"
    ips = status.get("podIPs") or ()
    ip = ips[0].get("ip", "") if ips else status.get("podIP", "")
    gates = spec.get("readinessGates") or ()
    gate = NONE
    if gates:
        met = sum((named(each["conditionType"], obj) or {}).get("status") == "True" for each in gates)
        gate = f"{met}/{len(gates)}"
    return [
        obj["metadata"]["name"],
        f"{ready}/{total}",
        reason,
        shown,
        age(obj, now),
        ip or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        gate,
    ]


def _state(obj: Json, spec: Json, status: Json) -> tuple[str, int, str, int, int]:
    reason = status.get("reason") or status.get("phase") or ""
    scheduled = named("PodScheduled", obj)
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    sidecars = {
        each["name"]: each
        for each in spec.get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    initializing, restarts, restarted_at, ready = _initializing(spec, status, sidecars)
    if initializing:
        reason = initializing
    if not initializing or _initialized(obj):
        more, latest, ready_too, word = _containers(status)
        sidecar_restarts = sum(
            each.get("restartCount", 0)
            for each in status.get("initContainerStatuses") or ()
            if each["name"] in sidecars
        )
        restarts, restarted_at = more + sidecar_restarts, latest
        ready += ready_too
        reason = word or reason
        if reason == "Completed" and _has_running(status):
            reason = "Running" if (named("Ready", obj) or {}).get("status") == "True" else "NotReady"
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Failed", "Succeeded"):
            reason = "Terminating"
    return reason, restarts, restarted_at, ready, total


def _initialized(obj: Json) -> bool:
    return (named("Initialized", obj) or {}).get("status") == "True"


def _initializing(spec: Json, status: Json, sidecars: Json) -> tuple[str, int, str, int]:
    """Return what the first unfinished init container is waiting for, restarts, and ready sidecars."""
    restarts, restarted_at, ready, word = 0, "", 0, ""
    for index, each in enumerate(status.get("initContainerStatuses") or ()):
        restarts += each.get("restartCount", 0)
        restarted_at = max(restarted_at, at(each, "lastState", "terminated", "finishedAt") or "")
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if each["name"] in sidecars and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended is not None:
            word = f"Init:{_end_word(ended)}"
        elif waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            word = f"Init:{waiting['reason']}"
        else:
            word = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        break
    return word, restarts, restarted_at, ready


def _end_word(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _containers(status: Json) -> tuple[int, str, int, str]:
    restarts, restarted_at, ready, word = 0, "", 0, ""
    for each in reversed(status.get("containerStatuses") or ()):
        restarts += each.get("restartCount", 0)
        restarted_at = max(restarted_at, at(each, "lastState", "terminated", "finishedAt") or "")
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if waiting is not None and waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = _end_word(ended)
        elif each.get("ready") and state.get("running") is not None:
            ready += 1
    return restarts, restarted_at, ready, word


def _has_running(status: Json) -> bool:
    return any(
        each.get("ready") and (each.get("state") or {}).get("running") is not None
        for each in status.get("containerStatuses") or ()
    )
