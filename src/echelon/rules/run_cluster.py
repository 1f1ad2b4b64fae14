"""Where one cluster of a run is, and how it is handed over: the one classifier, used by everybody who asks.

Theory. A run changes a cluster by pointing its binding at the run's version and stamping RolloutStarted at the
binding's new generation; delivery does nothing before the stamp. What the run has recorded (Started, Succeeded)
and what the binding says together give exactly one ClusterPhase:

    recorded    binding                                                 phase
    Succeeded   (whatever; but see takeover)                            DONE, or FAILED if False
    -           gone                                                    GONE
    Started     not on target, not Bound, or not stamped                PREEMPTED
    Started     on target; delivery says finished                       DONE
    Started     on target; not finished, for longer than the threshold  STUCK
    Started     on target; not finished                                 UPDATING
    nothing     not on target, not Bound, or not stamped                PENDING
    nothing     on target and stamped; finished                         DONE (counts as soon as it is its turn)
    nothing     on target and stamped; not finished                     STARTING

"On target" is the run's own version, overrides and apply strategy; "finished" is told by conditions at the
binding's current generation only, so a cluster is never done for somebody else's version or an older spec.

Takeover: a later run is a newer intent. A binding that a run made later than this one has moved elsewhere ends
this run, whether the cluster was done, waiting or under way; an earlier run's binding is simply moved on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition, is_true_at
from echelon.api.meta import FALSE, TRUE, Condition, timestamp
from echelon.api.names import ANNOTATION_FIRST_SEEN, BindingState, resource_snapshot_name
from echelon.api.staged import ClusterStatus, Run, RunStatus
from echelon.rules.hand_over import (
    ROLLOUT_STARTED,
    Target,
    conditions_of,
    generation_after,
    is_on_target,
    move,
    spec_patch,
)
from echelon.rules.plan import Patch
from echelon.rules.run_phases import STARTED, SUCCEEDED, ClusterPhase, Moment
from echelon.rules.run_seen import CLIENT_ERROR, Seen

_STARTED_TEXT = (
    "Detected the new changes on the resources and started the rollout process, "
    "resourceSnapshotIndex: {index}, updateRun: {run}"
)
_RUN_IN_TEXT = ", updateRun: "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Conditions of delivery whose False is only "not yet" with these reasons, and an error with any other.
_NOT_YET: Mapping[str, str] = {
    "Overridden": "OverriddenPending",
    "WorkSynchronized": "WorkNotSynchronizedYet",
    "Applied": "ApplyPending",
    "Available": "ResourceNotAvailableYet",
    "DiffReported": "",
}


def target_of(run: Run, status: RunStatus, entry: ClusterStatus) -> Target:
    """Return what the run wants of a cluster."""
    return Target(
        snapshot=resource_snapshot_name(run.spec.placement_name, status.resource_snapshot_index_used),
        overrides=entry.resource_override_snapshots,
        cluster_overrides=entry.cluster_resource_override_snapshots,
        applied=status.applied_strategy,
    )


def is_handed_over(binding: Binding, target: Target) -> bool:
    """R-CLUSTER-2: on target, Bound, and stamped at the current generation."""
    return (
        binding.spec.state == BindingState.BOUND
        and is_on_target(binding, target)
        and is_true_at(conditions_of(binding), ROLLOUT_STARTED, binding.metadata.generation)
    )


def is_finished(binding: Binding) -> bool:
    """R-CLUSTER-3: delivery says Available or DiffReported about the current generation."""
    conditions, generation = conditions_of(binding), binding.metadata.generation
    return is_true_at(conditions, "Available", generation) or is_true_at(
        conditions, "DiffReported", generation
    )


def delivery_error(binding: Binding) -> Condition | None:
    """R-CLUSTER-4: what delivery reports as broken; a matter of waiting and of the stuck threshold, never a failure."""
    for condition in conditions_of(binding):
        if (
            condition.status == FALSE
            and condition.observed_generation == binding.metadata.generation
            and condition.type in _NOT_YET
            and condition.reason != _NOT_YET[condition.type]
        ):
            return condition
    return None


def mover_of(binding: Binding) -> str:
    """Name the run that last stamped a binding; "" when none did."""
    stamp = find_condition(conditions_of(binding), ROLLOUT_STARTED)
    return stamp.message.rpartition(_RUN_IN_TEXT)[2] if stamp and _RUN_IN_TEXT in stamp.message else ""


def is_later(rival: Run, run: Run) -> bool:
    """R-RIVAL-1: runs are ordered by when they were made.

    Times are stored in whole seconds. Within one, the revision at which a run was first seen decides (noted on it when
    it is taken up). Without that, a rival that is over came first (one starts the next run when the last is through);
    of two that are under way the name decides, so that exactly one gives way.
    """
    ours, theirs = made_at(run), made_at(rival)
    if theirs != ours:
        return theirs > ours
    first, second = first_seen(run), first_seen(rival)
    if first is not None and second is not None and first != second:
        return second > first
    is_over = rival.status is not None and find_condition(rival.status.conditions, SUCCEEDED) is not None
    return not is_over and rival.name > run.name


def first_seen(run: Run) -> int | None:
    """Return the revision at which a run was taken up, if it is noted and comparable."""
    text = run.metadata.annotations.get(ANNOTATION_FIRST_SEEN, "")
    return int(text) if text.isdecimal() else None


def made_at(run: Run) -> datetime:
    """Return when a run was made, to the second."""
    return run.metadata.creation_timestamp or _EPOCH


def rival_of(binding: Binding, seen: Seen) -> Run | None:
    """R-RIVAL-2: the other run that put a binding where it is.

    The stamp names it. Between the two writes of a hand-over the stamp is still the old one; then it is the run
    whose version the binding has.
    """
    stamp = find_condition(conditions_of(binding), ROLLOUT_STARTED)
    if stamp is not None and stamp.observed_generation == binding.metadata.generation:
        return seen.rivals.get(mover_of(binding))
    version = binding.spec.resource_snapshot_name
    placement = seen.run.spec.placement_name
    users = [
        rival
        for rival in seen.rivals.values()
        if rival.status is not None
        and version == resource_snapshot_name(placement, rival.status.resource_snapshot_index_used)
    ]
    return max(users, key=lambda rival: (made_at(rival), rival.name), default=None)


def taken_over_by(entry: ClusterStatus, binding: Binding, target: Target, seen: Seen) -> str:
    """R-RIVAL-3: the later run that has moved a binding away from this run's target; "" when none has.

    A run that is gone cannot be asked when it was made; but what it did to a cluster this run had finished, it did
    later.
    """
    if is_on_target(binding, target):
        return ""
    rival = rival_of(binding, seen) if seen.rivals else None
    if rival is not None:
        return rival.name if is_later(rival, seen.run) else ""
    return _gone_mover(binding, seen) if is_recorded(entry, SUCCEEDED) else ""


def _gone_mover(binding: Binding, seen: Seen) -> str:
    if not is_true_at(conditions_of(binding), ROLLOUT_STARTED, binding.metadata.generation):
        return ""
    mover = mover_of(binding)
    return mover if mover != seen.run.name else ""


def mover_name(binding: Binding, seen: Seen) -> str:
    """Name the other run that put a binding where it is, as far as it is known."""
    rival = rival_of(binding, seen)
    return rival.name if rival else _gone_mover(binding, seen)


def started_by(binding: Binding, run: Run) -> datetime | None:
    """R-CLUSTER-5: when this very run handed the binding over as it is now; None when it did not.

    A run of the same name that was there before does not count: its stamp is older than this run.
    """
    stamp = find_condition(conditions_of(binding), ROLLOUT_STARTED)
    if stamp is None or stamp.observed_generation != binding.metadata.generation:
        return None
    if mover_of(binding) != run.name or stamp.last_transition_time < made_at(run):
        return None
    return stamp.last_transition_time


def is_recorded(entry: ClusterStatus, type_: str, status: str = TRUE) -> bool:
    """Whether the run has recorded a condition about a cluster."""
    found = find_condition(entry.conditions, type_)
    return found is not None and found.status == status


def classify_cluster(
    entry: ClusterStatus, binding: Binding | None, target: Target, now: datetime, stuck_after: timedelta
) -> ClusterPhase:
    """Say where a cluster of a run is (the table above)."""
    outcome = find_condition(entry.conditions, SUCCEEDED)
    if outcome is not None:
        return ClusterPhase.DONE if outcome.status == TRUE else ClusterPhase.FAILED
    if binding is None:
        return ClusterPhase.GONE
    started = find_condition(entry.conditions, STARTED)
    is_started = started is not None and started.status == TRUE
    if not is_handed_over(binding, target):
        return ClusterPhase.PREEMPTED if is_started else ClusterPhase.PENDING
    if is_finished(binding):
        return ClusterPhase.DONE
    if not is_started or started is None:
        return ClusterPhase.STARTING
    if now - started.last_transition_time > stuck_after:
        return ClusterPhase.STUCK
    return ClusterPhase.UPDATING


def is_news(old: Binding | None, new: Binding | None) -> bool:
    """R-CLUSTER-6: whether a change of a binding can change what a run does; delivery's steps in between cannot."""
    if old is None or new is None or old.metadata.generation != new.metadata.generation:
        return True
    if old.metadata.is_deleting != new.metadata.is_deleting or is_finished(old) != is_finished(new):
        return True
    before = find_condition(conditions_of(old), ROLLOUT_STARTED)
    return before != find_condition(conditions_of(new), ROLLOUT_STARTED)


