"""How far a placement is, in the words of its status: per cluster from decisions and bindings, then summed up.

Theory. The scheduler's answer comes first; while there is none for the current generation, nothing else is said.
Then each picked cluster walks a list of stations (RolloutStarted, Overridden, WorkSynchronized, Applied, Available;
or DiffReported instead of the last two) and stops at the first that is not True. The placement as a whole walks the
same list over all clusters: any Unknown wins, then any False, else True.

With rollouts controlled from outside (External), a cluster's version is the one its binding names, and the
placement has one only where all its clusters have the same.

The texts are the contract. Nothing here decides what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from echelon.api.binding import Binding, BindingStatus
from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, UNKNOWN, Condition, Conditions, timestamp
from echelon.api.names import (
    LABEL_RESOURCE_INDEX,
    ApplyType,
    PlacementCondition,
    PlacementType,
    RolloutType,
)
from echelon.api.placement import (
    MAX_DETAILS,
    ClusterPlacementStatus,
    Placement,
    PlacementStatus,
    ResourceIdentifier,
)
from echelon.api.scope import Scope
from echelon.api.snapshot import ClusterDecision, PolicySnapshot, ResourceSnapshot
from echelon.rules.placement_words import (
    APPLIED,
    APPLYING,
    AVAILABLE,
    BLOCKED,
    DIFF_REPORTED,
    EXTERNAL_REASON,
    NO_OVERRIDE,
    OVERRIDDEN,
    PENDING,
    REPORTING,
    ROLLOUT_STARTED,
    SCHEDULED,
    SUMMED,
    Said,
)
from echelon.rules.schedule import wanted_count
from echelon.rules.select import identify
from echelon.rules.snapshot_index import resource_index
from echelon.rules.snapshots import content_of

MAX_STATUS_BYTES = 1_200_000  # an API server stores objects of up to 1.5 MiB
_SHORTER = (MAX_DETAILS, 10, 1, 0)  # details a cluster, tried one after the other


class Version(msgspec.Struct, frozen=True):
    """The version a rolling update is going to."""

    name: str  # of the master snapshot
    index: str
    selected: tuple[ResourceIdentifier, ...]


class Known(NamedTuple):
    """What was said of a cluster, and what it was said from."""

    decision: ClusterDecision
    binding: Binding | None
    before: Conditions
    said: ClusterPlacementStatus


@dataclass(slots=True)
class Memory:
    """What was said of each cluster at the last look: a cluster about which nothing changed is not worked out again.

    It only saves time. Without it the same comes out; but what is not written yet then counts from now on, instead of
    from when it was first seen.
    """

    basis: object = None  # what all clusters depend on
    clusters: dict[str, Known] = field(default_factory=dict)


class View(NamedTuple):
    """What a status is made from."""

    scope: Scope
    placement: Placement
    policy: PolicySnapshot | None  # the latest; None while it is only about to be made
    bindings: Sequence[Binding]
    snapshots: Sequence[ResourceSnapshot]
    version: Version | None  # None: rollouts are controlled from outside
    now: datetime
    memory: Memory | None = None


def stations(placement: Placement) -> tuple[PlacementCondition, ...]:
    """Return the conditions that a cluster passes, in order."""
    strategy = placement.spec.strategy
    applying = strategy.apply_strategy if strategy else None
    return REPORTING if applying is not None and applying.type == ApplyType.REPORT_DIFF else APPLYING


def is_external(placement: Placement) -> bool:
    """Whether rollouts of the placement are left to runs."""
    strategy = placement.spec.strategy
    return strategy is not None and strategy.type == RolloutType.EXTERNAL


def standing(scope: Scope, placement: Placement) -> tuple[str, str, str, str]:
    """Return where a placement stands: its generation, and the first condition that is not True for it."""
    generation = placement.metadata.generation
    conditions = placement.status.conditions if placement.status else ()
    for type_ in (SCHEDULED, *stations(placement)):
        found = find_condition(conditions, scope.condition_prefix + type_)
        if found is None or found.observed_generation != generation:
            return str(generation), scope.condition_prefix + type_, "nil", "nil"
        if found.status != TRUE:
            return str(generation), found.type, found.status, found.reason
    return str(generation), "Completed", TRUE, "Completed"


def status_of(view: View) -> PlacementStatus:
    """Return the placement's new status."""
    old = view.placement.status or PlacementStatus()
    if view.version is not None:
        old = msgspec.structs.replace(
            old, selected_resources=view.version.selected, observed_resource_index=view.version.index
        )
    scheduled = _scheduled(view)
    if scheduled.status == UNKNOWN or view.policy is None:
        conditions = set_condition(old.conditions, scheduled, view.now)
        return msgspec.structs.replace(old, placement_statuses=(), conditions=conditions)
    clusters = tuple(_clusters(view, view.policy))
    status = msgspec.structs.replace(
        old, placement_statuses=(*clusters, *_missing(view, view.policy, len(clusters)))
    )
    summed, status = _sum_up(view, clusters, status)
    synced = find_condition(old.conditions, view.scope.condition_prefix + PlacementCondition.STATUS_SYNCED)
    kept = (synced,) if synced else ()
    wanted = [scheduled, *summed, *kept]
    return msgspec.structs.replace(status, conditions=restate(old.conditions, wanted, view.now))


