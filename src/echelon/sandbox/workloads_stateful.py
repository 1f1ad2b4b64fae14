"""StatefulSets: numbered pods with claims of their own, one after the other. Decisions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from echelon.api.builtin import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from echelon.rules.plan import NOTHING, Action, Create, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import (
    Obj,
    WorkloadOptions,
    compact,
    is_deleting,
    labels,
    meta,
    replicas,
    spec,
    status,
)
from echelon.sandbox.workloads_replicas import count_available, delete_pod, is_active, is_ready, new_pod
from echelon.sandbox.workloads_revisions import REVISION_LABEL, Revision, forget, revise, template_of


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A StatefulSet, its pods and revisions, and the names of the claims that are there."""

    stateful_set: Obj
    pods: tuple[Obj, ...] = ()
    revisions: tuple[Obj, ...] = ()
    claims: frozenset[str] = frozenset()
    nodes: tuple[str, ...] = ()
    options: WorkloadOptions = WorkloadOptions()


class _State(NamedTuple):
    """What is to be worked with in one look."""

    seen: Seen
    wanted: range
    held: Mapping[int, Obj]
    revision: Revision
    current: str

    @property
    def owner(self) -> Obj:
        return self.seen.stateful_set

    @property
    def is_ordered(self) -> bool:
        return spec(self.owner).get("podManagementPolicy") != "Parallel"


def step(seen: Seen, now: datetime) -> Plan:
    """Decide the next step of a StatefulSet."""
    owner = seen.stateful_set
    if is_deleting(owner):
        return NOTHING
    revision = revise(owner, seen.revisions)
    start = int((spec(owner).get("ordinals") or {}).get("start") or 0)
    state = _State(
        seen=seen,
        wanted=range(start, start + replicas(owner)),
        held={_ordinal(pod): pod for pod in seen.pods},
        revision=revision,
        current=str(status(owner).get("currentRevision") or revision.name),
    )
    actions = _fill(state) or _shrink(state) or _update(state)
    claims = [action for action in actions if _is_claim(action)]
    rest = [action for action in actions if not _is_claim(action)]
    used = {labels(pod).get(REVISION_LABEL, "") for pod in seen.pods} | {revision.name, state.current}
    tidy = [] if actions else forget(owner, seen.revisions, used)
    steps = tuple(tuple(group) for group in (revision.actions, claims, [*rest, *tidy]) if group)
    report, wake_at = _report(state, now)
    write = StatusWrite(ref=_unversioned(owner), old=status(owner), new=report)
    return Plan(steps=steps, status=write, wake_at=wake_at, why="rolling" if actions else "steady")


def _is_claim(action: Action) -> bool:
    return isinstance(action, Create) and action.resource == PERSISTENT_VOLUME_CLAIMS


def _unversioned(owner: Obj) -> Any:
    return msgspec.structs.replace(ref_of(STATEFUL_SETS, owner), resource_version="")


def _ordinal(pod: Obj) -> int:
    tail = meta(pod)["name"].rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1


def _fill(state: _State) -> list[Action]:
    """Make the pods that are missing, in order; with OrderedReady the next waits for the one before."""
    actions: list[Action] = []
    for ordinal in state.wanted:
        pod = state.held.get(ordinal)
        if pod is None:
            actions += _make(state, ordinal)
        elif not is_active(pod):
            if not is_deleting(pod):
                actions.append(delete_pod(pod, state.seen.options))
            if state.is_ordered:
                return actions
            continue
        if state.is_ordered and (pod is None or not is_ready(pod)):
            return actions
    return actions


def _make(state: _State, ordinal: int) -> list[Action]:
    owner = state.owner
    name = f"{meta(owner)['name']}-{ordinal}"
    is_new = ordinal >= _partition(owner)
    revision = state.revision.name if is_new else state.current
    kept = next((one for one in state.seen.revisions if meta(one)["name"] == revision), None)
    template = spec(owner)["template"] if is_new else template_of(kept, spec(owner)["template"])
    more = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
    }
    node = state.seen.nodes[ordinal % len(state.seen.nodes)] if state.seen.nodes else ""
    pod = new_pod(owner, template, node, name=name, more_labels=more)
    pod["spec"] |= {"hostname": name, "subdomain": spec(owner).get("serviceName") or ""}
    actions: list[Action] = []
    volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
    for claim in spec(owner).get("volumeClaimTemplates") or ():
        title = f"{claim['metadata']['name']}-{name}"
        volumes[claim["metadata"]["name"]] = {
            "name": claim["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": title},
        }
        if title not in state.seen.claims:
            actions.append(Create(resource=PERSISTENT_VOLUME_CLAIMS, body=_claim(owner, claim, title)))
    if volumes:
        pod["spec"]["volumes"] = list(volumes.values())
    return [*actions, Create(resource=PODS, body=pod)]


def _claim(owner: Obj, claim: Obj, title: str) -> dict[str, Any]:
    made = {**(claim["metadata"].get("labels") or {}), **_selected(owner)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": title, "namespace": meta(owner)["namespace"], "labels": made},
        "spec": claim["spec"],
    }


def _selected(owner: Obj) -> dict[str, str]:
    return dict((spec(owner).get("selector") or {}).get("matchLabels") or {})


def _partition(owner: Obj) -> int:
    strategy = spec(owner).get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


def _shrink(state: _State) -> list[Action]:
    """Take away pods beyond the wanted number, the last one first."""
    surplus = sorted((ordinal for ordinal in state.held if ordinal not in state.wanted), reverse=True)
    going = [state.held[ordinal] for ordinal in surplus if not is_deleting(state.held[ordinal])]
    if state.is_ordered and len(going) < len(surplus):
        return []
    return [delete_pod(pod, state.seen.options) for pod in (going[:1] if state.is_ordered else going)]


def _update(state: _State) -> list[Action]:
    """Replace pods of an older template from the last to the partition, as long as the others are ready."""
    if (spec(state.owner).get("updateStrategy") or {}).get("type") == "OnDelete":
        return []
    for ordinal in sorted(state.wanted, reverse=True):
        pod = state.held.get(ordinal)
        if pod is None or is_deleting(pod) or ordinal < _partition(state.owner):
            return []
        if labels(pod).get(REVISION_LABEL) != state.revision.name:
            return [delete_pod(pod, state.seen.options)]
        if not is_ready(pod):
            return []
    return []


def _report(state: _State, now: datetime) -> tuple[dict[str, Any], datetime | None]:
    owner = state.owner
    pods = [pod for ordinal, pod in state.held.items() if ordinal in state.wanted and is_active(pod)]
    available, wake_at = count_available(pods, int(spec(owner).get("minReadySeconds") or 0), now)
    updated = _of(pods, state.revision.name)
    ready = sum(map(is_ready, pods))
    current = state.current
    if updated == len(pods) == ready == replicas(owner) and len(state.held) == len(pods):
        current = state.revision.name  # every pod is of the present template: the update is over
    counts = {
        "readyReplicas": ready,
        "currentReplicas": _of(pods, current),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": state.revision.name,
        "observedGeneration": int(meta(owner).get("generation") or 1),
    }
    report = compact(counts)
    report |= {"replicas": len(pods), "availableReplicas": available, "collisionCount": 0}
    return report, wake_at


def _of(pods: Sequence[Obj], revision: str) -> int:
    return sum(labels(pod).get(REVISION_LABEL) == revision for pod in pods)
