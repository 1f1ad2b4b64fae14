"""The two scopes side by side: which kinds a cluster-scoped and a namespaced rollout are made of.

Code takes a Scope and never asks which one it is; the only places that know kind names are this table and the wire.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from echelon.api import own
from echelon.api.resource import Resource


class Key(NamedTuple):
    """Names one object of a kind: what queues hold and controllers load."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Scope:
    """The kinds of one scope."""

    name: str
    namespaced: bool
    run: Resource
    strategy: Resource
    approval: Resource
    placement: Resource
    policy_snapshot: Resource
    resource_snapshot: Resource
    binding: Resource
    override: Resource
    override_snapshot: Resource
    envelope: Resource

    @property
    def condition_prefix(self) -> str:
        """What stands before the condition types of a placement of this scope."""
        return self.placement.kind

    def key(self, name: str, namespace: str | None = None) -> Key:
        """Name an object of this scope; a cluster-scoped one has no namespace, whatever was passed."""
        if self.namespaced and not namespace:
            raise ValueError(f"a namespace is needed to name {name!r} in the namespaced scope")
        return Key(namespace if self.namespaced else None, name)


CLUSTER: Final = Scope(
    name="Cluster",
    namespaced=False,
    run=own.CLUSTER_RUNS,
    strategy=own.CLUSTER_STRATEGIES,
    approval=own.CLUSTER_APPROVALS,
    placement=own.CLUSTER_PLACEMENTS,
    policy_snapshot=own.CLUSTER_POLICY_SNAPSHOTS,
    resource_snapshot=own.CLUSTER_RESOURCE_SNAPSHOTS,
    binding=own.CLUSTER_BINDINGS,
    override=own.CLUSTER_OVERRIDES,
    override_snapshot=own.CLUSTER_OVERRIDE_SNAPSHOTS,
    envelope=own.CLUSTER_ENVELOPES,
)
NAMESPACED: Final = Scope(
    name="Namespaced",
    namespaced=True,
    run=own.RUNS,
    strategy=own.STRATEGIES,
    approval=own.APPROVALS,
    placement=own.PLACEMENTS,
    policy_snapshot=own.POLICY_SNAPSHOTS,
    resource_snapshot=own.RESOURCE_SNAPSHOTS,
    binding=own.BINDINGS,
    override=own.OVERRIDES,
    override_snapshot=own.OVERRIDE_SNAPSHOTS,
    envelope=own.ENVELOPES,
)
SCOPES: Final = (CLUSTER, NAMESPACED)


def scope_of(namespace: str | None) -> Scope:
    """Return the scope that an object with this namespace belongs to."""
    return NAMESPACED if namespace else CLUSTER
