"""One look at a placement: snapshots of its policy and resources, its status, its copy in a namespace, its events.

Theory. What the author asks for becomes two snapshots: the policy's, from which the scheduler picks clusters, and
the resources', which rollouts deliver. How far both are comes back through the policy snapshot's status and the
bindings, and is summed up in the placement's status. An author's error is said in one condition and leaves all
else as it was: what runs keeps running.

A placement that leaves its rollout to runs gets no resource snapshots from here; runs make them.

Never picks a cluster, never touches a binding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.binding import Binding
from echelon.api.conditions import is_true_at, remove_condition, set_condition
from echelon.api.meta import FALSE, MAX_CONDITION_MESSAGE, TRUE, UNKNOWN, Condition, timestamp
from echelon.api.names import (
    FINALIZER_CRP_CLEANUP,
    FINALIZER_SCHEDULER_CLEANUP,
    PlacementCondition,
    StatusReportingScope,
)
from echelon.api.own import PLACEMENT_STATUSES
from echelon.api.placement import Placement, PlacementStatus, PlacementStatusCopy
from echelon.api.scope import Scope
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot
from echelon.rules.binding_life import with_finalizer, without_finalizer
from echelon.rules.merge import diff_merge
from echelon.rules.pace import SHARED, due_at
from echelon.rules.placement_status import (
    Memory,
    Version,
    View,
    bounded,
    is_external,
    stations,
    status_of,
)
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, Ref, StatusWrite, ref_of
from echelon.rules.policy_snapshots import owned_by, plan_policy_snapshot
from echelon.rules.select import Selected, identify, selects_namespaces
from echelon.rules.snapshot_index import owned
from echelon.rules.snapshots import Delays, plan_snapshot

INVALID_SELECTORS = "InvalidResourceSelectors"
SCHEDULED = PlacementCondition.SCHEDULED
STATUS_SYNCED = PlacementCondition.STATUS_SYNCED

_EVENTS: Mapping[str, tuple[str, str]] = {
    PlacementCondition.ROLLOUT_STARTED: (
        "PlacementRolloutStarted",
        "Started rolling out the latest resources",
    ),
    PlacementCondition.OVERRIDDEN: (
        "PlacementOverriddenSucceeded",
        "Placement has been successfully overridden",
    ),
    PlacementCondition.WORK_SYNCHRONIZED: (
        "PlacementWorkSynchronized",
        "Work(s) have been created or updated successfully for the selected cluster(s)",
    ),
    PlacementCondition.APPLIED: (
        "PlacementApplied",
        "Resources have been applied to the selected cluster(s)",
    ),
    PlacementCondition.AVAILABLE: (
        "PlacementAvailable",
        "Resources are available on the selected cluster(s)",
    ),
}
_COMPLETED = (
    "PlacementRolloutCompleted",
    "Placement has finished the rollout process and reached the desired status",
)
_CLEANED = (
    "PlacementCleanupFinalizerRemoved",
    "Deleted the snapshots and removed the placement cleanup finalizer",
)


_QUOTED_OBJECT = re.compile(r"Invalid value: (\"\{.*\}\"|\{.*\}|\"\[.*\]\"|\[.*\])", re.DOTALL)
"""What an API server quotes of an object it refuses: it may hold anything."""
UNPACED_CLUSTERS = 20  # a status of so few is small enough to be written whenever it changes
PACE_PER_CLUSTER = timedelta(milliseconds=5)  # between two writes


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub agent may set."""

    delays: Delays = Delays()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a look depends on."""

    scope: Scope
    placement: Placement
    policy_snapshots: Sequence[PolicySnapshot] = ()
    resource_snapshots: Sequence[ResourceSnapshot] = ()
    bindings: Sequence[Binding] = ()
    selected: Selected | None = None
    problem: str = ""  # why nothing can be selected: the author's error
    copy: PlacementStatusCopy | None = None
    has_copy_namespace: bool = False
    written_at: datetime | None = None  # when this process last wrote the status: only a matter of pace
    busy: int = 1  # how many statuses it has written lately: they share the pace
    memory: Memory | None = None  # of the last look: only saves time
    options: Options = Options()


def step(seen: Seen, now: datetime) -> Plan:
    """Look at a placement."""
    placement = seen.placement
    if placement.metadata.is_deleting:
        return _clean_up(seen)
    # the scheduler's too: its own write would run into ours
    held = with_finalizer(seen.scope.placement, placement, FINALIZER_CRP_CLEANUP, FINALIZER_SCHEDULER_CLEANUP)
    steps: list[tuple[Action, ...]] = [(held,)] if held else []
    wake_at = None
    moved = _moved_namespace(seen)
    if moved:
        status = _refused(seen, moved, now)
    elif seen.selected is None:
        status = _refused(seen, f"The resource selectors are invalid: {seen.problem}", now)
    else:
        status, wake_at = _look(seen, seen.selected, steps, now)
    namespace = "" if moved else copy_namespace(seen.scope, placement)
    if namespace:
        status = _with_sync(seen, namespace, status, now)
    write = None
    held_until = _held_until(seen, status, now)
    if held_until is not None:
        wake_at = min(wake_at or held_until, held_until)
        status = placement.status or status
    else:
        status = bounded(status)
        copying = _copy(seen, namespace, status, now) if namespace and seen.has_copy_namespace else None
        steps += [(copying,)] if copying else []
    if status != placement.status:
        ref = ref_of(seen.scope.placement, placement)
        write = StatusWrite(ref=ref, old=placement.status, new=status)
    if not steps and write is None and wake_at is None:
        return NOTHING
    return Plan(
        steps=tuple(steps), status=write, events=_events(seen, status), wake_at=wake_at, why="looked at it"
    )


def _held_until(seen: Seen, status: PlacementStatus, now: datetime) -> datetime | None:
    """R-PLACE-6: the status of many clusters is written at a pace, news of the whole at once.

    The status of many clusters is big and changes with each of them: writing all of it each time would cost the
    square of their number. News about the whole placement is never held back.
    """
    old, count = seen.placement.status, len(status.placement_statuses)
    if old is None or seen.written_at is None or count <= UNPACED_CLUSTERS or status == old:
        return None
    until = due_at(seen.written_at, min(count * PACE_PER_CLUSTER, SHARED), seen.busy)
    return until if now < until and _headline(old) == _headline(status) else None


def _headline(status: PlacementStatus) -> tuple[Any, ...]:
    """What people wait for: everything but the clusters one by one, and the counts in messages."""
    said = [(c.type, c.status, c.reason, c.observed_generation) for c in status.conditions]
    return said, status.observed_resource_index, status.selected_resources, len(status.placement_statuses)


def _look(
    seen: Seen, selected: Selected, steps: list[tuple[Action, ...]], now: datetime
) -> tuple[PlacementStatus, datetime | None]:
    """Bring the snapshots up to date and sum up how far the placement is."""
    scope, placement = seen.scope, seen.placement
    policy = plan_policy_snapshot(scope, placement, seen.policy_snapshots)
    steps += policy.steps
    version = wake_at = None
    if not is_external(placement):
        made = plan_snapshot(
            scope,
            placement,
            seen.resource_snapshots,
            selected.manifests,
            now,
            delays=seen.options.delays,
            digest=selected.digest,
        )
        steps += made.steps
        wake_at = made.wake_at
        identifiers = selected.identifiers if wake_at is None else tuple(map(identify, made.resources))
        version = Version(made.name, str(made.index), identifiers)
    snapshots = owned(seen.resource_snapshots, placement)
    view = View(scope, placement, policy.current, seen.bindings, snapshots, version, now, seen.memory)
    return status_of(view), wake_at


def _refused(seen: Seen, message: str, now: datetime) -> PlacementStatus:
    """R-PLACE-1: the author's error is said, and everything else stays as it was."""
    placement = seen.placement
    old = placement.status or PlacementStatus()
    said = Condition(
        type=seen.scope.condition_prefix + SCHEDULED,
        status=FALSE,
        observed_generation=placement.metadata.generation,
        last_transition_time=timestamp(now),
        reason=INVALID_SELECTORS,
        message=message[:MAX_CONDITION_MESSAGE],
    )
    return msgspec.structs.replace(old, conditions=set_condition(old.conditions, said, now))


