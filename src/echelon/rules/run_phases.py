"""The vocabulary of update runs: phases of runs, stages, clusters and tasks, and what each writes as conditions.

One table, PHASES, maps a phase to its condition types, statuses, reasons and messages; everything that marks
progress goes through `mark`, so a wording exists exactly once. A second table, MOVES, says which phase may
follow which; docs/rules.md and its diagrams are generated from both, and tests hold every simulated run
against MOVES.

Nothing here decides anything. The texts are API: scripts and people search for them, so they are byte-exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, UNKNOWN, Condition, Conditions, ConditionStatus, timestamp
from echelon.api.staged import Run

INITIALIZED = "Initialized"
PROGRESSING = "Progressing"
SUCCEEDED = "Succeeded"
STARTED = "Started"
APPROVAL_CREATED = "ApprovalRequestCreated"
APPROVAL_APPROVED = "ApprovalRequestApproved"
WAIT_ELAPSED = "WaitTimeElapsed"
APPROVED = "Approved"  # written by people
ACCEPTED = "ApprovalAccepted"  # written by us, once
NOT_COUNTED = "ApprovalNotCounted"  # written by us: why an Approved does not count


class RunPhase(Enum):
    """Where a run is, as its conditions tell."""

    NEW = "not looked at yet"
    INITIALIZED = "planned, not asked to run"
    INIT_FAILED = "could not be planned"
    PROGRESSING = "progressing"
    WAITING = "waiting for a task of a stage"
    STUCK = "stuck: a cluster takes longer than the threshold"
    STOPPING = "stopping: started clusters are finishing"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class StagePhase(Enum):
    """Where a stage (or the delete stage) is, as its conditions tell."""

    NEW = "not begun"
    WAITING_BEFORE = "waiting for its before-stage task"
    STARTED = "updating clusters"
    WAITING_AFTER = "clusters updated, waiting for its after-stage tasks"
    STOPPING = "stopping: started clusters are finishing"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    SKIPPED = "skipped: no clusters"
    FAILED = "failed"


class ClusterPhase(Enum):
    """Where a cluster of a run is: what `classify_cluster` answers."""

    PENDING = "not handed over yet"
    STARTING = "handed over, not yet recorded in the run"
    UPDATING = "being updated"
    STUCK = "being updated for longer than the threshold"
    DONE = "updated"
    PREEMPTED = "its binding was moved by somebody else"
    FAILED = "recorded as failed"
    GONE = "its binding is gone"


class TaskPhase(Enum):
    """How far a stage task is."""

    CREATED = "approval request created"
    APPROVED = "approved"
    ELAPSED = "wait time elapsed"


class ApprovalPhase(Enum):
    """What we write on an approval request."""

    ACCEPTED = "approval accepted"
    NOT_COUNTED = "approval does not count"


Phase = RunPhase | StagePhase | ClusterPhase | TaskPhase | ApprovalPhase


class Mark(NamedTuple):
    """One condition a phase writes; `{words}` of the message are filled in by `mark`."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


