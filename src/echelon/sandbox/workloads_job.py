"""Jobs: pods that end, until enough of them ended well. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from echelon.api.builtin import JOBS, PODS
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import (
    MAX_CREATED_AT_ONCE,
    Obj,
    WorkloadOptions,
    condition_of,
    is_deleting,
    meta,
    moment,
    spec,
    stamp,
    status,
    with_condition,
)
from echelon.sandbox.workloads_replicas import delete_pod, is_active, is_ready, new_pod

DEFAULT_BACKOFF_LIMIT = 6


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A Job and its pods."""

    job: Obj
    pods: tuple[Obj, ...] = ()
    nodes: tuple[str, ...] = ()
    options: WorkloadOptions = WorkloadOptions()


class _Tally(NamedTuple):
    active: list[Obj]
    succeeded: int
    failed: int


class _End(NamedTuple):
    type: str
    reason: str
    message: str


def step(seen: Seen, now: datetime) -> Plan:
    """Decide the next step of a Job."""
    job = seen.job
    if is_deleting(job):
        return NOTHING
    if finished_at(job) is not None:
        return _tidy(job, now)
    tally = _Tally(
        [pod for pod in seen.pods if is_active(pod)],
        sum(status(pod).get("phase") == "Succeeded" for pod in seen.pods),
        sum(status(pod).get("phase") == "Failed" for pod in seen.pods),
    )
    end = _end(seen, tally, now)
    actions: list[Action] = []
    if end is not None or spec(job).get("suspend"):
        actions += [delete_pod(pod, seen.options) for pod in tally.active]
    else:
        actions += _start(seen, tally)
    report = _report(job, tally, end, now)
    ref = msgspec.structs.replace(ref_of(JOBS, job), resource_version="")
    events: tuple[Emit, ...] = ()
    if end is not None:
        kind = "Normal" if end.type == "Complete" else "Warning"
        told = "Completed" if end.type == "Complete" else end.reason
        events = (Emit(about=ref, reason=told, message=end.message or "Job completed", type=kind),)  # type: ignore[arg-type]
    return Plan(
        steps=(tuple(actions),) if actions else (),
        status=StatusWrite(ref=ref, old=status(job), new=report),
        events=events,
        wake_at=_deadline(job),
        why="running" if end is None else end.type,
    )


def finished_at(job: Obj) -> datetime | None:
    """Return when a Job ended, well or not."""
    for type_ in ("Complete", "Failed"):
        condition = condition_of(job, type_)
        if condition is not None and condition["status"] == "True":
            return moment(condition["lastTransitionTime"])
    return None


def _tidy(job: Obj, now: datetime) -> Plan:
    """Delete a finished Job when its time to live is over."""
    ttl_s = spec(job).get("ttlSecondsAfterFinished")
    ended = finished_at(job)
    if ttl_s is None or ended is None:
        return NOTHING
    gone_at = ended + timedelta(seconds=int(ttl_s))
    if now < gone_at:
        return Plan(wake_at=gone_at, why="finished")
    ref = msgspec.structs.replace(ref_of(JOBS, job), resource_version="")
    return Plan(steps=((Delete(ref=ref, propagation="Background"),),), why="its time to live is over")


def _completions(job: Obj) -> int | None:
    wanted = spec(job).get("completions")
    return None if wanted is None else int(wanted)


def _parallelism(job: Obj) -> int:
    wanted = spec(job).get("parallelism")
    return 1 if wanted is None else int(wanted)


