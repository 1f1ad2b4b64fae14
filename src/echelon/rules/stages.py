"""Which clusters a run is about, in which stages, in which order.

Theory. Read from the placement, the scheduler's latest decision (policy snapshot and bindings), the strategy and the
labels of the member clusters, in that order. `run_plan.py` does it once to make the plan; the same functions plan
again on every later look, so that `run_validation.py` can tell whether the plan still holds.

Never looks at how far the run is, never picks clusters itself, never waits: a missing piece that the scheduler
will bring by itself raises NotYet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition, is_true_at
from echelon.api.meta import UNKNOWN
from echelon.api.names import (
    ANNOTATION_NUMBER_OF_CLUSTERS,
    DELETE_STAGE_NAME,
    LABEL_IS_LATEST_SNAPSHOT,
    LABEL_POLICY_INDEX,
    LABEL_TRUE,
    ApplyType,
    BindingState,
    PlacementType,
    RolloutType,
    StageTaskPosition,
    TaskType,
    approval_name,
)
from echelon.api.placement import ApplyStrategy, RolloutStrategy, ServerSideApplyConfig
from echelon.api.snapshot import PolicySnapshot
from echelon.api.staged import (
    ClusterStatus,
    Stage,
    StageStatus,
    StageTask,
    StrategySpec,
    TaskStatus,
)
from echelon.rules.durations import parse_duration, render_duration
from echelon.rules.labels import InvalidSelector, check, matches
from echelon.rules.run_seen import CLIENT_ERROR, INVALID, UNEXPECTED, Abort, NotYet, Seen

MAX_LISTED_CLUSTERS = 10  # of clusters without a stage: enough to see the pattern, short enough to read
SCHEDULER_PATIENCE = timedelta(seconds=30)  # a scheduler that is alive needs milliseconds
MAX_SORT_VALUE = 2**63 - 1  # a label that sorts is a 64-bit number
_NAME = attrgetter("metadata.name")  # there may be a thousand
INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Misplaced(ValueError):
    """The author's error in a strategy or in cluster labels."""


class TwoStages(Misplaced):
    """A cluster is picked by two stages."""

    def __init__(self, cluster: str) -> None:
        super().__init__(f"cluster `{cluster}` appears in more than one stages")
        self.cluster = cluster


@dataclass(slots=True)
class Scheduled:
    """What the scheduler has decided for the placement, and what the placement asks of the apply."""

    applied: ApplyStrategy | None = None
    policy_index: str = ""
    cluster_count: int = 0  # -1 while only the bindings can tell
    selected: Mapping[str, Binding] = field(default_factory=dict)  # by cluster
    leaving: Mapping[str, Binding] = field(default_factory=dict)  # by cluster


# --- the placement and what the scheduler decided -------------------------------------------------------------
def applied_strategy(strategy: RolloutStrategy) -> ApplyStrategy:
    """Return the placement's apply strategy with its defaults filled in."""
    applied = strategy.apply_strategy or ApplyStrategy()
    if applied.type == ApplyType.SERVER_SIDE_APPLY and applied.server_side_apply_config is None:
        return msgspec.structs.replace(applied, server_side_apply_config=ServerSideApplyConfig())
    return applied


def read_placement(seen: Seen, into: Scheduled) -> None:
    """R-INIT-1: the placement exists and leaves its rollout to runs."""
    # One that is being deleted is as good as gone: its snapshots go before it does, which would only be a confusing
    # way to say so.
    if seen.placement is None or seen.placement.metadata.is_deleting:
        raise Abort(f"{INVALID}{CLIENT_ERROR}parent placement not found")
    strategy = seen.placement.spec.strategy or RolloutStrategy()
    if strategy.type != RolloutType.EXTERNAL:
        raise Abort(
            f"{INVALID}{CLIENT_ERROR}parent placement does not have an external rollout strategy, "
            f"current strategy: {strategy.type.value}"
        )
    into.applied = applied_strategy(strategy)


def read_policy(seen: Seen, into: Scheduled) -> PolicySnapshot:
    """R-INIT-2: there is exactly one latest policy snapshot, and it says how many clusters were picked."""
    placement = seen.path(seen.run.spec.placement_name)
    latest = [
        snapshot
        for snapshot in seen.own_policies
        if snapshot.metadata.labels.get(LABEL_IS_LATEST_SNAPSHOT) == LABEL_TRUE
    ]
    if not latest:
        raise Abort(f"{INVALID}no latest policy snapshot found for placement {placement}")
    if len(latest) > 1:
        raise Abort(
            f"{INVALID}{UNEXPECTED}multiple active policy snapshots found for placement {placement}: "
            f"got {len(latest)}, want 1"
        )
    snapshot = latest[0]
    into.policy_index = snapshot.metadata.labels.get(LABEL_POLICY_INDEX, "")
    if not into.policy_index:
        raise Abort(
            f"{INVALID}{UNEXPECTED}policy snapshot `{seen.path(snapshot.name)}` does not have a policy index label"
        )
    into.cluster_count = _cluster_count(seen, snapshot)
    return snapshot


