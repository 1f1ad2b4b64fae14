"""From a binding to its Works, and from their reports back to the binding.

    (a rollout points the binding at a version and stamps RolloutStarted at its generation)
    finalizer → Works written → members report → Applied, Available (or DiffReported)
                              → (no answer within PATIENCE) → "in progress"
    deleted   → Works deleted → they are gone (or their member is silent for too long) → finalizer removed

Nothing is written for a Bound binding before it was handed over: RolloutStarted, True or False, at its current
generation. A Work is rewritten only when it holds another version or other overrides than the binding names; what
is in it is worked out only then. Either everything of a version can be worked out, or nothing is written.

Pure. Errors of content end up in the binding's status, worded for the author; events (a snapshot, an override, a
label of a cluster that appears) bring the next look. Time decides two things only: how long a member may take to
answer before the binding says that it is in progress, and how long a deletion waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

from echelon.api.binding import Binding, BindingStatus
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE
from echelon.api.names import (
    FINALIZER_WORK_CLEANUP,
    BindingState,
    PlacementCondition,
    is_reserved_namespace,
)
from echelon.api.work import Work
from echelon.rules import binding_status
from echelon.rules.binding_life import with_finalizer, without_finalizer
from echelon.rules.binding_status import Report
from echelon.rules.override_apply import OverrideFailure, Overrider
from echelon.rules.plan import NOTHING, Action, Emit, Patch, Plan, StatusWrite, ref_of
from echelon.rules.refusals import without_objects
from echelon.rules.work_generation_content import (
    NotDeliverable,
    has_version,
    order_group,
    placement_of,
    wanted_works,
)
from echelon.rules.work_generation_seen import Orphans, Seen
from echelon.rules.work_generation_sync import DuplicateWorks, Works, removals, tunings

DELETION_WAIT = timedelta(seconds=30)
"""How long a deleted binding waits for its Works to be gone: a silent member must not hold up the hub for ever."""

PATIENCE = timedelta(seconds=3)
"""A member that answers within this is reported on once, not twice: half the status writes of a rollout."""


def step(seen: Seen, now: datetime) -> Plan:
    """Decide what delivery of one binding needs next."""
    binding = seen.binding
    if binding.metadata.is_deleting:
        return _let_go(seen, now)
    why_not = _not_ours(seen)
    if why_not:
        return Plan(why=why_not)
    if not is_handed_over(binding):
        return Plan(why="not handed over yet")
    return _synchronize(seen, now)


def _not_ours(seen: Seen) -> str:
    """Say why nothing is delivered for this binding; empty when it is to be delivered."""
    binding = seen.binding
    if binding.spec.state not in {BindingState.BOUND, BindingState.UNSCHEDULED}:
        return "not bound"
    if not binding.spec.resource_snapshot_name:
        return "no version was ever given to it"
    if seen.cluster is None:
        return "its cluster is not a member"
    if not placement_of(binding).name:
        return "it names no placement"
    if binding.namespace and is_reserved_namespace(binding.namespace):
        return "its namespace is reserved"
    return ""


def is_due(binding: Binding) -> bool:
    """Whether there may be something to do for a binding; delivery waits for whoever rolls out."""
    return binding.metadata.is_deleting or is_handed_over(binding)


def is_handed_over(binding: Binding) -> bool:
    """R-DELIVER-1: a binding was handed over when it is stamped at its generation; one given up stays as it was last."""
    if binding.spec.state == BindingState.UNSCHEDULED:
        return True
    conditions = binding.status.conditions if binding.status else ()
    stamp = find_condition(conditions, PlacementCondition.ROLLOUT_STARTED)
    return (
        stamp is not None
        and stamp.status in {TRUE, FALSE}
        and stamp.observed_generation == binding.metadata.generation
    )


# --- deletion ---------------------------------------------------------------------------------------------------------
def _let_go(seen: Seen, now: datetime) -> Plan:
    """R-DELIVER-6: a deleted binding goes when its Works are gone, at most DELETION_WAIT after their deletion."""
    binding = seen.binding
    if FINALIZER_WORK_CLEANUP not in binding.metadata.finalizers:
        return NOTHING
    live = seen.live_works
    if live:
        leaving = seen.placement is None or seen.placement.metadata.is_deleting
        steps = removals(live, seen, is_placement_leaving=leaving)
        return Plan(steps=_some(steps), why="removing what was delivered")
    asked_at = [work.metadata.deletion_timestamp for work in seen.works]
    latest = max((at for at in asked_at if at is not None), default=None)
    if latest is not None and now < latest + DELETION_WAIT:
        return Plan(wake_at=latest + DELETION_WAIT, why="waiting for the member to remove it")
    release = without_finalizer(seen.scope.binding, binding, FINALIZER_WORK_CLEANUP)
    return Plan(steps=((release,),), why="everything is removed")


def clean_up(orphans: Orphans) -> Plan:
    """R-DELIVER-11: Works go with their binding, even with one that somebody removed by force."""
    live = [work for work in orphans.works if not work.metadata.is_deleting]
    placement = orphans.placement
    is_leaving = placement is None or placement.metadata.is_deleting
    told, deletes = removals(live, is_placement_leaving=is_leaving)
    return Plan(steps=_some((told, deletes)), why="their binding is gone")


# --- synchronizing -------------------------------------------------------------------------------------------------------
def _synchronize(seen: Seen, now: datetime) -> Plan:
    """R-DELIVER-5: a member that answers within PATIENCE is reported on once; what was said too early is corrected."""
    finalizer = with_finalizer(seen.scope.binding, seen.binding, FINALIZER_WORK_CLEANUP)
    first: tuple[Action, ...] = (finalizer,) if finalizer else ()
    works = Works(seen, now)
    try:
        writes = _writes(seen, works, now)
    except OverrideFailure as error:
        report = binding_status.not_overridden(str(error))
        return _plan(seen, (first, tunings(seen, now)), report, now)
    except NotDeliverable as error:
        report = binding_status.not_synchronized(seen.binding, str(error))
        event = error.event if isinstance(error, DuplicateWorks) else ""
        return _plan(seen, (first, tunings(seen, now)), report, now, event)
    steps = (first, writes, *removals(works.left_over()))
    if any(_is_news(action) for action in writes):
        if binding_status.has_spoken(seen.binding):
            return _plan(seen, steps, binding_status.in_progress(seen.binding), now)
        return Plan(steps=_some(steps), wake_at=now + PATIENCE, why="written, waiting for the member")
    kept = works.kept()
    written_at = binding_status.written_at(kept)
    patient_until = written_at + PATIENCE
    is_silent = binding_status.is_silent(seen.binding, kept) and not binding_status.has_spoken(seen.binding)
    if is_silent and written_at <= now < patient_until:  # a clock that was ahead buys no patience
        return Plan(steps=_some(steps), wake_at=patient_until, why="waiting for the member")
    return _plan(seen, steps, binding_status.judge(seen.binding, kept), now, works=kept)


def _some(steps: Sequence[tuple[Action, ...]]) -> tuple[tuple[Action, ...], ...]:
    return tuple(group for group in steps if group)


def _plan(
    seen: Seen,
    steps: Sequence[tuple[Action, ...]],
    report: Report,
    now: datetime,
    event: str = "",
    works: Sequence[Work] = (),
) -> Plan:
    ref = ref_of(seen.scope.binding, seen.binding)
    old = seen.binding.status or BindingStatus()
    new = binding_status.status_of(seen.binding, report, works, now)
    emit = Emit(about=ref, reason="DuplicateEnvelopeWorks", message=event, type="Warning")
    last = report.told[-1]
    return Plan(
        steps=_some(steps),
        status=StatusWrite(ref=ref, old=old, new=new) if new != old else None,
        events=(emit,) if event and new != old else (),
        why=f"{last.type} {last.status}: {last.reason}",
    )


def explain(seen: Seen, refusal: str, now: datetime) -> Plan:
    """Say in the binding's status that the API server refused to write its Works."""
    if seen.binding.metadata.is_deleting or _not_ours(seen):
        return NOTHING
    return _plan(seen, (), binding_status.not_synchronized(seen.binding, without_objects(refusal)), now)


