"""DaemonSets: one pod on every node that suits. Decisions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import DAEMON_SETS, PODS
from echelon.rules.plan import NOTHING, Action, Create, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import (
    Obj,
    WorkloadOptions,
    amount,
    is_deleting,
    labels,
    meta,
    spec,
    status,
)
from echelon.sandbox.workloads_replicas import count_available, delete_pod, is_active, is_ready, new_pod
from echelon.sandbox.workloads_revisions import REVISION_LABEL, forget, revise


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet, its pods and revisions, and the nodes with their labels."""

    daemon_set: Obj
    pods: tuple[Obj, ...] = ()
    revisions: tuple[Obj, ...] = ()
    nodes: Mapping[str, Mapping[str, str]] = {}
    options: WorkloadOptions = WorkloadOptions()


def step(seen: Seen, now: datetime) -> Plan:
    """Decide the next step of a DaemonSet."""
    owner = seen.daemon_set
    if is_deleting(owner):
        return NOTHING
    revision = revise(owner, seen.revisions)
    wanted = _nodes(seen)
    held: dict[str, list[Obj]] = {}
    for pod in seen.pods:
        held.setdefault(str(spec(pod).get("nodeName") or ""), []).append(pod)
    actions: list[Action] = []
    for node in wanted:
        ended = [pod for pod in held.get(node, ()) if not is_active(pod)]
        actions += [delete_pod(pod, seen.options) for pod in ended if not is_deleting(pod)]
        if not held.get(node):
            actions.append(_make(owner, node, revision.hash))
    for node, pods in held.items():
        if node not in wanted:
            actions += [delete_pod(pod, seen.options) for pod in pods if not is_deleting(pod)]
    actions = actions or _update(seen, wanted, revision.hash)
    used = {labels(pod).get(REVISION_LABEL, "") for pod in seen.pods} | {revision.hash}
    tidy = [] if actions else forget(owner, seen.revisions, used)
    steps = tuple(tuple(group) for group in (revision.actions, [*actions, *tidy]) if group)
    report, wake_at = _report(seen, wanted, revision.hash, now)
    ref = msgspec.structs.replace(ref_of(DAEMON_SETS, owner), resource_version="")
    write = StatusWrite(ref=ref, old=status(owner), new=report)
    return Plan(steps=steps, status=write, wake_at=wake_at, why="rolling" if actions else "steady")


def _nodes(seen: Seen) -> tuple[str, ...]:
    """Return the nodes the pods want to be on."""
    selector = (spec(seen.daemon_set)["template"].get("spec") or {}).get("nodeSelector") or {}
    return tuple(name for name, marks in seen.nodes.items() if selector.items() <= marks.items())


def _make(owner: Obj, node: str, revision: str) -> Create:
    more = {REVISION_LABEL: revision}
    pod = new_pod(owner, spec(owner)["template"], node, generate=meta(owner)["name"], more_labels=more)
    return Create(resource=PODS, body=pod)


def _update(seen: Seen, wanted: Sequence[str], revision: str) -> list[Action]:
    """Replace pods of an older template, as many at a time as may be missing."""
    strategy = spec(seen.daemon_set).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    may_go = max(amount(limit, len(wanted), round_up=True), 1)
    may_go -= len(wanted) - sum(is_active(pod) and is_ready(pod) for pod in seen.pods)
    old = [pod for pod in seen.pods if is_active(pod) and labels(pod).get(REVISION_LABEL) != revision]
    broken = [pod for pod in old if not is_ready(pod)]
    sound = [pod for pod in old if is_ready(pod)]
    return [delete_pod(pod, seen.options) for pod in (*broken, *sound[: max(may_go, 0)])]


def _report(
    seen: Seen, wanted: Sequence[str], revision: str, now: datetime
) -> tuple[dict[str, Any], datetime | None]:
    owner = seen.daemon_set
    placed = [pod for pod in seen.pods if is_active(pod) and spec(pod).get("nodeName") in wanted]
    available, wake_at = count_available(placed, int(spec(owner).get("minReadySeconds") or 0), now)
    report: dict[str, Any] = {
        "currentNumberScheduled": len({spec(pod)["nodeName"] for pod in placed}),
        "numberMisscheduled": 0,
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(map(is_ready, placed)),
        "observedGeneration": int(meta(owner).get("generation") or 1),
    }
    updated = sum(labels(pod).get(REVISION_LABEL) == revision for pod in placed)
    more = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    return report | {key: value for key, value in more.items() if value}, wake_at
