"""Staged rollouts: runs, strategies and approvals.

A run walks a placement's clusters stage by stage, a strategy describes the stages, an approval asks a person. Shapes only; what happens is decided in `rules/`. Each type serves the cluster-scoped and the namespaced kind.
"""

from typing import Annotated

import msgspec

from echelon.api.meta import (
    Conditions,
    IntOrString,
    LabelSelector,
    NamespacedName,
    Object,
    Time,
)
from echelon.api.names import RunState, TaskType
from echelon.api.placement import ApplyStrategy
from echelon.api.schema import Cel, Wire, always, doc, server_default

MAX_STAGES = 31  # the contract's limit; a longer rollout is hard to watch, and status size grows with it
WAIT_TIME_PATTERN = "^(?:(?:0|[1-9][0-9]*)(\\.[0-9]+)?(?:s|m|h))+$"
IMMUTABLE = "self == oldSelf"


class StageTask(Wire, frozen=True, kw_only=True):
    """Something that must happen before a stage begins or after it ends."""

    type: Annotated[
        TaskType,
        doc(
            "Approval: somebody has to approve the approval request that the run creates. "
            "TimedWait: the run waits for waitTime (only after a stage)."
        ),
    ]
    wait_time: Annotated[
        str | None,
        doc(
            "How long a TimedWait lasts, in hours, minutes and seconds: 90s, 15m or 1h30m. Counted from the moment "
            "the last cluster of the stage finished. Not allowed for Approval.",
            pattern=WAIT_TIME_PATTERN,
        ),
    ] = None


NO_WAIT_FOR_APPROVAL = Cel(
    "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
    "AfterStageTaskType is Approval, waitTime is not allowed",
)
WAIT_TIME_REQUIRED = Cel(
    "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
    "AfterStageTaskType is TimedWait, waitTime is required",
)
NO_WAIT_BEFORE = Cel("!self.exists(e, e.type == 'TimedWait')", "BeforeStageTaskType cannot be TimedWait")


class Stage(Wire, frozen=True, kw_only=True):
    """One stage of a strategy: which clusters, in which order, how many at a time, and what surrounds it."""

    name: Annotated[
        str,
        doc(
            "The stage's name: lower-case letters and digits, unique within the strategy.",
            max_length=63,
            pattern="^[a-z0-9]+$",
        ),
    ]
    label_selector: Annotated[
        LabelSelector | None,
        doc(
            "Picks the stage's clusters, among those the placement is scheduled to, by the labels of their "
            "MemberCluster. {} picks every one; without a selector the stage has no clusters and is skipped. "
            "Each scheduled cluster must belong to exactly one stage."
        ),
    ] = None
    sorting_label_key: Annotated[
        str | None,
        doc(
            "A label of MemberCluster that holds a whole number: clusters are updated in ascending order of it. "
            "Without it they are updated in the order of their names."
        ),
    ] = None
    max_concurrency: Annotated[
        IntOrString,
        doc(
            "How many clusters of the stage may be updating at the same time: a number of at least 1, or a "
            "percentage of the stage's clusters such as 25%, rounded down but never below 1.",
            pattern="^(100|[1-9][0-9]?)%$",
            cel=(
                Cel(
                    "self == null || type(self) != int || self >= 1",
                    "maxConcurrency must be at least 1",
                ),
            ),
        ),
    ] = server_default(1)
    before_stage_tasks: Annotated[
        tuple[StageTask, ...],
        doc(
            "What must happen before the first cluster of the stage is touched. At most one Approval.",
            max_items=1,
            cel=(NO_WAIT_FOR_APPROVAL, NO_WAIT_BEFORE),
        ),
    ] = ()
    after_stage_tasks: Annotated[
        tuple[StageTask, ...],
        doc(
            "What must happen after the last cluster of the stage succeeded and before the next stage begins. "
            "At most one task of each type; all of them run at the same time.",
            max_items=2,
            cel=(NO_WAIT_FOR_APPROVAL, WAIT_TIME_REQUIRED),
        ),
    ] = ()