def explain(seen: Seen, refusal: str, now: datetime) -> Plan:
    """Say in the status that the API server refused what had to be written; what runs keeps running."""
    placement = seen.placement
    if placement.metadata.is_deleting:
        return NOTHING
    cause = _QUOTED_OBJECT.sub("Invalid value: (not shown)", refusal)
    said = Condition(
        type=seen.scope.condition_prefix + SCHEDULED,
        status=UNKNOWN,
        observed_generation=placement.metadata.generation,
        last_transition_time=timestamp(now),
        reason="SchedulePending",
        message=f"Scheduling has not completed: the API server refused what is needed for it: {cause}"[
            :MAX_CONDITION_MESSAGE
        ],
    )
    old = placement.status or PlacementStatus()
    new = msgspec.structs.replace(old, conditions=set_condition(old.conditions, said, now))
    if new == placement.status:
        return NOTHING
    ref = ref_of(seen.scope.placement, placement)
    return Plan(status=StatusWrite(ref=ref, old=placement.status, new=new), why="the API server refused")


# --- the copy in a namespace ----------------------------------------------------------------------------------------
def copy_namespace(scope: Scope, placement: Placement) -> str | None:
    """Return the namespace that gets a copy of the status: None when none is wanted, "" when none is selected."""
    wanted = placement.spec.status_reporting_scope == StatusReportingScope.NAMESPACE_ACCESSIBLE
    if scope.namespaced or not wanted:
        return None
    return next((s.name for s in placement.spec.resource_selectors if selects_namespaces(s)), "")


