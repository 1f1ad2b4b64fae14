"""The scheduler of one scope: which clusters a placement gets. Watches, loads, and decides nothing.

Clusters report all the time, so a change of one is first narrowed down to the placements whose policy reads what
has changed, and then, for each of those, to whether this one cluster could be decided upon otherwise. Only then is
a whole cycle run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.names import BindingState
from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.placement import Placement
from echelon.api.scope import Key, Scope
from echelon.api.snapshot import PolicySnapshot
from echelon.client.cache import Cache
from echelon.controllers.placement import BY_PLACEMENT, of_placement, placement_of
from echelon.rules import rescheduling
from echelon.rules.plan import Plan
from echelon.rules.rescheduling import Decided, Facet, facets_changed, facets_read, is_concerned
from echelon.rules.schedule import Seen, schedule
from echelon.rules.snapshot_index import is_latest
from echelon.runtime.controller import Watch, own_key

BY_CLUSTER = "cluster"
BY_PLACEMENT_AND_CLUSTER = "placement-and-cluster"


class Scheduler:
    """Loads one placement's policy, its bindings and the fleet."""

    workers = 4

    def __init__(self, cache: Cache, scope: Scope, options: None = None) -> None:
        del options  # nothing to set
        self.name = f"scheduler-{scope.name.lower()}"
        self.scope = scope
        self._placements = cache.store(scope.placement)
        self._snapshots = cache.store(scope.policy_snapshot)
        self._bindings = cache.store(scope.binding)
        for store in (self._snapshots, self._bindings):
            store.add_index(BY_PLACEMENT, placement_of)
        self._bindings.add_index(BY_CLUSTER, lambda binding: (binding.spec.target_cluster,))
        self._bindings.add_index(
            BY_PLACEMENT_AND_CLUSTER,
            lambda binding: ((key, binding.spec.target_cluster) for key in placement_of(binding)),
        )
        self._clusters: dict[str, MemberCluster] = {}
        self._decided: dict[Key, Decided] = {}  # by placement, of its latest policy snapshot
        self._readers: dict[Facet, dict[Key, None]] = {facet: {} for facet in Facet}
        self._is_running = False
        cache.store(MEMBER_CLUSTERS).subscribe(self._keep_cluster)
        self._snapshots.subscribe(self._keep_snapshot)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow what a decision depends on."""
        scope = self.scope
        return (
            Watch(scope.placement, _leaving_or_new),
            Watch(scope.policy_snapshot, _asked_anew),
            Watch(scope.binding, _lost),
            Watch(MEMBER_CLUSTERS, self._of_cluster),
        )

    async def load(self, key: Key) -> Seen | None:
        """Gather one placement, its bindings and the fleet."""
        self._is_running = True
        placement: Placement | None = self._placements.get(key.name, key.namespace)
        if placement is None:
            return None
        return Seen(
            scope=self.scope,
            placement=placement,
            snapshots=tuple(self._snapshots.by(BY_PLACEMENT, key)),
            bindings=tuple(self._bindings.by(BY_PLACEMENT, key)),
            clusters=self._clusters,
        )

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return schedule(seen, now)

    # the fleet and what was decided, as the copies change

    def _keep_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self._clusters[new.name] = new
        elif old is not None:
            self._clusters.pop(old.name, None)

    def _keep_snapshot(self, old: PolicySnapshot | None, new: PolicySnapshot | None) -> None:
        for key in placement_of(new if new is not None else old):
            if new is not None and is_latest(new):
                self._decided[key] = rescheduling.decided(new)
                self._reads(key, facets_read(new.spec.policy, namespaced=self.scope.namespaced))
            elif key in self._decided and old is not None and self._decided[key].snapshot.name == old.name:
                del self._decided[key]
                self._reads(key, frozenset())

    def _reads(self, key: Key, facets: frozenset[Facet]) -> None:
        for facet, readers in self._readers.items():
            if facet in facets:
                readers[key] = None
            else:
                readers.pop(key, None)

    # whom a change of a cluster concerns

    def _of_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> Iterable[Key]:
        if not self._is_running:  # every placement is looked at first anyway
            return ()
        if new is None:
            return self._of_lost_cluster(old.name) if old is not None else ()
        if new.metadata.is_deleting:  # what is there stays until the cluster has left
            return ()
        changed = set(Facet) if old is None else facets_changed(old, new)
        keys = {key: None for facet in changed for key in self._readers[facet]}
        return [key for key in keys if self._is_concerned(key, new)]

    def _of_lost_cluster(self, name: str) -> Iterable[Key]:
        holding = (placement_of(binding) for binding in self._bindings.by(BY_CLUSTER, name))
        naming = (key for key, decided in self._decided.items() if name in decided.decisions)
        return dict.fromkeys([*(key for keys in holding for key in keys), *naming])

    def _is_concerned(self, key: Key, cluster: MemberCluster) -> bool:
        decided = self._decided[key]
        is_held = any(
            binding.spec.scheduling_policy_snapshot_name == decided.snapshot.name
            and binding.spec.state != BindingState.UNSCHEDULED
            and not binding.metadata.is_deleting
            for binding in self._bindings.by(BY_PLACEMENT_AND_CLUSTER, (key, cluster.name))
        )
        return is_concerned(decided, cluster, is_held=is_held, namespace=key.namespace)


def _leaving_or_new(old: Any | None, new: Any | None) -> Iterable[Key]:
    if new is None or (old is not None and not new.metadata.is_deleting):
        return ()
    return (own_key(new),)


def _asked_anew(old: PolicySnapshot | None, new: PolicySnapshot | None) -> Iterable[Key]:
    """Return the placement of a policy snapshot that asks for something else than before; a new status does not."""
    if old is not None and new is not None:
        before, after = old.metadata, new.metadata
        if (before.labels, before.annotations) == (after.labels, after.annotations):
            return ()
    return of_placement(old, new)


def _lost(old: Binding | None, new: Binding | None) -> Iterable[Key]:
    """Return the placement of a binding that is going or gone."""
    if new is not None and (not new.metadata.is_deleting or (old is not None and old.metadata.is_deleting)):
        return ()
    return of_placement(old, new)