# --- handing over ---------------------------------------------------------------------------------------------
def hand_over(binding: Binding, target: Target, seen: Seen, at: Moment) -> Patch | None:
    """R-HAND-2: bring a binding to the target and stamp it; None when it is there already."""
    if is_handed_over(binding, target):
        return None
    spec = spec_patch(binding, target)
    run = seen.run
    stamp = Condition(
        type=ROLLOUT_STARTED,
        status=TRUE,
        observed_generation=generation_after(binding, spec),
        last_transition_time=timestamp(at.now),
        reason="RolloutStarted",
        message=_STARTED_TEXT.format(index=run.spec.resource_snapshot_index or "", run=run.name),
    )
    return move(seen.scope, binding, spec, stamp)


def preempted_text(cluster: str, stage: str, binding: Binding, rival: str) -> str:
    """R-RIVAL-4: what a preempted run says; the other run is named when it is known."""
    text = (
        f"{CLIENT_ERROR}the binding of the updating cluster `{cluster}` in the stage `{stage}` is not up-to-date "
        f"with the desired status, please check the status of binding `{_path(binding)}` and see if there is a "
        "concurrent updateRun referencing the same placement and updating the same cluster"
    )
    return f"{text}: it was moved by updateRun `{rival}`" if rival else text


def _path(binding: Binding) -> str:
    return f"{binding.namespace}/{binding.name}" if binding.namespace else binding.name