def _end(seen: Seen, tally: _Tally, now: datetime) -> _End | None:
    job = seen.job
    limit = spec(job).get("backoffLimit")
    restarts = sum(
        int(one.get("restartCount") or 0)
        for pod in tally.active
        for one in status(pod).get("containerStatuses") or ()
    )
    if tally.failed + restarts > (DEFAULT_BACKOFF_LIMIT if limit is None else int(limit)):
        return _End("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = _deadline(job)
    if deadline is not None and now >= deadline:
        return _End("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    completions = _completions(job)
    is_done = (
        tally.succeeded >= completions
        if completions is not None
        else bool(tally.succeeded and not tally.active)
    )
    return (
        _End("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        if is_done
        else None
    )


def _deadline(job: Obj) -> datetime | None:
    limit_s = spec(job).get("activeDeadlineSeconds")
    begun = moment(status(job).get("startTime"))
    return begun + timedelta(seconds=int(limit_s)) if limit_s is not None and begun else None


def _start(seen: Seen, tally: _Tally) -> list[Action]:
    """Start as many pods as may run side by side and are still needed."""
    job = seen.job
    completions = _completions(job)
    wanted = _parallelism(job)
    if completions is not None:
        wanted = min(wanted, completions - tally.succeeded)
    elif tally.succeeded:
        wanted = len(tally.active)  # a work queue: once one ended well, no new ones begin
    missing = min(max(wanted - len(tally.active), 0), MAX_CREATED_AT_ONCE)
    surplus = max(len(tally.active) - wanted, 0)
    actions: list[Action] = [delete_pod(pod, seen.options) for pod in tally.active[:surplus]]
    indexes = _free_indexes(job, seen.pods, missing)
    for number in range(missing if indexes is None else len(indexes)):
        node = seen.nodes[(len(seen.pods) + number) % len(seen.nodes)] if seen.nodes else ""
        name = meta(job)["name"] if indexes is None else f"{meta(job)['name']}-{indexes[number]}"
        pod = new_pod(job, spec(job)["template"], node, generate=name)
        if indexes is not None:
            mark = {_INDEX: str(indexes[number])}
            pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **mark}
            pod["metadata"]["labels"] |= mark
        actions.append(Create(resource=PODS, body=pod))
    return actions


_INDEX = "batch.kubernetes.io/job-completion-index"


def _free_indexes(job: Obj, pods: Sequence[Obj], missing: int) -> list[int] | None:
    """Return the numbers of the next pods of an Indexed Job, None for any other."""
    if spec(job).get("completionMode") != "Indexed":
        return None
    taken = {
        (meta(pod).get("annotations") or {}).get(_INDEX)
        for pod in pods
        if status(pod).get("phase") != "Failed"
    }
    free = [number for number in range(_completions(job) or 0) if str(number) not in taken]
    return free[:missing]


def _report(job: Obj, tally: _Tally, end: _End | None, now: datetime) -> dict[str, Any]:
    at = stamp(now)
    old = status(job)
    is_suspended = bool(spec(job).get("suspend")) and end is None
    report: dict[str, Any] = {key: old[key] for key in ("startTime", "conditions") if key in old}
    if not is_suspended:
        report.setdefault("startTime", at)
    else:
        report.pop("startTime", None)
    active = 0 if end is not None or is_suspended else len(tally.active)
    ready = sum(map(is_ready, tally.active)) if active else 0
    counts = {"active": active, "succeeded": tally.succeeded, "failed": tally.failed}
    report |= {key: value for key, value in counts.items() if value} | {"ready": ready, "terminating": 0}
    report["uncountedTerminatedPods"] = {}
    conditions = report.get("conditions") or []
    was_suspended = condition_of(job, "Suspended")
    if is_suspended:
        conditions = with_condition(
            conditions, "Suspended", "True", "JobSuspended", "Job suspended", at, lastProbeTime=at
        )
    elif was_suspended is not None and was_suspended["status"] == "True":
        conditions = with_condition(
            conditions, "Suspended", "False", "JobResumed", "Job resumed", at, lastProbeTime=at
        )
    if end is not None:
        if end.type == "Complete":
            report["completionTime"] = at
        conditions = with_condition(
            conditions, end.type, "True", end.reason, end.message, at, lastProbeTime=at
        )
    if conditions:
        report["conditions"] = _with_kept_probe(old.get("conditions") or (), conditions)
    return report


def _with_kept_probe(old: Sequence[Obj], new: Sequence[Obj]) -> list[dict[str, Any]]:
    """Keep the probe times of conditions that did not change."""
    held = {one["type"]: one for one in old}
    return [
        {**one, "lastProbeTime": held[one["type"]].get("lastProbeTime")}
        if one["type"] in held and held[one["type"]]["status"] == one["status"]
        else dict(one)
        for one in new
    ]
