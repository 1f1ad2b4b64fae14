"""Deployments: one ReplicaSet for each template, the newest one filled as the old ones are emptied. Decisions only.

Revisions and their history are kept where kubectl looks for them (annotations of the ReplicaSets), so
`kubectl rollout status`, `history` and `undo` work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.builtin import DEPLOYMENTS, REPLICA_SETS
from echelon.rules.merge import same
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import (
    Obj,
    WorkloadOptions,
    amount,
    compact,
    condition_of,
    count,
    created_at,
    is_deleting,
    labels,
    meta,
    moment,
    owned_by,
    replicas,
    spec,
    stamp,
    status,
    template_hash,
    with_condition,
)
from echelon.sandbox.workloads_replicas import TEMPLATE_HASH

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
CHANGE_CAUSE = "kubernetes.io/change-cause"
HISTORY_LIMIT = 10
PROGRESS_DEADLINE_S = 600


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment and its ReplicaSets."""

    deployment: Obj
    replica_sets: tuple[Obj, ...] = ()
    has_old_pods: bool = False  # of other templates than the present one, going ones too
    options: WorkloadOptions = WorkloadOptions()


def step(seen: Seen, now: datetime) -> Plan:
    """Decide the next step of a Deployment."""
    owner = seen.deployment
    if is_deleting(owner):
        return NOTHING
    alive = [one for one in seen.replica_sets if not is_deleting(one)]
    new = find_new(owner, alive)
    old = [one for one in alive if one is not new]
    if is_paused(owner):
        actions, told = _scale_paused(owner, new, old)
    elif new is None:
        return _begin(seen, old, now)
    else:
        actions, told = _number(owner, new, old), []
        scaled = _recreate(seen, new, old) if _strategy(owner) == "Recreate" else _roll(owner, new, old)
        actions += [_scale(owner, one, wanted) for one, wanted in scaled]
        told += [_scaled(owner, one, wanted) for one, wanted in scaled]
        if not scaled:
            actions += _forget_history(owner, old)
    report, wake_at = _report(seen, new, old, now)
    return Plan(
        steps=(tuple(actions),) if actions else (),
        status=StatusWrite(ref=_unversioned(DEPLOYMENTS, owner), old=status(owner), new=report),
        events=tuple(told) if seen.options.all_events else (),
        wake_at=wake_at,
        why="rolling" if actions else "steady",
    )


def _unversioned(resource: Any, obj: Obj) -> Any:
    return msgspec.structs.replace(ref_of(resource, obj), resource_version="")


def is_paused(owner: Obj) -> bool:
    """Tell whether the rollout is paused."""
    return bool(spec(owner).get("paused"))


def _strategy(owner: Obj) -> str:
    return str((spec(owner).get("strategy") or {}).get("type") or "RollingUpdate")


