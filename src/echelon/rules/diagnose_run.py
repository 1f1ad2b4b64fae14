"""Why a run as a whole does not go on: it failed, it waits, it was never started, or its plan no longer holds.

A failed run is explained by its own message: the message is contract, so each pattern below stands for one cause of
the catalogue. Everything else is read from phases, tasks and approvals, with the same functions the run itself uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from echelon.api.conditions import find_condition, is_true_at
from echelon.api.meta import TRUE, Condition
from echelon.api.names import RunState, TaskType
from echelon.api.staged import RunStatus, StageStatus, TaskStatus
from echelon.rules.approval import is_passed
from echelon.rules.diagnose_parts import Evidence, Spotted, listed, saying
from echelon.rules.forecast import limit_of, span_text, wait_of, waiting_until
from echelon.rules.run_cluster import mover_of
from echelon.rules.run_phases import (
    APPROVED,
    INITIALIZED,
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    RunPhase,
    StagePhase,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Abort, NotYet, Seen
from echelon.rules.run_validation import check_plan
from echelon.rules.stages import Scheduled, give_scheduler_time, read_bindings, read_placement, read_policy

STATE_REASON = "echelon.dev/state-reason"  # on a run: who told it to start, stop or go on, and why
SILENT_AFTER = timedelta(seconds=30)  # an engine that runs looks at a new run at once
_ACTIVE = frozenset({RunPhase.PROGRESSING, RunPhase.WAITING, RunPhase.STUCK, RunPhase.STOPPING})

# what a message says -> the cause it stands for; named groups become words
_MESSAGES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), cause)
    for pattern, cause in (
        (
            (
                r"the binding of the updating cluster `(?P<cluster>[^`]*)` in the stage `(?P<stage>[^`]*)` is not "
                r"up-to-date.*status of binding `(?:[^`/]*/)?(?P<binding>[^`]*)`"
            ),
            "taken-over",
        ),
        (
            (
                r"resourceBinding of the updating cluster `(?P<cluster>[^`]*)` in the stage `(?P<stage>[^`]*)` "
                r"does not have expected status"
            ),
            "taken-over",
        ),
        (r"parent (?:resourceP|p)lacement not found", "placement-missing"),
        (
            r"does not have an external rollout strategy, current strategy: (?P<type>\w+)",
            "placement-not-external",
        ),
        (r"no latest policy snapshot found|not fully scheduled yet", "not-scheduled"),
        (r"no scheduled or to-be-deleted bindings found", "no-clusters"),
        (r"(?P<detail>the number of selected bindings .* is not equal to .*)", "policy-changed"),
        (r"referenced updateStrategy not found: `(?:[^`/]*/)?(?P<strategy>[^`]*)`", "strategy-missing"),
        (
            (
                r"the (?P<side>before|after) stage tasks are invalid, updateStrategy: `(?:[^`/]*/)?(?P<strategy>[^`]*)`, "
                r"stage: (?P<stage>[^,]*), err: (?P<detail>.*)"
            ),
            "tasks-invalid",
        ),
        (
            (
                r"the stage label selector is invalid, updateStrategy: `(?:[^`/]*/)?(?P<strategy>[^`]*)`, "
                r"stage: (?P<stage>[^,]*), err: (?P<detail>.*)"
            ),
            "selector-invalid",
        ),
        (r"cluster `(?P<cluster>[^`]*)` appears in more than one stage", "cluster-in-two-stages"),
        (r"not placed in any stage, total \d+, showing up to \d+: (?P<clusters>.*)", "cluster-in-no-stage"),
        (
            r"the sorting label `(?P<key>.*):(?P<value>[^`:]*)` on cluster `(?P<cluster>[^`]*)` is not valid",
            "sorting-label-invalid",
        ),
        (r"invalid resource snapshot index `(?P<index>[^`]*)` provided", "snapshot-index-invalid"),
        (r"no resourceSnapshots with index `(?P<index>[^`]*)` found", "snapshot-missing"),
        (r"no master resourceSnapshot found", "snapshot-missing"),
        (r"the applyStrategy in the updateRun is outdated", "apply-strategy-changed"),
        (
            r"(?P<detail>the (?:policy snapshot index used|cluster count initialized) in the updateRun is outdated.*)",
            "policy-changed",
        ),
        (
            (
                r"(?P<detail>the number of (?:stages|clusters in index).*changed.*|index `\d+` stage name.*changed.*|"
                r"the `\d+` cluster in the `\d+` stage has changed.*|the cluster `[^`]*` to be deleted is not in.*)"
            ),
            "clusters-changed",
        ),
        (
            r"the binding for cluster `(?P<cluster>[^`]*)` in stage `(?P<stage>[^`]*)` is not found",
            "binding-gone",
        ),
        (r"the approval request task `(?:[^`/]*/)?(?P<approval>[^`]*)` is targeting", "approval-foreign"),
    )
)
_PREFIXES = (
    "cannot continue the updateRun: ",
    "failed to validate the updateRun: ",
    "failed to process the request due to a client error: ",
    "unexpected behavior which cannot be handled by the controller: ",
)


def spot_run(seen: Seen, status: RunStatus, now: datetime) -> Iterator[Spotted]:
    """Tell everything that keeps the run as a whole from going on."""
    phase = run_phase(status.conditions)
    if phase in {RunPhase.FAILED, RunPhase.INIT_FAILED}:
        yield _failure(seen, status, phase)
        return
    if phase is RunPhase.SUCCEEDED:
        return
    if phase is RunPhase.NEW:
        yield from _unseen(seen, now)
        return
    if phase is RunPhase.INITIALIZED and seen.run.spec.state == RunState.INITIALIZE:
        yield Spotted(cause="not-started", evidence=_evidence(seen, status, INITIALIZED))
    is_stopping = phase is RunPhase.STUCK and seen.run.spec.state == RunState.STOP
    if phase is RunPhase.STOPPING or is_stopping:
        yield _stopping(seen, status)
    if phase is RunPhase.STOPPED:
        yield _stopped(seen, status)
    if phase in {RunPhase.INITIALIZED, RunPhase.STOPPED}:  # one under way is ended by its own check
        yield from _outdated(seen, status)
    if phase not in {RunPhase.STOPPING, RunPhase.STOPPED} and not is_stopping:
        for stage in status.stages_status:
            yield from _waits(seen, status, stage, now)
    yield from _deletion(status)
    yield from _rivals(seen, phase)
    yield from _concurrency(status)


def name_of(seen: Seen) -> str:
    """Name the run as evidence does."""
    return f"{seen.run.kind or seen.scope.run.kind} {seen.run.name}"


def _evidence(seen: Seen, status: RunStatus, type_: str) -> tuple[Evidence, ...]:
    found = find_condition(status.conditions, type_)
    return (saying(name_of(seen), found),) if found else ()


# --- over -----------------------------------------------------------------------------------------------------
def _failure(seen: Seen, status: RunStatus, phase: RunPhase) -> Spotted:
    type_ = INITIALIZED if phase is RunPhase.INIT_FAILED else SUCCEEDED
    condition = find_condition(status.conditions, type_)
    message = condition.message if condition else ""
    words = {"failed": "could not be planned" if phase is RunPhase.INIT_FAILED else "was aborted"}
    evidence = list(_evidence(seen, status, type_))
    for pattern, cause in _MESSAGES:
        match = pattern.search(message)
        if match is None:
            continue
        words |= {key: value.strip() for key, value in match.groupdict().items() if value}
        words.setdefault("index", "0")
        words.setdefault("value", "missing")
        if cause == "taken-over":
            rival, said = _mover(seen, words["cluster"], message)
            words["rival"] = rival
            held = (one.name for one in seen.bindings if one.spec.target_cluster == words["cluster"])
            words.setdefault("binding", next(held, ""))
            evidence += said
        return Spotted(cause=cause, words=words, stage=words.get("stage", ""), evidence=tuple(evidence))
    return Spotted(cause="failed", words={**words, "detail": plain(message)}, evidence=tuple(evidence))


def plain(message: str) -> str:
    """Leave out the fixed prefixes of an error, which say nothing to people."""
    text = message
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text.rstrip(".") or "it says no reason"


def _mover(seen: Seen, cluster: str, message: str) -> tuple[str, list[Evidence]]:
    """Name who moved a binding: the run that stamped it, or else somebody."""
    named = re.search(r"moved by updateRun `([^`]*)`", message)
    for binding in seen.bindings:
        if binding.spec.target_cluster != cluster:
            continue
        mover = mover_of(binding)
        stamp = find_condition(binding.status.conditions, "RolloutStarted") if binding.status else None
        said = [saying(f"{seen.scope.binding.kind} {binding.name}", stamp)] if stamp else []
        if named or (mover and mover != seen.run.name):
            return f"run {named[1] if named else mover}", said
        return "somebody else", said
    return (f"run {named[1]}" if named else "somebody else"), []


# --- before the start -------------------------------------------------------------------------------------------
def _unseen(seen: Seen, now: datetime) -> Iterator[Spotted]:
    made = seen.run.metadata.creation_timestamp
    try:
        give_scheduler_time(seen, now)
        scheduled = Scheduled()
        read_placement(seen, scheduled)
        read_bindings(seen, read_policy(seen, scheduled), scheduled)
    except NotYet as error:
        yield Spotted(cause="scheduler-busy", words={"detail": error.text})
        return
    except Abort:
        pass  # the engine will say so itself
    if made is not None and now - made > SILENT_AFTER:
        evidence = Evidence(object=name_of(seen), says="has no conditions", since=made)
        yield Spotted(cause="engine-silent", words={"since": span_text(now - made)}, evidence=(evidence,))


def _outdated(seen: Seen, status: RunStatus) -> Iterator[Spotted]:
    """Ask the run's own check whether it could go on; without sight of the members it cannot be asked."""
    if not seen.clusters:
        return
    try:
        check_plan(seen, status)
    except Abort as error:
        yield Spotted(cause="plan-outdated", words={"detail": plain(error.text)})
    except NotYet:
        return


