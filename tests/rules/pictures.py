"""Runs at any moment of their life, written down by hand: what views, diagnosis and forecasts are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api import names
from echelon.api.binding import Binding, BindingSpec, BindingStatus
from echelon.api.cluster import AgentStatus, Identity, MemberCluster, MemberClusterSpec, MemberClusterStatus
from echelon.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from echelon.api.placement import (
    ApplyStrategy,
    FailedPlacement,
    Placement,
    PlacementSpec,
    ResourceSelector,
    RolloutStrategy,
)
from echelon.api.scope import CLUSTER, Scope
from echelon.api.snapshot import ClusterDecision, PolicySnapshot, PolicySnapshotSpec, PolicySnapshotStatus
from echelon.api.staged import (
    Approval,
    ApprovalSpec,
    ApprovalStatus,
    Approver,
    Run,
    RunSpec,
    RunStatus,
    Stage,
    StageTask,
    Strategy,
    StrategySpec,
)
from echelon.rules.run_phases import ClusterPhase, Moment, RunPhase, StagePhase, TaskPhase, mark
from echelon.rules.run_plan import plan_run
from echelon.rules.run_seen import Seen

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT = Moment(NOW, 1)
OWNER = OwnerReference(api_version="", kind="", name="web", uid="uid-web")


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def condition(
    type_: str, status: str, reason: str = "Because", message: str = "", *, age: float = 1, gen: int = 1
) -> Condition:
    return Condition(
        type=type_,
        status=status,  # type: ignore[arg-type]
        reason=reason,
        message=message,
        observed_generation=gen,
        last_transition_time=NOW - minutes(age),
    )


def member(name: str, *, beat_age: float = 0.5, **labels: str) -> MemberCluster:
    joined = condition("Joined", "True")
    return MemberCluster(
        kind="MemberCluster",
        metadata=ObjectMeta(name=name, labels=labels, generation=1),
        spec=MemberClusterSpec(identity=Identity(kind="User", name=f"agent:{name}")),
        status=MemberClusterStatus(
            conditions=(joined,),
            agent_status=(
                AgentStatus(
                    type="MemberAgent", conditions=(joined,), last_received_heartbeat=NOW - minutes(beat_age)
                ),
            ),
        ),
    )


def binding(
    cluster: str,
    scope: Scope,
    *conditions: Condition,
    snapshot: str = "",
    failed: Sequence[FailedPlacement] = (),
    run: str = "v7",
    **spec: Any,
) -> Binding:
    """A binding of placement `web` that the run has handed over, when a snapshot is given."""
    stamp = condition(
        "RolloutStarted", "True", "RolloutStarted", f"Detected the new changes, updateRun: {run}"
    )
    fields: dict[str, Any] = {
        "state": "Bound" if snapshot else "Scheduled",
        "resource_snapshot_name": snapshot,
    }
    return Binding(
        kind=scope.binding.kind,
        metadata=ObjectMeta(
            name=f"web-{cluster}-0a1b2c3d",
            namespace="team" if scope.namespaced else None,
            generation=1,
            labels={names.LABEL_PARENT_CRP: "web"},
        ),
        spec=BindingSpec(
            **(
                fields
                | {
                    "scheduling_policy_snapshot_name": "web-0",
                    "target_cluster": cluster,
                    "cluster_decision": ClusterDecision(cluster_name=cluster, selected=True, reason="picked"),
                    "apply_strategy": ApplyStrategy() if snapshot else None,
                }
                | spec
            )
        ),
        status=BindingStatus(
            conditions=((stamp,) if snapshot else ()) + conditions, failed_placements=tuple(failed)
        ),
    )


def failed(
    condition_: Condition,
    kind: str = "Deployment",
    name: str = "nginx",
    namespace: str = "web",
    group: str = "apps",
) -> FailedPlacement:
    return FailedPlacement(
        group=group, version="v1", kind=kind, name=name, namespace=namespace, condition=condition_
    )


def stage(
    name: str,
    *,
    at_a_time: int | str = 1,
    before: bool = False,
    approval: bool = False,
    wait: str = "",
    **labels: str,
) -> Stage:
    after = [StageTask(type=names.TaskType.TIMED_WAIT, wait_time=wait)] if wait else []
    if approval:
        after.append(StageTask(type=names.TaskType.APPROVAL))
    return Stage(
        name=name,
        label_selector=LabelSelector(match_labels=labels or {"stage": name}),
        max_concurrency=at_a_time,
        before_stage_tasks=(StageTask(type=names.TaskType.APPROVAL),) if before else (),
        after_stage_tasks=tuple(after),
    )


def seen_of(
    stages: Sequence[Stage],
    clusters: Mapping[str, Sequence[str]],
    *,
    scope: Scope = CLUSTER,
    state: str = "Run",
    name: str = "v7",
    placement: bool = True,
    strategy: bool = True,
) -> Seen:
    """A run of placement `web` by strategy `safe` that nobody has looked at; clusters by stage."""
    namespace = "team" if scope.namespaced else None

    def meta(name: str, **labels: str) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace=namespace,
            generation=1,
            resource_version="7",
            creation_timestamp=NOW - minutes(60),
            labels=labels,
            uid=f"uid-{name}",
            owner_references=(OWNER,) if name.startswith("web-") else (),
        )

    run = Run(
        kind=scope.run.kind,
        metadata=meta(name),
        spec=RunSpec(
            placement_name="web",
            strategy_name="safe",
            resource_snapshot_index="1",
            state=names.RunState(state),
        ),
    )
    all_clusters = [cluster for row in clusters.values() for cluster in row]
    policy = PolicySnapshot(
        metadata=meta("web-0", **{names.LABEL_IS_LATEST_SNAPSHOT: "true", names.LABEL_POLICY_INDEX: "0"}),
        spec=PolicySnapshotSpec(policy_hash=b"x"),
        status=PolicySnapshotStatus(observed_crp_generation=1, conditions=(condition("Scheduled", "True"),)),
    )
    selector = ResourceSelector(group="", version="v1", kind="Namespace", name="web")
    spec = PlacementSpec(
        resource_selectors=(selector,), strategy=RolloutStrategy(type=names.RolloutType.EXTERNAL)
    )
    return Seen(
        scope=scope,
        run=run,
        placement=Placement(metadata=meta("web"), spec=spec) if placement else None,
        policy_snapshots=(policy,),
        bindings=tuple(binding(cluster, scope) for cluster in all_clusters),
        strategy=Strategy(metadata=meta("safe"), spec=StrategySpec(stages=tuple(stages)))
        if strategy
        else None,
        clusters={
            cluster: member(cluster, stage=row) for row, listed in clusters.items() for cluster in listed
        },
        snapshots=(snapshot("1", meta),),
    )


def snapshot(index: str, meta: Any) -> Any:
    from echelon.api.snapshot import ResourceSnapshot, ResourceSnapshotSpec

    made = meta(
        f"web-{index}-snapshot", **{names.LABEL_RESOURCE_INDEX: index, names.LABEL_IS_LATEST_SNAPSHOT: "true"}
    )
    made = msgspec.structs.replace(made, annotations={names.ANNOTATION_RESOURCE_HASH: "abc"})
    return ResourceSnapshot(metadata=made, spec=ResourceSnapshotSpec(selected_resources=()))


def with_status(seen: Seen, status: RunStatus) -> Seen:
    return msgspec.structs.replace(seen, run=msgspec.structs.replace(seen.run, status=status))


def planned(seen: Seen, phase: RunPhase | None = None, **words: str) -> Seen:
    """The run after initialization, and (with a phase) in that phase."""
    status, error, _ = plan_run(seen, NOW)
    if error:
        return with_status(
            seen, msgspec.structs.replace(status, conditions=mark((), RunPhase.INIT_FAILED, AT, error=error))
        )
    conditions = mark((), RunPhase.INITIALIZED, AT)
    if phase is not None:
        conditions = mark(conditions, phase, AT, **words)
    return with_status(seen, msgspec.structs.replace(status, conditions=conditions))


def in_stage(seen: Seen, index: int, phase: StagePhase, *, age: float = 14) -> Seen:
    """Set the phase of a stage."""
    status = seen.status
    stages = list(status.stages_status)
    conditions = mark((), phase, Moment(NOW - minutes(age), 1))
    started = None if phase is StagePhase.WAITING_BEFORE else NOW - minutes(age + 12)
    ended = NOW - minutes(age) if phase is StagePhase.SUCCEEDED else None
    stages[index] = msgspec.structs.replace(
        stages[index], conditions=conditions, start_time=started, end_time=ended
    )
    return with_status(seen, msgspec.structs.replace(status, stages_status=tuple(stages)))


def cluster(
    seen: Seen,
    name: str,
    phase: ClusterPhase | None,
    *conditions: Condition,
    age: float = 2,
    took: float = 1,
    failed: Sequence[FailedPlacement] = (),
    **spec: Any,
) -> Seen:
    """Set how far one cluster is, and what its binding says."""
    entry_conditions = () if phase is None else mark((), ClusterPhase.UPDATING, Moment(NOW - minutes(age), 1))
    if phase is ClusterPhase.DONE:
        entry_conditions = mark(entry_conditions, phase, Moment(NOW - minutes(age - took), 1))
        conditions = conditions or (condition("Available", "True"),)
    if phase in {ClusterPhase.PREEMPTED, ClusterPhase.FAILED}:
        entry_conditions = mark(entry_conditions, ClusterPhase.PREEMPTED, AT, error="moved")
    target = "" if phase is None else "web-1-snapshot"
    bound = binding(name, seen.scope, *conditions, snapshot=target, failed=failed, run=seen.run.name, **spec)
    bindings = tuple(bound if one.spec.target_cluster == name else one for one in seen.bindings)
    stages = tuple(
        msgspec.structs.replace(
            stage,
            clusters=tuple(
                msgspec.structs.replace(entry, conditions=entry_conditions)
                if entry.cluster_name == name
                else entry
                for entry in stage.clusters
            ),
        )
        for stage in seen.status.stages_status
    )
    moved = with_status(seen, msgspec.structs.replace(seen.status, stages_status=stages))
    return msgspec.structs.replace(moved, bindings=bindings)


def approval(seen: Seen, name: str, stage: str, *conditions: Condition) -> Seen:
    request = Approval(
        metadata=ObjectMeta(name=name, namespace=seen.run.namespace, generation=1),
        spec=ApprovalSpec(run_name=seen.run.name, target_stage=stage),
        status=ApprovalStatus(conditions=conditions),
    )
    return msgspec.structs.replace(seen, approvals={**seen.approvals, name: request})


def passed(seen: Seen, index: int, phase: TaskPhase) -> Seen:
    """Mark all after tasks of a stage as done."""
    status = seen.status
    stages = list(status.stages_status)
    tasks = tuple(
        msgspec.structs.replace(task, conditions=mark((), phase, AT))
        for task in stages[index].after_stage_task_status
    )
    stages[index] = msgspec.structs.replace(stages[index], after_stage_task_status=tasks)
    return with_status(seen, msgspec.structs.replace(status, stages_status=tuple(stages)))


def approved_by(seen: Seen, index: int, username: str) -> Seen:
    """Mark the approval before a stage as given, and noted by the server."""
    stages = list(seen.status.stages_status)
    task = stages[index].before_stage_task_status[0]
    done = msgspec.structs.replace(task, conditions=mark((), TaskPhase.APPROVED, AT))
    stages[index] = msgspec.structs.replace(stages[index], before_stage_task_status=(done,))
    seen = with_status(seen, msgspec.structs.replace(seen.status, stages_status=tuple(stages)))
    seen = approval(seen, task.approval_request_name, stages[index].stage_name)
    request = seen.approvals[task.approval_request_name]
    status = ApprovalStatus(approved_by=Approver(username=username))
    noted = msgspec.structs.replace(request, status=status)
    return msgspec.structs.replace(seen, approvals={task.approval_request_name: noted})


def web_v7(scope: Scope = CLUSTER) -> Seen:
    """The run of the documentation: 1,000 clusters, canary and europe done, world waits for an approval."""
    rows = {
        "canary": [f"ca-{n:02}" for n in range(30)],
        "europe": [f"eu-{n:03}" for n in range(200)],
        "world": [f"wo-{n:03}" for n in range(770)],
    }
    seen = seen_of(
        [
            stage("canary", at_a_time=5, wait="1h"),
            stage("europe", at_a_time="10%"),
            stage("world", at_a_time="10%", before=True),
        ],
        rows,
        scope=scope,
        name="web-v7",
    )
    seen = planned(seen, RunPhase.WAITING, tasks="before-stage", stage="world")
    seen = passed(in_stage(seen, 0, StagePhase.SUCCEEDED, age=120), 0, TaskPhase.ELAPSED)
    seen = in_stage(in_stage(seen, 1, StagePhase.SUCCEEDED, age=14), 2, StagePhase.WAITING_BEFORE)
    return _all_done(seen, {*rows["canary"], *rows["europe"]})


def _all_done(seen: Seen, done: set[str]) -> Seen:
    started = mark((), ClusterPhase.UPDATING, Moment(NOW - minutes(30), 1))
    finished = mark(started, ClusterPhase.DONE, Moment(NOW - minutes(28), 1))
    stages = tuple(
        msgspec.structs.replace(
            stage,
            clusters=tuple(
                msgspec.structs.replace(entry, conditions=finished) if entry.cluster_name in done else entry
                for entry in stage.clusters
            ),
        )
        for stage in seen.status.stages_status
    )
    moved = with_status(seen, msgspec.structs.replace(seen.status, stages_status=stages))
    bindings = tuple(
        binding(
            one.spec.target_cluster, seen.scope, condition("Available", "True"), snapshot="web-1-snapshot"
        )
        if one.spec.target_cluster in done
        else msgspec.structs.replace(
            one,
            spec=msgspec.structs.replace(one.spec, resource_snapshot_name="web-0-snapshot", state="Bound"),
        )
        for one in seen.bindings
    )
    return msgspec.structs.replace(moved, bindings=bindings)
