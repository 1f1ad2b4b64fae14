"""Placements: which resources go to which clusters, how changes roll out, and how far that is.

Shapes only. One set of types serves ClusterResourcePlacement and ResourcePlacement.
"""

from typing import Annotated

import msgspec

from echelon.api.meta import (
    Condition,
    Conditions,
    IntOrString,
    LabelSelector,
    NamespacedName,
    Object,
    Time,
)
from echelon.api.names import (
    ApplyType,
    ComparisonOption,
    DeletePolicy,
    EnvelopeType,
    PlacementType,
    ReportBackDestination,
    ReportBackType,
    RolloutType,
    SelectionScope,
    SortOrder,
    StatusReportingScope,
    TaintEffect,
    TolerationOperator,
    UnsatisfiableAction,
    WhenToApply,
    WhenToTakeOver,
)
from echelon.api.schema import Cel, Wire, doc, server_default

MAX_DETAILS = (
    100  # failed, drifted and diffed entries a cluster: keeps a status far below the 1.5 MiB of etcd
)
PERCENT_OR_NUMBER_PATTERN = "^((100|[0-9]{1,2})%|[0-9]+)$"


# --- what to place ------------------------------------------------------------------------------------------------
class ResourceSelector(Wire, frozen=True, kw_only=True):
    """Selects objects of one kind on the hub, by name, by label, or all of them."""

    group: Annotated[str, doc('The API group, for example apps. "" is the core group.')]
    version: Annotated[str, doc("The API version, for example v1.")]
    kind: Annotated[str, doc("The kind, for example Namespace. Selecting a Namespace selects what is in it.")]
    name: Annotated[
        str, doc("The name of the one object to select. Cannot be combined with labelSelector.")
    ] = ""
    label_selector: Annotated[
        LabelSelector | None,
        doc("Selects the objects that carry these labels. Without name and labelSelector all are selected."),
    ] = None
    selection_scope: Annotated[
        SelectionScope,
        doc(
            "For a Namespace: NamespaceOnly places just the namespace, NamespaceWithResources everything in it, "
            "NamespaceWithResourceSelectors the namespace and what the other selectors pick in it."
        ),
    ] = server_default(SelectionScope.NAMESPACE_WITH_RESOURCES)


# --- where to place it ----------------------------------------------------------------------------------------------
class PropertySelectorRequirement(Wire, frozen=True, kw_only=True):
    """Compares one property of a cluster with a value."""

    name: Annotated[
        str,
        doc(
            "The property, for example kubernetes-fleet.io/node-count or resources.kubernetes-fleet.io/available-cpu."
        ),
    ]
    operator: Annotated[
        str, doc("How to compare: Gt, Ge, Eq, Ne, Lt or Le. A cluster without the property never matches.")
    ]
    values: Annotated[
        tuple[str, ...], doc("The one quantity to compare with, for example 8 or 16Gi.", max_items=1)
    ]


class PropertySelector(Wire, frozen=True, kw_only=True):
    """Selects clusters by their properties."""

    match_expressions: Annotated[
        tuple[PropertySelectorRequirement, ...], doc("Comparisons; all of them must hold.")
    ]


class PropertySorter(Wire, frozen=True, kw_only=True):
    """Ranks clusters by a property."""

    name: Annotated[str, doc("The property by which clusters are ranked.")]
    sort_order: Annotated[
        SortOrder, doc("Descending prefers clusters with more of it, Ascending those with less.")
    ]


class ClusterSelectorTerm(Wire, frozen=True, kw_only=True):
    """Describes clusters; everything given must hold."""

    label_selector: Annotated[
        LabelSelector | None, doc("Labels that the cluster's MemberCluster must have.")
    ] = None
    property_selector: Annotated[
        PropertySelector | None,
        doc("What the cluster's properties must be. Only for required terms."),
    ] = None
    property_sorter: Annotated[
        PropertySorter | None,
        doc(
            "Gives the best cluster the whole weight and the others a share, in proportion to the property. "
            "Only for preferred terms."
        ),
    ] = None


class ClusterSelector(Wire, frozen=True, kw_only=True):
    """Selects clusters by any of several descriptions."""

    cluster_selector_terms: Annotated[
        tuple[ClusterSelectorTerm, ...],
        doc("Descriptions of clusters; one that fits is enough.", max_items=10),
    ]


