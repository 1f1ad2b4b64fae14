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
    ClusterPlacementStatus,
    Placement,
    PlacementStatus,
    ResourceIdentifier,
)
from echelon.api.scope import Scope
from echelon.api.snapshot import ClusterDecision, PolicySnapshot, ResourceSnapshot
from echelon.rules.schedule import wanted_count
from echelon.rules.select import identify
from echelon.rules.snapshot_index import resource_index
from echelon.rules.snapshots import content_of

SCHEDULED = PlacementCondition.SCHEDULED
ROLLOUT_STARTED = PlacementCondition.ROLLOUT_STARTED
OVERRIDDEN = PlacementCondition.OVERRIDDEN
APPLIED = PlacementCondition.APPLIED
AVAILABLE = PlacementCondition.AVAILABLE
DIFF_REPORTED = PlacementCondition.DIFF_REPORTED

_APPLYING = (ROLLOUT_STARTED, OVERRIDDEN, PlacementCondition.WORK_SYNCHRONIZED, APPLIED, AVAILABLE)
_REPORTING = (*_APPLYING[:3], DIFF_REPORTED)

EXTERNAL_REASON = "RolloutControlledByExternalController"


class Said(NamedTuple):
    """A reason and its words; `{n}` is a number of clusters."""

    reason: str
    message: str


# What is said of one cluster while its binding says nothing (current) yet.
_PENDING: Mapping[str, Said] = {
    ROLLOUT_STARTED: Said(
        "RolloutStartedUnknown",
        "In the process of deciding whether to roll out some version of the resources or not",
    ),
    OVERRIDDEN: Said(
        "OverriddenPending",
        "In the process of overriding the selected resources if there is any override defined",
    ),
    PlacementCondition.WORK_SYNCHRONIZED: Said(
        "WorkSynchronizedUnknown",
        "In the process of creating or updating the work object(s) in the hub cluster",
    ),
    APPLIED: Said("ApplyPending", "In the process of applying the resources on the member cluster"),
    AVAILABLE: Said("ResourceAvailableUnknown", "The availability of the selected resources is unknown yet "),
    DIFF_REPORTED: Said(
        "DiffReportingPending", "Diff reporting has just started; its status is not yet to be known"
    ),
}
_BLOCKED = Said("RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy")

# What is said of the whole placement: Unknown, False, True.
_SUMMED: Mapping[str, Mapping[str, Said]] = {
    ROLLOUT_STARTED: {
        UNKNOWN: Said(
            "RolloutStartedUnknown",
            "There are still {n} cluster(s) in the process of deciding whether to roll out the latest "
            "resources or not",
        ),
        FALSE: Said(
            "RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy in {n} cluster(s)"
        ),
        TRUE: Said("RolloutStarted", "All {n} cluster(s) start rolling out the latest resource"),
    },
    OVERRIDDEN: {
        UNKNOWN: Said(
            "OverriddenPending",
            "There are still {n} cluster(s) in the process of overriding the selected resources if there is "
            "any override defined",
        ),
        FALSE: Said("OverriddenFailed", "Failed to override resources in {n} cluster(s)"),
        TRUE: Said(
            "OverriddenSucceeded", "The selected resources are successfully overridden in {n} cluster(s)"
        ),
    },
    PlacementCondition.WORK_SYNCHRONIZED: {
        UNKNOWN: Said(
            "WorkSynchronizedUnknown",
            "There are still {n} cluster(s) in the process of creating or updating the work object(s) in the "
            "hub cluster",
        ),
        FALSE: Said(
            "WorkNotSynchronizedYet",
            "There are {n} cluster(s) which have not finished creating or updating work(s) yet",
        ),
        TRUE: Said(
            "WorkSynchronized",
            "Work(s) are successfully created or updated in {n} target cluster(s)' namespaces",
        ),
    },
    APPLIED: {
        UNKNOWN: Said(
            "ApplyPending",
            "There are still {n} cluster(s) in the process of applying the resources on the member cluster",
        ),
        FALSE: Said(
            "ApplyFailed",
            "Failed to apply resources to {n} cluster(s), please check the `failedPlacements` status",
        ),
        TRUE: Said("ApplySucceeded", "The selected resources are successfully applied to {n} cluster(s)"),
    },
    AVAILABLE: {
        UNKNOWN: Said(
            "ResourceAvailableUnknown",
            "There are still {n} cluster(s) in the process of checking the availability of the selected "
            "resources",
        ),
        FALSE: Said(
            "ResourceNotAvailableYet", "The selected resources in {n} cluster(s) are still not available yet"
        ),
        TRUE: Said("ResourceAvailable", "The selected resources in {n} cluster(s) are available now"),
    },
    DIFF_REPORTED: {
        UNKNOWN: Said(
            "DiffReportingPending",
            "There are still {n} cluster(s) in the process of checking for configuration differences",
        ),
        FALSE: Said(
            "DiffReportingIncompleteOrFailed",
            "Diff reporting in {n} clusters is still in progress or has failed",
        ),
        TRUE: Said("DiffReportingCompleted", "Diff reporting in {n} cluster(s) has been completed"),
    },
}
_NO_OVERRIDE = Said("NoOverrideSpecified", "No override rules are configured for the selected resources")


