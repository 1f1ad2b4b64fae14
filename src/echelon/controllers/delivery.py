"""Bindings to Works and back: watches what a binding's Works are made of, loads it, and decides nothing.

Every look-up goes by an index: an event costs what it concerns, however big the fleet is. A heartbeat of a member,
a rollout's marker on a snapshot, a finalizer of an agent concern nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.meta import NamespacedName
from echelon.api.names import (
    ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS,
    ANNOTATION_SUBINDEX,
    ANNOTATION_WRITTEN_AT,
    LABEL_PARENT_CRP,
    LABEL_RESOURCE_INDEX,
    member_namespace,
    resource_snapshot_name,
)
from echelon.api.own import MEMBER_CLUSTERS, WORKS
from echelon.api.placement import Placement
from echelon.api.scope import CLUSTER, NAMESPACED, Key, Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.work import Work
from echelon.client.cache import Cache, Store
from echelon.client.errors import ApiError, NotFound
from echelon.controllers.sealing import Seals
from echelon.rules import work_generation
from echelon.rules.plan import NOTHING, Plan
from echelon.rules.work_generation_content import binding_of_work, placement_of, placement_of_work
from echelon.rules.work_generation_seen import Options, Orphans, Seen
from echelon.runtime.controller import Watch, own_key

WORKERS = 16  # decisions wait for writes; more side by side only queue up in the API server


class Delivery:
    """Loads one binding and everything its Works are made of."""

    workers = WORKERS

    def __init__(self, cache: Cache, scope: Scope, options: Options | None = None) -> None:
        self.name = f"{scope.binding.singular}-work-generator"
        self.scope = scope
        self.options = options or Options()
        self._bindings = cache.store(scope.binding)
        self._placements = cache.store(scope.placement)
        self._snapshots = cache.store(scope.resource_snapshot)
        self._cluster_overrides = cache.store(CLUSTER.override_snapshot)
        self._overrides = cache.store(NAMESPACED.override_snapshot)
        self._members = cache.store(MEMBER_CLUSTERS)
        self._seals = Seals(cache)
        self._works = cache.store(WORKS)
        # other controllers file the same objects in their own ways: names of indexes say whose they are
        self._works.add_index("delivery: binding", lambda work: (binding_of_work(work),))
        self._snapshots.add_index("delivery: group", lambda snapshot: (_group_of(snapshot),))
        self._bindings.add_index("delivery: cluster", lambda binding: (binding.spec.target_cluster,))
        self._bindings.add_index("delivery: placement", lambda binding: (placement_of(binding),))
        self._bindings.add_index("delivery: placement on cluster", _placement_on_cluster)
        self._bindings.add_index(
            "delivery: version",
            lambda binding: (Key(binding.namespace, binding.spec.resource_snapshot_name),),
        )
        self._bindings.add_index("delivery: override", _overrides_of)

    # --- what concerns whom ---------------------------------------------------------------------------------------

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow bindings, their Works, and whatever a failed delivery may be waiting for."""
        return (
            Watch(self.scope.binding, _of_binding),
            Watch(WORKS, self._of_work),
            Watch(MEMBER_CLUSTERS, self._of_member),
            Watch(self.scope.placement, self._of_placement),
            Watch(self.scope.resource_snapshot, self._of_snapshot),
            Watch(CLUSTER.override_snapshot, self._of_override),
            Watch(NAMESPACED.override_snapshot, self._of_override),
        )

    def _keys(self, index: str, value: Any) -> Iterable[Key]:
        return [own_key(binding) for binding in self._bindings.by(f"delivery: {index}", value)]

    def _of_work(self, old: Work | None, new: Work | None) -> Iterable[Key]:
        work = new if new is not None else old
        assert work is not None
        key = binding_of_work(work)
        if not key.name or (key.namespace is not None) != self.scope.namespaced:
            return ()
        if new is None:  # its name is free again: a binding that came after may be waiting for it
            cluster = (work.namespace or "").removeprefix(member_namespace(""))
            return [key, *self._keys("placement on cluster", (cluster, placement_of_work(work)))]
        is_bound = self._bindings.get(key.name, key.namespace) is not None
        return () if is_bound and _is_same_to_us(old, new) else (key,)

    def _of_member(self, old: MemberCluster | None, new: MemberCluster | None) -> Iterable[Key]:
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return ()
        member = new if new is not None else old
        return self._keys("cluster", member.name if member else "")

    def _of_placement(self, old: Placement | None, new: Placement | None) -> Iterable[Key]:
        if old is None or new is None or _strategies(old) == _strategies(new):
            return ()
        return self._keys("placement", own_key(new))

    def _of_snapshot(self, old: ResourceSnapshot | None, new: ResourceSnapshot | None) -> Iterable[Key]:
        if old is not None and new is not None and _size_of(old) == _size_of(new):
            return ()
        snapshot: Any = new if new is not None else old
        namespace, placement, index = _group_of(snapshot)
        return self._keys("version", Key(namespace, resource_snapshot_name(placement, index)))

    def _of_override(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        if old is not None and new is not None:
            return ()
        snapshot: Any = new if new is not None else old
        return self._keys("override", own_key(snapshot))

    # --- loading ----------------------------------------------------------------------------------------------------

    async def load(self, key: Key) -> Seen | Orphans | None:
        """Gather one binding."""
        binding: Binding | None = self._bindings.get(key.name, key.namespace)
        if binding is None:
            return await self._orphans(key)
        cluster = binding.spec.target_cluster
        namespace = member_namespace(cluster)
        works = [work for work in self._works.by("delivery: binding", key) if work.namespace == namespace]
        owner = placement_of(binding)
        placement = self._placements.get(owner.name, owner.namespace)
        if binding.metadata.is_deleting:
            return Seen(scope=self.scope, binding=binding, placement=placement, works=works)
        spec = binding.spec
        master = await self._find(self._snapshots, spec.resource_snapshot_name, key.namespace)
        group = self._snapshots.by("delivery: group", _group_of(master)) if master else ()
        return Seen(
            scope=self.scope,
            binding=binding,
            cluster=self._members.get(cluster),
            placement=placement,
            works=works,
            find_work=lambda name: self._works.get(name, namespace),
            master=self._seals.opened(master) if master else None,
            group=[self._seals.opened(snapshot) for snapshot in group],
            cluster_overrides={
                name: found
                for name in spec.cluster_resource_override_snapshots
                if (found := await self._find(self._cluster_overrides, name)) is not None
            },
            overrides={
                ref: found
                for ref in spec.resource_override_snapshots
                if (found := await self._find(self._overrides, ref.name, ref.namespace)) is not None
            },
            options=self.options,
        )

    async def _orphans(self, key: Key) -> Orphans | None:
        """Return what a binding that is gone for certain has left behind."""
        works = [work for work in self._works.by("delivery: binding", key) if not work.metadata.is_deleting]
        if not works or await self._find(self._bindings, key.name, key.namespace) is not None:
            return None
        owner = placement_of_work(works[0])
        return Orphans(works=works, placement=self._placements.get(owner.name, owner.namespace))

    async def _find(self, store: Store, name: str, namespace: str | None = None) -> Any | None:
        """Return an object; one that is not in the copy is asked for: it may be newer than the copy."""
        if not name:
            return None
        held = store.get(name, namespace)
        if held is not None:
            return held
        try:
            found = await store.client.get(store.resource, name, namespace)
        except NotFound:
            return None
        store.observe(found)
        return found

    def decide(self, seen: Seen | Orphans, now: datetime) -> Plan:
        """Apply the rule."""
        return (
            work_generation.clean_up(seen) if isinstance(seen, Orphans) else work_generation.step(seen, now)
        )

    def explain(self, seen: Seen | Orphans, error: ApiError, now: datetime) -> Plan:
        """Say what the API server has against the Works."""
        return NOTHING if isinstance(seen, Orphans) else work_generation.explain(seen, str(error), now)


def _of_binding(old: Binding | None, new: Binding | None) -> Iterable[Key]:
    return (own_key(new if new is not None else old),) if new is None or work_generation.is_due(new) else ()


def _group_of(snapshot: ResourceSnapshot) -> tuple[str | None, str, str]:
    labels = snapshot.metadata.labels
    return snapshot.namespace, labels.get(LABEL_PARENT_CRP, ""), labels.get(LABEL_RESOURCE_INDEX, "")


def _size_of(snapshot: ResourceSnapshot) -> tuple[str | None, str | None]:
    """Return what a snapshot says about its group; its other marks are for those who make versions."""
    notes = snapshot.metadata.annotations
    return notes.get(ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS), notes.get(ANNOTATION_SUBINDEX)


def _placement_on_cluster(binding: Binding) -> Iterable[tuple[str, Key]]:
    return ((binding.spec.target_cluster, placement_of(binding)),)


def _overrides_of(binding: Binding) -> Iterable[Key]:
    spec = binding.spec
    yield from (Key(None, name) for name in spec.cluster_resource_override_snapshots)
    yield from (_key_of(ref) for ref in spec.resource_override_snapshots)


def _key_of(ref: NamespacedName) -> Key:
    return Key(ref.namespace, ref.name)


def _strategies(placement: Placement) -> Any:
    """Return what Works take from the placement itself."""
    strategy = placement.spec.strategy
    return (strategy.report_back_strategy, strategy.delete_strategy) if strategy else (None, None)


def _is_same_to_us(old: Work | None, new: Work) -> bool:
    """Whether a Work says nothing new: what changed is our own doing, its finalizers, or who manages what."""
    if old is None:
        return new.status is None
    if old.status != new.status or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp:
        return False
    before, after = old.metadata.annotations, new.metadata.annotations
    if before.get(ANNOTATION_WRITTEN_AT) != after.get(ANNOTATION_WRITTEN_AT):
        return True
    return (
        old.metadata.generation == new.metadata.generation
        and old.metadata.labels == new.metadata.labels
        and before == after
    )
