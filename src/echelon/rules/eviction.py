"""Evictions: takes a placement off one cluster, once, if a budget allows it.

    valid? → budget? → the binding is noted on the eviction (Valid) → the binding is deleted → Executed

The note (an annotation with the binding's uid) makes it happen exactly once: after a crash anywhere, an eviction that
has noted a binding finishes with that very binding and never takes the one that the scheduler may have made since.
An eviction that was refused or carried out never changes again; to ask again, make another one.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition, set_condition
from echelon.api.eviction import DisruptionBudget, Eviction, EvictionStatus
from echelon.api.meta import FALSE, TRUE, Condition, ConditionStatus, timestamp
from echelon.api.names import (
    ANNOTATION_EVICTED_BINDING,
    ANNOTATION_PREVIOUS_BINDING_STATE,
    BindingState,
    EvictionCondition,
    PlacementCondition,
    PlacementType,
)
from echelon.api.own import CLUSTER_BINDINGS, EVICTIONS
from echelon.api.placement import Placement
from echelon.rules.disruption import Misconfigured, allowed_disruptions, count
from echelon.rules.plan import NOTHING, Delete, Patch, Plan, StatusWrite, ref_of

VALID, INVALID = "ClusterResourcePlacementEvictionValid", "ClusterResourcePlacementEvictionInvalid"
EXECUTED, NOT_EXECUTED = (
    "ClusterResourcePlacementEvictionExecuted",
    "ClusterResourcePlacementEvictionNotExecuted",
)
IS_VALID = "Eviction is valid"
BEING_REMOVED = "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction"
NOT_PROPAGATED = "Eviction is blocked, placement has not propagated resources to target cluster yet"
HAS_FAILED = "Eviction is allowed, placement has failed"
NO_BUDGET = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
MISCONFIGURED = (
    "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified "
    "or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
)
BY_BUDGET = (
    "Eviction is {verdict} by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {available}, "
    "totalPlacements: {total}"
)

# False with these is only "not yet"; of Available, False is never more than that: a cluster whose resources are merely
# not ready is what a budget is for.
_NOT_YET = frozenset(
    {
        "OverriddenPending",
        "WorkNotSynchronizedYet",
        "ApplyPending",
        "ApplyInProgress",
        "ResourceNotAvailableYet",
    }
)
_FAILING = (
    PlacementCondition.OVERRIDDEN,
    PlacementCondition.WORK_SYNCHRONIZED,
    PlacementCondition.APPLIED,
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One eviction and what it is about."""

    eviction: Eviction
    placement: Placement | None = None
    bindings: Sequence[Binding] = ()  # all of the placement
    budget: DisruptionBudget | None = None

    @property
    def targeted(self) -> list[Binding]:
        """The placement's bindings on the eviction's cluster."""
        return [b for b in self.bindings if b.spec.target_cluster == self.eviction.spec.cluster_name]


def is_final(eviction: Eviction) -> bool:
    """Whether an eviction was answered for good."""
    conditions = eviction.status.conditions if eviction.status else ()
    valid = find_condition(conditions, EvictionCondition.VALID)
    return find_condition(conditions, EvictionCondition.EXECUTED) is not None or (
        valid is not None
        and valid.status == FALSE
        and valid.observed_generation == eviction.metadata.generation
    )


def step(seen: Seen, now: datetime) -> Plan:
    """R-EVICT-1: an eviction is answered once; the binding it takes is noted before it is taken."""
    eviction = seen.eviction
    if eviction.metadata.is_deleting or is_final(eviction):
        return NOTHING
    noted = eviction.metadata.annotations.get(ANNOTATION_EVICTED_BINDING)
    if noted:
        return _finish(seen, noted, now)
    problem = _problem(seen)
    if problem:
        return _say(seen, now, invalid=problem)
    binding = seen.targeted[0]
    is_allowed, message = _judge(seen, binding)
    if not is_allowed or binding.metadata.is_deleting:
        return _say(seen, now, executed=(TRUE if is_allowed else FALSE, message))
    note = {"metadata": {"annotations": {ANNOTATION_EVICTED_BINDING: binding.metadata.uid}}}
    plan = _say(seen, now)
    return msgspec.structs.replace(
        plan,
        steps=((Patch(ref=ref_of(EVICTIONS, eviction), body=note, gone_ok=True),),),
        why="the binding is noted",
    )


