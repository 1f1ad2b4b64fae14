"""RunView: everything a person wants to know about a run, computed once for text, JSON and the web.

`view(run's state, now)` is pure. It asks the run's own rules (`classify_cluster`, `run_phase`, `stage_phase`), the
diagnosis and the forecast, and interprets no condition itself; whoever shows a RunView interprets nothing at all.

Names of clusters are listed once per stage and their states as one letter each, so that a thousand clusters are a few
kilobytes. The document carries a version: a field may be added, but none changes its meaning within a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE
from echelon.api.names import BindingState, RunState, TaskType
from echelon.api.staged import ClusterStatus, Run, RunStatus, Stage, StageStatus, TaskStatus
from echelon.rules.approval import is_passed
from echelon.rules.diagnose import Finding, diagnose
from echelon.rules.diagnose_cluster import as_engine, phase_of
from echelon.rules.diagnose_parts import Depth
from echelon.rules.forecast import Estimate, estimate, limit_of, span_text, wait_of, waiting_until
from echelon.rules.run_cluster import delivery_error
from echelon.rules.run_phases import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    ClusterPhase,
    RunPhase,
    StagePhase,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Seen

VERSION = 1
MAX_SHOWN = 100  # clusters of a stage told in detail; the letters tell the rest

# one letter per cluster, in the order of the stage's names
LETTERS: Mapping[ClusterPhase, str] = {
    ClusterPhase.PENDING: "P",
    ClusterPhase.STARTING: "U",
    ClusterPhase.UPDATING: "U",
    ClusterPhase.STUCK: "S",
    ClusterPhase.DONE: "D",
    ClusterPhase.PREEMPTED: "T",
    ClusterPhase.FAILED: "F",
    ClusterPhase.GONE: "G",
}
STATES: Mapping[str, str] = {
    "P": "pending",
    "U": "updating",
    "S": "stuck",
    "D": "done",
    "T": "taken over",
    "F": "failed",
    "G": "gone",
}
INTERESTING = "FTSGU"  # in this order: what somebody should look at comes first
RUN_STATES: Mapping[RunPhase, str] = {
    RunPhase.NEW: "new",
    RunPhase.INITIALIZED: "initialized",
    RunPhase.INIT_FAILED: "failed",
    RunPhase.PROGRESSING: "progressing",
    RunPhase.WAITING: "waiting",
    RunPhase.STUCK: "stuck",
    RunPhase.STOPPING: "stopping",
    RunPhase.STOPPED: "stopped",
    RunPhase.SUCCEEDED: "succeeded",
    RunPhase.FAILED: "failed",
}
STAGE_STATES: Mapping[StagePhase, str] = {
    StagePhase.NEW: "pending",
    StagePhase.WAITING_BEFORE: "waiting",
    StagePhase.STARTED: "updating",
    StagePhase.WAITING_AFTER: "waiting",
    StagePhase.STOPPING: "stopping",
    StagePhase.STOPPED: "stopped",
    StagePhase.SUCCEEDED: "done",
    StagePhase.SKIPPED: "skipped",
    StagePhase.FAILED: "failed",
}
OVER = frozenset({"succeeded", "failed"})


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """An approval or a wait beside a stage. `state`: pending, open, done, or not counted."""

    kind: str  # approval | wait
    side: str  # before | after
    state: str
    request: str = ""
    wait_s: int = 0
    until: datetime | None = None
    since: datetime | None = None


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster worth looking at."""

    name: str
    state: str
    since: datetime | None = None
    message: str = ""


class StageView(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: its clusters as letters, the interesting ones in words, and what surrounds it."""

    name: str
    state: str
    done: int
    total: int
    at_a_time: int
    clusters: tuple[str, ...]
    letters: str
    shown: tuple[ClusterView, ...] = ()
    before: tuple[TaskView, ...] = ()
    after: tuple[TaskView, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    is_delete: bool = False


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run as people look at it."""

    version: int = VERSION
    kind: str
    short_kind: str
    namespace: str | None
    name: str
    revision: str
    placement: str
    strategy: str
    snapshot_from: str
    snapshot_to: str
    wanted: str  # spec.state
    state: str
    headline: str
    since: datetime | None
    created_at: datetime | None
    seen_at: datetime
    done: int
    total: int
    stages: tuple[StageView, ...]
    estimate: Estimate | None
    findings: tuple[Finding, ...]

    @property
    def ref(self) -> str:
        """How commands name the run: `NAME` or `NAME -n NAMESPACE`."""
        return f"{self.name} -n {self.namespace}" if self.namespace else self.name

    @property
    def is_over(self) -> bool:
        """Whether the run will never change again."""
        return self.state in OVER


def view(run: Run, seen: Seen, now: datetime, depth: Depth | None = None) -> RunView:
    """Compute the view of a run."""
    status = seen.status
    seen = as_engine(seen, status, now)
    phase = run_phase(status.conditions)
    stages = _stages(seen, status, now)
    total, done = sum(stage.total for stage in stages), sum(stage.done for stage in stages)
    findings = diagnose(seen, now, depth or Depth())
    before, to = _versions(seen, status)
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
        headline=_headline(seen, status, phase, stages, findings, now),
        since=_since(status, phase, stages),
        created_at=run.metadata.creation_timestamp,
        seen_at=now,
        done=done,
        total=total,
        stages=stages,
        estimate=estimate(run, status, seen.rivals.values(), now),
        findings=findings,
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
            )
        )
    return tuple(out)


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