class PreferredClusterSelector(Wire, frozen=True, kw_only=True):
    """Makes some clusters more attractive than others."""

    weight: Annotated[
        int,
        doc(
            "How many points a fitting cluster gets; negative points make it less attractive.",
            format="int32",
            minimum=-100,
            maximum=100,
        ),
    ]
    preference: Annotated[ClusterSelectorTerm, doc("Which clusters get the points.")]


class ClusterAffinity(Wire, frozen=True, kw_only=True):
    """Which clusters may be picked, and which rather than others."""

    # requiredDuringSchedulingIgnoredDuringExecution on the wire, as Kubernetes calls it for nodes
    required: Annotated[
        ClusterSelector | None,
        doc(
            "Only clusters that fit may be picked. Looked at when picking; a cluster that stops fitting stays."
        ),
    ] = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    # preferredDuringSchedulingIgnoredDuringExecution on the wire
    preferred: Annotated[
        tuple[PreferredClusterSelector, ...],
        doc("Points by which PickN ranks the clusters that may be picked. Looked at only when picking."),
    ] = msgspec.field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire, frozen=True, kw_only=True):
    """Which clusters are wanted."""

    cluster_affinity: Annotated[
        ClusterAffinity | None, doc("Which clusters are wanted, by their labels and properties.")
    ] = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    """Spreads a PickN placement evenly over regions or other groups of clusters."""

    max_skew: Annotated[
        int,
        doc(
            "By how many clusters two groups may differ at most.",
            format="int32",
            minimum=1,
        ),
    ] = server_default(1)
    topology_key: Annotated[
        str, doc("The label of MemberCluster whose value tells the groups, for example region.")
    ]
    when_unsatisfiable: Annotated[
        UnsatisfiableAction,
        doc(
            "DoNotSchedule rather picks no cluster than break the limit; ScheduleAnyway only prefers clusters "
            "that keep it."
        ),
    ] = server_default(UnsatisfiableAction.DO_NOT_SCHEDULE)


class Toleration(Wire, frozen=True, kw_only=True):
    """Lets clusters with a matching taint be picked nevertheless."""

    key: Annotated[str, doc("The taint's key. Empty, with operator Exists, matches every taint.")] = ""
    operator: Annotated[TolerationOperator, doc("Equal compares key and value, Exists only the key.")] = (
        server_default(TolerationOperator.EQUAL)
    )
    value: Annotated[str, doc("The taint's value; must be empty for Exists.")] = ""
    effect: Annotated[TaintEffect | None, doc("The taint's effect; without it every effect matches.")] = None


class PlacementPolicy(Wire, frozen=True, kw_only=True):
    """How clusters are picked."""

    placement_type: Annotated[
        PlacementType,
        doc(
            "PickAll: every cluster that fits. PickN: the best numberOfClusters of them. PickFixed: the clusters "
            "named in clusterNames. Cannot be changed later."
        ),
    ] = server_default(PlacementType.PICK_ALL)
    cluster_names: Annotated[tuple[str, ...], doc("The clusters to pick, for PickFixed.", max_items=100)] = ()
    number_of_clusters: Annotated[
        int | None, doc("How many clusters to pick, for PickN.", format="int32", minimum=0)
    ] = None
    affinity: Annotated[
        Affinity | None, doc("Which clusters may be picked, and which rather than others. Not for PickFixed.")
    ] = None
    topology_spread_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...],
        doc("How to spread the picked clusters over groups of clusters. Only for PickN."),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...],
        doc(
            "Which taints of clusters do not matter. Tolerations can be added later but neither changed nor "
            "removed. Not for PickFixed, which ignores taints.",
            max_items=100,
            cel=(
                Cel(
                    "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
                    "value must be empty when operator is Exists",
                ),
                Cel(
                    "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
                    "operator must be Exists when key is empty",
                ),
            ),
        ),
    ] = ()


# --- how to roll it out -----------------------------------------------------------------------------------------------
class ServerSideApplyConfig(Wire, frozen=True, kw_only=True):
    """Details of server-side apply."""

    # The Go name is ForceConflicts.
    force: Annotated[
        bool, doc("Take fields over from other managers instead of failing on the conflict.")
    ] = False