PHASES: Mapping[Phase, tuple[Mark, ...]] = {
    RunPhase.INITIALIZED: (
        Mark(INITIALIZED, TRUE, "UpdateRunInitializedSuccessfully", "The UpdateRun initialized successfully"),
    ),
    RunPhase.INIT_FAILED: (Mark(INITIALIZED, FALSE, "UpdateRunInitializedFailed", "{error}"),),
    RunPhase.PROGRESSING: (
        Mark(PROGRESSING, TRUE, "UpdateRunProgressing", "The update run is making progress"),
    ),
    RunPhase.WAITING: (
        Mark(
            PROGRESSING,
            FALSE,
            "UpdateRunWaiting",
            "The updateRun is waiting for {tasks} tasks in stage {stage} to complete",
        ),
    ),
    RunPhase.STUCK: (
        Mark(
            PROGRESSING,
            FALSE,
            "UpdateRunStuck",
            "The updateRun is stuck waiting for {clusters} cluster(s) in stage {stage} to finish updating, "
            "please check placement status for potential errors",
        ),
    ),
    RunPhase.STOPPING: (
        Mark(
            PROGRESSING,
            UNKNOWN,
            "UpdateRunStopping",
            "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish "
            "updating before completing the stop process",
        ),
    ),
    RunPhase.STOPPED: (Mark(PROGRESSING, FALSE, "UpdateRunStopped", "The update run has been stopped"),),
    RunPhase.SUCCEEDED: (
        Mark(PROGRESSING, FALSE, "UpdateRunSucceeded", "All stages are completed"),
        Mark(SUCCEEDED, TRUE, "UpdateRunSucceeded", "All stages are completed successfully"),
    ),
    RunPhase.FAILED: (
        Mark(PROGRESSING, FALSE, "UpdateRunFailed", "The stages are aborted due to a non-recoverable error"),
        Mark(SUCCEEDED, FALSE, "UpdateRunFailed", "{error}"),
    ),
    StagePhase.WAITING_BEFORE: (
        Mark(
            PROGRESSING,
            FALSE,
            "StageUpdatingWaiting",
            "Not all before-stage tasks are completed, waiting for approval",
        ),
    ),
    StagePhase.STARTED: (
        Mark(PROGRESSING, TRUE, "StageUpdatingStarted", "Clusters in the stage started updating"),
    ),
    StagePhase.WAITING_AFTER: (
        Mark(
            PROGRESSING,
            FALSE,
            "StageUpdatingWaiting",
            "All clusters in the stage are updated, waiting for after-stage tasks to complete",
        ),
    ),
    StagePhase.STOPPING: (
        Mark(
            PROGRESSING,
            UNKNOWN,
            "StageUpdatingStopping",
            "Waiting for all the updating clusters to finish updating before completing the stop process",
        ),
    ),
    StagePhase.STOPPED: (
        Mark(
            PROGRESSING,
            FALSE,
            "StageUpdatingStopped",
            "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed",
        ),
    ),
    StagePhase.SUCCEEDED: (
        Mark(
            PROGRESSING,
            FALSE,
            "StageUpdatingSucceeded",
            "All clusters in the stage are updated and after-stage tasks are completed",
        ),
        Mark(SUCCEEDED, TRUE, "StageUpdatingSucceeded", "Stage update completed successfully"),
    ),
    StagePhase.SKIPPED: (
        Mark(
            PROGRESSING, FALSE, "StageUpdatingSkippedNoClusters", "Stage skipped because it has no clusters"
        ),
        Mark(SUCCEEDED, TRUE, "StageUpdatingSkippedNoClusters", "Stage skipped because it has no clusters"),
    ),
    StagePhase.FAILED: (
        Mark(
            PROGRESSING, FALSE, "StageUpdatingFailed", "Stage update aborted due to a non-recoverable error"
        ),
        Mark(SUCCEEDED, FALSE, "StageUpdatingFailed", "{error}"),
    ),
    ClusterPhase.UPDATING: (Mark(STARTED, TRUE, "ClusterUpdatingStarted", "Cluster update started"),),
    ClusterPhase.DONE: (
        Mark(SUCCEEDED, TRUE, "ClusterUpdatingSucceeded", "Cluster update completed successfully"),
    ),
    ClusterPhase.PREEMPTED: (Mark(SUCCEEDED, FALSE, "ClusterUpdatingFailed", "{error}"),),
    TaskPhase.CREATED: (
        Mark(APPROVAL_CREATED, TRUE, "StageTaskApprovalRequestCreated", "ApprovalRequest object is created"),
    ),
    TaskPhase.APPROVED: (
        Mark(
            APPROVAL_APPROVED, TRUE, "StageTaskApprovalRequestApproved", "ApprovalRequest object is approved"
        ),
    ),
    TaskPhase.ELAPSED: (Mark(WAIT_ELAPSED, TRUE, "AfterStageTaskWaitTimeElapsed", "Wait time elapsed"),),
    ApprovalPhase.ACCEPTED: (
        Mark(
            ACCEPTED,
            TRUE,
            "ApprovalRequestApprovalAccepted",
            "The approval request has been approved and cannot be reverted",
        ),
    ),
    ApprovalPhase.NOT_COUNTED: (
        Mark(
            NOT_COUNTED,
            TRUE,
            "ObservedGenerationMismatch",
            "The Approved condition has observedGeneration {observed}, but the request is at generation "
            "{generation}, so it does not count: approve again with observedGeneration {generation}",
        ),
    ),
}


