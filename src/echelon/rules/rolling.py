"""RollingUpdate: which bindings of a placement go to the current version now, and which have to wait.

Theory. A placement wants a number of clusters, its target. An update may make some of them unavailable
(maxUnavailable) and may for a while use more clusters than wanted (maxSurge). Every binding is one of

    removing     Unscheduled: its cluster is no longer picked
    starting     Scheduled: its cluster is picked and has nothing yet
    broken       Bound to something else than wanted, and delivery of that has failed: updated at once, for it
                 cannot get worse
    outdated     Bound to something else than wanted, and working or on its way
    current      Bound to what is wanted

and some of those are ready. What is taken away or changed is no longer ready, so of `removing` (first) and
`outdated` only so many go now that target - maxUnavailable stay ready; of `starting` so many that no more than
target + maxSurge clusters are or may become ready. Those that must wait are told so.

The apply strategy is no version: a change of it reaches every binding at once.

Never makes a binding; never touches a placement that leaves its rollout to runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, Condition, ConditionStatus, IntOrString, timestamp
from echelon.api.names import BindingState, PlacementCondition, PlacementType
from echelon.api.placement import ApplyStrategy, Placement, RollingUpdate, RolloutStrategy
from echelon.api.scope import Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.rules.hand_over import (
    ROLLOUT_STARTED,
    Target,
    applied_patch,
    conditions_of,
    generation_after,
    has_version,
    move,
    spec_patch,
)
from echelon.rules.override import Candidates, InvalidOverride, select_for_cluster
from echelon.rules.placement_status import is_external
from echelon.rules.placements import about_placement
from echelon.rules.plan import NOTHING, Action, Delete, Emit, Patch, Plan, ref_of
from echelon.rules.snapshot_index import latest_master, owned
from echelon.rules.snapshots import is_whole
from echelon.rules.stages import applied_strategy

AVAILABLE = PlacementCondition.AVAILABLE
DIFF_REPORTED = PlacementCondition.DIFF_REPORTED

# Available means only "applied, and nobody can tell": ready after a while.
UNTRACKABLE = frozenset({"NotAllWorkAreAvailabilityTrackable", "WorkNotTrackable"})
# A False that only means "not yet"; every other one means that delivery has failed.
NOT_YET: Mapping[str, frozenset[str]] = {
    PlacementCondition.OVERRIDDEN: frozenset({"OverriddenPending"}),
    PlacementCondition.WORK_SYNCHRONIZED: frozenset({"WorkNotSynchronizedYet"}),
    PlacementCondition.APPLIED: frozenset({"ApplyPending", "ApplyInProgress"}),
    AVAILABLE: frozenset({"ResourceNotAvailableYet"}),
}
STARTED = ("RolloutStarted", "Detected the new changes on the resources and started the rollout process")
BLOCKED = (
    "RolloutNotStartedYet",
    "The resources cannot be updated to the latest because of the rollout strategy",
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a step of a rolling update depends on."""

    scope: Scope
    placement: Placement
    resource_snapshots: Sequence[ResourceSnapshot]
    bindings: Sequence[Binding]
    overrides: Candidates = Candidates()
    clusters: Mapping[str, MemberCluster] = {}  # the targets of the bindings


class Limits(NamedTuple):
    """How fast the placement may be updated."""

    target: int
    max_unavailable: int
    max_surge: int
    period: timedelta


class Sorted(NamedTuple):
    """The bindings by what is to be done with them, each in name order; and the counts that limit it."""

    removing: list[Binding]
    starting: list[Binding]
    broken: list[Binding]
    outdated: list[Binding]
    current: list[Binding]
    ready_count: int
    leaving_ready_count: int  # deleting, and still ready
    can_be_ready_count: int
    ready_at: datetime | None  # when the next binding counts as ready by mere waiting


def step(seen: Seen, now: datetime) -> Plan:
    """Take the next step of a rolling update."""
    placement = seen.placement
    if placement.metadata.is_deleting or is_external(placement):
        return NOTHING
    snapshots = owned(seen.resource_snapshots, placement)
    master = latest_master(snapshots)
    if master is None or not is_whole(snapshots, master):
        return NOTHING  # the missing part is an event
    strategy = placement.spec.strategy or RolloutStrategy()
    applied = applied_strategy(strategy)
    bindings = sorted(seen.bindings, key=lambda binding: binding.name)
    pushed = _push(seen.scope, bindings, applied)
    if pushed:
        return Plan(steps=(pushed,), why="the apply strategy has changed")
    try:
        wanted = _wanted(seen, master.name, applied)
    except InvalidOverride as error:
        said = f"The rollout waits until an override is corrected: {error}"
        about = about_placement(seen.scope, placement)
        return Plan(
            events=(Emit(about=about, reason="InvalidOverride", message=said, type="Warning"),), why=said
        )
    limits = limits_of(placement, bindings)
    rows = sort_bindings(bindings, wanted, limits, now)
    return _plan(seen.scope, rows, limits, wanted, now)