class Version(msgspec.Struct, frozen=True):
    """The version a rolling update is going to."""

    name: str  # of the master snapshot
    index: str
    selected: tuple[ResourceIdentifier, ...]


class View(NamedTuple):
    """What a status is made from."""

    scope: Scope
    placement: Placement
    policy: PolicySnapshot | None  # the latest; None while it is only about to be made
    bindings: Sequence[Binding]
    snapshots: Sequence[ResourceSnapshot]
    version: Version | None  # None: rollouts are controlled from outside
    now: datetime


def stations(placement: Placement) -> tuple[PlacementCondition, ...]:
    """Return the conditions that a cluster passes, in order."""
    strategy = placement.spec.strategy
    applying = strategy.apply_strategy if strategy else None
    return _REPORTING if applying is not None and applying.type == ApplyType.REPORT_DIFF else _APPLYING


def is_external(placement: Placement) -> bool:
    """Whether rollouts of the placement are left to runs."""
    strategy = placement.spec.strategy
    return strategy is not None and strategy.type == RolloutType.EXTERNAL


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
    """Return an entry for each cluster that the policy wants and that could not be found."""
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
    decisions = policy.status.cluster_decisions if policy.status else ()
    return [
        _cluster(view, decision, bound.get(decision.cluster_name), indexes, before)
        for decision in decisions
        if decision.selected
    ]


def _cluster(
    view: View,
    decision: ClusterDecision,
    binding: Binding | None,
    indexes: Mapping[str, str],
    before: Mapping[str, Conditions],
) -> ClusterPlacementStatus:
    scheduled = _condition(view, SCHEDULED, TRUE, Said("Scheduled", decision.reason))
    passed = [scheduled, *_walk(view, binding)]
    conditions = restate(before.get(decision.cluster_name, ()), passed, view.now)
    entry = ClusterPlacementStatus(cluster_name=decision.cluster_name, conditions=conditions)
    if binding is None:
        return entry
    index = view.version.index if view.version else indexes.get(binding.spec.resource_snapshot_name, "")
    return _with_details(msgspec.structs.replace(entry, observed_resource_index=index), binding)


def _walk(view: View, binding: Binding | None) -> list[Condition]:
    """Return the stations a cluster has passed, and the one where it is."""
    if binding is None:
        return [_condition(view, ROLLOUT_STARTED, UNKNOWN, _PENDING[ROLLOUT_STARTED])]
    conditions = binding.status.conditions if binding.status else ()
    current = {
        said.type: said for said in conditions if said.observed_generation == binding.metadata.generation
    }
    if view.version is not None and binding.spec.resource_snapshot_name != view.version.name:
        started = current.get(ROLLOUT_STARTED)
        if started is not None and started.status == FALSE:
            return [_condition(view, ROLLOUT_STARTED, FALSE, _BLOCKED)]
        return [_condition(view, ROLLOUT_STARTED, UNKNOWN, _PENDING[ROLLOUT_STARTED])]
    passed: list[Condition] = []
    for type_ in stations(view.placement):
        found = current.get(type_)
        if found is None or found.status == UNKNOWN:
            passed.append(_condition(view, type_, UNKNOWN, _PENDING[type_]))
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
    """Return the version all clusters have, and why nothing more can be said, if nothing can."""
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
    if not clusters:
        return []
    summed: list[Condition] = []
    for type_ in stations(view.placement):
        counts = {TRUE: 0, FALSE: 0, UNKNOWN: 0}
        for entry in clusters:
            found = find_condition(entry.conditions, type_)
            counts[found.status if found else UNKNOWN] += 1
        outcome = UNKNOWN if counts[UNKNOWN] else FALSE if counts[FALSE] else TRUE
        said = _SUMMED[type_][outcome]
        if type_ == OVERRIDDEN and outcome == TRUE and not _has_overrides(clusters):
            said = _NO_OVERRIDE
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