def _moved_namespace(seen: Seen) -> str:
    """R-PLACE-2: the namespace of a copied status may not be switched: its readers would lose it."""
    namespace = copy_namespace(seen.scope, seen.placement)
    if namespace is None:
        return ""
    if not namespace:
        return (
            "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects "
            "a namespace"
        )
    status = seen.placement.status or PlacementStatus()
    held = next((r.name for r in status.selected_resources if (r.group, r.kind) == ("", "Namespace")), "")
    if held in ("", namespace):
        return ""
    return (
        f"namespace resource selector is choosing a different namespace '{namespace}' from what was originally "
        f"picked '{held}'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
    )


def _with_sync(seen: Seen, namespace: str, status: PlacementStatus, now: datetime) -> PlacementStatus:
    """R-PLACE-3: the status is copied into its namespace where that is wanted, and whether it worked is said."""
    if seen.has_copy_namespace:
        reason = "StatusSyncSucceeded"
        message = f"Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'"
    else:
        reason = "StatusSyncFailed"
        message = (
            f'Failed to create or update ClusterResourcePlacementStatus: namespaces "{namespace}" not found'
        )
    synced = Condition(
        type=seen.scope.condition_prefix + STATUS_SYNCED,
        status=TRUE if seen.has_copy_namespace else FALSE,
        observed_generation=seen.placement.metadata.generation,
        last_transition_time=timestamp(now),
        reason=reason,
        message=message,
    )
    return msgspec.structs.replace(status, conditions=set_condition(status.conditions, synced, now))


def _copy(seen: Seen, namespace: str, status: PlacementStatus, now: datetime) -> Action | None:
    synced = seen.scope.condition_prefix + STATUS_SYNCED
    source = msgspec.structs.replace(status, conditions=remove_condition(status.conditions, synced))
    at = msgspec.to_builtins(timestamp(now))
    if seen.copy is None:
        owner = owned_by(seen.scope, seen.placement)
        body = {
            "apiVersion": PLACEMENT_STATUSES.api_version,
            "kind": PLACEMENT_STATUSES.kind,
            "metadata": {"name": seen.placement.name, "namespace": namespace, "ownerReferences": [owner]},
            "sourceStatus": msgspec.to_builtins(source),
            "lastUpdatedTime": at,
        }
        return Create(resource=PLACEMENT_STATUSES, body=body)
    changed = diff_merge(msgspec.to_builtins(seen.copy.source_status), msgspec.to_builtins(source))
    if not changed:
        return None
    return Patch(
        ref=ref_of(PLACEMENT_STATUSES, seen.copy), body={"sourceStatus": changed, "lastUpdatedTime": at}
    )


# --- telling people -------------------------------------------------------------------------------------------------
def _events(seen: Seen, status: PlacementStatus) -> tuple[Emit, ...]:
    """R-PLACE-4: each condition that turns True for this generation is an event, and all of them are one more."""
    placement, prefix = seen.placement, seen.scope.condition_prefix
    generation = placement.metadata.generation
    before = placement.status.conditions if placement.status else ()
    about = about_placement(seen.scope, placement)
    emitted = []
    passed = stations(placement)
    for type_ in passed:
        is_news = not is_true_at(before, prefix + type_, generation)
        if type_ in _EVENTS and is_news and is_true_at(status.conditions, prefix + type_, generation):
            reason, message = _EVENTS[type_]
            emitted.append(Emit(about=about, reason=reason, message=message))
    expected = [prefix + type_ for type_ in (SCHEDULED, *passed)]
    is_complete = all(is_true_at(status.conditions, type_, generation) for type_ in expected)
    if is_complete and not all(is_true_at(before, type_, generation) for type_ in expected):
        emitted.append(Emit(about=about, reason=_COMPLETED[0], message=_COMPLETED[1]))
    return tuple(emitted)


def about_placement(scope: Scope, placement: Placement) -> Ref:
    """Point at a placement in an event: without its version, so that saying it again is counted."""
    return msgspec.structs.replace(ref_of(scope.placement, placement), resource_version="")


# --- the end --------------------------------------------------------------------------------------------------------
def _clean_up(seen: Seen) -> Plan:
    """R-PLACE-5: what was made for a deleted placement is deleted, then the placement is let go."""
    placement, scope = seen.placement, seen.scope
    if FINALIZER_CRP_CLEANUP not in placement.metadata.finalizers:
        return NOTHING
    policies = (Delete(ref=ref_of(scope.policy_snapshot, s)) for s in owned(seen.policy_snapshots, placement))
    resources = (
        Delete(ref=ref_of(scope.resource_snapshot, s)) for s in owned(seen.resource_snapshots, placement)
    )
    let_go = without_finalizer(scope.placement, placement, FINALIZER_CRP_CLEANUP)
    steps: tuple[tuple[Action, ...], ...] = (tuple(policies), tuple(resources), (let_go,))
    said = Emit(about=about_placement(scope, placement), reason=_CLEANED[0], message=_CLEANED[1])
    return Plan(steps=tuple(step for step in steps if step), events=(said,), why="placement is being deleted")