class Move(NamedTuple):
    """A step from one phase to another, and what makes it."""

    source: Phase
    target: Phase
    when: str


_ALIVE = (
    RunPhase.PROGRESSING,
    RunPhase.WAITING,
    RunPhase.STUCK,
    RunPhase.STOPPING,
    RunPhase.STOPPED,
)
MOVES: tuple[Move, ...] = (
    Move(RunPhase.NEW, RunPhase.INITIALIZED, "the plan is made"),
    Move(RunPhase.NEW, RunPhase.INIT_FAILED, "the plan cannot be made"),
    Move(RunPhase.INITIALIZED, RunPhase.PROGRESSING, "state Run"),
    Move(RunPhase.INITIALIZED, RunPhase.WAITING, "state Run, the first stage has a before task"),
    Move(RunPhase.INITIALIZED, RunPhase.SUCCEEDED, "state Run, nothing to do"),
    Move(RunPhase.INITIALIZED, RunPhase.STOPPING, "state Stop"),
    Move(RunPhase.INITIALIZED, RunPhase.STOPPED, "state Stop"),
    Move(RunPhase.INITIALIZED, RunPhase.FAILED, "the plan no longer holds"),
    *(
        Move(source, target, when)
        for source in _ALIVE
        for target, when in (
            (RunPhase.PROGRESSING, "state Run: clusters move"),
            (RunPhase.WAITING, "a stage task is open"),
            (RunPhase.STUCK, "a cluster passes the threshold"),
            (RunPhase.STOPPING, "state Stop, clusters in flight"),
            (RunPhase.STOPPED, "state Stop, nothing in flight"),
            (RunPhase.SUCCEEDED, "all stages are completed"),
            (RunPhase.FAILED, "preempted, or the plan no longer holds"),
        )
        if source is not target
    ),
    Move(StagePhase.NEW, StagePhase.WAITING_BEFORE, "its turn, with a before task"),
    Move(StagePhase.NEW, StagePhase.STARTED, "its turn, without a before task"),
    Move(StagePhase.NEW, StagePhase.SKIPPED, "its turn, no clusters"),
    Move(StagePhase.NEW, StagePhase.STOPPED, "state Stop"),
    Move(StagePhase.NEW, StagePhase.FAILED, "a cluster of it was preempted"),
    Move(StagePhase.NEW, StagePhase.WAITING_AFTER, "all its clusters have the version already"),
    Move(StagePhase.NEW, StagePhase.SUCCEEDED, "nothing to do: all its clusters have the version already"),
    Move(StagePhase.NEW, StagePhase.STOPPING, "state Stop right after its first cluster began"),
    Move(StagePhase.WAITING_BEFORE, StagePhase.STARTED, "approved"),
    Move(StagePhase.WAITING_BEFORE, StagePhase.STOPPED, "state Stop"),
    Move(StagePhase.WAITING_BEFORE, StagePhase.STOPPING, "state Stop right after its first cluster began"),
    Move(
        StagePhase.WAITING_BEFORE,
        StagePhase.WAITING_AFTER,
        "approved, all its clusters have the version already",
    ),
    Move(
        StagePhase.WAITING_BEFORE, StagePhase.SUCCEEDED, "approved, all its clusters have the version already"
    ),
    Move(StagePhase.WAITING_BEFORE, StagePhase.FAILED, "aborted"),
    Move(StagePhase.STARTED, StagePhase.WAITING_AFTER, "all clusters done, tasks open"),
    Move(StagePhase.STARTED, StagePhase.SUCCEEDED, "all clusters done, no open tasks"),
    Move(StagePhase.STARTED, StagePhase.STOPPING, "state Stop, clusters in flight"),
    Move(StagePhase.STARTED, StagePhase.STOPPED, "state Stop, nothing in flight"),
    Move(StagePhase.STARTED, StagePhase.FAILED, "aborted"),
    Move(StagePhase.WAITING_AFTER, StagePhase.SUCCEEDED, "tasks completed"),
    Move(StagePhase.WAITING_AFTER, StagePhase.STOPPED, "state Stop"),
    Move(StagePhase.WAITING_AFTER, StagePhase.FAILED, "aborted"),
    Move(StagePhase.STOPPING, StagePhase.STOPPED, "nothing in flight any more"),
    Move(StagePhase.STOPPING, StagePhase.STARTED, "state Run"),
    Move(StagePhase.STOPPING, StagePhase.WAITING_AFTER, "state Run, all clusters done meanwhile"),
    Move(StagePhase.STOPPING, StagePhase.SUCCEEDED, "state Run, all clusters done meanwhile"),
    Move(StagePhase.STOPPING, StagePhase.FAILED, "aborted"),
    Move(StagePhase.STOPPED, StagePhase.WAITING_BEFORE, "state Run, before task open"),
    Move(StagePhase.STOPPED, StagePhase.STARTED, "state Run"),
    Move(StagePhase.STOPPED, StagePhase.WAITING_AFTER, "state Run, after tasks open"),
    Move(StagePhase.STOPPED, StagePhase.SUCCEEDED, "state Run, after tasks completed"),
    Move(StagePhase.STOPPED, StagePhase.SKIPPED, "state Run, no clusters"),
    Move(StagePhase.STOPPED, StagePhase.STOPPING, "started clusters turned up"),
    Move(StagePhase.STOPPED, StagePhase.FAILED, "aborted"),
)