class StrategySpec(Wire, frozen=True, kw_only=True):
    """The stages of a rollout."""

    stages: Annotated[
        tuple[Stage, ...],
        doc("The stages in the order in which they are carried out.", max_items=MAX_STAGES),
    ]


class Strategy(Object, frozen=True, kw_only=True):
    """A reusable description of a staged rollout."""

    spec: Annotated[
        StrategySpec,
        doc(
            "The stages. A run copies them when it initializes; later edits do not change a run that has begun."
        ),
    ]


class RunSpec(Wire, frozen=True, kw_only=True):
    """What to roll out, how, and whether to go."""

    placement_name: Annotated[
        str,
        doc(
            "The placement whose resources are rolled out. Its strategy type must be External. A namespaced run "
            "uses the placement of its own namespace.",
            max_length=255,
            cel=(Cel(IMMUTABLE, "placementName is immutable"),),
        ),
    ]
    resource_snapshot_index: Annotated[
        str | None,
        doc(
            "Which version of the resources to roll out: the index of a resource snapshot. Without it the run "
            "takes the current resources, making a new snapshot if they have changed.",
            cel=(Cel(IMMUTABLE, "resourceSnapshotIndex is immutable"),),
        ),
    ] = None
    # The Go name is StagedUpdateStrategyName; we say what it is.
    strategy_name: Annotated[
        str,
        doc(
            "The strategy that describes the stages, of the run's own scope (and namespace).",
            cel=(Cel(IMMUTABLE, "stagedRolloutStrategyName is immutable"),),
        ),
    ] = msgspec.field(name="stagedRolloutStrategyName")
    state: Annotated[
        RunState,
        doc(
            "What the run should do. Initialize: only compute the stages, so that they can be reviewed. Run: carry "
            "them out, or go on after Stop. Stop: let clusters that are being updated finish and start no other."
        ),
    ] = server_default(RunState.INITIALIZE)


RUN_STATE_RULES = tuple(
    Cel(
        f"!(has(oldSelf.state) && oldSelf.state == '{before}' && self.state == '{after}')",
        f"invalid state transition: cannot transition from {before} to {after}",
    )
    for before, after in (("Initialize", "Stop"), ("Run", "Initialize"), ("Stop", "Initialize"))
)


class TaskStatus(Wire, frozen=True, kw_only=True):
    """How far one before-stage or after-stage task is."""

    type: Annotated[TaskType, doc("Which task this is about.")]
    approval_request_name: Annotated[
        str, doc("The approval request that has to be approved (only for Approval).")
    ] = ""
    conditions: Annotated[
        Conditions,
        doc(
            "ApprovalRequestCreated and ApprovalRequestApproved for Approval, WaitTimeElapsed for TimedWait.",
            list_map_keys=("type",),
        ),
    ] = ()


class ClusterStatus(Wire, frozen=True, kw_only=True):
    """How far one cluster of a stage is."""

    cluster_name: Annotated[str, doc("The member cluster.")]
    resource_override_snapshots: Annotated[
        tuple[NamespacedName, ...],
        doc("The namespaced override snapshots that apply to this cluster, in the order of application."),
    ] = ()
    cluster_resource_override_snapshots: Annotated[
        tuple[str, ...],
        doc("The cluster-scoped override snapshots that apply to this cluster, in the order of application."),
    ] = ()
    conditions: Annotated[
        Conditions,
        doc(
            "Started once the cluster was told to update; Succeeded when it has the new resources (True) or when "
            "another run took the cluster over (False).",
            list_map_keys=("type",),
        ),
    ] = ()