class ApplyStrategy(Wire, frozen=True, kw_only=True):
    """How manifests are applied on the member clusters."""

    comparison_option: Annotated[
        ComparisonOption,
        doc(
            "What counts as drift: PartialComparison looks only at fields that the manifest sets, FullComparison "
            "at every field."
        ),
    ] = server_default(ComparisonOption.PARTIAL)
    when_to_apply: Annotated[
        WhenToApply,
        doc("Always overwrites changes made on a member; IfNotDrifted reports them and does not apply."),
    ] = server_default(WhenToApply.ALWAYS)
    type: Annotated[
        ApplyType,
        doc(
            "ClientSideApply merges three ways, ServerSideApply lets the member's API server merge, ReportDiff "
            "changes nothing and reports the differences."
        ),
    ] = server_default(ApplyType.CLIENT_SIDE_APPLY)
    allow_co_ownership: Annotated[
        bool,
        doc("Apply objects that have other owners too. Off, such an object fails to be applied."),
    ] = False
    server_side_apply_config: Annotated[
        ServerSideApplyConfig | None, doc("Details of server-side apply; only for ServerSideApply.")
    ] = None
    when_to_take_over: Annotated[
        WhenToTakeOver,
        doc(
            "What to do with an object that exists on a member but was not placed by this placement: Always takes "
            "it over, IfNoDiff only when it already looks as wanted, Never reports it as failed."
        ),
    ] = server_default(WhenToTakeOver.ALWAYS)


class RollingUpdate(Wire, frozen=True, kw_only=True):
    """How fast a rolling update goes."""

    max_unavailable: Annotated[
        IntOrString,
        doc(
            "How many of the wanted clusters may be unavailable during the update: a number, or a percentage "
            "rounded up. 0 blocks updates in place.",
            pattern=PERCENT_OR_NUMBER_PATTERN,
        ),
    ] = server_default("25%")
    max_surge: Annotated[
        IntOrString,
        doc(
            "How many clusters beyond the wanted number may have the resources during the update: a number, or a "
            "percentage rounded up.",
            pattern=PERCENT_OR_NUMBER_PATTERN,
        ),
    ] = server_default("25%")
    unavailable_period_seconds: Annotated[
        int,
        doc(
            "How long to wait after applying resources whose availability cannot be observed, before they count "
            "as available.",
            minimum=0,
        ),
    ] = server_default(60)


class DeleteStrategy(Wire, frozen=True, kw_only=True):
    """What happens to placed resources when the placement is deleted."""

    propagation_policy: Annotated[
        DeletePolicy,
        doc("Delete removes the resources from the members, Abandon leaves them there."),
    ] = server_default(DeletePolicy.DELETE)


class ReportBackStrategy(Wire, frozen=True, kw_only=True):
    """Whether and where the status of placed objects is reported back."""

    type: Annotated[
        ReportBackType, doc("Mirror reports status back to the hub, Disabled does not.", required=True)
    ] = server_default(ReportBackType.DISABLED)
    destination: Annotated[
        ReportBackDestination | None,
        doc(
            "Where the status goes: OriginalResource writes it into the object on the hub (only for placements on "
            "a single cluster), WorkAPI keeps it in the Work. Required for Mirror."
        ),
    ] = None


class RolloutStrategy(Wire, frozen=True, kw_only=True):
    """How changes reach the picked clusters."""

    type: Annotated[
        RolloutType,
        doc(
            "RollingUpdate rolls changes out by itself, a few clusters at a time. External waits for staged update "
            "runs. External cannot be changed back.",
            cel=(
                Cel(
                    "!(self != 'External' && oldSelf == 'External')",
                    "cannot change rollout strategy type from 'External' to other types",
                ),
            ),
        ),
    ] = server_default(RolloutType.ROLLING_UPDATE)
    rolling_update: Annotated[
        RollingUpdate | None, doc("How fast a rolling update goes; only for RollingUpdate.")
    ] = None
    apply_strategy: Annotated[ApplyStrategy | None, doc("How manifests are applied on the members.")] = None
    delete_strategy: Annotated[
        DeleteStrategy | None, doc("What happens to placed resources when the placement is deleted.")
    ] = None
    report_back_strategy: Annotated[
        ReportBackStrategy | None,
        doc(
            "Whether and where the status of placed objects is reported back.",
            cel=(
                Cel(
                    "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)",
                    "when reportBackStrategy.type is 'Mirror', a destination must be specified",
                ),
            ),
        ),
    ] = None


