"""Works: the manifests one member has to apply, and its report; and the member's own record of them.

Shapes only. Manifests stay plain dicts: they are other people's kinds.
"""

from typing import Annotated

from echelon.api.meta import Conditions, Manifest, Object, Time
from echelon.api.placement import ApplyStrategy, PatchDetail, ReportBackStrategy
from echelon.api.schema import Wire, always, doc


class Workload(Wire, frozen=True, kw_only=True):
    """The manifests."""

    manifests: Annotated[
        tuple[Manifest, ...],
        doc(
            "The objects to apply, complete with apiVersion, kind and metadata.",
            item_description="One object.",
            item_embedded_resource=True,
            item_preserve_unknown_fields=True,
        ),
    ] = ()


class WorkSpec(Wire, frozen=True, kw_only=True):
    """What to apply and how."""

    workload: Annotated[Workload | None, doc("The manifests to apply.")] = None
    apply_strategy: Annotated[ApplyStrategy | None, doc("How to apply them.")] = None
    report_back_strategy: Annotated[
        ReportBackStrategy | None, doc("Whether the status of the applied objects is reported back.")
    ] = None

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests, none if there is no workload."""
        return self.workload.manifests if self.workload else ()


class WorkResourceIdentifier(Wire, frozen=True, kw_only=True):
    """Names one manifest."""

    ordinal: Annotated[int, doc("The manifest's place in the list, from 0.")]
    group: Annotated[str, doc("The object's API group; empty for the core group.")] = ""
    version: Annotated[str, doc("The object's API version.")] = ""
    kind: Annotated[str, doc("The object's kind.")] = ""
    resource: Annotated[str, doc("The plural under which the member serves the kind.")] = ""
    namespace: Annotated[str, doc("The object's namespace; empty for a cluster-scoped object.")] = ""
    name: Annotated[str, doc("The object's name.")] = ""


class DriftDetails(Wire, frozen=True, kw_only=True):
    """How an object was changed on the member."""

    observation_time: Annotated[Time, doc("When the drift was last looked for.")]
    observed_in_member_cluster_generation: Annotated[
        int, doc("The object's generation on the member when it was looked at.", format="int64")
    ]
    first_drifted_observed_time: Annotated[Time, doc("When this drift was first seen.")]
    observed_drifts: Annotated[tuple[PatchDetail, ...], doc("The fields that drifted.")] = ()


class DiffDetails(Wire, frozen=True, kw_only=True):
    """How an object differs between hub and member."""

    observation_time: Annotated[Time, doc("When the difference was last looked for.")]
    observed_in_member_cluster_generation: Annotated[
        int | None,
        doc(
            "The object's generation on the member; absent when the member has no such object.",
            format="int64",
        ),
    ] = None
    first_diffed_observed_time: Annotated[Time, doc("When this difference was first seen.")]
    observed_diffs: Annotated[tuple[PatchDetail, ...], doc("The fields that differ.")] = ()


class BackReportedStatus(Wire, frozen=True, kw_only=True):
    """The status of an applied object, brought back from the member."""

    observed_status: Annotated[
        Manifest | None,
        doc(
            "apiVersion, kind and status of the object on the member.",
            embedded_resource=True,
            preserve_unknown_fields=True,
        ),
    ] = None
    observation_time: Annotated[Time, doc("When the status was read.")]


class ManifestCondition(Wire, frozen=True, kw_only=True):
    """How far one manifest is."""

    identifier: Annotated[WorkResourceIdentifier, doc("Which manifest this is about.")]
    conditions: Annotated[
        Conditions,
        doc("Applied and Available, or DiffReported, at the generation of the object on the member."),
    ] = always(())
    drift_details: Annotated[DriftDetails | None, doc("How the object was changed on the member.")] = None
    diff_details: Annotated[DiffDetails | None, doc("How the object differs between hub and member.")] = None
    back_reported_status: Annotated[
        BackReportedStatus | None, doc("The status of the object on the member, when it is reported back.")
    ] = None


class WorkStatus(Wire, frozen=True, kw_only=True):
    """How far the member is."""

    conditions: Annotated[
        Conditions,
        doc(
            "Applied and Available, or DiffReported, over all manifests; StatusTrimmed when details had to be "
            "left out to keep the object small enough."
        ),
    ] = always(())
    manifest_conditions: Annotated[tuple[ManifestCondition, ...], doc("How far each manifest is.")] = ()


class Work(Object, frozen=True, kw_only=True):
    """Manifests for one member cluster, in that member's namespace on the hub."""

    spec: Annotated[WorkSpec | None, doc("What to apply and how.")] = None
    status: Annotated[WorkStatus | None, doc("How far the member is; written by its agent.")] = None


class AppliedWorkSpec(Wire, frozen=True, kw_only=True):
    """Which Work this belongs to."""

    work_name: Annotated[str, doc("The Work's name.")]
    work_namespace: Annotated[str, doc("The Work's namespace on the hub.")]


class AppliedResource(WorkResourceIdentifier, frozen=True, kw_only=True):
    """Names one object that was applied."""

    uid: Annotated[str, doc("The object's uid on the member.")] = ""


class AppliedWorkStatus(Wire, frozen=True, kw_only=True):
    """What was applied."""

    applied_resources: Annotated[
        tuple[AppliedResource, ...], doc("The objects that this Work has applied.")
    ] = ()


class AppliedWork(Object, frozen=True, kw_only=True):
    """Lives on the member and owns what a Work applied there; deleting it removes those objects."""

    spec: Annotated[AppliedWorkSpec, doc("Which Work this belongs to.")]
    status: Annotated[AppliedWorkStatus | None, doc("What was applied.")] = None
