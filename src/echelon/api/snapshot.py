"""Snapshots: what a placement's policy and resources were at one moment, and which clusters were picked.

Shapes only. Snapshots never change but for labels, annotations and status; that is what makes going back possible.
Selected resources stay plain dicts: they are other people's kinds, passed on and hashed but not understood.
"""

from typing import Annotated

import msgspec

from echelon.api.meta import Conditions, Manifest, Object
from echelon.api.placement import PlacementPolicy
from echelon.api.schema import Wire, doc

MAX_DECISIONS = 1000  # the contract's limit of clusters in one policy snapshot


class ClusterScore(Wire, frozen=True, kw_only=True):
    """How attractive a cluster was."""

    affinity_score: Annotated[
        int | None, doc("Points from preferred cluster affinity terms.", format="int32")
    ] = None
    # The Go name is TopologySpreadScore.
    priority_score: Annotated[
        int | None, doc("Points from topology spread constraints; compared first.", format="int32")
    ] = None


class ClusterDecision(Wire, frozen=True, kw_only=True):
    """Whether a cluster was picked, and why."""

    cluster_name: Annotated[str, doc("The cluster.")]
    selected: Annotated[bool, doc("Whether it was picked.")]
    cluster_score: Annotated[ClusterScore | None, doc("Its score, when it got as far as being ranked.")] = (
        None
    )
    reason: Annotated[str, doc("Why it was picked or not, for people.")]


class PolicySnapshotSpec(Wire, frozen=True, kw_only=True):
    """The policy as it was."""

    policy: Annotated[PlacementPolicy | None, doc("The placement's policy; absent when it had none.")] = None
    policy_hash: Annotated[
        bytes, doc("Tells whether a policy is the same: a digest of it without numberOfClusters.")
    ]


class PolicySnapshotStatus(Wire, frozen=True, kw_only=True):
    """What the scheduler decided."""

    # The wire spells an abbreviation in capitals.
    observed_crp_generation: Annotated[
        int, doc("The placement's generation that the scheduler has looked at.", format="int64")
    ] = msgspec.field(name="observedCRPGeneration")
    conditions: Annotated[
        Conditions,
        doc("Scheduled: whether all clusters that the policy wants were found.", list_map_keys=("type",)),
    ] = ()
    # The Go name is ClusterDecisions; the wire says targetClusters.
    cluster_decisions: Annotated[
        tuple[ClusterDecision, ...],
        doc(
            "The picked clusters, then a few of those that were not, with the reasons.",
            max_items=MAX_DECISIONS,
        ),
    ] = msgspec.field(default=(), name="targetClusters")


class PolicySnapshot(Object, frozen=True, kw_only=True):
    """A placement's policy at one moment, and which clusters the scheduler picked for it."""

    spec: Annotated[PolicySnapshotSpec, doc("The policy as it was.")]
    status: Annotated[PolicySnapshotStatus | None, doc("What the scheduler decided.")] = None


class ResourceSnapshotSpec(Wire, frozen=True, kw_only=True):
    """The resources as they were."""

    selected_resources: Annotated[
        tuple[Manifest, ...],
        doc(
            "The objects, in the order of application, without status and without fields that belong to the hub.",
            item_description="One object.",
            item_embedded_resource=True,
            item_preserve_unknown_fields=True,
        ),
    ]


class ResourceSnapshotStatus(Wire, frozen=True, kw_only=True):
    """Nothing so far; kept for conditions to come."""

    conditions: Annotated[Conditions, doc("Not written today.", list_map_keys=("type",))] = ()


class ResourceSnapshot(Object, frozen=True, kw_only=True):
    """The objects a placement selected at one moment; many objects fill a group of snapshots of one index."""

    spec: Annotated[ResourceSnapshotSpec, doc("The resources as they were.")]
    status: Annotated[ResourceSnapshotStatus | None, doc("Not written today.")] = None
