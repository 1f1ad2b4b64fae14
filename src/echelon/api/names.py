"""Every name the outside world can see, and how object names are built.

Labels, annotations, finalizers, field managers, states, condition types. Condition reasons are in `reasons.py`. These strings are contract: scripts and people grep for them, so none is
ever spelled anywhere else. Nothing here decides anything.
"""

import hashlib
from enum import StrEnum
from typing import Final

# --- API groups and versions -----------------------------------------------------------------------------------
PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"
INVENTORY_GROUP: Final = "multicluster.x-k8s.io"
STORAGE_VERSION: Final = "v1beta1"

PREFIX: Final = "kubernetes-fleet.io/"
MAX_LABEL = 63  # Kubernetes' limit for label values, RFC 1123 labels and namespace names

# --- labels ----------------------------------------------------------------------------------------------------
LABEL_PARENT_CRP: Final = PREFIX + "parent-CRP"  # the placement's name, of either scope
LABEL_IS_LATEST_SNAPSHOT: Final = PREFIX + "is-latest-snapshot"
LABEL_POLICY_INDEX: Final = PREFIX + "policy-index"
LABEL_RESOURCE_INDEX: Final = PREFIX + "resource-index"
LABEL_PARENT_RESOURCE_BINDING: Final = PREFIX + "parent-resource-binding"
LABEL_PARENT_PLACEMENT_NAMESPACE: Final = PREFIX + "parent-placement-namespace"
LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX: Final = PREFIX + "parent-resource-snapshot-index"
LABEL_ENVELOPE_WORK: Final = PREFIX + "envelope-work"  # the envelope's kind
LABEL_ENVELOPE_NAME: Final = PREFIX + "envelope-name"
LABEL_ENVELOPE_NAMESPACE: Final = PREFIX + "envelope-namespace"
LABEL_PARENT_RESOURCE_OVERRIDE: Final = PREFIX + "parent-resource-override"
LABEL_OVERRIDE_INDEX: Final = PREFIX + "override-index"
LABEL_TARGET_UPDATING_STAGE: Final = PREFIX + "targetUpdatingStage"
LABEL_TARGET_UPDATE_RUN: Final = PREFIX + "targetUpdateRun"
LABEL_TASK_TYPE: Final = PREFIX + "taskType"
LABEL_IS_LATEST_UPDATE_RUN_APPROVAL: Final = PREFIX + "isLatestUpdateRunApproval"
LABEL_MEMBER_NAME: Final = PREFIX + "member-name"
LABEL_IS_FLEET_RESOURCE: Final = PREFIX + "is-fleet-resource"
LABEL_CLUSTER_MANAGER: Final = "x-k8s.io/cluster-manager"
LABEL_TRUE: Final = "true"
LABEL_FALSE: Final = "false"

# --- annotations -----------------------------------------------------------------------------------------------
ANNOTATION_CRP_GENERATION: Final = PREFIX + "CRP-generation"
ANNOTATION_NUMBER_OF_CLUSTERS: Final = PREFIX + "number-of-clusters"
ANNOTATION_RESOURCE_HASH: Final = (
    PREFIX + "resource-hash"
)  # its presence marks the master of a snapshot group
ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: Final = PREFIX + "number-of-resource-snapshots"
ANNOTATION_NUMBER_OF_ENVELOPED_OBJECT: Final = PREFIX + "number-of-enveloped-object"
ANNOTATION_SUBINDEX: Final = PREFIX + "subindex-of-resource-snapshot"
ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME: Final = PREFIX + "next-resource-snapshot-candidate-detection-time"
ANNOTATION_PREVIOUS_BINDING_STATE: Final = PREFIX + "previous-binding-state"
ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME: Final = PREFIX + "parent-resource-snapshot-name"
ANNOTATION_PARENT_OVERRIDE_HASH: Final = PREFIX + "parent-resource-override-snapshot-hash"
ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH: Final = PREFIX + "parent-cluster-resource-override-snapshot-hash"
ANNOTATION_SPEC_HASH: Final = PREFIX + "spec-hash"  # on applied objects: hash of the manifest
ANNOTATION_LAST_APPLIED: Final = PREFIX + "last-applied-configuration"  # on applied objects
ANNOTATION_KUBECTL_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATION_DEPLOYMENT_REVISION: Final = "deployment.kubernetes.io/revision"
ANNOTATION_REQUESTER: Final = (
    "echelon.dev/requester"  # who asked for what the spec says; written by the server
)
ANNOTATION_WRITTEN_AT: Final = "echelon.dev/written-at"  # on Works: when the member last got something to do
ANNOTATION_WRITTEN_FOR: Final = "echelon.dev/written-for"  # and for which generation of the binding
ANNOTATION_ABANDON: Final = (
    "echelon.dev/abandon"  # on Works: "true" leaves the objects on the member when they go
)
ANNOTATION_EVICTED_BINDING: Final = (
    "echelon.dev/evicted-binding"  # on evictions: uid of the binding they take
)
ANNOTATION_SEALED: Final = "echelon.dev/sealed"  # on Secrets inside snapshots: how their values are sealed
ANNOTATION_FLEET_MEMBER_PREFIX: Final = "fleet.azure.com"  # marks members that a guard rail protects further