def bounded(status: PlacementStatus) -> PlacementStatus:
    """R-STATUS-6: what clusters report is shortened until the status can be stored; bindings keep all of it."""
    for kept in _SHORTER:
        if len(msgspec.json.encode(status)) <= MAX_STATUS_BYTES:
            return status
        status = msgspec.structs.replace(
            status, placement_statuses=tuple(_shortened(entry, kept) for entry in status.placement_statuses)
        )
    return status


def _shortened(entry: ClusterPlacementStatus, kept: int) -> ClusterPlacementStatus:
    """Keep so many failed, drifted and different objects, without their fields; with none, no words of what is True."""
    conditions = entry.conditions
    if not kept:
        conditions = tuple(
            msgspec.structs.replace(said, message="") if said.status == TRUE else said for said in conditions
        )
    return msgspec.structs.replace(
        entry,
        conditions=conditions,
        failed_placements=entry.failed_placements[:kept],
        drifted_placements=tuple(
            msgspec.structs.replace(row, observed_drifts=()) for row in entry.drifted_placements[:kept]
        ),
        diffed_placements=tuple(
            msgspec.structs.replace(row, observed_diffs=()) for row in entry.diffed_placements[:kept]
        ),
    )


def restate(old: Conditions, wanted: Sequence[Condition], now: datetime) -> Conditions:
    """Return exactly these conditions; one whose status is as before keeps the time of its last change."""
    times = {(said.type, said.status): said.last_transition_time for said in old}
    return tuple(
        msgspec.structs.replace(
            said, last_transition_time=times.get((said.type, said.status), timestamp(now))
        )
        for said in wanted
    )


def _condition(view: View, type_: str, status: str, said: Said) -> Condition:
    return Condition(
        type=type_,
        status=status,  # type: ignore[arg-type]
        observed_generation=view.placement.metadata.generation,
        last_transition_time=timestamp(view.now),
        reason=said.reason,
        message=said.message,
    )


# --- scheduling -----------------------------------------------------------------------------------------------------
def _scheduled(view: View) -> Condition:
    """R-STATUS-1: until the scheduler has answered for this generation, nothing is said of clusters."""
    type_ = view.scope.condition_prefix + SCHEDULED
    policy = view.policy
    status = policy.status if policy else None
    found = find_condition(status.conditions, SCHEDULED) if status else None
    if (
        policy is None
        or status is None
        or found is None
        or found.status == UNKNOWN
        or found.observed_generation != policy.metadata.generation
        or status.observed_crp_generation < view.placement.metadata.generation
    ):
        return _condition(view, type_, UNKNOWN, Said("SchedulePending", "Scheduling has not completed"))
    return _condition(view, type_, found.status, Said(found.reason, found.message))


def _missing(view: View, policy: PolicySnapshot, found_count: int) -> list[ClusterPlacementStatus]:
    """R-STATUS-5: each cluster that is wanted and not found has an entry with the reason."""
    decisions = policy.status.cluster_decisions if policy.status else ()
    asked = policy.spec.policy
    wanted = 0
    if asked and asked.placement_type == PlacementType.PICK_N:
        wanted = wanted_count(policy)
    elif asked and asked.placement_type == PlacementType.PICK_FIXED:
        wanted = len(set(asked.cluster_names))
    unselected = [decision for decision in decisions if not decision.selected]
    entries = []
    for decision in unselected[: max(wanted - found_count, 0)]:
        said = _condition(view, SCHEDULED, FALSE, Said("ScheduleFailed", decision.reason))
        entries.append(ClusterPlacementStatus(conditions=_kept_times(view, decision, said)))
    return entries


