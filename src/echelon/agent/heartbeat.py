"""The heartbeat of a member: watches its desk on the hub, probes its own cluster when a beat is due.

It never touches workloads. The probe is the only polling there is, because "is it alive" is a question about now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.agent.properties import Prober
from echelon.api.names import member_namespace
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.rules import heartbeat
from echelon.rules.plan import Key, Plan
from echelon.runtime.clock import Clock
from echelon.runtime.controller import Watch, own_key


def _asked(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Look at the desk when it is new or asks for something new; our own reports need no answer."""
    if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
        return ()
    return (own_key(new),)


class Heartbeat:
    """Keeps one member's desk up to date."""

    name = "heartbeat"
    workers = 1

    def __init__(
        self, hub: Cache, member: Client, clock: Clock, cluster: str, prober: Prober | None = None
    ) -> None:
        self._namespace = member_namespace(cluster)
        self._desks = hub.store(INTERNAL_MEMBER_CLUSTERS, self._namespace)
        self._prober = prober or Prober(member, clock)
        self._clock = clock
        self._cluster = cluster

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow the desk."""
        return (Watch(INTERNAL_MEMBER_CLUSTERS, _asked, self._namespace),)

    async def load(self, key: Key) -> heartbeat.Seen | None:
        """Read the desk and, when a beat is due, look at the cluster."""
        desk = self._desks.get(key.name, key.namespace)
        if desk is None or desk.name != self._cluster:
            return None
        if not heartbeat.needs_probe(desk, self._clock.now()):
            return heartbeat.Seen(desk=desk)
        return heartbeat.Seen(desk=desk, probe=await self._prober.probe())

    def decide(self, seen: heartbeat.Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return heartbeat.step(seen, now)