def _cluster_count(seen: Seen, snapshot: PolicySnapshot) -> int:
    policy = snapshot.spec.policy
    if policy is None or policy.placement_type == PlacementType.PICK_ALL:
        return -1
    if policy.placement_type == PlacementType.PICK_FIXED:
        return len(policy.cluster_names)
    text = snapshot.metadata.annotations.get(ANNOTATION_NUMBER_OF_CLUSTERS)
    if text is not None and re.fullmatch(r"\+?[0-9]+", text, re.ASCII):
        return int(text)
    cause = (
        f"cannot find annotation {ANNOTATION_NUMBER_OF_CLUSTERS}"
        if text is None
        else f'invalid annotation {ANNOTATION_NUMBER_OF_CLUSTERS}, value is "{text}"'
    )
    raise Abort(
        f"{INVALID.removesuffix(': ')}, {UNEXPECTED}{cause}: the policy snapshot `{seen.path(snapshot.name)}` "
        "doesn't have valid cluster count annotation"
    )


def give_scheduler_time(seen: Seen, now: datetime) -> None:
    """R-INIT-12: a placement made or changed a moment ago is about to be scheduled; a run made with it waits for that.

    Only what the scheduler has not looked at yet is waited for, and not for long: what it has decided is final.
    """
    placement = seen.placement
    if placement is None:
        return
    latest = [
        one for one in seen.own_policies if one.metadata.labels.get(LABEL_IS_LATEST_SNAPSHOT) == LABEL_TRUE
    ]
    if any(is_decided(one) for one in latest):
        return
    born = latest[0].metadata.creation_timestamp if latest else placement.metadata.creation_timestamp
    if born is not None and now < born + SCHEDULER_PATIENCE:
        raise NotYet("the placement is about to be scheduled", born + SCHEDULER_PATIENCE)


def is_decided(snapshot: PolicySnapshot) -> bool:
    """Whether the scheduler has answered a policy as it is now."""
    said = find_condition(snapshot.status.conditions if snapshot.status else (), "Scheduled")
    return (
        said is not None
        and said.observed_generation == snapshot.metadata.generation
        and said.status != UNKNOWN
    )


def require_scheduled(snapshot: PolicySnapshot) -> None:
    """R-INIT-3: the scheduler has found all clusters the policy wants."""
    conditions = snapshot.status.conditions if snapshot.status else ()
    if not is_true_at(conditions, "Scheduled", snapshot.metadata.generation):
        raise Abort(f"{INVALID}policy snapshot `{snapshot.name}` not fully scheduled yet")


def read_bindings(seen: Seen, policy: PolicySnapshot, into: Scheduled) -> None:
    """R-INIT-4: tell picked clusters from leaving ones, and both from a scheduler that is still at work."""
    selected: dict[str, Binding] = {}
    leaving: dict[str, Binding] = {}
    for binding in sorted(seen.bindings, key=_NAME):
        spec = binding.spec
        if spec.state == BindingState.UNSCHEDULED:
            leaving[spec.target_cluster] = binding
        elif spec.scheduling_policy_snapshot_name == policy.name:
            selected[spec.target_cluster] = binding
        else:
            raise NotYet(
                f"binding `{seen.path(binding.name)}` with old policy snapshot "
                f"`{seen.path(spec.scheduling_policy_snapshot_name)}` has state {spec.state}, "
                "we might observe a transient state, need retry"
            )
    into.selected, into.leaving = selected, leaving
    if not selected and not leaving:
        raise Abort(
            f"{INVALID}no scheduled or to-be-deleted bindings found for the latest policy snapshot "
            f"{seen.path(policy.name)}"
        )
    if into.cluster_count == -1:
        into.cluster_count = len(selected)
    elif into.cluster_count != len(selected):
        raise Abort(
            f"{INVALID}{UNEXPECTED}the number of selected bindings {len(selected)} is not equal to the observed "
            f"cluster count {into.cluster_count}"
        )


# --- the stages -----------------------------------------------------------------------------------------------
def check_tasks(stage: Stage, strategy: str) -> None:
    """R-INIT-5: a stage's tasks and selector make sense. Raises Misplaced."""
    where = f"updateStrategy: `{strategy}`, stage: {stage.name}, err: "
    before, after = stage.before_stage_tasks, stage.after_stage_tasks
    wrong_before = f"the before stage tasks are invalid, {where}"
    if len(before) > 1:
        raise Misplaced(f"{wrong_before}beforeStageTasks can have at most one task")
    for index, task in enumerate(before):
        if task.type != TaskType.APPROVAL:
            raise Misplaced(
                f"{wrong_before}task {index} of type {task.type.value} is not allowed in beforeStageTasks, "
                "allowed type: Approval"
            )
        if task.wait_time is not None:
            raise Misplaced(f"{wrong_before}task {index} of type Approval cannot have wait duration set")
    wrong_after = f"the after stage tasks are invalid, {where}"
    if len(after) == 2 and after[0].type == after[1].type:
        raise Misplaced(
            f"{wrong_after}afterStageTasks cannot have two tasks of the same type: {after[0].type.value}"
        )
    for index, task in enumerate(after):
        if task.type == TaskType.TIMED_WAIT and task.wait_time is None:
            raise Misplaced(f"{wrong_after}task {index} of type TimedWait has wait duration set to nil")
        if task.type == TaskType.TIMED_WAIT and _wait(task) <= timedelta(0):
            raise Misplaced(f"{wrong_after}task {index} of type TimedWait has wait duration <= 0")
    try:
        check(stage.label_selector)
    except InvalidSelector as error:
        raise Misplaced(f"the stage label selector is invalid, {where}{error}") from error