def _kept_times(view: View, decision: ClusterDecision, said: Condition) -> Conditions:
    """Keep the time of an entry without a name: it is the same when it says the same."""
    old = view.placement.status.placement_statuses if view.placement.status else ()
    for entry in old:
        held = entry.conditions[0] if entry.conditions and not entry.cluster_name else None
        if held is not None and held.message == decision.reason:
            return restate((held,), (said,), view.now)
    return (said,)


# --- each cluster ---------------------------------------------------------------------------------------------------
def _clusters(view: View, policy: PolicySnapshot) -> list[ClusterPlacementStatus]:
    bound = {
        binding.spec.target_cluster: binding
        for binding in view.bindings
        if not binding.metadata.is_deleting and binding.spec.scheduling_policy_snapshot_name == policy.name
    }
    old = view.placement.status.placement_statuses if view.placement.status else ()
    before = {entry.cluster_name: entry.conditions for entry in old if entry.cluster_name}
    indexes = {
        snapshot.name: snapshot.metadata.labels.get(LABEL_RESOURCE_INDEX, "") for snapshot in view.snapshots
    }
    memory = view.memory or Memory()
    basis = (view.placement.metadata.generation, stations(view.placement), view.version, indexes)
    known = memory.clusters if memory.basis == basis else {}
    memory.basis, memory.clusters = basis, {}
    for decision in policy.status.cluster_decisions if policy.status else ():
        name = decision.cluster_name
        if decision.selected:
            binding, conditions, held = bound.get(name), before.get(name, ()), known.get(name)
            # objects of a cache are shared and never changed: the same one says the same
            if (
                held is None
                or held.binding is not binding
                or held.before is not conditions
                or held.decision is not decision
            ):
                said = _cluster(view, decision, binding, indexes, conditions)
                held = Known(decision, binding, conditions, said)
            memory.clusters[name] = held
    return [held.said for held in memory.clusters.values()]


def _cluster(
    view: View,
    decision: ClusterDecision,
    binding: Binding | None,
    indexes: Mapping[str, str],
    before: Conditions,
) -> ClusterPlacementStatus:
    scheduled = _condition(view, SCHEDULED, TRUE, Said("Scheduled", decision.reason))
    passed = [scheduled, *_walk(view, binding)]
    conditions = restate(before, passed, view.now)
    entry = ClusterPlacementStatus(cluster_name=decision.cluster_name, conditions=conditions)
    if binding is None:
        return entry
    index = view.version.index if view.version else indexes.get(binding.spec.resource_snapshot_name, "")
    return _with_details(msgspec.structs.replace(entry, observed_resource_index=index), binding)


def _walk(view: View, binding: Binding | None) -> list[Condition]:
    """R-STATUS-2: a cluster shows the stations it has passed, and the one where it is."""
    if binding is None:
        return [_condition(view, ROLLOUT_STARTED, UNKNOWN, PENDING[ROLLOUT_STARTED])]
    conditions = binding.status.conditions if binding.status else ()
    current = {
        said.type: said for said in conditions if said.observed_generation == binding.metadata.generation
    }
    if view.version is not None and binding.spec.resource_snapshot_name != view.version.name:
        started = current.get(ROLLOUT_STARTED)
        if started is not None and started.status == FALSE:
            return [_condition(view, ROLLOUT_STARTED, FALSE, BLOCKED)]
        return [_condition(view, ROLLOUT_STARTED, UNKNOWN, PENDING[ROLLOUT_STARTED])]
    passed: list[Condition] = []
    for type_ in stations(view.placement):
        found = current.get(type_)
        if found is None or found.status == UNKNOWN:
            passed.append(_condition(view, type_, UNKNOWN, PENDING[type_]))
            break
        said = Said(found.reason, found.message)
        passed.append(_condition(view, type_, found.status, said))
        if found.status == FALSE:
            break
    return passed