def _problem(seen: Seen) -> str:
    """Say why an eviction makes no sense; empty when it does."""
    placement = seen.placement
    if placement is None:
        return "Failed to find ClusterResourcePlacement targeted by eviction"
    if placement.metadata.is_deleting:
        return "Found deleting ClusterResourcePlacement targeted by eviction"
    policy = placement.spec.policy
    if policy is not None and policy.placement_type == PlacementType.PICK_FIXED:
        return "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
    if len(seen.targeted) > 1:
        return "Found more than one scheduler decision for placement in cluster targeted by eviction"
    if not seen.targeted:
        return "Failed to find scheduler decision for placement in cluster targeted by eviction"
    return ""


def _finish(seen: Seen, noted: str, now: datetime) -> Plan:
    """Take away the binding that was noted, unless it is gone or the budget has been used up since."""
    binding = next((b for b in seen.bindings if b.metadata.uid == noted), None)
    if binding is None or binding.metadata.is_deleting:
        return _say(seen, now, executed=(TRUE, BEING_REMOVED))
    is_allowed, message = _judge(seen, binding)
    plan = _say(seen, now, executed=(TRUE if is_allowed else FALSE, message))
    if not is_allowed:
        return plan
    return msgspec.structs.replace(plan, steps=((Delete(ref=ref_of(CLUSTER_BINDINGS, binding)),),))


def _judge(seen: Seen, binding: Binding) -> tuple[bool, str]:
    """R-EVICT-2: without a budget, or when delivery has failed, a binding may go; else the budget decides."""
    if binding.metadata.is_deleting:
        return True, BEING_REMOVED
    if not _is_propagated(binding):
        return False, NOT_PROPAGATED
    if has_failed(binding):
        return True, HAS_FAILED
    if seen.budget is None or seen.placement is None:
        return True, NO_BUDGET
    counted = count(seen.bindings)
    try:
        is_allowed = allowed_disruptions(seen.budget.spec, seen.placement, counted) > 0
    except Misconfigured:
        return False, MISCONFIGURED
    verdict = "allowed" if is_allowed else "blocked"
    return is_allowed, BY_BUDGET.format(verdict=verdict, available=counted.available, total=counted.total)


def _is_propagated(binding: Binding) -> bool:
    if binding.spec.state == BindingState.BOUND:
        return True
    before = binding.metadata.annotations.get(ANNOTATION_PREVIOUS_BINDING_STATE)
    return binding.spec.state == BindingState.UNSCHEDULED and before == BindingState.BOUND


def has_failed(binding: Binding) -> bool:
    """Whether delivery to a cluster has failed for good, or only differences are reported there.

    A member that has not answered yet, or whose resources are not ready yet, has not failed.
    """
    generation = binding.metadata.generation
    status = binding.status
    for condition in status.conditions if status else ():
        if condition.observed_generation != generation:
            continue
        if condition.type == PlacementCondition.DIFF_REPORTED:
            return True
        if condition.type in _FAILING and condition.status == FALSE and condition.reason not in _NOT_YET:
            return condition.type != PlacementCondition.APPLIED or bool(status and status.failed_placements)
    return False


def _say(
    seen: Seen, now: datetime, *, invalid: str = "", executed: tuple[ConditionStatus, str] | None = None
) -> Plan:
    """Write down whether the eviction is valid and, when it is decided, whether it was carried out."""
    eviction = seen.eviction
    old = eviction.status or EvictionStatus()

    def condition(type_: EvictionCondition, status: ConditionStatus, reason: str, message: str) -> Condition:
        return Condition(
            type=type_,
            status=status,
            observed_generation=eviction.metadata.generation,
            last_transition_time=timestamp(now),
            reason=reason,
            message=message,
        )

    valid: tuple[ConditionStatus, str, str] = (
        (FALSE, INVALID, invalid) if invalid else (TRUE, VALID, IS_VALID)
    )
    conditions = set_condition(old.conditions, condition(EvictionCondition.VALID, *valid), now)
    if executed:
        status, message = executed
        reason = EXECUTED if status == TRUE else NOT_EXECUTED
        conditions = set_condition(
            conditions, condition(EvictionCondition.EXECUTED, status, reason, message), now
        )
    new = EvictionStatus(conditions=conditions)
    write = StatusWrite(ref=ref_of(EVICTIONS, eviction), old=old, new=new) if new != old else None
    return Plan(status=write, why=invalid or (executed[1] if executed else IS_VALID))