class Moment(NamedTuple):
    """When and about which generation of the run something is said."""

    now: datetime
    generation: int


def mark(conditions: Conditions, phase: Phase, at: Moment, **words: object) -> Conditions:
    """Write the conditions of a phase. A transition time moves only when a status changes."""
    for row in PHASES[phase]:
        said = Condition(
            type=row.type,
            status=row.status,
            observed_generation=at.generation,
            last_transition_time=timestamp(at.now),
            reason=row.reason,
            message=row.message.format_map(words) if words else row.message,
        )
        conditions = set_condition(conditions, said, at.now)
    return conditions


def has_status(conditions: Conditions, type_: str, status: str) -> bool:
    """Whether a condition of our own has this status; ours always speak about the run's current generation."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == status


_BY_REASON: Mapping[tuple[str, str], RunPhase | StagePhase] = {
    (row.type, row.reason): phase
    for phase, rows in PHASES.items()
    if isinstance(phase, (RunPhase, StagePhase))
    for row in rows[-1:]
}


def run_phase(conditions: Conditions) -> RunPhase:
    """Read a run's phase back from its conditions."""
    for type_ in (SUCCEEDED, PROGRESSING, INITIALIZED):
        found = find_condition(conditions, type_)
        phase = _BY_REASON.get((type_, found.reason)) if found else None
        if isinstance(phase, RunPhase):
            return phase
    return RunPhase.NEW


OVER = (RunPhase.INIT_FAILED, RunPhase.SUCCEEDED, RunPhase.FAILED)


def is_over(run: Run) -> bool:
    """Whether nothing but its deletion can happen to a run any more."""
    return run_phase(run.status.conditions if run.status else ()) in OVER and not run.metadata.is_deleting


def stage_phase(conditions: Conditions) -> StagePhase:
    """Read a stage's phase back from its conditions."""
    for type_ in (SUCCEEDED, PROGRESSING):
        found = find_condition(conditions, type_)
        if found is None:
            continue
        if found.reason == "StageUpdatingWaiting":  # two waits share the reason; the text tells them apart
            before = PHASES[StagePhase.WAITING_BEFORE][0].message
            return StagePhase.WAITING_BEFORE if found.message == before else StagePhase.WAITING_AFTER
        phase = _BY_REASON.get((type_, found.reason))
        if isinstance(phase, StagePhase):
            return phase
    return StagePhase.NEW
