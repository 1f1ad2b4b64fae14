"""The life of a simulated pod: bound to a node, started, ready (or in trouble), stopped. Decisions only.

A look compares the pod's spec and status with what its images say becomes of it (`images.py`) and with how long it
is under way; it returns the whole next status and when to look again. Pods in steady states are never looked at by
time: a thousand running pods cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from echelon.api.builtin import PODS
from echelon.rules.plan import NOTHING, Create, Delete, Emit, Plan, Ref, StatusWrite, ref_of
from echelon.sandbox import images
from echelon.sandbox.images import Fate
from echelon.sandbox.workloads_objects import (
    Obj,
    WorkloadOptions,
    is_deleting,
    meta,
    moment,
    spec,
    stamp,
    status,
    with_condition,
)

PULL_BACK_OFF_AFTER_S = 10.0  # from ErrImagePull to ImagePullBackOff
FIRST_RESTART_S = 10.0
MAX_RESTART_S = 300.0  # as a kubelet: a container that crashes is started every five minutes
SHOWS_CREATING_S = 1.0  # a start that takes less is not worth a status of its own


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and what its life depends on."""

    pod: Obj
    since: datetime  # when this process first saw it in its present life
    node: str  # the node it would be bound to
    missing_claims: tuple[str, ...] = ()
    options: WorkloadOptions = WorkloadOptions()


_Told = tuple[str, str, Literal["Normal", "Warning"]]


class _Outcome(NamedTuple):
    """One container after a look."""

    status: dict[str, Any]
    next_at: datetime | None = None
    events: tuple[_Told, ...] = ()
    phase: str = "Running"  # Pending, Running, Succeeded, Failed: what this container makes of the pod


def step(seen: Seen, now: datetime) -> Plan:
    """Decide what becomes of a pod next."""
    pod, ref = seen.pod, ref_of(PODS, seen.pod)
    if is_deleting(pod):
        return _stop(seen, now)
    if status(pod).get("phase") in {"Succeeded", "Failed"}:
        return NOTHING
    if seen.missing_claims:
        return _wait_for_claims(seen, now)
    steps: tuple[tuple[Create, ...], ...] = ()
    if not spec(pod).get("nodeName"):
        steps = ((_bind(pod, seen.node),),)
    outcomes = _containers(seen, now)
    new = _whole_status(seen, outcomes, now)
    events = tuple(
        Emit(about=ref, reason=reason, message=message, type=kind)
        for outcome in (*outcomes.init, *outcomes.main)
        for reason, message, kind in outcome.events
        if kind == "Warning" or seen.options.all_events
    )
    wakes = [one.next_at for one in (*outcomes.init, *outcomes.main) if one.next_at]
    write = StatusWrite(ref=_by_name(ref), old=status(pod), new=new) if new != status(pod) else None
    return Plan(
        steps=steps,
        status=write,
        events=events if write else (),
        wake_at=min(wakes, default=None),
        why=str(new["phase"]),
    )