def _wanted(seen: Seen, snapshot: str, applied: ApplyStrategy) -> Mapping[str, Target]:
    wanted = {}
    for name, cluster in seen.clusters.items():
        overrides = select_for_cluster(seen.overrides, cluster)
        wanted[name] = Target(snapshot, overrides.namespaced, overrides.cluster, applied)
    return wanted


def _push(scope: Scope, bindings: Sequence[Binding], applied: ApplyStrategy) -> tuple[Action, ...]:
    """R-ROLL-5: a changed apply strategy reaches every binding that has one, at once."""
    return tuple(
        _carry(scope, binding, {"applyStrategy": applied_patch(binding.spec.apply_strategy, applied)})
        for binding in bindings
        if not binding.metadata.is_deleting and binding.spec.apply_strategy not in (None, applied)
    )


# --- limits ---------------------------------------------------------------------------------------------------------
def limits_of(placement: Placement, bindings: Sequence[Binding]) -> Limits:
    """R-ROLL-1: limits are numbers or percentages of the wanted clusters, rounded up."""
    strategy = placement.spec.strategy
    update = (strategy.rolling_update if strategy else None) or RollingUpdate()
    policy = placement.spec.policy
    if policy is not None and policy.placement_type == PlacementType.PICK_N:
        target = policy.number_of_clusters or 0
    elif policy is not None and policy.placement_type == PlacementType.PICK_FIXED:
        target = len(set(policy.cluster_names))
    else:
        target = sum(binding.spec.state != BindingState.UNSCHEDULED for binding in bindings)
    return Limits(
        target=target,
        max_unavailable=amount_of(update.max_unavailable, target),
        max_surge=amount_of(update.max_surge, target),
        period=timedelta(seconds=update.unavailable_period_seconds),
    )


