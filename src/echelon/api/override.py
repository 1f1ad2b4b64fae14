"""Overrides: what is different about a resource on some clusters, and the snapshots that rollouts use.

Shapes only. One type serves both scopes; the kinds differ in how they select resources, so a spec has two lists
of which its kind has one. `selectors` is the list that is there.
"""

from typing import Annotated, Any, TypeAlias

import msgspec

from echelon.api.meta import Object
from echelon.api.names import OverrideType, PatchOperator, PlacementScope
from echelon.api.placement import ClusterSelector, ResourceSelector
from echelon.api.schema import Cel, Wire, doc, server_default


class NamedResourceSelector(Wire, frozen=True, kw_only=True):
    """Names one object in the override's namespace."""

    group: Annotated[str, doc('The API group, for example apps. "" is the core group.')]
    version: Annotated[str, doc("The API version, for example v1.")]
    kind: Annotated[str, doc("The kind, for example Deployment.")]
    name: Annotated[str, doc("The object's name.")]


AnySelector: TypeAlias = ResourceSelector | NamedResourceSelector


class PlacementRef(Wire, frozen=True, kw_only=True):
    """Names the placement an override is for."""

    name: Annotated[str, doc("The placement's name.")]
    scope: Annotated[
        PlacementScope,
        doc(
            "Cluster means a ClusterResourcePlacement, Namespaced a ResourcePlacement of the same namespace."
        ),
    ] = server_default(PlacementScope.CLUSTER)


class JsonPatchOverride(Wire, frozen=True, kw_only=True):
    """One operation of a JSON patch (RFC 6902)."""

    # `op` on the wire, as in RFC 6902
    operator: Annotated[PatchOperator, doc("add, remove or replace.")] = msgspec.field(name="op")
    path: Annotated[
        str,
        doc(
            "The field as a JSON pointer, for example /spec/replicas. apiVersion, kind, status and metadata (but "
            "labels and annotations) cannot be patched."
        ),
    ]
    value: Annotated[
        Any,
        doc(
            "The new value; not for remove. ${MEMBER-CLUSTER-NAME} and ${MEMBER-CLUSTER-LABEL-KEY-key} in it stand "
            "for the cluster's name and for its label key.",
            preserve_unknown_fields=True,
        ),
    ] = msgspec.UNSET


class OverrideRule(Wire, frozen=True, kw_only=True):
    """What is different on some clusters."""

    cluster_selector: Annotated[
        ClusterSelector | None,
        doc(
            "Which clusters. An empty list of terms means every cluster; without a selector the rule applies to "
            "none. Terms may only select by label."
        ),
    ] = None
    override_type: Annotated[
        OverrideType, doc("JSONPatch changes the resource, Delete leaves it out on these clusters.")
    ] = server_default(OverrideType.JSON_PATCH)
    # The Go name is JSONPatchOverrides.
    json_patch_overrides: Annotated[
        tuple[JsonPatchOverride, ...],
        doc("The changes, in order; only for JSONPatch.", min_items=1, max_items=20),
    ] = ()


class OverridePolicy(Wire, frozen=True, kw_only=True):
    """The rules of an override."""

    override_rules: Annotated[
        tuple[OverrideRule, ...],
        doc("The rules, applied in order; a later one wins.", min_items=1, max_items=20),
    ]


PLACEMENT_IMMUTABLE = Cel(
    "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement)"
    " || (!has(oldSelf.placement) && !has(self.placement))",
    "The placement field is immutable",
)


class OverrideSpec(Wire, frozen=True, kw_only=True):
    """Which resources are different, and how."""

    placement: Annotated[
        PlacementRef | None,
        doc("The only placement this is for. Without it, every placement. Cannot be changed later."),
    ] = None
    cluster_resource_selectors: Annotated[
        tuple[ResourceSelector, ...],
        doc(
            "The cluster-scoped resources, by name. A Namespace also means every resource in it.",
            min_items=1,
            max_items=20,
            only="Cluster",
            required=True,
        ),
    ] = ()
    resource_selectors: Annotated[
        tuple[NamedResourceSelector, ...],
        doc(
            "The resources, by name, in the override's own namespace.",
            min_items=1,
            max_items=20,
            only="Namespaced",
            required=True,
        ),
    ] = ()
    policy: Annotated[OverridePolicy, doc("What is different on which clusters.")]

    @property
    def selectors(self) -> tuple[AnySelector, ...]:
        """The selectors of whichever kind this is."""
        return self.cluster_resource_selectors or self.resource_selectors


class Override(Object, frozen=True, kw_only=True):
    """Changes resources on some of the clusters they are placed on."""

    spec: Annotated[OverrideSpec, doc("Which resources are different, and how.", cel=(PLACEMENT_IMMUTABLE,))]


class OverrideSnapshotSpec(Wire, frozen=True, kw_only=True):
    """The override as it was."""

    override_spec: Annotated[
        OverrideSpec, doc("The override's spec at that moment.", cel=(PLACEMENT_IMMUTABLE,))
    ]
    override_hash: Annotated[bytes, doc("Tells whether an override is the same: a digest of its spec.")]


class OverrideSnapshot(Object, frozen=True, kw_only=True):
    """An override at one moment; bindings refer to snapshots, so an edit reaches clusters only by a rollout."""

    spec: Annotated[OverrideSnapshotSpec, doc("The override as it was.")]