def _bind(pod: Obj, node: str) -> Create:
    """Bind a pod to a node, as a scheduler does."""
    place = {"name": meta(pod)["name"], "namespace": meta(pod)["namespace"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": place, "target": target}
    return Create(resource=PODS, body=body, subresource="binding")


def _by_name(ref: Ref) -> Ref:
    """Write whatever the revision: nobody else writes what a kubelet writes."""
    return msgspec.structs.replace(ref, resource_version="")


def _stop(seen: Seen, now: datetime) -> Plan:
    gone_at = seen.since + timedelta(seconds=seen.options.stop_delay_s)
    if meta(seen.pod).get("finalizers") and now >= gone_at:
        return Plan(why="stopped; finalizers hold it")
    if now < gone_at:
        return Plan(wake_at=gone_at, why="stopping")
    ref = _by_name(ref_of(PODS, seen.pod))
    return Plan(steps=((Delete(ref=ref, grace_s=0),),), why="stopped")


def _wait_for_claims(seen: Seen, now: datetime) -> Plan:
    """Leave a pod Pending whose volumes are not there."""
    claim = seen.missing_claims[0]
    message = (
        f'0/{seen.options.nodes} nodes are available: persistentvolumeclaim "{claim}" is not bound;'
        " pod has unbound immediate PersistentVolumeClaims."
    )
    ref = ref_of(PODS, seen.pod)
    old = status(seen.pod)
    conditions = with_condition(
        old.get("conditions") or (), "PodScheduled", "False", "Unschedulable", message, stamp(now)
    )
    new = {**old, "phase": "Pending", "conditions": conditions}
    if new == old:
        return NOTHING
    return Plan(
        status=StatusWrite(ref=_by_name(ref), old=old, new=new),
        events=(Emit(about=ref, reason="FailedScheduling", message=message, type="Warning"),),
        why="volumes are missing",
    )


# containers -----------------------------------------------------------------------------------------------------


class _Containers(NamedTuple):
    init: list[_Outcome]
    main: list[_Outcome]


def _containers(seen: Seen, now: datetime) -> _Containers:
    old = status(seen.pod)
    held_init = {one["name"]: one for one in old.get("initContainerStatuses") or ()}
    held = {one["name"]: one for one in old.get("containerStatuses") or ()}
    init: list[_Outcome] = []
    is_blocked = False
    for container in spec(seen.pod).get("initContainers") or ():
        if is_blocked:
            init.append(_waiting(container, "PodInitializing"))
            continue
        outcome = _initialise(seen, container, held_init.get(container["name"]), now)
        is_blocked = outcome.phase == "Pending"
        init.append(outcome)
    if is_blocked:
        return _Containers(init, [_waiting(one, "PodInitializing") for one in spec(seen.pod)["containers"]])
    main = [_live(seen, one, held.get(one["name"]), now) for one in spec(seen.pod)["containers"]]
    return _Containers(init, main)


def _initialise(seen: Seen, container: Obj, held: Obj | None, now: datetime) -> _Outcome:
    """Let an init container end at once, unless its image stands against it."""
    fate = images.fate_of(container.get("image") or "")
    if fate in {Fate.INVALID_NAME, Fate.CANNOT_BE_PULLED}:
        return _cannot_start(seen, container, held, fate, now)
    if fate is Fate.CRASHES:
        return _crash(container, held, now)._replace(phase="Pending")
    if held and (held.get("state") or {}).get("terminated"):
        return _Outcome(dict(held), phase="Succeeded")
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(now), "finishedAt": stamp(now)}
    return _Outcome(_status(container, {"terminated": ended}, ready=True, restarts=0), phase="Succeeded")


def _live(seen: Seen, container: Obj, held: Obj | None, now: datetime) -> _Outcome:
    fate = images.fate_of(container.get("image") or "")
    if fate in {Fate.INVALID_NAME, Fate.CANNOT_BE_PULLED}:
        return _cannot_start(seen, container, held, fate, now)
    state = (held or {}).get("state") or {}
    is_same = held is not None and held.get("image") == images.full_name(container.get("image") or "")
    if fate is Fate.CRASHES and is_same and (state.get("terminated") or state.get("waiting")):
        return _crash(container, held, now, policy=_policy(seen.pod))
    if is_same and held is not None and state.get("terminated"):
        return _Outcome(dict(held), phase="Succeeded")
    if is_same and held is not None and state.get("running"):
        return _running(seen, container, held, fate, now)
    ready_at = seen.since + timedelta(seconds=seen.options.start_delay_s)
    if now < ready_at:
        if seen.options.start_delay_s < SHOWS_CREATING_S and held is None:
            return _Outcome({}, ready_at, phase="Pending")  # not worth a write
        return _waiting(container, "ContainerCreating")._replace(next_at=ready_at)
    if fate is Fate.CRASHES:
        return _crash(container, None, now, policy=_policy(seen.pod))
    running = {"running": {"startedAt": stamp(now)}}
    begun = _status(container, running, ready=fate is Fate.RUNS, restarts=_restarts(held))
    image = container["image"]
    events: tuple[_Told, ...] = (
        ("Pulled", f'Container image "{image}" already present on machine', "Normal"),
        ("Started", f"Started container {container['name']}", "Normal"),
    )
    return _running(seen, container, begun, fate, now)._replace(events=events)


def _restarts(held: Obj | None) -> int:
    return int(held["restartCount"]) + 1 if held and (held.get("state") or {}).get("running") else 0


def _policy(pod: Obj) -> str:
    return str(spec(pod).get("restartPolicy") or "Always")


def _running(seen: Seen, container: Obj, held: Obj, fate: Fate, now: datetime) -> _Outcome:
    """Keep a container running; one that is to end by itself ends when its time has come."""
    if _policy(seen.pod) == "Always" or fate is Fate.NEVER_READY:
        return _Outcome(dict(held))
    begun = held["state"]["running"]["startedAt"]
    ends_at = max((moment(begun) or now), seen.since) + timedelta(seconds=seen.options.run_s)
    if now < ends_at:
        return _Outcome(dict(held), ends_at)
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": begun, "finishedAt": stamp(now)}
    done = _status(container, {"terminated": ended}, ready=False, restarts=int(held["restartCount"]))
    return _Outcome(done, phase="Succeeded")


def _cannot_start(seen: Seen, container: Obj, held: Obj | None, fate: Fate, now: datetime) -> _Outcome:
    image = container.get("image") or ""
    name = container["name"]
    if fate is Fate.INVALID_NAME:
        message = images.invalid_name_message(image)
        events: tuple[_Told, ...] = (
            ("InspectFailed", message, "Warning"),
            ("Failed", "Error: InvalidImageName", "Warning"),
        )
        return _waiting(container, "InvalidImageName", message)._replace(events=events)
    told: tuple[_Told, ...]
    back_off_at = seen.since + timedelta(seconds=PULL_BACK_OFF_AFTER_S)
    is_backing_off = ((held or {}).get("state") or {}).get("waiting", {}).get("reason") == "ImagePullBackOff"
    if now < back_off_at and not is_backing_off:
        message = images.pull_message(image)
        told = (("Failed", f'Failed to pull image "{image}": {message}', "Warning"),)
        return _waiting(container, "ErrImagePull", message)._replace(next_at=back_off_at, events=told)
    message = f'Back-off pulling image "{image}"'
    told = (("BackOff", f"{message} for container {name}", "Warning"),)
    return _waiting(container, "ImagePullBackOff", message)._replace(events=told)


def _crash(container: Obj, held: Obj | None, now: datetime, *, policy: str = "Always") -> _Outcome:
    """Let a container exit with 1, and be started again further and further apart."""
    if held is None:
        ended = _exit(now)
        first = _status(container, {"terminated": ended}, ready=False, restarts=0)
        if policy == "Never":
            return _Outcome(first, phase="Failed")
        return _Outcome(first, now + timedelta(seconds=1))
    if policy == "Never":
        return _Outcome(dict(held), phase="Failed")
    count = int(held["restartCount"])
    last = (held["state"].get("terminated") or (held.get("lastState") or {}).get("terminated")) or _exit(now)
    is_first = "terminated" in held["state"]
    delay_s = 1.0 if is_first else min(FIRST_RESTART_S * 2.0 ** min(count - 1, 16), MAX_RESTART_S)
    again_at = (moment(last["finishedAt"]) or now) + timedelta(seconds=delay_s)
    if now < again_at:
        return _Outcome(dict(held), again_at)
    delay_s = min(FIRST_RESTART_S * 2.0 ** min(count, 16), MAX_RESTART_S)
    text = f"back-off {_go_duration(delay_s)} restarting failed container={container['name']}"
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    again = _status(container, waiting, ready=False, restarts=count + 1)
    again["lastState"] = {"terminated": _exit(now)}
    told: tuple[_Told, ...] = (
        ("BackOff", f"Back-off restarting failed container {container['name']}", "Warning"),
    )
    return _Outcome(again, now + timedelta(seconds=delay_s), told)


def _exit(now: datetime) -> dict[str, Any]:
    return {"exitCode": 1, "reason": "Error", "startedAt": stamp(now), "finishedAt": stamp(now)}


def _go_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _waiting(container: Obj, reason: str, message: str = "") -> _Outcome:
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return _Outcome(_status(container, {"waiting": waiting}, ready=False, restarts=0), phase="Pending")


def _status(container: Obj, state: dict[str, Any], *, ready: bool, restarts: int) -> dict[str, Any]:
    image = str(container.get("image") or "")
    is_here = "waiting" not in state or state["waiting"].get("reason") == "CrashLoopBackOff"
    out: dict[str, Any] = {
        "name": container["name"],
        "image": images.full_name(image) if is_here else image,
        "imageID": images.full_name(image) if is_here else "",
        "ready": ready,
        "restartCount": restarts,
        "started": "running" in state,
        "state": state,
        "lastState": {},
    }
    if is_here:
        out["containerID"] = f"sandbox://{container['name']}-{restarts}"
    return out


# the pod --------------------------------------------------------------------------------------------------------


def _whole_status(seen: Seen, outcomes: _Containers, now: datetime) -> dict[str, Any]:
    pod, at = seen.pod, stamp(now)
    old = status(pod)
    uid = meta(pod)["uid"]
    main = outcomes.main
    phase = _phase([one.phase for one in main])
    is_begun = all(one.status for one in main)
    new: dict[str, Any] = {
        **old,
        "phase": phase,
        "startTime": old.get("startTime") or at,
        "hostIP": old.get("hostIP") or images.address_of(spec(pod).get("nodeName") or seen.node, "172.18"),
        "qosClass": old.get("qosClass") or qos_class(spec(pod)),
    }
    if phase == "Running" and "podIP" not in old:
        new["podIP"] = images.address_of(uid, "10.244")
        new["podIPs"] = [{"ip": new["podIP"]}]
    if not is_begun:
        return dict(old) if old.get("containerStatuses") else {**old, "phase": phase}
    new["containerStatuses"] = [one.status for one in main]
    if outcomes.init:
        new["initContainerStatuses"] = [one.status for one in outcomes.init]
    new["conditions"] = _conditions(pod, outcomes, phase, at)
    return new


def _phase(phases: Sequence[str]) -> str:
    if any(phase == "Pending" for phase in phases):
        return "Pending"
    if all(phase in {"Succeeded", "Failed"} for phase in phases):
        return "Failed" if "Failed" in phases else "Succeeded"
    return "Running"


def _conditions(pod: Obj, outcomes: _Containers, phase: str, at: str) -> list[dict[str, Any]]:
    unready = [one.status["name"] for one in outcomes.main if not one.status.get("ready")]
    uninitialised = [one.status["name"] for one in outcomes.init if one.phase == "Pending"]
    held: Sequence[Obj] = status(pod).get("conditions") or ()
    conditions = with_condition(held, "PodReadyToStartContainers", "True", "", "", at)
    if uninitialised:
        message = f"containers with incomplete status: [{' '.join(uninitialised)}]"
        conditions = with_condition(
            conditions, "Initialized", "False", "ContainersNotInitialized", message, at
        )
    else:
        conditions = with_condition(conditions, "Initialized", "True", "", "", at)
    value, reason, message = "True", "", ""
    if phase == "Succeeded":
        value, reason = "False", "PodCompleted"
    elif phase == "Failed":
        value, reason = "False", "PodFailed"
    elif unready:
        value, reason = "False", "ContainersNotReady"
        message = f"containers with unready status: [{' '.join(unready)}]"
    for type_ in ("Ready", "ContainersReady"):
        conditions = with_condition(conditions, type_, value, reason, message, at)
    return with_condition(conditions, "PodScheduled", "True", "", "", at)


def qos_class(pod_spec: Obj) -> str:
    """Return the quality of service a pod's resources ask for."""
    every = [
        one.get("resources") or {}
        for one in (*(pod_spec.get("initContainers") or ()), *pod_spec["containers"])
    ]
    if not any(one.get("requests") or one.get("limits") for one in every):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(one) for one in every) else "Burstable"


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    return all(name in limits and requests[name] == limits[name] for name in ("cpu", "memory"))


def is_settled(pod: Obj) -> bool:
    """Tell whether nothing more happens to a pod by itself."""
    if is_deleting(pod):
        return False
    if status(pod).get("phase") in {"Succeeded", "Failed"}:
        return True
    states = [one.get("state") or {} for one in status(pod).get("containerStatuses") or ()]
    return bool(states) and all("running" in state for state in states) and _policy(pod) == "Always"
