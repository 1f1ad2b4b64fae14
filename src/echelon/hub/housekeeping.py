"""What a cluster does by itself: garbage collection, namespaces, definitions, aggregated roles.

In Kubernetes this is the controller manager's. It follows the store's writes,
keeps what is to be looked at in one queue without duplicates, and works it off
in one task that exists only while there is something to do. Everything it needs
to know again after a crash it finds in the store: `scan` is run on every start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from echelon.hub import access
from echelon.hub.access_aggregate import aggregate
from echelon.hub.cluster import CRDS
from echelon.hub.crd_life import CrdLife
from echelon.hub.garbage import Garbage
from echelon.hub.namespaces import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Namespaces
from echelon.hub.quota import Quotas
from echelon.hub.status import StatusError

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.store import Event

Item = tuple[str, ...]
"""What to do, in which cluster, about what."""

RETRY_S = 1.0
"""Pause after a failure, which is nearly always a log that cannot be written."""

BREATH = 64
"""Items worked off before requests get their turn."""

_log = logging.getLogger(__name__)


class Housekeeping:
    """The queue and the task of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queue: dict[Item, None] = {}
        self._task: asyncio.Task[None] | None = None
        self.garbage = Garbage(hub, self.add)
        self.namespaces = Namespaces(hub, self.add)
        self.crds = CrdLife(hub, self.add)
        self.quotas = Quotas(hub, self.add)
        self._work: dict[str, Callable[..., Awaitable[None]]] = {
            "owners": self.garbage.check_owners,
            "ending": self.garbage.finish,
            "gone": self.garbage.owner_gone,
            "namespace": self.namespaces.furnish,
            "namespace-ending": self.namespaces.empty,
            "crd": self.crds.judge,
            "crd-ending": self.crds.empty,
            "aggregate": self._aggregate,
            "quota": self.quotas.count,
        }

    def add(self, *item: str) -> None:
        """Queue something to look at, and see that somebody does."""
        self._queue[item] = None
        if self._task is None or self._task.done():
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # no loop yet: the first request wakes us
            self._task = loop.create_task(self._run(), name="hub-housekeeping")

    def wake(self) -> None:
        """Begin with what was queued before there was a loop."""
        if self._queue and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="hub-housekeeping")

    @property
    def idle(self) -> bool:
        """Say whether nothing is left to do."""
        return not self._queue and (self._task is None or self._task.done())

    def close(self) -> None:
        """Stop where we are: a start goes on from the store."""
        if self._task is not None:
            self._task.cancel()
        self._queue.clear()

    def observe(self, event: Event) -> None:
        """Queue what a write gives to do."""
        table, entry = event.table, event.entry
        cluster, resource = table.cluster, table.resource
        self.garbage.observe(event)
        self.quotas.observe(event)
        if resource == NAMESPACES:
            self.namespaces.observe(event)
        elif event.kind == "DELETED":
            self.namespaces.content_gone(cluster, resource, entry.key)
            self.crds.instance_gone(cluster, resource)
        if resource == CRDS:
            self.crds.observe(event)
            self.garbage.kinds_changed(cluster)
        elif resource == access.CLUSTER_ROLES and _may_aggregate(event):
            self.add("aggregate", cluster)

    def scan(self) -> None:
        """Queue what a crash may have left half done."""
        for cluster, tables in list(self._hub.store.tables.items()):
            self.garbage.scan(cluster, list(tables.values()))
            for resource in (NAMESPACES, SERVICE_ACCOUNTS, CONFIG_MAPS):
                self._hub.store.table(cluster, resource)
            self.namespaces.scan(cluster)
            self.crds.scan(cluster)
            self.quotas.scan(cluster)

    async def _aggregate(self, cluster: str) -> None:
        aggregate(self._hub, self._hub.clusters[cluster])

    async def _run(self) -> None:
        done = 0
        while self._queue:
            item = next(iter(self._queue))
            del self._queue[item]
            try:
                await self._work[item[0]](*item[1:])
            except StatusError as error:
                _log.warning("housekeeping %s: %s", item, error)
                self._queue[item] = None
                await asyncio.sleep(RETRY_S)
            except Exception:  # noqa: BLE001 - one bad object must not stop the house
                _log.exception("housekeeping %s", item)
            done += 1
            if done % BREATH == 0:
                await self._hub.store.durable(self._hub.store.revision)
                await asyncio.sleep(0)


def _may_aggregate(event: Event) -> bool:
    """Say whether a write of a role may change what others are made of."""
    entry, prev = event.entry, event.prev
    had_labels = prev is not None and bool(prev.labels)
    return bool(entry.labels) or had_labels or b'"aggregationRule"' in entry.body
