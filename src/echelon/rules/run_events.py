"""What people are told about a run as Kubernetes Events: each transition they wait for, said once.

Compares the status seen with the one about to be written. Reasons and messages are those of the conditions, so an
Event and the status never disagree; what went wrong is followed by its cause in one sentence. Clusters have no events of their own: a thousand of them would say nothing.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from echelon.api.conditions import find_condition
from echelon.api.staged import RunStatus, StageStatus
from echelon.rules.diagnose import one_line
from echelon.rules.plan import Emit, Ref, ref_of
from echelon.rules.run_phases import (
    INITIALIZED,
    PROGRESSING,
    SUCCEEDED,
    RunPhase,
    StagePhase,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Seen

_BAD = (RunPhase.INIT_FAILED, RunPhase.STUCK, RunPhase.FAILED)
_TOLD_OF_STAGES = (StagePhase.STARTED, StagePhase.SUCCEEDED, StagePhase.SKIPPED)


def run_events(seen: Seen, new: RunStatus, now: datetime) -> tuple[Emit, ...]:
    """R-EVENT-1: one Event per phase a run enters, one per stage begun, ended or skipped."""
    old, about = seen.status, ref_of(seen.scope.run, seen.run)
    stages = list(new.stages_status)
    before: list[StageStatus | None] = [*old.stages_status]
    if new.deletion_stage_status is not None and new.deletion_stage_status.clusters:
        stages.append(new.deletion_stage_status)
        before.append(old.deletion_stage_status)
    before += [None] * (len(stages) - len(before))
    told = [
        event
        for held, stage in zip(before, stages, strict=False)
        for event in _stage_events(about, held, stage)
    ]
    return (*told, *_run_event(seen, about, new, now))


def _run_event(seen: Seen, about: Ref, new: RunStatus, now: datetime) -> tuple[Emit, ...]:
    old = seen.status
    phase = run_phase(new.conditions)
    for type_ in (SUCCEEDED, PROGRESSING, INITIALIZED):
        said = find_condition(new.conditions, type_)
        if said is None:
            continue
        held = find_condition(old.conditions, type_)
        if held is not None and (held.reason, held.message) == (said.reason, said.message):
            return ()
        event = Emit(about=about, reason=said.reason, message=said.message)
        return (_warning(event, seen, new, now) if phase in _BAD else event,)
    return ()


def _warning(event: Emit, seen: Seen, new: RunStatus, now: datetime) -> Emit:
    """R-EVENT-2: what went wrong is told with its cause, as far as the hub knows it."""
    cause = one_line(replace(seen, run=replace(seen.run, status=new)), now)
    return replace(event, type="Warning", message=f"{event.message}. {cause}" if cause else event.message)


def _stage_events(about: Ref, old: StageStatus | None, new: StageStatus) -> tuple[Emit, ...]:
    phase = stage_phase(new.conditions)
    before = stage_phase(old.conditions) if old else StagePhase.NEW
    if phase is before or phase not in _TOLD_OF_STAGES:
        return ()
    said = find_condition(new.conditions, SUCCEEDED) or find_condition(new.conditions, PROGRESSING)
    assert said is not None, "a phase comes from a condition"
    text = f"Stage {new.stage_name} ({len(new.clusters)} cluster(s)): {said.message}"
    return (Emit(about=about, reason=said.reason, message=text),)