def _with_details(entry: ClusterPlacementStatus, binding: Binding) -> ClusterPlacementStatus:
    """Add overrides, failures, drifts and differences, as far as the cluster has come."""
    status = {said.type: said.status for said in entry.conditions}
    held = binding.status or BindingStatus()
    spec = binding.spec
    is_started = status.get(ROLLOUT_STARTED) == TRUE
    is_failed = FALSE in (status.get(APPLIED), status.get(AVAILABLE))
    is_judged = status.get(APPLIED, UNKNOWN) != UNKNOWN
    is_reported = status.get(DIFF_REPORTED) == TRUE
    return msgspec.structs.replace(
        entry,
        applicable_resource_overrides=spec.resource_override_snapshots if is_started else (),
        applicable_cluster_resource_overrides=spec.cluster_resource_override_snapshots if is_started else (),
        failed_placements=held.failed_placements if is_failed else (),
        drifted_placements=held.drifted_placements if is_judged else (),
        diffed_placements=held.diffed_placements if is_failed or is_reported else (),
    )


# --- the whole ------------------------------------------------------------------------------------------------------
def _sum_up(
    view: View, clusters: Sequence[ClusterPlacementStatus], status: PlacementStatus
) -> tuple[list[Condition], PlacementStatus]:
    """Return what is said of the whole placement, and the status with the version that is said of it."""
    if view.version is not None:
        return _totals(view, clusters), status
    index, problem = _external(view, clusters)
    held = [
        snapshot for snapshot in view.snapshots if snapshot.metadata.labels.get(LABEL_RESOURCE_INDEX) == index
    ]
    selected = content_of(held, resource_index(held[0])) if index and held else []
    status = msgspec.structs.replace(
        status,
        observed_resource_index=index,
        selected_resources=tuple(identify(manifest) for manifest in selected),
    )
    if problem:
        type_ = view.scope.condition_prefix + ROLLOUT_STARTED
        return [_condition(view, type_, UNKNOWN, Said(EXTERNAL_REASON, problem))], status
    return _totals(view, clusters), status


def _external(view: View, clusters: Sequence[ClusterPlacementStatus]) -> tuple[str, str]:
    """R-STATUS-4: under External the placement has a version where all its clusters have the same."""
    indexes = {entry.observed_resource_index for entry in clusters}
    if not clusters:
        return "", ""
    if len(indexes) > 1:
        return "", (
            "Rollout is controlled by an external controller and different resource snapshot versions are "
            "observed across clusters"
        )
    index = indexes.pop()
    if not index:
        return "", (
            "Rollout is controlled by an external controller and no resource snapshot name is observed across "
            f"clusters. To determine rollout status, check the {view.scope.run.kind} resources with "
            "spec.placementName matching this placement"
        )
    for entry in clusters:
        started = find_condition(entry.conditions, ROLLOUT_STARTED)
        if started is None or started.status == UNKNOWN:
            return index, (
                f"Rollout is controlled by an external controller and cluster {entry.cluster_name} is in "
                "RolloutStarted Unknown state"
            )
    return index, ""


def _totals(view: View, clusters: Sequence[ClusterPlacementStatus]) -> list[Condition]:
    """R-STATUS-3: of all clusters, any Unknown wins, then any False, else it is True; the first not True is the last."""
    if not clusters:
        return []
    summed: list[Condition] = []
    for type_ in stations(view.placement):
        counts = {TRUE: 0, FALSE: 0, UNKNOWN: 0}
        for entry in clusters:
            found = find_condition(entry.conditions, type_)
            counts[found.status if found else UNKNOWN] += 1
        outcome = UNKNOWN if counts[UNKNOWN] else FALSE if counts[FALSE] else TRUE
        said = SUMMED[type_][outcome]
        if type_ == OVERRIDDEN and outcome == TRUE and not _has_overrides(clusters):
            said = NO_OVERRIDE
        words = Said(said.reason, said.message.format(n=counts[outcome]))
        summed.append(_condition(view, view.scope.condition_prefix + type_, outcome, words))
        if outcome != TRUE:
            break
    return summed


def _has_overrides(clusters: Sequence[ClusterPlacementStatus]) -> bool:
    return any(
        entry.applicable_resource_overrides or entry.applicable_cluster_resource_overrides
        for entry in clusters
    )
