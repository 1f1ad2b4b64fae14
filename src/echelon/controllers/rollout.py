"""Rolling updates of one scope: which bindings go to the current version now. Watches, loads, and decides nothing.

Placements that leave their rollout to runs are none of its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api.binding import Binding
from echelon.api.override import OverrideSnapshot
from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS, MEMBER_CLUSTERS, OVERRIDE_SNAPSHOTS
from echelon.api.placement import Placement
from echelon.api.scope import Key, Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.client.cache import Cache
from echelon.controllers.placement import BY_PLACEMENT, of_placement, placement_of
from echelon.rules.override import Candidates, find_overrides, selector_target, targets_of
from echelon.rules.placement_status import is_external
from echelon.rules.plan import Plan
from echelon.rules.rolling import Seen, step
from echelon.rules.snapshot_index import latest_master, owned, resource_index
from echelon.rules.snapshots import content_of
from echelon.runtime.controller import Watch, own_key

BY_CONTENT = "content"


class Rollouts:
    """Loads one placement, its versions, its bindings and the overrides for them."""

    workers = 8

    def __init__(self, cache: Cache, scope: Scope, options: None = None) -> None:
        del options  # nothing to set: limits are the placement's own
        self.name = f"rollout-{scope.name.lower()}"
        self.scope = scope
        self._placements = cache.store(scope.placement)
        self._snapshots = cache.store(scope.resource_snapshot)
        self._bindings = cache.store(scope.binding)
        for store in (self._snapshots, self._bindings):
            store.add_index(BY_PLACEMENT, placement_of)
        self._snapshots.add_index(BY_CONTENT, lambda snapshot: targets_of(snapshot.spec.selected_resources))
        self._clusters = cache.store(MEMBER_CLUSTERS)
        self._override_snapshots = [cache.store(CLUSTER_OVERRIDE_SNAPSHOTS), cache.store(OVERRIDE_SNAPSHOTS)]
        self._bindings.add_index("cluster", lambda binding: (binding.spec.target_cluster,))

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow what a step depends on."""
        scope = self.scope
        return (
            Watch(scope.placement, _strategy_changed),
            Watch(scope.resource_snapshot, of_placement),
            Watch(scope.binding, _moved),
            Watch(CLUSTER_OVERRIDE_SNAPSHOTS, self._of_override),
            Watch(OVERRIDE_SNAPSHOTS, self._of_override),
            Watch(MEMBER_CLUSTERS, self._relabelled),
        )

    async def load(self, key: Key) -> Seen | None:
        """Gather one placement."""
        placement: Placement | None = self._placements.get(key.name, key.namespace)
        if placement is None or is_external(placement):
            return None
        snapshots: list[ResourceSnapshot] = self._snapshots.by(BY_PLACEMENT, key)
        bindings: list[Binding] = self._bindings.by(BY_PLACEMENT, key)
        targets = dict.fromkeys(binding.spec.target_cluster for binding in bindings)
        found = {name: self._clusters.get(name) for name in targets}
        return Seen(
            scope=self.scope,
            placement=placement,
            resource_snapshots=tuple(snapshots),
            bindings=tuple(bindings),
            overrides=self._overrides(key, owned(snapshots, placement)),
            clusters={name: cluster for name, cluster in found.items() if cluster is not None},
        )

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return step(seen, now)

    def _overrides(self, key: Key, snapshots: Sequence[ResourceSnapshot]) -> Candidates:
        cluster, namespaced = self._override_snapshots
        master = latest_master(snapshots)
        if master is None or not (len(cluster) or len(namespaced)):
            return Candidates()
        content = content_of(snapshots, resource_index(master))
        return find_overrides(cluster.all(), namespaced.all(), content, key)

    def _of_override(self, old: OverrideSnapshot | None, new: OverrideSnapshot | None) -> Iterable[Key]:
        """Return the placements with a version that holds something an override selects."""
        found: dict[Key, None] = {}
        for snapshot in (old, new):
            for selector in snapshot.spec.override_spec.selectors if snapshot is not None else ():
                target = selector_target(selector, snapshot.namespace or "" if snapshot else "")
                for holder in self._snapshots.by(BY_CONTENT, target):
                    found.update(dict.fromkeys(placement_of(holder)))
        return found

    def _relabelled(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        """Return the placements on a cluster that is gone, or whose labels (overrides choose by them) have changed."""
        if old is None or (new is not None and old.metadata.labels == new.metadata.labels):
            return ()
        held = self._bindings.by("cluster", old.name)
        return dict.fromkeys(key for binding in held for key in placement_of(binding))


def _strategy_changed(old: Placement | None, new: Placement | None) -> Iterable[Key]:
    if new is None or (old is not None and old.spec == new.spec):
        return ()
    return (own_key(new),)


def _moved(old: Binding | None, new: Binding | None) -> Iterable[Key]:
    """Return the placement of a binding whose spec or conditions changed, or that came or went."""
    if old is not None and new is not None:
        before, after = (
            (b.metadata.generation, b.metadata.deletion_timestamp, b.status.conditions if b.status else ())
            for b in (old, new)
        )
        if before == after:
            return ()
    return of_placement(old, new)