# --- waiting ----------------------------------------------------------------------------------------------------
def _waits(seen: Seen, status: RunStatus, stage: StageStatus, now: datetime) -> Iterator[Spotted]:
    phase = stage_phase(stage.conditions)
    if phase is StagePhase.WAITING_BEFORE:
        for task in stage.before_stage_task_status:
            yield from _approval(seen, stage, task, "before", now)
    elif phase is StagePhase.WAITING_AFTER:
        for index, task in enumerate(stage.after_stage_task_status):
            if task.type == TaskType.APPROVAL:
                yield from _approval(seen, stage, task, "after", now)
            elif not is_passed(task):
                yield _timed(seen, status, stage, index)


def _approval(
    seen: Seen, stage: StageStatus, task: TaskStatus, side: str, now: datetime
) -> Iterator[Spotted]:
    if is_passed(task):
        return
    name = f"{seen.scope.approval.kind} {task.approval_request_name}"
    since = _waiting_since(stage)
    words = {
        "approval": task.approval_request_name,
        "side": side,
        "stage": stage.stage_name,
        "since": span_text(now - since) if since else "a moment",
    }
    request = seen.approvals.get(task.approval_request_name)
    approved = find_condition(request.status.conditions, APPROVED) if request and request.status else None
    cause, evidence = "approval-open", Evidence(object=name, says="is not approved", since=since)
    if request is not None and approved is not None:
        evidence = _approved_says(name, approved)
        if is_true_at((approved,), APPROVED, request.metadata.generation):
            return  # counted in a moment
        if approved.status == TRUE:
            cause = "approval-not-counted"
            words |= {
                "observed": str(approved.observed_generation),
                "generation": str(request.metadata.generation),
            }
        else:
            cause = "approval-refused"
            words |= {"status": approved.status, "detail": approved.message or approved.reason}
    yield Spotted(cause=cause, words=words, stage=stage.stage_name, evidence=(evidence,))


