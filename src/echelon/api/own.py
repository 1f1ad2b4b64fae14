"""Our own kinds, a row each.

A row names the type that the kind's objects decode to and what its CustomResourceDefinition says beyond the schema.
"""

from typing import Any

from echelon.api.binding import Binding
from echelon.api.cluster import InternalMemberCluster, MemberCluster
from echelon.api.envelope import Envelope
from echelon.api.eviction import DisruptionBudget, Eviction
from echelon.api.names import CLUSTER_GROUP, INVENTORY_GROUP, PLACEMENT_GROUP, STORAGE_VERSION
from echelon.api.override import Override, OverrideSnapshot
from echelon.api.placement import Placement, PlacementStatusCopy
from echelon.api.profile import ClusterProfile
from echelon.api.resource import Column, Definition, Resource
from echelon.api.schema import Cel
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot
from echelon.api.staged import Approval, Run, Strategy
from echelon.api.work import AppliedWork, Work

V1: tuple[str, ...] = ("v1",)
NAME_LIMIT = Cel("size(self.metadata.name) < 64", "metadata.name max length is 63")


# --- columns ------------------------------------------------------------------------------------------------------
def _condition(column: str, type_: str, field: str = "status", priority: int = 0) -> Column:
    return Column(column, f'.status.conditions[?(@.type=="{type_}")].{field}', priority=priority)