ANNOTATION_FIRST_SEEN: Final = (
    "echelon.dev/first-seen"  # on runs: the revision at which the engine took them up
)

# --- finalizers ------------------------------------------------------------------------------------------------
FINALIZER_CRP_CLEANUP: Final = PREFIX + "crp-cleanup"  # placements of both scopes
FINALIZER_SCHEDULER_CLEANUP: Final = PREFIX + "scheduler-cleanup"
FINALIZER_SCHEDULER_CRB_CLEANUP: Final = PREFIX + "scheduler-crb-cleanup"  # bindings of both scopes
FINALIZER_WORK_CLEANUP: Final = PREFIX + "work-cleanup"  # bindings (hub) and Works (member)
FINALIZER_OVERRIDE_CLEANUP: Final = PREFIX + "override-cleanup"
FINALIZER_RUN: Final = PREFIX + "stagedupdaterun-finalizer"
FINALIZER_MEMBER_CLUSTER: Final = PREFIX + "membercluster-finalizer"
FINALIZER_CLUSTER_PROFILE: Final = PREFIX + "cluster-profile-cleanup"

# --- field managers ----------------------------------------------------------------------------------------------
FIELD_MANAGER_RUN: Final = "cluster-staged-update-run-controller"
FIELD_MANAGER_WORK_AGENT: Final = "work-api-agent"
FIELD_MANAGER_OVERRIDE: Final = "override-controller"
FIELD_MANAGER_MEMBER_CLUSTER: Final = "member-cluster-controller"

# --- fixed names -------------------------------------------------------------------------------------------------
FLEET_SYSTEM_NAMESPACE: Final = "fleet-system"
SEAL_KEY_SECRET: Final = "echelon-seal-key"  # in the fleet's own namespace
SEAL_KEY_TYPE: Final = "echelon.dev/seal-key"
MEMBER_NAMESPACE_PREFIX: Final = "fleet-member-"
RESERVED_NAMESPACE_PREFIXES: Final = ("fleet-", "kube-")
DELETE_STAGE_NAME: Final = PREFIX + "deleteStage"
CLUSTER_MANAGER_NAME: Final = "KubeFleet"
CORDON_TAINT_KEY: Final = "cordon-key"
CORDON_TAINT_VALUE: Final = "cordon-value"
HUB_LEASE_NAME: Final = "136224848560.hub.fleet.azure.com"
MEMBER_LEASE_NAME: Final = "136224848560.member.fleet.azure.com"

# --- cluster properties ------------------------------------------------------------------------------------------
PROPERTY_NODE_COUNT: Final = PREFIX + "node-count"
PROPERTY_K8S_VERSION: Final = "k8s.io/k8s-version"
PROPERTY_ENTRYPOINT: Final = "k8s.io/cluster-entrypoint"
PROPERTY_CA_DATA: Final = "k8s.io/cluster-certificate-authority-data"
PROPERTY_RESOURCE_PREFIX: Final = "resources.kubernetes-fleet.io/"  # then total-, allocatable- or available-


# --- values with a closed set --------------------------------------------------------------------------------------
class RunState(StrEnum):
    """What a run is told to do."""

    INITIALIZE = "Initialize"
    RUN = "Run"
    STOP = "Stop"


class TaskType(StrEnum):
    """What surrounds a stage."""

    TIMED_WAIT = "TimedWait"
    APPROVAL = "Approval"


class StageTaskPosition(StrEnum):
    """On which side of a stage a task is; the value of LABEL_TASK_TYPE."""

    BEFORE = "beforeStage"
    AFTER = "afterStage"


class PlacementType(StrEnum):
    """How a placement picks clusters."""

    PICK_ALL = "PickAll"
    PICK_N = "PickN"
    PICK_FIXED = "PickFixed"


class RolloutType(StrEnum):
    """Who rolls a placement's changes out."""

    ROLLING_UPDATE = "RollingUpdate"
    EXTERNAL = "External"