def _approved_says(name: str, approved: Condition) -> Evidence:
    says = (
        f"Approved={approved.status} at observedGeneration {approved.observed_generation}: {approved.message}"
    )
    return Evidence(object=name, says=says, since=approved.last_transition_time)


def _waiting_since(stage: StageStatus) -> datetime | None:
    found = find_condition(stage.conditions, PROGRESSING)
    return found.last_transition_time if found else None


def _timed(seen: Seen, status: RunStatus, stage: StageStatus, index: int) -> Spotted:
    strategy = status.staged_update_strategy_snapshot
    planned = {one.name: one for one in strategy.stages}.get(stage.stage_name) if strategy else None
    tasks = planned.after_stage_tasks if planned else ()
    until = waiting_until(stage, wait_of(tasks[index].wait_time)) if index < len(tasks) else None
    words = {"stage": stage.stage_name, "until": until.strftime("%H:%M:%S UTC") if until else "its time"}
    says = Evidence(
        object=f"stage {stage.stage_name}", says="all clusters are updated", since=_waiting_since(stage)
    )
    del seen
    return Spotted(cause="timed-wait", words=words, stage=stage.stage_name, evidence=(says,))


def _unfinished(stage: StageStatus) -> list[str]:
    return [
        entry.cluster_name
        for entry in stage.clusters
        if find_condition(entry.conditions, STARTED) is not None
        and find_condition(entry.conditions, SUCCEEDED) is None
    ]