AGE = Column("Age", ".metadata.creationTimestamp", "date")
GENERATION = Column("Gen", ".metadata.generation")
RUN_COLUMNS = (
    Column("Placement", ".spec.placementName"),
    Column("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex"),
    Column("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    _condition("Initialized", "Initialized"),
    _condition("Progressing", "Progressing"),
    _condition("Succeeded", "Succeeded"),
    AGE,
    Column("Strategy", ".spec.stagedRolloutStrategyName", priority=1),
)
APPROVAL_COLUMNS = (
    Column("Update-Run", ".spec.parentStageRollout"),
    Column("Stage", ".spec.targetStage"),
    _condition("Approved", "Approved"),
    AGE,
)
BINDING_COLUMNS = (
    _condition("WorkSynchronized", "WorkSynchronized"),
    _condition("ResourcesApplied", "Applied"),
    _condition("ResourceAvailable", "Available", priority=1),
    AGE,
)
MEMBER_COLUMNS = (
    _condition("Joined", "Joined"),
    AGE,
    Column(
        "Member-Agent-Last-Seen",
        '.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat',
        "date",
    ),
    Column("Node-Count", ".status.properties.kubernetes-fleet\\.io/node-count.value"),
    Column("Available-CPU", ".status.resourceUsage.available.cpu"),
    Column("Available-Memory", ".status.resourceUsage.available.memory"),
    Column("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu", priority=1),
    Column("Allocatable-Memory", ".status.resourceUsage.allocatable.memory", priority=1),
)


def _placement_columns(kind: str) -> tuple[Column, ...]:
    def pair(column: str, condition: str, priority: int = 0) -> tuple[Column, Column]:
        return (
            _condition(column, kind + condition, priority=priority),
            _condition(f"{column}-Gen", kind + condition, "observedGeneration", priority),
        )

    return (
        GENERATION,
        Column("Type", ".spec.policy.placementType", priority=1),
        *pair("Scheduled", "Scheduled"),
        *pair("Work-Synchronized", "WorkSynchronized", 1),
        *pair("Available", "Available"),
        AGE,
    )


# --- our kinds ------------------------------------------------------------------------------------------------------
def _own(
    kind: str,
    plural: str,
    type_: type[Any],
    definition: Definition,
    *,
    namespaced: bool,
    short: str = "",
) -> Resource:
    return Resource(
        PLACEMENT_GROUP,
        STORAGE_VERSION,
        plural,
        kind,
        namespaced,
        type_,
        (short,) if short else (),
        ("fleet", "fleet-placement"),
        definition,
    )


MEMBER_CLUSTERS = Resource(
    CLUSTER_GROUP,
    STORAGE_VERSION,
    "memberclusters",
    "MemberCluster",
    namespaced=False,
    type=MemberCluster,
    short_names=("cluster",),
    categories=("fleet", "fleet-cluster"),
    definition=Definition(
        description="A cluster that belongs to the fleet. Creating one invites it, deleting one lets it go.",
        also_served=V1,
        columns=MEMBER_COLUMNS,
        cel=(NAME_LIMIT,),
    ),
)
INTERNAL_MEMBER_CLUSTERS = Resource(
    CLUSTER_GROUP,
    STORAGE_VERSION,
    "internalmemberclusters",
    "InternalMemberCluster",
    namespaced=True,
    type=InternalMemberCluster,
    short_names=("imc",),
    categories=("fleet", "fleet-cluster"),
    definition=Definition(
        description="Where the hub and one member's agent exchange requests and reports. Not for people to edit.",
        also_served=V1,
        columns=(AGE,),
    ),
)
CLUSTER_PROFILES = Resource(
    INVENTORY_GROUP,
    "v1alpha1",
    "clusterprofiles",
    "ClusterProfile",
    namespaced=True,
    type=ClusterProfile,
    definition=Definition(
        description="Describes one member of the fleet to tools that know the cluster inventory API."
    ),
)

_RUN = Definition(
    description="One staged rollout of one placement: which version, by which strategy, and how far it is.",
    also_served=V1,
    columns=RUN_COLUMNS,
    cel=(NAME_LIMIT,),
)
CLUSTER_RUNS = _own(
    "ClusterStagedUpdateRun", "clusterstagedupdateruns", Run, _RUN, namespaced=False, short="csur"
)
RUNS = _own("StagedUpdateRun", "stagedupdateruns", Run, _RUN, namespaced=True, short="sur")

_STRATEGY_TEXT = (
    "A reusable description of a staged rollout: which clusters come when, and what must happen between."
)
CLUSTER_STRATEGIES = _own(
    "ClusterStagedUpdateStrategy",
    "clusterstagedupdatestrategies",
    Strategy,
    Definition(description=_STRATEGY_TEXT, also_served=V1),
    namespaced=False,
    short="csus",
)
STRATEGIES = _own(
    "StagedUpdateStrategy",
    "stagedupdatestrategies",
    Strategy,
    Definition(description=_STRATEGY_TEXT, also_served=V1, has_status=False),
    namespaced=True,
    short="sus",
)

_APPROVAL = Definition(
    description="A run's question to a person: may this stage begin, or the next one follow?",
    also_served=V1,
    columns=APPROVAL_COLUMNS,
)
CLUSTER_APPROVALS = _own(
    "ClusterApprovalRequest",
    "clusterapprovalrequests",
    Approval,
    _APPROVAL,
    namespaced=False,
    short="careq",
)
APPROVALS = _own("ApprovalRequest", "approvalrequests", Approval, _APPROVAL, namespaced=True, short="areq")

CLUSTER_PLACEMENTS = _own(
    "ClusterResourcePlacement",
    "clusterresourceplacements",
    Placement,
    Definition(
        description="Places cluster-scoped resources, and namespaces with what is in them, on member clusters.",
        also_served=V1,
        columns=_placement_columns("ClusterResourcePlacement"),
    ),
    namespaced=False,
    short="crp",
)
PLACEMENTS = _own(
    "ResourcePlacement",
    "resourceplacements",
    Placement,
    Definition(
        description="Places resources of its own namespace on member clusters.",
        also_served=V1,
        columns=_placement_columns("ResourcePlacement"),
    ),
    namespaced=True,
    short="rp",
)
PLACEMENT_STATUSES = _own(
    "ClusterResourcePlacementStatus",
    "clusterresourceplacementstatuses",
    PlacementStatusCopy,
    Definition(
        description="The status of a ClusterResourcePlacement, readable inside the namespace that it places.",
        also_served=V1,
        has_status=False,
        columns=(
            Column("Resource-Index", ".sourceStatus.observedResourceIndex"),
            Column("Last-Updated", ".lastUpdatedTime"),
            AGE,
        ),
    ),
    namespaced=True,
    short="crps",
)

_POLICY_SNAPSHOT_TEXT = "A placement's policy at one moment, and which clusters the scheduler picked for it."
CLUSTER_POLICY_SNAPSHOTS = _own(
    "ClusterSchedulingPolicySnapshot",
    "clusterschedulingpolicysnapshots",
    PolicySnapshot,
    Definition(description=_POLICY_SNAPSHOT_TEXT, also_served=V1, columns=(GENERATION, AGE)),
    namespaced=False,
    short="csps",
)
POLICY_SNAPSHOTS = _own(
    "SchedulingPolicySnapshot",
    "schedulingpolicysnapshots",
    PolicySnapshot,
    Definition(description=_POLICY_SNAPSHOT_TEXT, columns=(GENERATION, AGE)),
    namespaced=True,
    short="sps",
)
_RESOURCE_SNAPSHOT_TEXT = "The objects a placement selected at one moment; large selections fill several."
CLUSTER_RESOURCE_SNAPSHOTS = _own(
    "ClusterResourceSnapshot",
    "clusterresourcesnapshots",
    ResourceSnapshot,
    Definition(description=_RESOURCE_SNAPSHOT_TEXT, also_served=V1, columns=(GENERATION, AGE)),
    namespaced=False,
    short="crs",
)
RESOURCE_SNAPSHOTS = _own(
    "ResourceSnapshot",
    "resourcesnapshots",
    ResourceSnapshot,
    Definition(description=_RESOURCE_SNAPSHOT_TEXT, columns=(GENERATION, AGE)),
    namespaced=True,
    short="rs",
)

_BINDING_TEXT = "Ties one placement to one member cluster: which version it gets, and how far delivery is."
CLUSTER_BINDINGS = _own(
    "ClusterResourceBinding",
    "clusterresourcebindings",
    Binding,
    Definition(description=_BINDING_TEXT, also_served=V1, columns=BINDING_COLUMNS),
    namespaced=False,
    short="crb",
)
BINDINGS = _own(
    "ResourceBinding",
    "resourcebindings",
    Binding,
    Definition(description=_BINDING_TEXT, columns=BINDING_COLUMNS),
    namespaced=True,
    short="rb",
)

_OVERRIDE_SNAPSHOT = Definition(
    description="An override at one moment. Rollouts refer to it, so edits reach clusters only by a rollout.",
    also_served=V1,
    has_status=False,
)
CLUSTER_OVERRIDES = _own(
    "ClusterResourceOverride",
    "clusterresourceoverrides",
    Override,
    Definition(
        description="Changes cluster-scoped resources, or whole namespaces, on some of the clusters they go to.",
        also_served=V1,
        has_status=False,
        cel=(
            Cel(
                "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
                "clusterResourceOverride placement reference cannot be Namespaced scope",
            ),
        ),
    ),
    namespaced=False,
)
OVERRIDES = _own(
    "ResourceOverride",
    "resourceoverrides",
    Override,
    Definition(
        description="Changes resources of its own namespace on some of the clusters they go to.",
        also_served=V1,
        has_status=False,
    ),
    namespaced=True,
)
CLUSTER_OVERRIDE_SNAPSHOTS = _own(
    "ClusterResourceOverrideSnapshot",
    "clusterresourceoverridesnapshots",
    OverrideSnapshot,
    _OVERRIDE_SNAPSHOT,
    namespaced=False,
)
OVERRIDE_SNAPSHOTS = _own(
    "ResourceOverrideSnapshot",
    "resourceoverridesnapshots",
    OverrideSnapshot,
    _OVERRIDE_SNAPSHOT,
    namespaced=True,
)

_ENVELOPE_TEXT = "Carries objects to members without their taking effect on the hub."
CLUSTER_ENVELOPES = _own(
    "ClusterResourceEnvelope",
    "clusterresourceenvelopes",
    Envelope,
    Definition(description=_ENVELOPE_TEXT, has_status=False),
    namespaced=False,
)
ENVELOPES = _own(
    "ResourceEnvelope",
    "resourceenvelopes",
    Envelope,
    Definition(description=_ENVELOPE_TEXT, has_status=False),
    namespaced=True,
)

WORKS = _own(
    "Work",
    "works",
    Work,
    Definition(
        description="The manifests that one member has to apply, and how far it is with them.", also_served=V1
    ),
    namespaced=True,
)
APPLIED_WORKS = _own(
    "AppliedWork",
    "appliedworks",
    AppliedWork,
    Definition(
        description="On a member, owns what a Work applied there; deleting it removes those objects.",
        also_served=V1,
    ),
    namespaced=False,
)
EVICTIONS = _own(
    "ClusterResourcePlacementEviction",
    "clusterresourceplacementevictions",
    Eviction,
    Definition(
        description="Asks once to take a placement off a cluster.",
        columns=(_condition("Valid", "Valid"), _condition("Executed", "Executed")),
    ),
    namespaced=False,
    short="crpe",
)
DISRUPTION_BUDGETS = _own(
    "ClusterResourcePlacementDisruptionBudget",
    "clusterresourceplacementdisruptionbudgets",
    DisruptionBudget,
    Definition(
        description="Limits evictions of the ClusterResourcePlacement with the same name.", has_status=False
    ),
    namespaced=False,
    short="crpdb",
)

OWN: tuple[Resource, ...] = (
    MEMBER_CLUSTERS,
    INTERNAL_MEMBER_CLUSTERS,
    CLUSTER_PROFILES,
    CLUSTER_RUNS,
    RUNS,
    CLUSTER_STRATEGIES,
    STRATEGIES,
    CLUSTER_APPROVALS,
    APPROVALS,
    CLUSTER_PLACEMENTS,
    PLACEMENTS,
    PLACEMENT_STATUSES,
    CLUSTER_POLICY_SNAPSHOTS,
    POLICY_SNAPSHOTS,
    CLUSTER_RESOURCE_SNAPSHOTS,
    RESOURCE_SNAPSHOTS,
    CLUSTER_BINDINGS,
    BINDINGS,
    CLUSTER_OVERRIDES,
    OVERRIDES,
    CLUSTER_OVERRIDE_SNAPSHOTS,
    OVERRIDE_SNAPSHOTS,
    CLUSTER_ENVELOPES,
    ENVELOPES,
    WORKS,
    APPLIED_WORKS,
    EVICTIONS,
    DISRUPTION_BUDGETS,
)
