"""Overrides and their snapshots: watches both, loads one override, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from echelon.api.names import LABEL_PARENT_RESOURCE_OVERRIDE
from echelon.api.override import OverrideSnapshot
from echelon.api.scope import Key, Scope
from echelon.client.cache import Cache
from echelon.rules import override_snapshots
from echelon.rules.override_snapshots import Seen
from echelon.rules.plan import Plan
from echelon.runtime.controller import Watch, each


class Overrides:
    """Loads one override and its snapshots."""

    workers = 2

    def __init__(self, cache: Cache, scope: Scope) -> None:
        self.name = f"{scope.override.singular}-controller"
        self.scope = scope
        self._overrides = cache.store(scope.override)
        self._snapshots = cache.store(scope.override_snapshot)
        self._snapshots.add_index("overrides: parent", _parent_of)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow overrides; a snapshot matters to its override (somebody may have deleted or unmarked it)."""
        return (each(self.scope.override), Watch(self.scope.override_snapshot, _of_snapshot))

    async def load(self, key: Key) -> Seen | None:
        """Gather one override."""
        override = self._overrides.get(key.name, key.namespace)
        if override is None:
            return None
        return Seen(
            scope=self.scope, override=override, snapshots=self._snapshots.by("overrides: parent", key)
        )

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return override_snapshots.step(seen, now)


def _parent_of(snapshot: OverrideSnapshot) -> Iterable[Key]:
    parent = snapshot.metadata.labels.get(LABEL_PARENT_RESOURCE_OVERRIDE, "")
    return (Key(snapshot.namespace, parent),) if parent else ()


def _of_snapshot(old: OverrideSnapshot | None, new: OverrideSnapshot | None) -> Iterable[Key]:
    snapshot = new if new is not None else old
    return _parent_of(snapshot) if snapshot is not None else ()