POLICY_RULES = (
    Cel("!(self.placementType != oldSelf.placementType)", "placement type is immutable"),
    Cel(
        "self.placementType != 'PickFixed' || (!has(self.affinity) && !has(self.numberOfClusters)"
        " && !has(self.topologySpreadConstraints) && !has(self.tolerations))",
        "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when"
        " placementType is PickFixed",
    ),
    Cel(
        "self.placementType != 'PickAll' || (!has(self.clusterNames) && !has(self.numberOfClusters)"
        " && !has(self.topologySpreadConstraints))",
        "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
    ),
    Cel(
        "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
        "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
    ),
)

_IS_NAMESPACE = "x.kind == 'Namespace' && x.group == \"\" && x.version == 'v1'"
_MIXED_MODE = (
    f"{_IS_NAMESPACE} && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'"
)
_NO_MIXED_MODE = f"size(self.resourceSelectors.filter(x, {_MIXED_MODE})) == 0"

PLACEMENT_SPEC_RULES = (
    Cel("!(has(oldSelf.policy) && !has(self.policy))", "policy cannot be removed once set"),
    Cel(
        "!(self.statusReportingScope == 'NamespaceAccessible'"
        " && size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) != 1)",
        "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind"
        " 'Namespace' is required",
        only="Cluster",
    ),
    Cel(
        "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
        "statusReportingScope is immutable",
        only="Cluster",
    ),
    Cel(
        f"size(self.resourceSelectors.filter(x, {_MIXED_MODE})) <= 1",
        "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
    ),
    Cel(
        f"{_NO_MIXED_MODE} || (size(self.resourceSelectors.filter(x, {_MIXED_MODE}"
        " && has(x.name) && size(x.name) > 0 && !has(x.labelSelector))) == 1)",
        "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
    ),
    Cel(
        f"{_NO_MIXED_MODE} || size(self.resourceSelectors.filter(x, {_IS_NAMESPACE})) == 1",
        "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed"
        " (cannot mix with other namespace selectors)",
    ),
)


class PlacementSpec(Wire, frozen=True, kw_only=True):
    """What is placed where, and how."""

    resource_selectors: Annotated[
        tuple[ResourceSelector, ...],
        doc(
            "What to place: everything that any of these selects. No object may be selected twice.",
            min_items=1,
            max_items=100,
            cel=(
                Cel(
                    "self.all(x, !(has(x.name) && size(x.name) > 0 && has(x.labelSelector)))",
                    "name and labelSelector are mutually exclusive in a resource selector",
                ),
            ),
        ),
    ]
    policy: Annotated[
        PlacementPolicy | None,
        doc("Where to place it. Without a policy, on every member cluster.", cel=POLICY_RULES),
    ] = None
    strategy: Annotated[
        RolloutStrategy | None, doc("How changes reach the clusters. Without it, by rolling updates.")
    ] = None
    revision_history_limit: Annotated[
        int,
        doc(
            "How many old versions of the resources and of the policy to keep, for going back to.",
            format="int32",
            minimum=1,
            maximum=1000,
        ),
    ] = server_default(10)
    status_reporting_scope: Annotated[
        StatusReportingScope,
        doc(
            "NamespaceAccessible keeps a copy of the status in the selected namespace, readable by people who "
            "see only that namespace. Cannot be changed; means nothing for a namespaced placement."
        ),
    ] = server_default(StatusReportingScope.CLUSTER_SCOPE_ONLY)


# --- how far it is ----------------------------------------------------------------------------------------------------
class EnvelopeIdentifier(Wire, frozen=True, kw_only=True):
    """Names the envelope that wrapped a manifest."""

    name: Annotated[str, doc("The envelope's name.")]
    namespace: Annotated[str, doc("The envelope's namespace; empty for a cluster-scoped envelope.")] = ""
    type: Annotated[EnvelopeType, doc("The envelope's kind.")] = server_default(EnvelopeType.CONFIG_MAP)


class ResourceIdentifier(Wire, frozen=True, kw_only=True):
    """Names one placed object."""

    group: Annotated[str, doc("The object's API group; empty for the core group.")] = ""
    version: Annotated[str, doc("The object's API version.")]
    kind: Annotated[str, doc("The object's kind.")]
    name: Annotated[str, doc("The object's name.")]
    namespace: Annotated[str, doc("The object's namespace; empty for a cluster-scoped object.")] = ""
    envelope: Annotated[
        EnvelopeIdentifier | None, doc("The envelope the object came in, if it came in one.")
    ] = None


