"""The state machine of a staged rollout: what a run does next. `step` is the only door.

Theory of operation
===================
A run is a plan (which clusters, in which stages, in which order, which version) and a record of how far it is. Both
are in its status; the bindings tell the rest. `step` looks at all of it and says what to write. Nothing is
remembered between two looks: a process can end after any write, and the next look goes on from what is there.

    look = is it leaving?   -> withdraw its questions, let it go
           is it new?       -> plan it (`stages.py`), write the plan down, touch nothing yet
           is it over?      -> nothing, for ever
           does the plan still hold, and which stage is under way (`run_validation.py`)?  no -> the run fails
           has a later run moved one of its clusters (`run_cluster.py`)?                 yes -> the run fails
           state Initialize -> nothing
           state Run        -> before tasks, clusters, after tasks of the stage under way (below)
           state Stop       -> see started clusters through, start none, answer no approval

A stage in state Run goes through

    NEW -> WAITING_BEFORE -> STARTED -> WAITING_AFTER -> SUCCEEDED         (SKIPPED if it has no clusters)

and a stage boundary is always on record before the next stage touches a cluster. Within a stage, a look first takes
in what has happened (done, stuck, preempted), then fills the free slots in the recorded order. What counts against
maxConcurrency is what really is in flight: clusters on record as started, and clusters this run has handed over
whose record is not written yet. The stages are followed by the delete stage, which removes the bindings of clusters
that are no longer picked, all at once.

Writes. A hand-over moves a binding; the record follows in the same plan, after it. When it is lost (a crash, a
conflict), the stamp on the binding still says who started the cluster and when, so nothing is started twice.
Because of that the record of big runs need not be written per cluster: a change that only moves clusters along may
wait for `pace`, while clusters go on; every other change is written at once (R-PACE-1).

Every phase and its wording is a row of PHASES, every move between phases a row of MOVES (`run_phases.py`);
docs/rules.md is generated from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition
from echelon.api.meta import timestamp
from echelon.api.names import (
    ANNOTATION_FIRST_SEEN,
    FINALIZER_RUN,
    LABEL_TARGET_UPDATE_RUN,
    RunState,
    StageTaskPosition,
    TaskType,
)
from echelon.api.staged import Stage, StageStatus, TaskStatus
from echelon.rules.approval import TaskStep, ask, is_passed, wait_for
from echelon.rules.plan import NOTHING, Delete, Patch, Plan, ref_of
from echelon.rules.run_cluster import preempted_text, taken_over_by, target_of
from echelon.rules.run_look import Look, Preempted
from echelon.rules.run_phases import OVER, PROGRESSING, RunPhase, StagePhase, mark, run_phase
from echelon.rules.run_plan import plan_run
from echelon.rules.run_seen import CANNOT_CONTINUE, UNEXPECTED, Abort, NotYet, Seen
from echelon.rules.run_stage import Walk, delete_clusters, finish_clusters, update_clusters
from echelon.rules.run_validation import ALL_DONE, check_plan, find_stage
from echelon.rules.stages import Scheduled


def step(seen: Seen, now: datetime) -> Plan:
    """Say what a run does next."""
    run = seen.run
    if run.metadata.is_deleting:
        return _let_go(seen)
    phase = run_phase(seen.status.conditions)
    if FINALIZER_RUN not in run.metadata.finalizers:
        return _take_up(seen)
    if phase in OVER:
        return NOTHING  # R-RUN-1: a finished run never changes
    if phase is RunPhase.NEW:
        return _initialize(seen, now)
    look = Look(seen, now)
    try:
        _go_on(look)
    except NotYet as reason:
        return Plan(why=reason.text)
    return look.plan()


def is_failing(plan: Plan) -> bool:
    """Whether a plan ends a run badly. That is final, so it must not rest on a copy that may lag behind (R-RUN-4)."""
    return plan.status is not None and run_phase(plan.status.new.conditions) in (
        RunPhase.INIT_FAILED,
        RunPhase.FAILED,
    )


# --- the ends of a run's life -----------------------------------------------------------------------------------
def _take_up(seen: Seen) -> Plan:
    """R-RUN-2: hold the run by a finalizer; from then on an omitted snapshot index is fixed, like a given one."""
    run = seen.run
    meta: dict[str, object] = {"finalizers": [*run.metadata.finalizers, FINALIZER_RUN]}
    if run.metadata.resource_version:  # R-RIVAL-1: which of two runs of one second came first
        meta["annotations"] = {ANNOTATION_FIRST_SEEN: run.metadata.resource_version}
    body: dict[str, object] = {"metadata": meta}
    if run.spec.resource_snapshot_index is None:
        body["spec"] = {"resourceSnapshotIndex": ""}
    return Plan(steps=((Patch(ref=ref_of(seen.scope.run, run), body=body),),), why="taken up")


def _let_go(seen: Seen) -> Plan:
    """R-DELETE-1: a deleted run takes its approval requests along and leaves the clusters as they are."""
    run = seen.run
    if FINALIZER_RUN not in run.metadata.finalizers:
        return NOTHING
    questions = tuple(
        Delete(ref=ref_of(seen.scope.approval, request))
        for request in seen.approvals.values()
        if request.metadata.labels.get(LABEL_TARGET_UPDATE_RUN) == run.name
        and not request.metadata.is_deleting
    )
    rest = [finalizer for finalizer in run.metadata.finalizers if finalizer != FINALIZER_RUN]
    free = Patch(ref=ref_of(seen.scope.run, run), body={"metadata": {"finalizers": rest}}, gone_ok=True)
    return Plan(steps=(questions, (free,)) if questions else ((free,),), why="deleted")


def _initialize(seen: Seen, now: datetime) -> Plan:
    """R-INIT-9: plan once; the plan, or what is wrong with it, is on record before any cluster is touched."""
    look = Look(seen, now)
    try:
        planned = plan_run(seen, now)
    except NotYet as reason:
        return Plan(why=reason.text, wake_at=reason.until)
    phase = RunPhase.INIT_FAILED if planned.error else RunPhase.INITIALIZED
    said = mark(seen.status.conditions, phase, look.at, error=planned.error)
    look.status = replace(planned.status, conditions=said)
    return replace(look.plan(), steps=planned.steps)


# --- a run under way --------------------------------------------------------------------------------------------
def _go_on(look: Look) -> None:
    seen = look.seen
    try:
        scheduled = check_plan(seen, look.status)
        index = find_stage(look.status, scheduled)
    except Abort as error:
        look.mark_run(RunPhase.FAILED, error=error.text)  # R-VALID-5: only the run says so
        return
    if index == ALL_DONE:
        look.mark_run(RunPhase.SUCCEEDED)
        return
    try:
        _check_takeover(look, scheduled.selected)
        if seen.run.spec.state == RunState.RUN:
            _run(look, index, scheduled)
        elif seen.run.spec.state == RunState.STOP:
            _stop(look, index, scheduled)
    except Abort as error:
        _fail(look, index, error)


def _check_takeover(look: Look, bindings: Mapping[str, Binding]) -> None:
    """R-RIVAL-5: a later run is a newer intent: whoever meets its traces gives way, wherever it stands itself."""
    seen = look.seen
    for index, stage in enumerate(look.status.stages_status):
        for position, entry in enumerate(stage.clusters):
            binding = bindings.get(entry.cluster_name)
            if binding is None or not (entry.conditions or seen.rivals):
                continue  # nobody else is there, and nothing was done here yet
            rival = taken_over_by(entry, binding, target_of(seen.run, look.status, entry), seen)
            if rival:
                text = preempted_text(entry.cluster_name, stage.stage_name, binding, rival)
                raise Preempted(text, index, position)


def _fail(look: Look, index: int, error: Abort) -> None:
    """R-FAIL-1: cluster (if one was preempted), stage and run say the same."""
    if isinstance(error, Preempted):
        look.mark_preempted(error)
    stage = look.stage(index)
    look.set_stage(
        index,
        replace(_marked(look, stage, StagePhase.FAILED, error=error.text), end_time=timestamp(look.now)),
    )
    look.actions.clear()
    look.events.clear()
    look.mark_run(RunPhase.FAILED, error=error.text)


def _marked(look: Look, stage: StageStatus, phase: StagePhase, **words: object) -> StageStatus:
    return replace(stage, conditions=mark(stage.conditions, phase, look.at, **words))


def _started(look: Look, stage: StageStatus) -> StageStatus:
    started = _marked(look, stage, StagePhase.STARTED)
    return started if started.start_time else replace(started, start_time=timestamp(look.now))


def _ended(look: Look, stage: StageStatus, phase: StagePhase) -> StageStatus:
    now = timestamp(look.now)
    return replace(_marked(look, stage, phase), start_time=stage.start_time or now, end_time=now)


# --- state Run --------------------------------------------------------------------------------------------------
def _run(look: Look, index: int, scheduled: Scheduled) -> None:
    index = _skip(look, index)
    if index == look.stage_count:
        _run_delete_stage(look, scheduled)
        return
    if not _before(look, index):
        return
    walk = update_clusters(look, index, scheduled.selected)
    _take_walk(look, index, walk)
    if walk.is_done:
        _after(look, index)


def _skip(look: Look, index: int) -> int:
    """R-STAGE-4: a stage without clusters is over as soon as it is its turn; its tasks are not asked for."""
    while index < look.stage_count and not look.stage(index).clusters:
        look.set_stage(index, _ended(look, look.stage(index), StagePhase.SKIPPED))
        look.mark_run(RunPhase.PROGRESSING)
        index += 1
    return index


def _before(look: Look, index: int) -> bool:
    """R-STAGE-5: nothing in a stage is touched before its before-stage task is on record as done."""
    stage, spec = look.stage(index), look.spec(index)
    tasks = stage.before_stage_task_status
    if all(is_passed(task) for task in tasks):
        return True
    asked = []
    for task in tasks:
        if task.type != TaskType.APPROVAL:
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}found unsupported task type in before stage tasks: {task.type.value}"
            )
        asked.append(ask(look.seen, spec, StageTaskPosition.BEFORE, task, look.at))
        look.take(asked[-1])
    stage = replace(stage, before_stage_task_status=tuple(answer.task for answer in asked))
    look.set_stage(index, _marked(look, stage, StagePhase.WAITING_BEFORE))
    look.mark_run(RunPhase.WAITING, tasks="before-stage", stage=stage.stage_name)
    return False


def _take_walk(look: Look, index: int, walk: Walk) -> None:
    """R-STAGE-6: a stage is under way from its first cluster to its last; a run is stuck as long as a cluster is."""
    stage = look.stage(index)
    if walk.has_moved or not walk.is_done:
        stage = _started(look, stage)
    look.set_stage(index, replace(stage, clusters=walk.entries))
    look.actions.extend(walk.actions)
    look.wake_at(walk.wake_at)
    if walk.stuck:
        look.mark_run(RunPhase.STUCK, clusters=listed(walk.stuck), stage=stage.stage_name)
    else:
        look.mark_run(RunPhase.PROGRESSING)


MAX_NAMED = 3  # stuck clusters named in the message; the rest are an ellipsis


def listed(names: tuple[str, ...]) -> str:
    """R-STUCK-1: name the stuck clusters, at most three."""
    return ", ".join(names[:MAX_NAMED]) + ("..." if len(names) > MAX_NAMED else "")


def _after(look: Look, index: int) -> None:
    """R-STAGE-7: a stage is over when its clusters and all its after-stage tasks are done."""
    stage = _marked(look, look.stage(index), StagePhase.WAITING_AFTER)
    progressing = find_condition(stage.conditions, PROGRESSING)
    assert progressing is not None, "just marked"
    asked = [
        _after_task(look, look.spec(index), position, task, progressing.last_transition_time)
        for position, task in enumerate(stage.after_stage_task_status)
    ]
    for task in asked:
        look.take(task)
    stage = replace(stage, after_stage_task_status=tuple(task.task for task in asked))
    if not all(task.is_done for task in asked):
        look.set_stage(index, stage)
        look.mark_run(RunPhase.WAITING, tasks="after-stage", stage=stage.stage_name)
        return
    look.set_stage(index, _ended(look, stage, StagePhase.SUCCEEDED))
    look.mark_run(RunPhase.PROGRESSING)
    delete_stage = look.status.deletion_stage_status
    if _skip(look, index + 1) == look.stage_count and delete_stage is not None and not delete_stage.clusters:
        _run_delete_stage(look, Scheduled())  # nothing to delete: the run is over with its last stage


def _after_task(look: Look, spec: Stage, position: int, task: TaskStatus, since: datetime) -> TaskStep:
    if task.type == TaskType.APPROVAL:
        return ask(look.seen, spec, StageTaskPosition.AFTER, task, look.at)
    return wait_for(spec.after_stage_tasks[position], task, since, look.at)


def _run_delete_stage(look: Look, scheduled: Scheduled) -> None:
    """R-STAGE-8: the last stage deletes the bindings of clusters no longer picked, and ends the run."""
    stage = look.stage(look.stage_count)
    walk = delete_clusters(look, stage, scheduled.leaving, may_delete=True)
    stage = replace(_started(look, stage), clusters=walk.entries)
    look.actions.extend(walk.actions)
    if not walk.is_done:
        look.set_stage(look.stage_count, stage)
        look.mark_run(RunPhase.PROGRESSING)
        return
    look.set_stage(look.stage_count, _ended(look, stage, StagePhase.SUCCEEDED))
    look.mark_run(RunPhase.SUCCEEDED)


# --- state Stop -------------------------------------------------------------------------------------------------
def _stop(look: Look, index: int, scheduled: Scheduled) -> None:
    """R-STOP-1: what was started finishes, nothing else begins; tasks are left alone."""
    stage = look.stage(index)
    if index == look.stage_count:
        walk = delete_clusters(look, stage, scheduled.leaving, may_delete=False)
    else:
        walk = finish_clusters(look, index, scheduled.selected)
    if walk.has_moved and stage.start_time is None:
        stage = replace(stage, start_time=timestamp(look.now))
    phase = StagePhase.STOPPING if walk.in_flight else StagePhase.STOPPED
    look.set_stage(index, replace(_marked(look, stage, phase), clusters=walk.entries))
    look.wake_at(walk.wake_at)
    if walk.stuck:
        look.mark_run(RunPhase.STUCK, clusters=listed(walk.stuck), stage=stage.stage_name)
    else:
        look.mark_run(RunPhase.STOPPING if walk.in_flight else RunPhase.STOPPED)