def _stopping(seen: Seen, status: RunStatus) -> Spotted:
    stages = [
        *status.stages_status,
        *([status.deletion_stage_status] if status.deletion_stage_status else []),
    ]
    moving = [name for stage in stages for name in _unfinished(stage)]
    words = {"count": str(len(moving)), "clusters": listed(moving) or "none"}
    return Spotted(cause="stopping", words=words, evidence=_evidence(seen, status, PROGRESSING))


def _stopped(seen: Seen, status: RunStatus) -> Spotted:
    entries = [entry for stage in status.stages_status for entry in stage.clusters]
    done = sum(
        (found := find_condition(entry.conditions, SUCCEEDED)) is not None and found.status == TRUE
        for entry in entries
    )
    told = seen.run.metadata.annotations.get(STATE_REASON, "")
    words = {"detail": f" by {told}" if told else "", "done": str(done), "total": str(len(entries))}
    return Spotted(cause="stopped", words=words, evidence=_evidence(seen, status, PROGRESSING))


# --- notices ----------------------------------------------------------------------------------------------------
def _deletion(status: RunStatus) -> Iterator[Spotted]:
    stage = status.deletion_stage_status
    if stage is None or stage_phase(stage.conditions) is not StagePhase.STARTED:
        return
    waiting = _unfinished(stage)
    if waiting:
        evidence = tuple(
            saying(f"cluster {entry.cluster_name}", condition)
            for entry in stage.clusters
            if entry.cluster_name in waiting[:1]
            for condition in entry.conditions
        )
        yield Spotted(
            cause="deletion-blocked",
            words={"clusters": listed(waiting), "cluster": waiting[0]},
            stage="delete",
            evidence=evidence,
        )


def _rivals(seen: Seen, phase: RunPhase) -> Iterator[Spotted]:
    if phase not in _ACTIVE:
        return
    for rival in seen.rivals.values():
        if rival.status is not None and run_phase(rival.status.conditions) in _ACTIVE:
            yield Spotted(cause="rival", words={"rival": rival.name})


def _concurrency(status: RunStatus) -> Iterator[Spotted]:
    strategy = status.staged_update_strategy_snapshot
    for stage, planned in zip(status.stages_status, strategy.stages if strategy else (), strict=False):
        value, count = planned.max_concurrency, len(stage.clusters)
        if not isinstance(value, str) or count < 2 or find_condition(stage.conditions, SUCCEEDED) is not None:
            continue
        exact = count * int(value.removesuffix("%")) / 100 if value.removesuffix("%").isdigit() else 1
        if limit_of(planned, count) == 1 and exact != 1:
            words = {
                "stage": stage.stage_name,
                "percent": value,
                "count": str(count),
                "rounded": str(int(exact)),
            }
            yield Spotted(cause="concurrency-one", words=words, stage=stage.stage_name)
