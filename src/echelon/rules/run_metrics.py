"""What is counted about runs, read off two states of a run: pure, so that numbers can be proven like any other rule.

Everything is told once, by the change that brings it: a restart, which sees every run for the first time, counts
nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, Condition
from echelon.api.names import StageTaskPosition
from echelon.api.staged import Run, StageStatus, TaskStatus
from echelon.rules.run_phases import (
    APPROVAL_APPROVED,
    APPROVAL_CREATED,
    INITIALIZED,
    PROGRESSING,
    SUCCEEDED,
    StagePhase,
    stage_phase,
)
from echelon.rules.run_seen import CLIENT_ERROR

NO_FAILURE, USER_ERROR, INTERNAL_ERROR = "none", "user_error", "internal_error"


class Standing(NamedTuple):
    """Where a run stands, as labels of its status metric."""

    state: str
    condition: str
    status: str
    reason: str
    failure_type: str


def standing(run: Run) -> Standing | None:
    """R-METRIC-1: the first of Succeeded, Progressing, Initialized that speaks about the current generation."""
    for type_ in (SUCCEEDED, PROGRESSING, INITIALIZED):
        said = find_condition(run.status.conditions, type_) if run.status else None
        if said is not None and said.observed_generation == run.metadata.generation:
            return Standing(run.spec.state.value, type_, said.status, said.reason, _failure_type(said))
    return None


def _failure_type(said: Condition) -> str:
    """R-METRIC-2: whose failure it is; waiting and stopping are nobody's."""
    if said.status != FALSE:
        return NO_FAILURE
    if said.reason == "UpdateRunStuck":
        return INTERNAL_ERROR
    if said.reason in {"UpdateRunFailed", "UpdateRunInitializedFailed"}:
        return USER_ERROR if CLIENT_ERROR.rstrip(": ") in said.message else INTERNAL_ERROR
    return NO_FAILURE


def approval_latencies(old: Run | None, new: Run) -> Iterator[tuple[str, float]]:
    """R-METRIC-3: task type and seconds from question to answer, for every approval this change brought."""
    for before, stage in _pairs(old, new):
        for position, held, tasks in (
            (StageTaskPosition.BEFORE, before.before_stage_task_status, stage.before_stage_task_status),
            (StageTaskPosition.AFTER, before.after_stage_task_status, stage.after_stage_task_status),
        ):
            for was, task in zip(held, tasks, strict=False):
                if find_condition(was.conditions, APPROVAL_APPROVED) is None:
                    yield from ((position.value, seconds) for seconds in _latency(task))


def _latency(task: TaskStatus) -> Iterator[float]:
    asked = find_condition(task.conditions, APPROVAL_CREATED)
    answered = find_condition(task.conditions, APPROVAL_APPROVED)
    if asked is not None and answered is not None:
        yield (answered.last_transition_time - asked.last_transition_time).total_seconds()


def stage_durations(old: Run | None, new: Run) -> Iterator[float]:
    """R-METRIC-4: seconds a stage's clusters took, told when the last is done; not for stages stopped meanwhile."""
    for before, stage in _pairs(old, new):
        if stage_phase(before.conditions) is not StagePhase.STARTED or stage.start_time is None:
            continue
        if stage_phase(stage.conditions) in (StagePhase.WAITING_AFTER, StagePhase.SUCCEEDED):
            done = find_condition(stage.conditions, PROGRESSING)
            if done is not None:
                yield (done.last_transition_time - stage.start_time).total_seconds()


def _pairs(old: Run | None, new: Run) -> Iterator[tuple[StageStatus, StageStatus]]:
    if old is None or old.status is None or new.status is None or old.metadata.uid != new.metadata.uid:
        return
    yield from zip(old.status.stages_status, new.status.stages_status, strict=False)
