"""One loop for every controller: take a key, load, decide, perform.

A controller says what it watches and how it loads; its rule decides. It is level-based: the decision depends on
the state loaded, never on which event came. The loop keeps one decision per key at a time, so events that arrive
while a plan is performed merge into one next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
import structlog

from echelon.api.resource import Resource
from echelon.client.cache import Cache, Store
from echelon.client.errors import ApiError, Conflict, Expired, ServerError, TooManyRequests, Unreachable
from echelon.rules.plan import Key, Plan
from echelon.runtime.clock import Clock
from echelon.runtime.perform import Performer
from echelon.runtime.queue import MAX_RETRY_S, Queue
from echelon.runtime.telemetry import Telemetry

log = structlog.get_logger("echelon.controller")

# An API that is away is no reason to be late when it comes back, and asking a closed door costs nothing.
MAX_RETRY_UNREACHABLE_S = 2.0
MAX_RETRY_FAILING_S = (
    10.0  # it answers, but with errors of its own: a store without a disk, a webhook that is gone
)


def patience_s(error: Exception) -> float:
    """Return the longest delay before the next try."""
    if isinstance(error, ServerError):
        return MAX_RETRY_FAILING_S
    return MAX_RETRY_S if isinstance(error, ApiError) else MAX_RETRY_UNREACHABLE_S


def own_key(obj: Any) -> Key:
    """Return the key of an object itself."""
    meta = obj["metadata"] if isinstance(obj, dict) else obj.metadata
    if isinstance(meta, dict):
        return Key(meta.get("namespace"), meta["name"])
    return Key(meta.namespace or None, meta.name)


class Watch(msgspec.Struct, frozen=True):
    """A kind to follow, and which keys a change of one object (old, new; None where absent) concerns.

    `cache` names the cache to follow it in: "hub" (default) or another one the controller was given.
    """

    resource: Resource
    keys: Callable[[Any | None, Any | None], Iterable[Key]]
    namespace: str | None = None


def each(resource: Resource, namespace: str | None = None) -> Watch:
    """Follow a kind whose objects are the keys themselves."""
    return Watch(resource, lambda old, new: (own_key(new if new is not None else old),), namespace)


class Controller(Protocol):
    """What a controller is. `load` gathers and never decides; `decide` decides and never gathers.

    A controller that also follows things it learns of only while running (kinds that placements select, objects
    on a member) has `connect(enqueue)`: it is told once where the keys go that they concern.

    One that tells people when the API server refuses what it wants to write has `explain(seen, error, now)`: a plan
    performed after such a refusal, on a fresh load. The key is retried all the same.
    """

    name: str
    workers: int

    @property
    def watches(self) -> Sequence[Watch]:
        """The kinds followed."""
        ...

    async def load(self, key: Key) -> Any | None:
        """Gather everything the rule looks at; None when there is nothing to decide."""
        ...

    def decide(self, seen: Any, now: datetime) -> Plan:
        """Apply the rule."""
        ...


class Loop:
    """Runs one controller against one cache until cancelled."""

    def __init__(
        self,
        controller: Controller,
        cache: Cache,
        performer: Performer,
        clock: Clock,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.controller = controller
        self.cache = cache
        self.performer = performer
        self.clock = clock
        self.queue: Queue[Key] = Queue()
        telemetry = telemetry or Telemetry()
        self._decisions = telemetry.decisions.labels(controller.name)
        self._failures = telemetry.failures.labels(controller.name)
        self._seconds = telemetry.seconds.labels(controller.name)
        telemetry.waiting.labels(controller.name).set_function(self.queue.__len__)

    def follow(self) -> list[Store]:
        """Start following what the controller watches; every change becomes keys in the queue."""
        stores = []
        for watch in self.controller.watches:
            store = self.cache.store(watch.resource, watch.namespace)
            store.subscribe(self._enqueuer(watch))
            stores.append(store)
        connect = getattr(self.controller, "connect", None)
        if connect is not None:
            connect(self.queue.add)
        return stores

    def _enqueuer(self, watch: Watch) -> Callable[[Any | None, Any | None], None]:
        def enqueue(old: Any | None, new: Any | None) -> None:
            for key in watch.keys(old, new):
                self.queue.add(key)

        return enqueue

    async def run(self) -> None:
        """Follow, wait for the first lists, then work the queue."""
        stores = self.follow()
        for store in stores:
            await store.synced.wait()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.controller.workers):
                    group.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self.look(key)
            finally:
                self.queue.done(key)

    async def look(self, key: Key) -> None:
        """Look at one key; every failure is retried with back-off, none is forgotten."""
        name = self.controller.name
        try:
            with self._seconds.time():
                await self._decide(key)
        except Conflict as error:
            delay = self.queue.retry(key)
            log.debug(
                "conflict, looking again", controller=name, key=str(key), error=str(error), delay_s=delay
            )
        except TooManyRequests as error:
            self.queue.add_in(key, error.retry_after_s or 1.0)
        except (ApiError, Unreachable, TimeoutError, OSError) as error:
            self._failures.inc()
            delay = self.queue.retry(key, patience_s(error))
            log.warning("will try again", controller=name, key=str(key), error=str(error), delay_s=delay)
        except Exception:  # a bug in one key must not stop the others
            self._failures.inc()
            delay = self.queue.retry(key)
            log.exception("failed, will try again", controller=name, key=str(key), delay_s=delay)

    async def _decide(self, key: Key) -> None:
        """Load, decide, perform."""
        seen = await self.controller.load(key)
        if seen is None:
            self.queue.cancel_timer(key)
            self.queue.succeeded(key)
            return
        now = self.clock.now()
        plan = self.controller.decide(seen, now)
        self._decisions.inc()
        self.queue.cancel_timer(key)
        if plan.wake_at is not None:
            self.queue.add_in(key, (plan.wake_at - now).total_seconds())
        try:
            await self.performer.perform(plan)
        except (Conflict, TooManyRequests, Expired):
            raise
        except ApiError as error:
            await self._explain(key, error)
            raise
        self.queue.succeeded(key)

    async def _explain(self, key: Key, error: ApiError) -> None:
        """Let the controller tell people what the API server refused."""
        explain = getattr(self.controller, "explain", None)
        seen = await self.controller.load(key) if explain else None
        if explain is None or seen is None:
            return
        try:
            await self.performer.perform(explain(seen, error, self.clock.now()))
        except (ApiError, Unreachable) as second:
            log.debug("could not say so", controller=self.controller.name, key=str(key), error=str(second))
