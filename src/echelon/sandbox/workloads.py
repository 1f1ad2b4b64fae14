"""A member's own controllers, simulated: what makes the objects of a cluster behave on the embedded hub.

One loop over one queue serves all kinds: keys are `Kind/name` in a namespace. This file watches and gathers; what
becomes of an object is decided in the module of its kind (`workloads_*.py`) and written by the one writer. It talks
to the member through its client alone and knows nothing of placements, so it could drive any empty API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.errors import AlreadyExists
from echelon.rules.plan import Key, Plan
from echelon.runtime.clock import Clock
from echelon.runtime.controller import Loop, Watch
from echelon.runtime.perform import Performer
from echelon.runtime.telemetry import Telemetry
from echelon.sandbox import nodes
from echelon.sandbox.workloads_gather import FOLLOWED, Gatherer, Look, key_of
from echelon.sandbox.workloads_objects import Obj, WorkloadOptions, controller_of, meta


class Controllers:
    """The controller of all simulated kinds of one member."""

    name = "workloads"
    workers = 4

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer

    def connect(self, enqueue: Callable[[Key], None]) -> None:
        """Say where keys go that change in kinds followed later."""
        self._gatherer.connect(enqueue)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow every kind that does something by itself."""
        return tuple(Watch(resource, self._keys_of(resource)) for resource in FOLLOWED)

    def _keys_of(self, resource: Resource) -> Callable[[Obj | None, Obj | None], Iterable[Key]]:
        """Tell whom a change of an object concerns: itself, its controller, and who counts it."""

        def keys(old: Obj | None, new: Obj | None) -> Iterable[Key]:
            obj = new if new is not None else old
            assert obj is not None
            yield key_of(resource.kind, meta(obj).get("namespace"), meta(obj)["name"])
            owner = controller_of(obj)
            if owner is not None and owner["kind"] in self._gatherer.loads:
                yield key_of(owner["kind"], meta(obj).get("namespace"), owner["name"])
            if resource == PODS:
                yield from self._gatherer.touched_by_pod(old, new)
            elif resource == PERSISTENT_VOLUME_CLAIMS:
                yield from self._gatherer.touched_by_claim(obj)

        return keys

    async def load(self, key: Key) -> Look | None:
        """Gather what the kind's rule looks at."""
        kind, _, name = key.name.partition("/")
        obj = self._gatherer.get(kind, key.namespace, name)
        return None if obj is None else await self._gatherer.loads[kind](obj)

    def decide(self, seen: Look, now: datetime) -> Plan:
        """Apply the kind's rule."""
        step, what = seen
        return step(what, now)


class Workloads:
    """One member's workloads, started and stopped."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: WorkloadOptions | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.options = options or WorkloadOptions()
        self._telemetry = telemetry
        self._task: asyncio.Task[None] | None = None
        self.loop: Loop | None = None

    async def start(self) -> None:
        """Bring the member's nodes up and start its controllers."""
        await self._be_born()
        self._cache = Cache(self.client)
        controllers = Controllers(Gatherer(self._cache, self.clock, self.options))
        performer = Performer(self.client, self._cache, self.clock, component="sandbox")
        self.loop = Loop(controllers, self._cache, performer, self.clock, self._telemetry or Telemetry())
        self._task = asyncio.create_task(self.loop.run(), name="workloads")

    async def _be_born(self) -> None:
        now = self.clock.now()
        version = str(msgspec.json.decode(await self.client.raw("GET", "/version"))["gitVersion"])
        for name in nodes.node_names(self.options.nodes):
            await self._make(NODES, nodes.node(name, version, now))
        await self._make(STORAGE_CLASSES, nodes.storage_class())

    async def _make(self, resource: Resource, body: dict[str, Any]) -> None:
        try:
            made = await self.client.create(resource, body)
        except AlreadyExists:
            return
        if "status" in body and not made.get("status", {}).get("conditions"):
            status = {"status": body["status"]}
            await self.client.patch(resource, body["metadata"]["name"], None, status, subresource="status")

    def is_idle(self) -> bool:
        """Tell whether there is nothing to look at right now (timers aside)."""
        return self.loop is None or self.loop.queue.is_idle()

    async def stop(self) -> None:
        """Stop the controllers; the objects stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._cache.close()


__all__ = ["Controllers", "WorkloadOptions", "Workloads"]
