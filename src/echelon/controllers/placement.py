"""Placements of one scope: watches everything their status is made from, loads it, and decides nothing.

What placements select is followed by the `Selection`, which wakes exactly those that a change concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from echelon.api.binding import Binding
from echelon.api.builtin import NAMESPACES
from echelon.api.names import LABEL_PARENT_CRP
from echelon.api.own import PLACEMENT_STATUSES
from echelon.api.placement import Placement
from echelon.api.scope import Key, Scope
from echelon.client.cache import Cache
from echelon.client.errors import ApiError
from echelon.controllers.selection import Selection
from echelon.rules import placements
from echelon.rules.placement_status import Memory
from echelon.rules.placements import copy_namespace
from echelon.rules.plan import Plan
from echelon.rules.select import InvalidSelection, Selected
from echelon.runtime.controller import Watch, each
from echelon.runtime.placement_metrics import PlacementMetrics
from echelon.runtime.writes import LastWrites

BY_PLACEMENT = "placement"
BY_COPY_NAMESPACE = "copy-namespace"


def placement_of(obj: Any) -> tuple[Key, ...]:
    """Return the placement that a snapshot or binding belongs to."""
    name = obj.metadata.labels.get(LABEL_PARENT_CRP)
    return (Key(obj.metadata.namespace or None, name),) if name else ()


def of_placement(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Return the placements that a changed snapshot or binding concerns."""
    found = dict.fromkeys(placement_of(obj)[0] for obj in (old, new) if obj is not None and placement_of(obj))
    return tuple(found)


class Placements:
    """Loads one placement and everything made for it."""

    workers = 10

    def __init__(
        self,
        cache: Cache,
        selection: Selection,
        scope: Scope,
        options: placements.Options | None = None,
        *,
        metrics: PlacementMetrics | None = None,
    ) -> None:
        self.name = f"placement-{scope.name.lower()}"
        self.scope = scope
        self.options = options or placements.Options()
        self._selection = selection
        self._placements = cache.store(scope.placement)
        self._placements.add_index(BY_COPY_NAMESPACE, self._copy_namespace)
        self._writes = LastWrites()
        self._memories: dict[Key, Memory] = {}  # what was said last; nothing is lost with it
        if metrics is not None:
            self._placements.subscribe(partial(metrics.sees, scope))
        self._made = [
            cache.store(resource)
            for resource in (scope.policy_snapshot, scope.resource_snapshot, scope.binding)
        ]
        for store in self._made:
            store.add_index(BY_PLACEMENT, placement_of)
        self._namespaces = cache.store(NAMESPACES)
        self._copies = None if scope.namespaced else cache.store(PLACEMENT_STATUSES)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow placements and what is made for them; for copies of the status also where they are."""
        scope = self.scope
        followed = (
            each(scope.placement),
            Watch(scope.policy_snapshot, of_placement),
            Watch(scope.resource_snapshot, of_placement),
            Watch(scope.binding, _changed_binding),
        )
        if self._copies is None:
            return followed
        return (
            *followed,
            Watch(PLACEMENT_STATUSES, _of_copy),
            Watch(NAMESPACES, self._of_namespace),
        )

    def connect(self, enqueue: Callable[[Key], None]) -> None:
        """Say where keys go whose selected resources have changed."""
        self._selection.connect(self.scope, enqueue)

    async def load(self, key: Key) -> placements.Seen | None:
        """Gather one placement."""
        placement: Placement | None = self._placements.get(key.name, key.namespace)
        if placement is None:
            self._selection.forget(self.scope, key)
            self._writes.forget(key)
            self._memories.pop(key, None)
            return None
        selected: Selected | None = None
        problem = ""
        if not placement.metadata.is_deleting:
            try:
                selected = await self._selection.select(self.scope, placement)
            except InvalidSelection as error:
                problem = error.text
            placement = self._placements.get(key.name, key.namespace) or placement
        namespace = copy_namespace(self.scope, placement)
        policies, resources, bindings = (tuple(store.by(BY_PLACEMENT, key)) for store in self._made)
        return placements.Seen(
            scope=self.scope,
            placement=placement,
            policy_snapshots=policies,
            resource_snapshots=resources,
            bindings=bindings,
            selected=selected,
            problem=problem,
            copy=self._copies.get(key.name, namespace) if namespace and self._copies else None,
            has_copy_namespace=bool(namespace) and self._is_there(namespace),
            written_at=self._writes.at(key),
            memory=self._memories.setdefault(key, Memory()),
            options=self.options,
        )

    def decide(self, seen: placements.Seen, now: datetime) -> Plan:
        """Apply the rule."""
        plan = placements.step(replace(seen, busy=self._writes.busy(now)), now)
        if plan.status is not None:
            self._writes.note(self.scope.key(seen.placement.name, seen.placement.namespace), now)
        return plan

    def explain(self, seen: placements.Seen, error: ApiError, now: datetime) -> Plan:
        """Tell people what the API server refused."""
        return placements.explain(seen, str(error), now)

    def _is_there(self, namespace: str | None) -> bool:
        found = self._namespaces.get(namespace or "")
        return found is not None and not found["metadata"].get("deletionTimestamp")

    def _copy_namespace(self, placement: Placement) -> tuple[str, ...]:
        namespace = copy_namespace(self.scope, placement)
        return (namespace,) if namespace else ()

    def _of_namespace(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        """Return the placements whose status is copied into a namespace that came, went or is going."""
        if old is not None and new is not None and not new["metadata"].get("deletionTimestamp"):
            return ()
        name = (new if new is not None else old or {})["metadata"]["name"]
        return [Key(None, placement.name) for placement in self._placements.by(BY_COPY_NAMESPACE, name)]


def _of_copy(old: Any | None, new: Any | None) -> Iterable[Key]:
    obj: Any = new if new is not None else old
    return (Key(None, obj.name),)


def _changed_binding(old: Binding | None, new: Binding | None) -> Iterable[Key]:
    """Return the placement of a binding that changed in a way its status shows."""
    if (
        old is not None
        and new is not None
        and (old.status, old.metadata.deletion_timestamp)
        == (
            new.status,
            new.metadata.deletion_timestamp,
        )
    ):
        shown = (
            old.spec.resource_snapshot_name,
            old.spec.scheduling_policy_snapshot_name,
            old.metadata.generation,
        )
        if shown == (
            new.spec.resource_snapshot_name,
            new.spec.scheduling_policy_snapshot_name,
            new.metadata.generation,
        ):
            return ()
    return of_placement(old, new)