class SelectionScope(StrEnum):
    """How much of a Namespace a selector means."""

    NAMESPACE_ONLY = "NamespaceOnly"
    NAMESPACE_WITH_RESOURCES = "NamespaceWithResources"
    NAMESPACE_WITH_RESOURCE_SELECTORS = "NamespaceWithResourceSelectors"


class StatusReportingScope(StrEnum):
    """Where a cluster-scoped placement's status can be read."""

    CLUSTER_SCOPE_ONLY = "ClusterScopeOnly"
    NAMESPACE_ACCESSIBLE = "NamespaceAccessible"


class PropertyOperator(StrEnum):
    """How a cluster property is compared."""

    GREATER = "Gt"
    GREATER_OR_EQUAL = "Ge"
    EQUAL = "Eq"
    NOT_EQUAL = "Ne"
    LESS = "Lt"
    LESS_OR_EQUAL = "Le"


class SortOrder(StrEnum):
    """Which end of a property's range is preferred."""

    ASCENDING = "Ascending"
    DESCENDING = "Descending"


class UnsatisfiableAction(StrEnum):
    """What a spread constraint does when it cannot hold."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TolerationOperator(StrEnum):
    """How a toleration compares with a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"


class ApplyType(StrEnum):
    """How an agent applies manifests."""

    CLIENT_SIDE_APPLY = "ClientSideApply"
    SERVER_SIDE_APPLY = "ServerSideApply"
    REPORT_DIFF = "ReportDiff"


class ComparisonOption(StrEnum):
    """Which fields count when looking for drift."""

    PARTIAL = "PartialComparison"
    FULL = "FullComparison"


class WhenToApply(StrEnum):
    """Whether drift on the member blocks applying."""

    ALWAYS = "Always"
    IF_NOT_DRIFTED = "IfNotDrifted"


class WhenToTakeOver(StrEnum):
    """What to do with objects that were there before."""

    ALWAYS = "Always"
    IF_NO_DIFF = "IfNoDiff"
    NEVER = "Never"


class DeletePolicy(StrEnum):
    """What happens on members when a placement goes."""

    ABANDON = "Abandon"
    DELETE = "Delete"


class ReportBackType(StrEnum):
    """Whether status comes back from members."""

    DISABLED = "Disabled"
    MIRROR = "Mirror"


class ReportBackDestination(StrEnum):
    """Where reported status goes."""

    ORIGINAL_RESOURCE = "OriginalResource"
    WORK_API = "WorkAPI"


class EnvelopeType(StrEnum):
    """Which kind of object wrapped a manifest."""

    CONFIG_MAP = "ConfigMap"
    CLUSTER_RESOURCE_ENVELOPE = "ClusterResourceEnvelope"
    RESOURCE_ENVELOPE = "ResourceEnvelope"


class BindingState(StrEnum):
    """How far a binding's life is; the schema leaves the field open, so unknown values can occur."""

    SCHEDULED = "Scheduled"
    BOUND = "Bound"
    UNSCHEDULED = "Unscheduled"


class OverrideType(StrEnum):
    """What an override rule does to a manifest."""

    JSON_PATCH = "JSONPatch"
    DELETE = "Delete"