def amount_of(value: IntOrString, target: int) -> int:
    """Read a number or a percentage of the target, rounded up; something unreadable counts as nothing."""
    text = str(value)
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()):
        return 0
    number = int(digits)
    return -(-target * number // 100) if text.endswith("%") else number


# --- judging bindings -----------------------------------------------------------------------------------------------
def ready_at(binding: Binding, period: timedelta) -> datetime | None:
    """R-ROLL-2: ready is what delivery reports as available; where nobody can tell, after a while."""
    generation = binding.metadata.generation
    current = {said.type: said for said in conditions_of(binding) if said.observed_generation == generation}
    reported = current.get(DIFF_REPORTED)
    if reported is not None and reported.status == TRUE:
        return reported.last_transition_time
    available = current.get(AVAILABLE)
    if available is None or available.status != TRUE:
        return None
    wait = period if available.reason in UNTRACKABLE else timedelta(0)
    return available.last_transition_time + wait


def is_failed(binding: Binding) -> bool:
    """R-ROLL-3: failed is what delivery reports as false, unless it is only on its way."""
    generation = binding.metadata.generation
    return any(
        said.type in NOT_YET
        and said.status == FALSE
        and said.observed_generation == generation
        and said.reason not in NOT_YET[said.type]
        for said in conditions_of(binding)
    )


def _may_become_ready(binding: Binding) -> bool:
    reported = find_condition(conditions_of(binding), DIFF_REPORTED)
    is_reporting = reported is not None and reported.observed_generation == binding.metadata.generation
    return not is_failed(binding) and not (is_reporting and reported is not None and reported.status == FALSE)


def sort_bindings(
    bindings: Sequence[Binding], wanted: Mapping[str, Target], limits: Limits, now: datetime
) -> Sorted:
    """Sort the bindings and count."""
    rows: dict[str, list[Binding]] = {
        name: [] for name in ("removing", "starting", "broken", "outdated", "current")
    }
    ready = leaving_ready = can_be_ready = 0
    next_ready: list[datetime] = []
    going = {binding.spec.target_cluster for binding in bindings if binding.metadata.is_deleting}
    for binding in bindings:
        row = _row_of(binding, wanted, going)
        if row:
            rows[row].append(binding)
        if binding.spec.state == BindingState.SCHEDULED:
            continue
        can_be_ready += _may_become_ready(binding)
        at = ready_at(binding, limits.period)
        if at is not None and at > now:
            next_ready.append(at)
        elif at is not None:
            ready += 1
            leaving_ready += binding.metadata.is_deleting
    return Sorted(
        **rows,
        ready_count=ready,
        leaving_ready_count=leaving_ready,
        can_be_ready_count=can_be_ready,
        ready_at=min(next_ready, default=None),
    )


def _row_of(binding: Binding, wanted: Mapping[str, Target], going: Collection[str]) -> str:
    """R-ROLL-4: on one cluster, deletion comes before creation."""
    cluster = binding.spec.target_cluster
    if binding.metadata.is_deleting:
        return ""
    if binding.spec.state == BindingState.UNSCHEDULED:
        return "removing"
    if cluster in going or cluster not in wanted:  # deleted before created; or the cluster itself is gone
        return ""
    if binding.spec.state == BindingState.SCHEDULED:
        return "starting"
    if has_version(binding, wanted[cluster]):
        return "current"
    return "broken" if is_failed(binding) else "outdated"


# --- the step -------------------------------------------------------------------------------------------------------
def _plan(scope: Scope, rows: Sorted, limits: Limits, wanted: Mapping[str, Target], now: datetime) -> Plan:
    """R-ROLL-6: what has failed is updated at once, the rest within the limits, removals first.

    R-ROLL-7: what a cluster that is gone had is let go at once; kept back, it would be taken away from the cluster
    when that returns, at the very moment when it is picked anew.
    """
    may_go = max(rows.ready_count - rows.leaving_ready_count - (limits.target - limits.max_unavailable), 0)
    may_start = max(limits.target + limits.max_surge - rows.can_be_ready_count, 0)
    gone = [binding for binding in rows.removing if binding.spec.target_cluster not in wanted]
    removing = [binding for binding in rows.removing if binding.spec.target_cluster in wanted]
    removed, kept = [*gone, *removing[:may_go]], removing[may_go:]
    left = max(may_go - len(removing), 0)
    updated = [*rows.broken, *rows.outdated[:left], *rows.starting[:may_start]]
    waiting = [*rows.outdated[left:], *rows.starting[may_start:]]
    said: list[Action] = [
        *(patch for binding in waiting if (patch := _say(scope, binding, FALSE, BLOCKED, now))),
        *(patch for binding in rows.current if (patch := _say(scope, binding, TRUE, STARTED, now))),
    ]
    done: list[Action] = [
        *(_update(scope, binding, wanted[binding.spec.target_cluster], now) for binding in updated),
        *(Delete(ref=ref_of(scope.binding, binding)) for binding in removed),
    ]
    wake_at = rows.ready_at if waiting or kept else None
    steps = tuple(tuple(actions) for actions in (said, done) if actions)
    if not steps and wake_at is None:
        return NOTHING
    why = f"{len(updated)} updated, {len(removed)} removed, {len(waiting) + len(kept)} waiting"
    return Plan(steps=steps, wake_at=wake_at, why=why)


def _update(scope: Scope, binding: Binding, wanted: Target, now: datetime) -> Patch:
    """Point a binding at the version and stamp it in one decision."""
    spec = spec_patch(binding, wanted)
    return move(scope, binding, spec, _stamp(TRUE, STARTED, generation_after(binding, spec), now))


def _carry(scope: Scope, binding: Binding, spec: Mapping[str, Any]) -> Patch:
    """Change a binding's spec and carry its RolloutStarted along, if it was about the generation that is left."""
    held = find_condition(conditions_of(binding), ROLLOUT_STARTED)
    if held is None or held.observed_generation != binding.metadata.generation:
        return move(scope, binding, spec, None)
    after = generation_after(binding, spec)
    return move(scope, binding, spec, msgspec.structs.replace(held, observed_generation=after))


def _say(
    scope: Scope, binding: Binding, status: ConditionStatus, said: tuple[str, str], now: datetime
) -> Patch | None:
    """Say whether the rollout has reached a binding, unless that is said already."""
    generation = binding.metadata.generation
    held = find_condition(conditions_of(binding), ROLLOUT_STARTED)
    if held is not None and (held.status, held.reason, held.observed_generation) == (
        status,
        said[0],
        generation,
    ):
        return None
    conditions = set_condition(conditions_of(binding), _stamp(status, said, generation, now), now)
    plain = [msgspec.to_builtins(condition) for condition in conditions]
    return Patch(ref=ref_of(scope.binding, binding), body={}, status={"conditions": plain})


def _stamp(status: ConditionStatus, said: tuple[str, str], generation: int, now: datetime) -> Condition:
    return Condition(
        type=ROLLOUT_STARTED,
        status=status,
        observed_generation=generation,
        last_transition_time=timestamp(now),
        reason=said[0],
        message=said[1],
    )