def _wait(task: StageTask) -> timedelta:
    try:
        return parse_duration(task.wait_time or "0s")
    except ValueError:  # the schema does not let it in; if it is here, it is as good as none
        return timedelta(0)


def stored_strategy(spec: StrategySpec) -> StrategySpec:
    """Copy a strategy the way a run stores it: durations in their stored form, no wait on approvals."""
    return StrategySpec(
        stages=tuple(
            msgspec.structs.replace(
                stage, after_stage_tasks=tuple(_stored_task(task) for task in stage.after_stage_tasks)
            )
            for stage in spec.stages
        )
    )


def _stored_task(task: StageTask) -> StageTask:
    if task.type == TaskType.APPROVAL or task.wait_time is None:
        return StageTask(type=task.type)
    return StageTask(type=task.type, wait_time=render_duration(_wait(task)))


def plan_stage(
    stage: Stage, run: str, selected: Mapping[str, Binding], clusters: Mapping[str, MemberCluster]
) -> StageStatus:
    """R-STAGE-1: a stage has the picked clusters its selector matches, by sorting label, then by name."""
    members = [
        clusters[name]
        for name in sorted(selected)
        if name in clusters and matches(stage.label_selector, clusters[name].metadata.labels)
    ]
    if stage.sorting_label_key:
        key = stage.sorting_label_key
        members.sort(key=lambda cluster: _sort_value(cluster, key))  # stable: equal values stay by name
    return StageStatus(
        stage_name=stage.name,
        clusters=tuple(ClusterStatus(cluster_name=cluster.name) for cluster in members),
        before_stage_task_status=_plan_tasks(stage, run, StageTaskPosition.BEFORE),
        after_stage_task_status=_plan_tasks(stage, run, StageTaskPosition.AFTER),
    )


def _sort_value(cluster: MemberCluster, key: str) -> int:
    text = cluster.metadata.labels.get(key, "")
    if not INTEGER.fullmatch(text):
        cause = "invalid syntax"
    elif not -MAX_SORT_VALUE - 1 <= int(text) <= MAX_SORT_VALUE:
        cause = "value out of range"
    else:
        return int(text)
    raise Misplaced(
        f"the sorting label `{key}:{text}` on cluster `{cluster.name}` is not valid: "
        f'strconv.Atoi: parsing "{text}": {cause}'
    )


def _plan_tasks(stage: Stage, run: str, position: StageTaskPosition) -> tuple[TaskStatus, ...]:
    before = position is StageTaskPosition.BEFORE
    tasks = stage.before_stage_tasks if before else stage.after_stage_tasks
    return tuple(
        TaskStatus(
            type=task.type,
            approval_request_name=(
                approval_name(run, position, stage.name) if task.type == TaskType.APPROVAL else ""
            ),
        )
        for task in tasks
    )


def plan_stages(
    spec: StrategySpec, strategy: str, seen: Seen, scheduled: Scheduled, into: list[StageStatus]
) -> None:
    """R-STAGE-2: every picked cluster is in exactly one stage. Raises Misplaced; what is planned stays in `into`."""
    placed: set[str] = set()
    for stage in spec.stages:
        check_tasks(stage, strategy)
        planned = plan_stage(stage, seen.run.name, scheduled.selected, seen.clusters)
        for entry in planned.clusters:
            if entry.cluster_name in placed:
                raise TwoStages(entry.cluster_name)
            placed.add(entry.cluster_name)
        into.append(planned)
    missing = sorted(scheduled.selected.keys() - placed)
    if missing:
        listed = ", ".join(missing[:MAX_LISTED_CLUSTERS])
        raise Misplaced(
            f"some clusters are not placed in any stage, total {len(missing)}, showing up to "
            f"{MAX_LISTED_CLUSTERS}: {listed}"
        )


def plan_delete_stage(scheduled: Scheduled) -> StageStatus:
    """R-STAGE-3: the last stage holds the clusters that are no longer picked, by name."""
    return StageStatus(
        stage_name=DELETE_STAGE_NAME,
        clusters=tuple(ClusterStatus(cluster_name=name) for name in sorted(scheduled.leaving)),
    )