# --- the run ----------------------------------------------------------------------------------------------------
def _versions(seen: Seen, status: RunStatus) -> tuple[str, str]:
    """Return the snapshot indexes the run goes from and to; "" where unknown."""
    to = status.resource_snapshot_index_used
    prefix, suffix = f"{seen.run.spec.placement_name}-", "-snapshot"
    held = {
        name.removeprefix(prefix).removesuffix(suffix)
        for binding in seen.bindings
        if (name := binding.spec.resource_snapshot_name).startswith(prefix)
    } - {to}
    if not held or run_phase(status.conditions) in {RunPhase.SUCCEEDED, RunPhase.FAILED}:
        # what clusters have now was brought by others, after a run that is over
        made = seen.run.metadata.creation_timestamp
        ended = [
            (found.last_transition_time, other.status.resource_snapshot_index_used)
            for other in seen.rivals.values()
            if other.status is not None
            and (found := find_condition(other.status.conditions, SUCCEEDED)) is not None
            and found.status == TRUE
            and made is not None
            and found.last_transition_time <= made
        ]
        held = {max(ended)[1]} - {to} if ended else set()
    return (max(held, key=lambda text: (len(text), text)) if held else "", to)


def _since(status: RunStatus, phase: RunPhase, stages: Sequence[StageView]) -> datetime | None:
    if phase is RunPhase.WAITING:
        opened = [task.since for stage in stages for task in (*stage.before, *stage.after) if task.since]
        if opened:
            return max(opened)
    if phase is RunPhase.STUCK:
        stuck = [one.since for stage in stages for one in stage.shown if one.state == "stuck" and one.since]
        if stuck:
            return min(stuck)
    for type_ in (SUCCEEDED, PROGRESSING, "Initialized"):
        found = find_condition(status.conditions, type_)
        if found is not None:
            return found.last_transition_time
    return None


def _headline(
    seen: Seen,
    status: RunStatus,
    phase: RunPhase,
    stages: Sequence[StageView],
    findings: Sequence[Finding],
    now: datetime,
) -> str:
    """Say in a line where the run is; the same words in every output."""
    since = _since(status, phase, stages)
    for_ = f" {span_text(now - since)}" if since else ""
    if phase is RunPhase.WAITING:
        return f"waiting{for_}: {_awaited(stages, now)}"
    if phase is RunPhase.STUCK:
        names = [one.name for stage in stages for one in stage.shown if one.state == "stuck"]
        where = f": {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""
        stopping = " while stopping" if seen.run.spec.state == RunState.STOP else ""
        return f"stuck{for_}{stopping}{where}"
    if phase is RunPhase.PROGRESSING:
        current = next((stage for stage in stages if stage.state == "updating"), None)
        return f'progressing: stage "{current.name}"' if current else "progressing"
    if phase is RunPhase.SUCCEEDED:
        made = min((stage.started_at for stage in stages if stage.started_at), default=None)
        return f"succeeded in {span_text(since - made)}" if since and made else "succeeded"
    if phase in {RunPhase.FAILED, RunPhase.INIT_FAILED}:
        what = findings[0].title[0].lower() + findings[0].title[1:] if findings else "see its conditions"
        return f"failed{for_} ago: {what}" if for_ else f"failed: {what}"
    if phase is RunPhase.STOPPED:
        return f"stopped{for_} ago" if for_ else "stopped"
    if phase is RunPhase.INITIALIZED and seen.run.spec.state == RunState.INITIALIZE:
        return "initialized: not started"
    return RUN_STATES[phase]


def _awaited(stages: Sequence[StageView], now: datetime) -> str:
    parts = []
    for stage in stages:
        for task in (*stage.before, *stage.after):
            if task.state not in {"open", "not counted"}:
                continue
            if task.kind == "approval":
                note = " (given, but does not count)" if task.state == "not counted" else ""
                parts.append(f'approval {task.side} "{stage.name}"{note}')
            else:
                left = f", {span_text(task.until - now)} left" if task.until else ""
                parts.append(f'{span_text(timedelta(seconds=task.wait_s))} after "{stage.name}"{left}')
    return " and ".join(parts) or "for a task"


__all__ = ["STATES", "VERSION", "RunView", "StageView", "TaskView", "view"]
