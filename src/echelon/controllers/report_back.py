"""Reporting status back: watches placements and their Works, loads the originals, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from echelon.api.own import WORKS
from echelon.api.placement import Placement
from echelon.api.scope import Key, Scope
from echelon.api.work import Work
from echelon.client.cache import Cache
from echelon.client.errors import ApiError, NotFound
from echelon.rules import report_back
from echelon.rules.plan import Plan
from echelon.rules.report_back import Original, Seen
from echelon.rules.work_generation_content import placement_of_work
from echelon.runtime.controller import Watch, own_key

INDEX = "report back: placement"


class ReportsBack:
    """Loads one placement, what was reported for it, and the objects that it was reported about."""

    workers = 4

    def __init__(self, cache: Cache, scope: Scope) -> None:
        self.name = f"{scope.placement.singular}-status-back-reporter"
        self.scope = scope
        self._client = cache.client
        self._placements = cache.store(scope.placement)
        self._works = cache.store(WORKS)
        self._works.add_index(INDEX, lambda work: (placement_of_work(work),))

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow placements that ask for it, and the reports about those alone."""
        return (Watch(self.scope.placement, self._of_placement), Watch(WORKS, self._of_work))

    def _of_placement(self, old: Placement | None, new: Placement | None) -> Iterable[Key]:
        if new is None or not report_back.asks_for_it(new):
            return ()
        is_news = old is None or old.metadata.generation != new.metadata.generation or _selected(old, new)
        return (own_key(new),) if is_news else ()

    def _of_work(self, old: Work | None, new: Work | None) -> Iterable[Key]:
        if new is None or (old is not None and old.status == new.status):
            return ()
        key = placement_of_work(new)
        if (key.namespace is not None) != self.scope.namespaced:
            return ()
        placement = self._placements.get(key.name, key.namespace)
        can = placement and report_back.asks_for_it(placement) and not report_back.problem_of(placement)
        return (key,) if can else ()

    async def load(self, key: Key) -> Seen | None:
        """Gather one placement."""
        placement = self._placements.get(key.name, key.namespace)
        if placement is None:
            return None
        found: list[tuple[Original, Mapping[str, Any]]] = []
        for original in report_back.originals_of(placement, self._works.by(INDEX, key)):
            try:
                live = await self._client.get(original.resource, original.name, original.namespace)
            except NotFound:  # no longer on the hub: soon no longer selected
                continue
            found.append((original, live))
        return Seen(scope=self.scope, placement=placement, found=found)

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return report_back.step(seen, now)

    def explain(self, seen: Seen, error: ApiError, _now: datetime) -> Plan:
        """Say what the API server has against it (rights, or a status that the hub's version of the kind refuses)."""
        return report_back.say(seen, f"failed to update status to the target resource: {error}")


def _selected(old: Placement, new: Placement) -> bool:
    """Whether the selected resources have changed."""
    return bool(_resources(old) != _resources(new))


def _resources(placement: Placement) -> Any:
    return placement.status.selected_resources if placement.status else ()
