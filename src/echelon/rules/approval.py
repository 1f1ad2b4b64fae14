"""The tasks around a stage: approvals and timed waits.

Theory. An approval task makes one request object with a known name, and is open until somebody writes Approved=True
at the request's own generation. Then the run answers ApprovalAccepted, exactly once, and from that moment nobody can
take the approval back: not by reverting Approved, not by deleting the request. An unaccepted request that is
deleted is made again. An Approved at another generation does not count, and the request says so.

Never looks at clusters; never starts anything. Says what to write and whether the task is done.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from echelon.api.conditions import find_condition, is_true_at, remove_condition
from echelon.api.meta import TRUE, Conditions
from echelon.api.names import (
    LABEL_IS_LATEST_UPDATE_RUN_APPROVAL,
    LABEL_TARGET_UPDATE_RUN,
    LABEL_TARGET_UPDATING_STAGE,
    LABEL_TASK_TYPE,
    LABEL_TRUE,
    StageTaskPosition,
    TaskType,
)
from echelon.api.staged import Approval, Stage, StageTask, TaskStatus
from echelon.rules.durations import parse_duration
from echelon.rules.plan import Action, Create, Emit, Patch, ref_of
from echelon.rules.run_phases import (
    ACCEPTED,
    APPROVAL_APPROVED,
    APPROVED,
    NOT_COUNTED,
    PHASES,
    WAIT_ELAPSED,
    ApprovalPhase,
    Moment,
    TaskPhase,
    has_status,
    mark,
)
from echelon.rules.run_seen import CANNOT_CONTINUE, UNEXPECTED, Abort, Seen


class TaskStep(NamedTuple):
    """How far a task is now, and what has to be written first."""

    task: TaskStatus
    is_done: bool
    actions: tuple[Action, ...] = ()
    events: tuple[Emit, ...] = ()
    wake_at: datetime | None = None


def is_passed(task: TaskStatus) -> bool:
    """R-TASK-1: a task that is recorded as done stays done."""
    wanted = APPROVAL_APPROVED if task.type == TaskType.APPROVAL else WAIT_ELAPSED
    return has_status(task.conditions, wanted, TRUE)


def ask(seen: Seen, stage: Stage, position: StageTaskPosition, task: TaskStatus, at: Moment) -> TaskStep:
    """R-TASK-2: look after an approval task: make its request, accept its approval, or explain why not."""
    if is_passed(task):
        return TaskStep(task, is_done=True)
    request = seen.approvals.get(task.approval_request_name)
    created = _marked(task, TaskPhase.CREATED, at)
    if request is None:
        return TaskStep(created, is_done=False, actions=(_create(seen, stage, position, task),))
    _check_target(seen, stage, request)
    conditions, generation = _conditions(request), request.metadata.generation
    if is_true_at(conditions, ACCEPTED, generation):
        return TaskStep(_marked(created, TaskPhase.APPROVED, at), is_done=True)
    if is_true_at(conditions, APPROVED, generation):
        told = mark(
            remove_condition(conditions, NOT_COUNTED), ApprovalPhase.ACCEPTED, Moment(at.now, generation)
        )
        accept = _write(seen, request, told)
        return TaskStep(_marked(created, TaskPhase.APPROVED, at), is_done=True, actions=(accept,))
    return _explain(seen, request, created, at)


def _marked(task: TaskStatus, phase: TaskPhase, at: Moment) -> TaskStatus:
    return msgspec.structs.replace(task, conditions=mark(task.conditions, phase, at))


def _conditions(request: Approval) -> Conditions:
    return request.status.conditions if request.status else ()


def _write(seen: Seen, request: Approval, conditions: Conditions) -> Patch:
    said = [msgspec.to_builtins(condition) for condition in conditions]
    return Patch(ref=ref_of(seen.scope.approval, request), body={}, status={"conditions": said})


def _create(seen: Seen, stage: Stage, position: StageTaskPosition, task: TaskStatus) -> Create:
    run = seen.run
    metadata: dict[str, Any] = {
        "name": task.approval_request_name,
        "labels": {
            LABEL_TARGET_UPDATING_STAGE: stage.name,
            LABEL_TARGET_UPDATE_RUN: run.name,
            LABEL_TASK_TYPE: position.value,
            LABEL_IS_LATEST_UPDATE_RUN_APPROVAL: LABEL_TRUE,
        },
    }
    if run.namespace:
        metadata["namespace"] = run.namespace
    resource = seen.scope.approval
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {"parentStageRollout": run.name, "targetStage": stage.name},
    }
    return Create(resource=resource, body=body)


def _check_target(seen: Seen, stage: Stage, request: Approval) -> None:
    """R-TASK-3: a request of that name that asks for something else is not ours to use."""
    spec = request.spec
    if spec.run_name == seen.run.name and spec.target_stage == stage.name:
        return
    raise Abort(
        f"{CANNOT_CONTINUE}{UNEXPECTED}the approval request task `{seen.path(request.name)}` is targeting "
        f"update run `{seen.path(spec.run_name)}` and stage `{spec.target_stage}`, want target update run "
        f"`{seen.path(seen.run.name)} and stage `{stage.name}`"  # the missing backtick is part of the text
    )


def _explain(seen: Seen, request: Approval, task: TaskStatus, at: Moment) -> TaskStep:
    """R-TASK-4: an approval at another generation does not count, and the request says why."""
    before, generation = _conditions(request), request.metadata.generation
    approved = find_condition(before, APPROVED)
    if approved is None or approved.status != TRUE:
        after = remove_condition(before, NOT_COUNTED)
    else:
        after = mark(
            before,
            ApprovalPhase.NOT_COUNTED,
            Moment(at.now, generation),
            observed=approved.observed_generation,
            generation=generation,
        )
    if after is before or after == before:
        return TaskStep(task, is_done=False)
    said = find_condition(after, NOT_COUNTED)
    events: tuple[Emit, ...] = ()
    if said is not None:
        ref = ref_of(seen.scope.approval, request)
        reason = PHASES[ApprovalPhase.NOT_COUNTED][0].type
        events = (Emit(about=ref, reason=reason, message=said.message, type="Warning"),)
    return TaskStep(task, is_done=False, actions=(_write(seen, request, after),), events=events)


def wait_for(task: StageTask, status: TaskStatus, since: datetime, at: Moment) -> TaskStep:
    """R-TASK-5: a timed wait counts from when the stage's clusters were done, or from a stop in between."""
    if is_passed(status):
        return TaskStep(status, is_done=True)
    ends_at = since + parse_duration(task.wait_time or "0s")
    if at.now >= ends_at:
        return TaskStep(_marked(status, TaskPhase.ELAPSED, at), is_done=True)
    return TaskStep(status, is_done=False, wake_at=ends_at)
