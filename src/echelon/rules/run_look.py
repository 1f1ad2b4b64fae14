"""One look at a run: the status being rewritten, and everything else that becomes the Plan.

Collects; decides nothing but whether the new status is written now or may wait a moment (R-PACE-1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from echelon.api.meta import Conditions
from echelon.api.staged import ClusterStatus, RunStatus, Stage, StageStatus, TaskStatus
from echelon.rules.approval import TaskStep
from echelon.rules.pace import due_at
from echelon.rules.plan import Action, Emit, Plan, StatusWrite, ref_of
from echelon.rules.run_events import run_events
from echelon.rules.run_phases import ClusterPhase, Moment, RunPhase, mark, run_phase
from echelon.rules.run_seen import CANNOT_CONTINUE, Abort, Seen

# A cluster takes about 400 bytes of status. Written once per cluster moved, the bytes would grow with the square of
# the clusters; at most once in this time per cluster, they grow with the clusters alone, at about 0.2 MB a second.
PACE_PER_CLUSTER = timedelta(milliseconds=2)
MIN_PACED_CLUSTERS = 50  # below, a status is small and people like to see every cluster move


class Preempted(Abort):
    """Somebody else has moved a cluster of this run; says which."""

    def __init__(self, told: str, stage: int, position: int) -> None:
        super().__init__(f"{CANNOT_CONTINUE}{told}")
        self.told = told
        self.stage = stage
        self.position = position


@dataclass(slots=True)
class Look:
    """What one look makes of a run."""

    seen: Seen
    now: datetime
    status: RunStatus = field(init=False)
    actions: list[Action] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    _wake_at: datetime | None = None

    def __post_init__(self) -> None:
        """Begin with the status as it is, speaking about the run's current generation."""
        self.status = renewed(self.seen.status, self.at.generation)

    @property
    def at(self) -> Moment:
        """When, and about which generation, this look speaks."""
        return Moment(self.now, self.seen.run.metadata.generation)

    # the stages, the delete stage being the one after the last

    @property
    def stage_count(self) -> int:
        """How many stages there are, the delete stage aside."""
        return len(self.status.stages_status)

    def stage(self, index: int) -> StageStatus:
        """Return a stage, or after the last the delete stage."""
        if index < self.stage_count:
            return self.status.stages_status[index]
        delete = self.status.deletion_stage_status
        assert delete is not None, "checked with the plan"
        return delete

    def spec(self, index: int) -> Stage:
        """Return what the recorded strategy says about a stage."""
        strategy = self.status.staged_update_strategy_snapshot
        assert strategy is not None, "checked with the plan"
        return strategy.stages[index]

    def set_stage(self, index: int, stage: StageStatus) -> None:
        """Put a stage in its place."""
        if index == self.stage_count:
            self.status = replace(self.status, deletion_stage_status=stage)
            return
        stages = self.status.stages_status
        self.status = replace(self.status, stages_status=(*stages[:index], stage, *stages[index + 1 :]))

    # what is said and done

    def mark_run(self, phase: RunPhase, **words: object) -> None:
        """Say where the run is."""
        said = mark(self.status.conditions, phase, self.at, **words)
        self.status = replace(self.status, conditions=said)

    def mark_preempted(self, error: Preempted) -> None:
        """R-RIVAL-6: the cluster says that it was taken, unless it was finished before."""
        stage = self.stage(error.stage)
        entry = stage.clusters[error.position]
        if any(said.type == "Succeeded" for said in entry.conditions):
            return
        told = replace(
            entry, conditions=mark(entry.conditions, ClusterPhase.PREEMPTED, self.at, error=error.told)
        )
        entries = (*stage.clusters[: error.position], told, *stage.clusters[error.position + 1 :])
        self.set_stage(error.stage, replace(stage, clusters=entries))

    def take(self, step: TaskStep) -> None:
        """Take over what a task wants written."""
        self.actions.extend(step.actions)
        self.events.extend(step.events)
        self.wake_at(step.wake_at)

    def wake_at(self, at: datetime | None) -> None:
        """Remember the earliest moment at which time changes the decision."""
        if at is not None and (self._wake_at is None or at < self._wake_at):
            self._wake_at = at

    def plan(self) -> Plan:
        """Return the decision."""
        seen, steps = self.seen, (tuple(self.actions),) if self.actions else ()
        why = run_phase(self.status.conditions).value
        if self.status == seen.run.status:
            return Plan(steps=steps, events=tuple(self.events), wake_at=self._wake_at, why=why)
        due = pace(seen)
        if due is not None and self.now < due and is_progress_only(seen.status, self.status):
            self.wake_at(due)
            return Plan(
                steps=steps, events=tuple(self.events), wake_at=self._wake_at, why=f"{why}, record due"
            )
        write = StatusWrite(ref=ref_of(seen.scope.run, seen.run), old=seen.run.status, new=self.status)
        events = (*self.events, *run_events(seen, self.status, self.now))
        return Plan(steps=steps, status=write, events=events, wake_at=self._wake_at, why=why)


def pace(seen: Seen) -> datetime | None:
    """R-PACE-1: when a record of mere progress is due; None when it is due at once."""
    count = sum(len(stage.clusters) for stage in seen.status.stages_status)
    if seen.written_at is None or count < MIN_PACED_CLUSTERS:
        return None
    return due_at(seen.written_at, count * PACE_PER_CLUSTER, seen.busy)


def is_progress_only(old: RunStatus, new: RunStatus) -> bool:
    """R-PACE-2: whether two statuses differ in nothing but how far clusters are."""
    return _outline(old) == _outline(new)


def _outline(status: RunStatus) -> tuple[object, ...]:
    stages = (*status.stages_status, status.deletion_stage_status)
    return (
        status.conditions,
        *(stage and (stage.conditions, stage.start_time, stage.end_time) for stage in stages),
        *(stage and (stage.before_stage_task_status, stage.after_stage_task_status) for stage in stages),
    )


# --- the generation spoken about --------------------------------------------------------------------------------
def renewed(status: RunStatus, generation: int) -> RunStatus:
    """R-RUN-3: a change of state never invalidates what is on record: all of it speaks about the new generation."""
    if all(said.observed_generation == generation for said in status.conditions):
        return status  # they are always written together
    delete = status.deletion_stage_status
    return replace(
        status,
        conditions=_said_anew(status.conditions, generation),
        stages_status=tuple(_renewed_stage(stage, generation) for stage in status.stages_status),
        deletion_stage_status=delete and _renewed_stage(delete, generation),
    )


def _said_anew(conditions: Conditions, generation: int) -> Conditions:
    return tuple(replace(said, observed_generation=generation) for said in conditions)


def _renewed_stage(stage: StageStatus, generation: int) -> StageStatus:
    def entry(held: ClusterStatus) -> ClusterStatus:
        return replace(held, conditions=_said_anew(held.conditions, generation)) if held.conditions else held

    def task(held: TaskStatus) -> TaskStatus:
        return replace(held, conditions=_said_anew(held.conditions, generation)) if held.conditions else held

    return replace(
        stage,
        conditions=_said_anew(stage.conditions, generation),
        clusters=tuple(entry(held) for held in stage.clusters),
        before_stage_task_status=tuple(task(held) for held in stage.before_stage_task_status),
        after_stage_task_status=tuple(task(held) for held in stage.after_stage_task_status),
    )
