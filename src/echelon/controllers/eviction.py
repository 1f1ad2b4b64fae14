"""Evictions: watches evictions and loads what they are about; decides nothing.

One at a time, so that two evictions never both use up the last of a budget. The budget is read afresh: one that was
written just before an eviction counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from echelon.api.binding import Binding
from echelon.api.eviction import DisruptionBudget
from echelon.api.own import DISRUPTION_BUDGETS, EVICTIONS
from echelon.api.scope import CLUSTER, Key
from echelon.client.cache import Cache
from echelon.client.errors import NotFound
from echelon.rules import eviction
from echelon.rules.eviction import Seen
from echelon.rules.plan import Plan
from echelon.rules.work_generation_content import placement_of
from echelon.runtime.controller import Watch, each


class Evictions:
    """Loads one eviction, its placement, that placement's bindings and budget."""

    name = "clusterresourceplacementeviction-controller"
    workers = 1

    def __init__(self, cache: Cache) -> None:
        self._client = cache.client
        self._evictions = cache.store(EVICTIONS)
        self._placements = cache.store(CLUSTER.placement)
        self._bindings = cache.store(CLUSTER.binding)
        self._bindings.add_index("eviction: placement", _placement_of)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow evictions only: each is answered once, from what is there then.

        The placements and bindings are in the watched set so that they are known before the first answer.
        """
        return (each(EVICTIONS), Watch(CLUSTER.placement, _nobody), Watch(CLUSTER.binding, _nobody))

    async def load(self, key: Key) -> Seen | None:
        """Gather one eviction."""
        found = self._evictions.get(key.name)
        if found is None or eviction.is_final(found):
            return None
        name = found.spec.placement_name
        return Seen(
            eviction=found,
            placement=self._placements.get(name),
            bindings=self._bindings.by("eviction: placement", Key(None, name)),
            budget=await self._budget(name),
        )

    async def _budget(self, name: str) -> DisruptionBudget | None:
        try:
            budget: DisruptionBudget = await self._client.get(DISRUPTION_BUDGETS, name)
        except NotFound:
            return None
        return budget

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return eviction.step(seen, now)


def _placement_of(binding: Binding) -> Iterable[Key]:
    return (placement_of(binding),)


def _nobody(_old: object, _new: object) -> Iterable[Key]:
    return ()