def limits(owner: Obj) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) as numbers."""
    if _strategy(owner) == "Recreate":
        return 0, replicas(owner)
    rolling = (spec(owner).get("strategy") or {}).get("rollingUpdate") or {}
    surge = amount(rolling.get("maxSurge", "25%"), replicas(owner), round_up=True)
    unavailable = amount(rolling.get("maxUnavailable", "25%"), replicas(owner), round_up=False)
    if not surge and not unavailable:
        unavailable = 1  # with neither, nothing could ever move
    return surge, min(unavailable, replicas(owner))


# which ReplicaSet is which -------------------------------------------------------------------------------------


def find_new(owner: Obj, replica_sets: Sequence[Obj]) -> Obj | None:
    """Return the ReplicaSet of the present template; of several the oldest."""
    wanted = spec(owner)["template"]
    found = [one for one in replica_sets if same(_plain(spec(one)["template"]), _plain(wanted))]
    return min(found, key=created_at, default=None)


def _plain(template: Obj) -> dict[str, Any]:
    made = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
    if TEMPLATE_HASH in (made.get("labels") or {}):
        made["labels"] = {key: value for key, value in made["labels"].items() if key != TEMPLATE_HASH}
    return {**template, "metadata": made}


def revision_of(obj: Obj) -> int:
    """Return the revision a ReplicaSet (or its Deployment) carries."""
    text = (meta(obj).get("annotations") or {}).get(REVISION) or "0"
    return int(text) if text.isdigit() else 0


def _begin(seen: Seen, old: Sequence[Obj], now: datetime) -> Plan:
    """Make the ReplicaSet of a new template."""
    owner = seen.deployment
    name = f"{meta(owner)['name']}-{template_hash(_plain(spec(owner)['template']))}"
    revision = max((revision_of(one) for one in old), default=0) + 1
    wanted = _first_size(owner, old, has_old_pods=seen.has_old_pods)
    body = _replica_set(owner, name, revision, wanted)
    report, wake_at = _report(seen, None, old, now)
    progressing = f'Created new replica set "{name}"'
    report["conditions"] = with_condition(
        report["conditions"],
        "Progressing",
        "True",
        "NewReplicaSetCreated",
        progressing,
        stamp(now),
        lastUpdateTime=stamp(now),
    )
    actions: list[Action] = [Create(resource=REPLICA_SETS, body=body), *_remember(owner, revision)]
    told = (_scaled(owner, body, wanted),) if wanted and seen.options.all_events else ()
    return Plan(
        steps=(tuple(actions),),
        status=StatusWrite(ref=_unversioned(DEPLOYMENTS, owner), old=status(owner), new=report),
        events=told,
        wake_at=wake_at,
        why="a new template",
    )


def _first_size(owner: Obj, old: Sequence[Obj], *, has_old_pods: bool) -> int:
    if _strategy(owner) == "Recreate":
        return 0 if has_old_pods or any(replicas(one) for one in old) else replicas(owner)
    room = replicas(owner) + limits(owner)[0] - sum(replicas(one) for one in old)
    return max(min(replicas(owner), room), 0)


def _replica_set(owner: Obj, name: str, revision: int, wanted: int) -> dict[str, Any]:
    template = _plain(spec(owner)["template"])
    mark = {TEMPLATE_HASH: name.rsplit("-", 1)[-1]}
    made = {**template["metadata"], "labels": {**(template["metadata"].get("labels") or {}), **mark}}
    selector = spec(owner).get("selector") or {}
    selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **mark}}
    body = {"replicas": wanted, "selector": selector, "template": {**template, "metadata": made}}
    if spec(owner).get("minReadySeconds"):
        body["minReadySeconds"] = spec(owner)["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": meta(owner)["namespace"],
            "labels": made["labels"],
            "annotations": _sizes(owner) | _cause(owner) | {REVISION: str(revision)},
            "ownerReferences": owned_by(owner),
        },
        "spec": body,
    }


def _sizes(owner: Obj) -> dict[str, str]:
    return {DESIRED: str(replicas(owner)), MOST: str(replicas(owner) + limits(owner)[0])}


def _cause(owner: Obj) -> dict[str, str]:
    cause = (meta(owner).get("annotations") or {}).get(CHANGE_CAUSE)
    return {CHANGE_CAUSE: cause} if cause else {}


def _remember(owner: Obj, revision: int) -> list[Action]:
    if revision_of(owner) == revision:
        return []
    body = {"metadata": {"annotations": {REVISION: str(revision)}}}
    # Through the status: an annotation of a Deployment would otherwise count as a new generation.
    return [Patch(ref=_unversioned(DEPLOYMENTS, owner), body=body, subresource="status")]


def _number(owner: Obj, new: Obj, old: Sequence[Obj]) -> list[Action]:
    """Give the present ReplicaSet the highest revision: after an undo an old one is the newest."""
    highest = max((revision_of(one) for one in old), default=0)
    held = revision_of(new)
    annotations = meta(new).get("annotations") or {}
    wanted: dict[str, str] = {**_sizes(owner), **_cause(owner)}
    if held <= highest:
        past = annotations.get(HISTORY) or ""
        wanted[REVISION] = str(highest + 1)
        if held:
            wanted[HISTORY] = ",".join(part for part in (past, str(held)) if part)
        held = highest + 1
    changed = {key: value for key, value in wanted.items() if annotations.get(key) != value}
    actions = _remember(owner, held)
    if changed:
        ref = _unversioned(REPLICA_SETS, new)
        actions.append(Patch(ref=ref, body={"metadata": {"annotations": changed}}))
    return actions


def _forget_history(owner: Obj, old: Sequence[Obj]) -> list[Action]:
    """Delete the oldest empty ReplicaSets beyond the limit, once nothing moves."""
    limit = spec(owner).get("revisionHistoryLimit")
    keep = HISTORY_LIMIT if limit is None else int(limit)
    empty = [one for one in old if not replicas(one) and not count(one, "replicas")]
    surplus = len(empty) - keep
    oldest = sorted(empty, key=revision_of)[: max(surplus, 0)]
    return [Delete(ref=_unversioned(REPLICA_SETS, one)) for one in oldest]


# how many of each ----------------------------------------------------------------------------------------------


def _roll(owner: Obj, new: Obj, old: Sequence[Obj]) -> list[tuple[Obj, int]]:
    """Fill the new ReplicaSet as far as the surge allows, empty the old ones as far as enough is available."""
    desired = replicas(owner)
    surge, unavailable = limits(owner)
    everything = sum(replicas(one) for one in (new, *old))
    if replicas(new) > desired:
        return [(new, desired)]
    present = sum(max(replicas(one), count(one, "replicas")) for one in (new, *old))
    room = desired + surge - present  # pods that are to go and are still there count
    grown = min(desired, replicas(new) + max(room, 0))
    scaled = [(new, grown)] if grown != replicas(new) else []
    going = [one for one in old if replicas(one)]
    if not going:
        return scaled
    least = desired - unavailable
    new_missing = max(replicas(new) - count(new, "availableReplicas"), 0)
    may_go = everything - least - new_missing
    if may_go <= 0:
        return scaled
    sizes = {meta(one)["name"]: replicas(one) for one in going}
    may_go -= _drop_broken(going, sizes, may_go)
    available = sum(min(count(one, "availableReplicas"), replicas(one)) for one in (new, *old))
    _drop(going, sizes, min(available - least, may_go))
    return scaled + [
        (one, sizes[meta(one)["name"]]) for one in going if sizes[meta(one)["name"]] != replicas(one)
    ]


def _drop_broken(going: Sequence[Obj], sizes: dict[str, int], may_go: int) -> int:
    """Give up first what is not available anyway."""
    dropped = 0
    for one in sorted(going, key=created_at):
        name = meta(one)["name"]
        broken = min(sizes[name] - count(one, "availableReplicas"), may_go - dropped)
        if broken > 0:
            sizes[name] -= broken
            dropped += broken
    return dropped


def _drop(going: Sequence[Obj], sizes: dict[str, int], may_go: int) -> None:
    for one in sorted(going, key=created_at):
        if may_go <= 0:
            return
        name = meta(one)["name"]
        less = min(sizes[name], may_go)
        sizes[name] -= less
        may_go -= less


def _recreate(seen: Seen, new: Obj, old: Sequence[Obj]) -> list[tuple[Obj, int]]:
    going = [(one, 0) for one in old if replicas(one)]
    if going:
        return going
    if seen.has_old_pods or replicas(new) == replicas(seen.deployment):
        return []
    return [(new, replicas(seen.deployment))]


def _scale_paused(owner: Obj, new: Obj | None, old: Sequence[Obj]) -> tuple[list[Action], list[Emit]]:
    """Only follow the number of replicas, with what there is."""
    active = [one for one in (new, *old) if one is not None and replicas(one)]
    newest = max(active, key=created_at, default=new)
    if newest is None:
        return [], []
    wanted = max(replicas(owner) - sum(replicas(one) for one in active if one is not newest), 0)
    if wanted == replicas(newest):
        return [], []
    return [_scale(owner, newest, wanted)], [_scaled(owner, newest, wanted)]


def _scale(owner: Obj, one: Obj, wanted: int) -> Patch:
    body = {"spec": {"replicas": wanted}, "metadata": {"annotations": _sizes(owner)}}
    return Patch(ref=_unversioned(REPLICA_SETS, one), body=body)


def _scaled(owner: Obj, one: Mapping[str, Any], wanted: int) -> Emit:
    before = replicas(one) if meta(one).get("uid") else 0
    way = "up" if wanted > before else "down"
    message = f"Scaled {way} replica set {meta(one)['name']} from {before} to {wanted}"
    return Emit(about=ref_of(DEPLOYMENTS, owner), reason="ScalingReplicaSet", message=message)


# report --------------------------------------------------------------------------------------------------------


def _report(
    seen: Seen, new: Obj | None, old: Sequence[Obj], now: datetime
) -> tuple[dict[str, Any], datetime | None]:
    owner = seen.deployment
    every = [one for one in (new, *old) if one is not None]
    available = sum(count(one, "availableReplicas") for one in every)
    counts = {
        "replicas": sum(count(one, "replicas") for one in every),
        "updatedReplicas": count(new, "replicas") if new else 0,
        "readyReplicas": sum(count(one, "readyReplicas") for one in every),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(replicas(one) for one in every) - available, 0),
    }
    report: dict[str, Any] = compact(counts)
    report["observedGeneration"] = int(meta(owner).get("generation") or 1)
    conditions = _available(owner, available, now)
    report["conditions"], wake_at = _progressing(owner, new, counts, conditions, now)
    return report, wake_at


def _available(owner: Obj, available: int, now: datetime) -> list[dict[str, Any]]:
    held: Sequence[Obj] = status(owner).get("conditions") or ()
    is_enough = available >= replicas(owner) - limits(owner)[1]
    value = "True" if is_enough else "False"
    reason = "MinimumReplicasAvailable" if is_enough else "MinimumReplicasUnavailable"
    message = f"Deployment {'has' if is_enough else 'does not have'} minimum availability."
    before = condition_of(owner, "Available")
    at = before["lastUpdateTime"] if before and before["status"] == value else stamp(now)
    return with_condition(held, "Available", value, reason, message, stamp(now), lastUpdateTime=at)


def _progressing(
    owner: Obj, new: Obj | None, counts: Mapping[str, int], conditions: list[dict[str, Any]], now: datetime
) -> tuple[list[dict[str, Any]], datetime | None]:
    """Say how the rollout goes, and when it will have taken too long."""
    at = stamp(now)
    before = condition_of(owner, "Progressing")
    if is_paused(owner):
        if before and before.get("reason") == "DeploymentPaused":
            return conditions, None
        paused = with_condition(
            conditions,
            "Progressing",
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused",
            at,
            lastUpdateTime=at,
        )
        return paused, None
    name = meta(new)["name"] if new else ""
    wanted = replicas(owner)
    if (
        new is not None
        and counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted
    ):
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return _set_progress(conditions, before, "NewReplicaSetAvailable", message, at), None
    is_finished = before is not None and before.get("reason") == "NewReplicaSetAvailable"
    if is_finished and counts["replicas"] == counts["updatedReplicas"]:
        return conditions, None  # a pod that falls ill later is no rollout
    has_moved = any(
        counts[field] > count(owner, field)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or counts["replicas"] - counts["updatedReplicas"] < count(owner, "replicas") - count(
        owner, "updatedReplicas"
    )
    if before is None or has_moved or is_finished:
        message = f'ReplicaSet "{name}" is progressing.'
        before, conditions = None, _set_progress(conditions, None, "ReplicaSetUpdated", message, at)
    limit = spec(owner).get("progressDeadlineSeconds")
    last = at if before is None else before["lastUpdateTime"]
    wait_s = PROGRESS_DEADLINE_S if limit is None else int(limit)
    late_at = (moment(last) or now) + timedelta(seconds=wait_s)
    if now < late_at:
        return conditions, late_at
    if before is not None and before.get("reason") == "ProgressDeadlineExceeded":
        return conditions, None
    message = f'ReplicaSet "{name}" has timed out progressing.'
    late = with_condition(
        conditions, "Progressing", "False", "ProgressDeadlineExceeded", message, at, lastUpdateTime=at
    )
    return late, None


def _set_progress(
    conditions: list[dict[str, Any]], before: Mapping[str, Any] | None, reason: str, message: str, at: str
) -> list[dict[str, Any]]:
    is_said = before is not None and before.get("reason") == reason and before.get("message") == message
    updated = before["lastUpdateTime"] if is_said and before else at
    return with_condition(conditions, "Progressing", "True", reason, message, at, lastUpdateTime=updated)


def selects(owner: Obj, pod: Obj) -> bool:
    """Tell whether a pod carries the labels a Deployment selects."""
    wanted = (spec(owner).get("selector") or {}).get("matchLabels") or {}
    return bool(wanted.items() <= labels(pod).items())