class PatchOperator(StrEnum):
    """An operation of a JSON patch."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class PlacementScope(StrEnum):
    """Which kind of placement an override is for."""

    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class MembershipState(StrEnum):
    """What an InternalMemberCluster asks the agent to do; the schema leaves the field open."""

    JOIN = "Join"
    LEAVE = "Leave"


class ValidationMode(StrEnum):
    """Whether the deletion of a MemberCluster is checked."""

    SKIP = "Skip"
    STRICT = "Strict"


class AgentType(StrEnum):
    """Which agent of a member reports."""

    MEMBER = "MemberAgent"
    MULTI_CLUSTER_SERVICE = "MultiClusterServiceAgent"
    SERVICE_EXPORT_IMPORT = "ServiceExportImportAgent"


# --- condition types ---------------------------------------------------------------------------------------------
class RunCondition(StrEnum):
    """Conditions of a run; stages have the last two."""

    INITIALIZED = "Initialized"
    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"


class ClusterUpdateCondition(StrEnum):
    """Conditions of a cluster in a stage."""

    STARTED = "Started"
    SUCCEEDED = "Succeeded"


class TaskCondition(StrEnum):
    """Conditions of a stage task."""

    APPROVAL_REQUEST_CREATED = "ApprovalRequestCreated"
    APPROVAL_REQUEST_APPROVED = "ApprovalRequestApproved"
    WAIT_TIME_ELAPSED = "WaitTimeElapsed"


class ApprovalCondition(StrEnum):
    """Conditions of an approval request."""

    APPROVED = "Approved"
    ACCEPTED = "ApprovalAccepted"


class PlacementCondition(StrEnum):
    """Conditions of one cluster in a placement's status and (but Scheduled) of a binding.

    The placement's own conditions have the same names behind `Scope.condition_prefix`.
    """

    SCHEDULED = "Scheduled"
    ROLLOUT_STARTED = "RolloutStarted"
    OVERRIDDEN = "Overridden"
    WORK_SYNCHRONIZED = "WorkSynchronized"
    APPLIED = "Applied"
    AVAILABLE = "Available"
    DIFF_REPORTED = "DiffReported"
    STATUS_SYNCED = "StatusSynced"  # only with a prefix, only on the cluster-scoped placement


class WorkCondition(StrEnum):
    """Conditions of a Work; its manifests have the first three."""

    APPLIED = "Applied"
    AVAILABLE = "Available"
    DIFF_REPORTED = "DiffReported"
    STATUS_TRIMMED = "StatusTrimmed"


class MemberCondition(StrEnum):
    """Conditions of a MemberCluster and of its agents."""

    READY_TO_JOIN = "ReadyToJoin"
    JOINED = "Joined"
    HEALTHY = "Healthy"
    PROPERTY_PROVIDER_STARTED = "ClusterPropertyProviderStarted"
    PROPERTY_COLLECTION_SUCCEEDED = "ClusterPropertyCollectionSucceeded"
    NAMESPACE_COLLECTION_SUCCEEDED = "NamespaceCollectionSucceeded"


class EvictionCondition(StrEnum):
    """Conditions of an eviction."""

    VALID = "Valid"
    EXECUTED = "Executed"


CONTROL_PLANE_HEALTHY: Final = "ControlPlaneHealthy"  # the condition of a ClusterProfile


# --- building names ------------------------------------------------------------------------------------------------
def member_namespace(cluster: str) -> str:
    """Name the hub namespace that belongs to a member."""
    return MEMBER_NAMESPACE_PREFIX + cluster


def member_of_namespace(namespace: str) -> str | None:
    """Name the member that a hub namespace belongs to, if it is one."""
    member = namespace.removeprefix(MEMBER_NAMESPACE_PREFIX)
    return member if member != namespace and member else None


def member_role(cluster: str) -> str:
    """Name the Role of a member in its namespace."""
    return f"fleet-role-{cluster}"


def member_role_binding(cluster: str) -> str:
    """Name the RoleBinding of a member in its namespace."""
    return f"fleet-rolebinding-{cluster}"


def policy_snapshot_name(placement: str, index: int) -> str:
    """Name a scheduling policy snapshot."""
    return f"{placement}-{index}"


def resource_snapshot_name(placement: str, index: int | str, subindex: int | None = None) -> str:
    """Name a resource snapshot: the master of its group, or (with a subindex) a further part."""
    return f"{placement}-{index}-snapshot" if subindex is None else f"{placement}-{index}-{subindex}"


def override_snapshot_name(override: str, index: int) -> str:
    """Name an override snapshot."""
    return f"{override}-{index}"


def binding_name(placement: str, cluster: str, suffix: str) -> str:
    """Name a binding; `suffix` is eight hexadecimal characters, chosen by the caller."""
    return f"{placement[:26]}-{cluster[:27]}-{suffix}"


def work_base_name(placement: str, namespace: str | None) -> str:
    """Name the family of Works of a placement."""
    return f"{namespace}.{placement}" if namespace else placement


def work_name(placement: str, namespace: str | None, subindex: int | None = None) -> str:
    """Name the Work of a resource snapshot: of the master, or of the part with a subindex."""
    return f"{work_base_name(placement, namespace)}-{'work' if subindex is None else subindex}"


def envelope_work_name(snapshot_work: str, envelope_type: str, namespace: str, name: str) -> str:
    """Name the Work of an envelope; `namespace` is empty for a cluster-scoped one."""
    digest = hashlib.sha256(f"{envelope_type}/{namespace}/{name}".encode()).hexdigest()
    return f"{snapshot_work}-envelope-{digest[:16]}"


def approval_name(run: str, position: StageTaskPosition, stage: str) -> str:
    """Name the approval request of a stage."""
    side = "before" if position is StageTaskPosition.BEFORE else "after"
    return f"{run}-{side}-{stage}"


def is_reserved_namespace(namespace: str) -> bool:
    """Whether a namespace belongs to Kubernetes or to the fleet and is never placed."""
    return namespace.startswith(RESERVED_NAMESPACE_PREFIXES)