def _is_news(action: Action) -> bool:
    """Whether a write gives the member something to do (a new label on a Work does not)."""
    return not isinstance(action, Patch) or "spec" in action.body


def _writes(seen: Seen, works: Works, now: datetime) -> tuple[Action, ...]:
    """R-DELIVER-2: either everything of a version can be worked out, or nothing of it is written."""
    binding = seen.binding
    if seen.master is None:
        if has_version(seen.live_works, binding):
            works.keep_all()
            return tunings(seen, now)
        raise OverrideFailure("the master resource snapshot is not found")
    group = order_group(seen.master, seen.group, placement_of(binding))
    overrider = cache(lambda: _overrider(seen))  # asked for only when content has to be worked out
    allow = seen.options.allow_powerful_in_envelopes
    wanted = wanted_works(binding, group, overrider, allow_powerful=allow)
    return tuple(action for one in wanted if (action := works.bring_to(one)) is not None)


def _overrider(seen: Seen) -> Overrider:
    spec = seen.binding.spec
    for name in spec.cluster_resource_override_snapshots:
        if name not in seen.cluster_overrides:
            raise OverrideFailure(f"clusterResourceOverrideSnapshot {name} is not found")
    for ref in spec.resource_override_snapshots:
        if ref not in seen.overrides:
            raise OverrideFailure(f"resourceOverrideSnapshot {{{ref.name} {ref.namespace}}} is not found")
    assert seen.cluster is not None
    return Overrider(
        seen.cluster,
        [seen.cluster_overrides[name] for name in spec.cluster_resource_override_snapshots],
        [seen.overrides[ref] for ref in spec.resource_override_snapshots],
    )