class StageStatus(Wire, frozen=True, kw_only=True):
    """How far one stage is."""

    stage_name: Annotated[str, doc("The stage's name in the strategy.")]
    clusters: Annotated[
        tuple[ClusterStatus, ...],
        doc("The stage's clusters in the order in which they are updated, and how far each is."),
    ] = always(())
    before_stage_task_status: Annotated[
        tuple[TaskStatus, ...], doc("The tasks before the stage.", max_items=1)
    ] = ()
    after_stage_task_status: Annotated[
        tuple[TaskStatus, ...], doc("The tasks after the stage.", max_items=2)
    ] = ()
    start_time: Annotated[Time | None, doc("When the stage's first cluster started updating.")] = None
    end_time: Annotated[Time | None, doc("When the stage was over, whatever its outcome.")] = None
    conditions: Annotated[
        Conditions,
        doc("Progressing while the stage is under way, and at the end Succeeded.", list_map_keys=("type",)),
    ] = ()


class RunStatus(Wire, frozen=True, kw_only=True):
    """What the run has computed and how far it is."""

    policy_snapshot_index_used: Annotated[
        str, doc("The index of the scheduling policy snapshot whose clusters the run was computed for.")
    ] = ""
    policy_observed_cluster_count: Annotated[
        int, doc("How many clusters the scheduler had picked when the run was computed.")
    ] = 0
    resource_snapshot_index_used: Annotated[
        str, doc("The index of the resource snapshot that is being rolled out.")
    ] = ""
    # The Go name is ApplyStrategy; the wire says appliedStrategy.
    applied_strategy: Annotated[
        ApplyStrategy | None,
        doc("How resources are applied to the members: a copy of the placement's apply strategy."),
    ] = None
    staged_update_strategy_snapshot: Annotated[
        StrategySpec | None, doc("The strategy as it was when the run was computed.")
    ] = None
    stages_status: Annotated[
        tuple[StageStatus, ...], doc("The stages in order, each with its clusters and how far it is.")
    ] = ()
    deletion_stage_status: Annotated[
        StageStatus | None,
        doc("The last stage: removes the resources from clusters that the placement no longer picks."),
    ] = None
    conditions: Annotated[
        Conditions,
        doc(
            "Initialized: the stages are computed. Progressing: whether the run moves, and if not, why. "
            "Succeeded: the outcome, present only at the end.",
            list_map_keys=("type",),
        ),
    ] = ()


class Run(Object, frozen=True, kw_only=True):
    """One staged rollout of one placement."""

    spec: Annotated[RunSpec, doc("What to roll out, how, and whether to go.", cel=RUN_STATE_RULES)]
    status: Annotated[RunStatus | None, doc("How far the run is; written by the engine.")] = None


class ApprovalSpec(Wire, frozen=True, kw_only=True):
    """What is to be approved."""

    # The Go name is TargetUpdateRun; the wire says parentStageRollout.
    run_name: Annotated[str, doc("The run that asks.")] = msgspec.field(name="parentStageRollout")
    target_stage: Annotated[str, doc("The stage that waits for the approval.")]


class Approver(Wire, frozen=True, kw_only=True):
    """Who approved."""

    username: Annotated[str, doc("The user as the API server authenticated them.", max_length=1024)]


class ApprovalStatus(Wire, frozen=True, kw_only=True):
    """Whether it is approved."""

    conditions: Annotated[
        Conditions,
        doc(
            "Approved is set to True, at the current generation, by whoever approves. ApprovalAccepted is the "
            "run's answer; from then on the approval cannot be taken back.",
            list_map_keys=("type",),
        ),
    ] = ()
    approved_by: Annotated[
        Approver | None,
        doc(
            "Who gave the approval in force. Written by the API server (Kubernetes 1.36 and later) from the "
            "authenticated request; nobody can write another name."
        ),
    ] = None


class Approval(Object, frozen=True, kw_only=True):
    """A run's question to a person, whether a stage may begin or the next one follow."""

    spec: Annotated[
        ApprovalSpec,
        doc("Which run and stage wait.", cel=(Cel(IMMUTABLE, "The spec field is immutable"),)),
    ]
    status: Annotated[ApprovalStatus | None, doc("Whether it is approved.")] = None