class PatchDetail(Wire, frozen=True, kw_only=True):
    """One difference between hub and member."""

    path: Annotated[str, doc("The field, as a JSON pointer such as /spec/replicas.")]
    value_in_member: Annotated[
        str | None, doc("The value on the member; absent when the field is missing there.")
    ] = None
    value_in_hub: Annotated[
        str | None, doc("The value wanted by the hub; absent when the hub does not have the field.")
    ] = None


class FailedPlacement(ResourceIdentifier, frozen=True, kw_only=True):
    """An object that could not be applied or is not available, and why."""

    condition: Annotated[Condition, doc("What failed: the object's Applied or Available condition.")]


class DriftedPlacement(ResourceIdentifier, frozen=True, kw_only=True):
    """An object that was changed on the member."""

    observation_time: Annotated[Time, doc("When the drift was last looked for.")]
    target_cluster_observed_generation: Annotated[
        int, doc("The object's generation on the member when it was looked at.", format="int64")
    ]
    first_drifted_observed_time: Annotated[Time, doc("When this drift was first seen.")]
    observed_drifts: Annotated[tuple[PatchDetail, ...], doc("The fields that drifted.")] = ()


class DiffedPlacement(ResourceIdentifier, frozen=True, kw_only=True):
    """An object that differs between hub and member."""

    observation_time: Annotated[Time, doc("When the difference was last looked for.")]
    target_cluster_observed_generation: Annotated[
        int | None,
        doc(
            "The object's generation on the member; absent when the member has no such object.",
            format="int64",
        ),
    ] = None
    first_diffed_observed_time: Annotated[Time, doc("When this difference was first seen.")]
    observed_diffs: Annotated[tuple[PatchDetail, ...], doc("The fields that differ.")] = ()


class ClusterPlacementStatus(Wire, frozen=True, kw_only=True):
    """How far the placement is on one cluster."""

    cluster_name: Annotated[str, doc("The cluster; empty when no cluster could be found for this entry.")] = (
        ""
    )
    applicable_resource_overrides: Annotated[
        tuple[NamespacedName, ...], doc("The namespaced override snapshots that apply to this cluster.")
    ] = ()
    applicable_cluster_resource_overrides: Annotated[
        tuple[str, ...], doc("The cluster-scoped override snapshots that apply to this cluster.")
    ] = ()
    failed_placements: Annotated[
        tuple[FailedPlacement, ...],
        doc("Objects that could not be applied or are not available, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    drifted_placements: Annotated[
        tuple[DriftedPlacement, ...],
        doc("Objects that were changed on the member, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    diffed_placements: Annotated[
        tuple[DiffedPlacement, ...],
        doc("Objects that differ between hub and member, at most 100.", max_items=MAX_DETAILS),
    ] = ()
    observed_resource_index: Annotated[
        str, doc("The index of the resource snapshot that this cluster has or is getting.")
    ] = ""
    conditions: Annotated[
        Conditions,
        doc(
            "How far the cluster is: Scheduled, RolloutStarted, Overridden, WorkSynchronized, Applied, Available "
            "(or DiffReported instead of the last two)."
        ),
    ] = ()


class PlacementStatus(Wire, frozen=True, kw_only=True):
    """How far the placement is."""

    selected_resources: Annotated[
        tuple[ResourceIdentifier, ...], doc("The objects that are placed, in the order of application.")
    ] = ()
    observed_resource_index: Annotated[
        str, doc("The index of the resource snapshot that this status is about.")
    ] = ""
    # The Go name is PerClusterPlacementStatuses.
    placement_statuses: Annotated[
        tuple[ClusterPlacementStatus, ...],
        doc("How far each cluster is; entries without a cluster say why one could not be found."),
    ] = ()
    conditions: Annotated[
        Conditions,
        doc(
            "How far the whole placement is: the conditions of the clusters summed up, each with the kind of the "
            "placement in front, for example ClusterResourcePlacementApplied.",
            list_map_keys=("type",),
        ),
    ] = ()


class Placement(Object, frozen=True, kw_only=True):
    """Places resources of the hub on member clusters."""

    spec: Annotated[PlacementSpec, doc("What is placed where, and how.", cel=PLACEMENT_SPEC_RULES)]
    status: Annotated[PlacementStatus | None, doc("How far the placement is; written by the engine.")] = None


class PlacementStatusCopy(Object, frozen=True, kw_only=True):
    """A ClusterResourcePlacementStatus: the status of a placement, readable inside a namespace."""

    source_status: Annotated[PlacementStatus, doc("The status of the placement with this object's name.")]
    last_updated_time: Annotated[Time, doc("When the copy was made.")]
