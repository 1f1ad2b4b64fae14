"""RunView: everything a person wants to know about a run, computed once for text, JSON and the web.

`view(run's state, now)` is pure. It asks the run's own rules (`classify_cluster`, `run_phase`, `stage_phase`), the
diagnosis and the forecast, and interprets no condition itself; whoever shows a RunView interprets nothing at all.

Names of clusters are listed once per stage and their states as one letter each, so that a thousand clusters are a few
kilobytes. The document carries a version: a field may be added, but none changes its meaning within a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE
from echelon.api.names import ANNOTATION_REQUESTER, BindingState, TaskType
from echelon.api.staged import Approval, ClusterStatus, Run, RunStatus, Stage, StageStatus, TaskStatus
from echelon.rules.approval import is_passed
from echelon.rules.diagnose import diagnose
from echelon.rules.diagnose_cluster import as_engine, phase_of
from echelon.rules.diagnose_parts import Depth
from echelon.rules.forecast import estimate, limit_of, wait_of, waiting_until
from echelon.rules.run_cluster import delivery_error
from echelon.rules.run_phases import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    ClusterPhase,
    StagePhase,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Seen
from echelon.views.run_headline import headline, since_of, versions
from echelon.views.run_shapes import (
    INTERESTING,
    LETTERS,
    MAX_SHOWN,
    RUN_STATES,
    STAGE_STATES,
    STATES,
    ClusterView,
    RunView,
    StageView,
    TaskView,
)


def view(run: Run, seen: Seen, now: datetime, depth: Depth | None = None) -> RunView:
    """Compute the view of a run."""
    status = seen.status
    seen = as_engine(seen, status, now)
    phase = run_phase(status.conditions)
    stages = _stages(seen, status, now)
    total, done = sum(stage.total for stage in stages), sum(stage.done for stage in stages)
    findings = diagnose(seen, now, depth or Depth())
    before, to = versions(seen, status)
    return RunView(
        kind=run.kind or seen.scope.run.kind,
        short_kind=seen.scope.run.short_names[0],
        namespace=run.namespace,
        name=run.name,
        revision=run.metadata.resource_version,
        placement=run.spec.placement_name,
        strategy=run.spec.strategy_name,
        snapshot_from=before,
        snapshot_to=to,
        wanted=run.spec.state.value,
        state=RUN_STATES[phase],
        headline=headline(seen, status, phase, stages, findings, now),
        since=since_of(status, phase, stages),
        created_at=run.metadata.creation_timestamp,
        seen_at=now,
        done=done,
        total=total,
        stages=stages,
        estimate=estimate(run, status, seen.rivals.values(), now),
        findings=findings,
        requester=run.metadata.annotations.get(ANNOTATION_REQUESTER, ""),
    )


# --- stages -----------------------------------------------------------------------------------------------------
def _stages(seen: Seen, status: RunStatus, now: datetime) -> tuple[StageView, ...]:
    bindings = {
        one.spec.target_cluster: one for one in seen.bindings if one.spec.state != BindingState.UNSCHEDULED
    }
    strategy = status.staged_update_strategy_snapshot
    planned = {stage.name: stage for stage in strategy.stages} if strategy else {}
    stages = [
        _stage(seen, status, stage, planned.get(stage.stage_name), bindings, now)
        for stage in status.stages_status
    ]
    delete = status.deletion_stage_status
    if delete is not None and delete.clusters:
        stages.append(_delete_stage(delete))
    return tuple(stages)


def _stage(
    seen: Seen,
    status: RunStatus,
    stage: StageStatus,
    planned: Stage | None,
    bindings: Mapping[str, Binding],
    now: datetime,
) -> StageView:
    entries = {entry.cluster_name: entry for entry in stage.clusters}
    letters = "".join(
        LETTERS[_phase(seen, status, entry, bindings.get(name), now)] for name, entry in entries.items()
    )
    return StageView(
        name=stage.stage_name,
        state=STAGE_STATES[stage_phase(stage.conditions)],
        done=letters.count("D"),
        total=len(entries),
        at_a_time=limit_of(planned, len(entries)) if planned else 1,
        clusters=tuple(entries),
        letters=letters,
        shown=_shown(entries, letters, bindings),
        before=_tasks(seen, stage, planned, "before"),
        after=_tasks(seen, stage, planned, "after"),
        started_at=stage.start_time,
        ended_at=stage.end_time,
    )


def _phase(
    seen: Seen, status: RunStatus, entry: ClusterStatus, binding: Binding | None, now: datetime
) -> ClusterPhase:
    """Classify, but call nothing done or updating that the run has not begun: it may still decide otherwise."""
    if not entry.conditions:
        return ClusterPhase.PENDING if binding is not None else ClusterPhase.GONE
    return phase_of(seen, status, entry, binding, now)


def _delete_stage(stage: StageStatus) -> StageView:
    letters = "".join(
        "D" if _is(entry, SUCCEEDED, TRUE) else "U" if _is(entry, STARTED, TRUE) else "P"
        for entry in stage.clusters
    )
    return StageView(
        name="delete",
        state=STAGE_STATES[stage_phase(stage.conditions)],
        done=letters.count("D"),
        total=len(letters),
        at_a_time=len(letters),
        clusters=tuple(entry.cluster_name for entry in stage.clusters),
        letters=letters,
        started_at=stage.start_time,
        ended_at=stage.end_time,
        is_delete=True,
    )


def _is(entry: ClusterStatus, type_: str, status: str) -> bool:
    found = find_condition(entry.conditions, type_)
    return found is not None and found.status == status


def _shown(
    entries: Mapping[str, ClusterStatus], letters: str, bindings: Mapping[str, Binding]
) -> tuple[ClusterView, ...]:
    ranked = sorted(
        (INTERESTING.index(letter), name)
        for letter, name in zip(letters, entries, strict=True)
        if letter in INTERESTING
    )
    return tuple(
        _cluster(INTERESTING[rank], entries[name], bindings.get(name)) for rank, name in ranked[:MAX_SHOWN]
    )


def _cluster(letter: str, entry: ClusterStatus, binding: Binding | None) -> ClusterView:
    started = find_condition(entry.conditions, STARTED)
    ended = find_condition(entry.conditions, SUCCEEDED)
    since = ended or started
    return ClusterView(
        name=entry.cluster_name,
        state=STATES[letter],
        since=since.last_transition_time if since else None,
        message=ended.message
        if ended and ended.status == FALSE
        else short_cause(binding)
        if letter in "SU"
        else "",
    )


def short_cause(binding: Binding | None) -> str:
    """Say in a few words what delivery reports about a cluster."""
    if binding is None:
        return ""
    failed = binding.status.failed_placements if binding.status else ()
    if failed:
        first = failed[0]
        where = f"{first.namespace}/" if first.namespace else ""
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"{first.kind} {where}{first.name} {_short(first.condition.reason)}{more}"
    error = delivery_error(binding)
    return _short(error.reason) if error else ""


_SHORT = {
    "ManifestNotAvailableYet": "not available yet",
    "NotAllWorkAreAvailable": "not available yet",
    "NotAllWorkHaveBeenApplied": "not applied yet",
    "ApplyInProgress": "being applied",
    "ManifestApplyFailed": "refused by the member",
}


def _short(reason: str) -> str:
    return _SHORT.get(reason, reason)


def _tasks(seen: Seen, stage: StageStatus, planned: Stage | None, side: str) -> tuple[TaskView, ...]:
    statuses = stage.before_stage_task_status if side == "before" else stage.after_stage_task_status
    tasks = (planned.before_stage_tasks if side == "before" else planned.after_stage_tasks) if planned else ()
    waiting = StagePhase.WAITING_BEFORE if side == "before" else StagePhase.WAITING_AFTER
    is_open = stage_phase(stage.conditions) is waiting
    out = []
    for index, task in enumerate(statuses):
        wait = wait_of(tasks[index].wait_time) if index < len(tasks) else timedelta(0)
        out.append(
            TaskView(
                kind="approval" if task.type == TaskType.APPROVAL else "wait",
                side=side,
                state=_task_state(seen, task, is_open=is_open),
                request=task.approval_request_name,
                wait_s=int(wait.total_seconds()) if task.type == TaskType.TIMED_WAIT else 0,
                until=waiting_until(stage, wait) if task.type == TaskType.TIMED_WAIT else None,
                since=_progressing_since(stage) if is_open else None,
                approved_by=_approver(seen.approvals.get(task.approval_request_name)),
            )
        )
    return tuple(out)


def _approver(request: Approval | None) -> str:
    noted = request.status.approved_by if request and request.status else None
    return noted.username if noted else ""


def _task_state(seen: Seen, task: TaskStatus, *, is_open: bool) -> str:
    if is_passed(task):
        return "done"
    if not is_open:
        return "pending"
    request = seen.approvals.get(task.approval_request_name)
    approved = find_condition(request.status.conditions, "Approved") if request and request.status else None
    if (
        request
        and approved
        and approved.status == TRUE
        and approved.observed_generation != request.metadata.generation
    ):
        return "not counted"
    return "open"


def _progressing_since(stage: StageStatus) -> datetime | None:
    found = find_condition(stage.conditions, PROGRESSING)
    return found.last_transition_time if found else None
