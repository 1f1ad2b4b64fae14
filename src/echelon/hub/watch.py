"""One watcher: a queue between the store and one stream.

The store pushes events while it makes writes visible; the stream takes all
that came since it last looked, so a burst costs one write to the socket. A
watcher that does not keep up is dropped, never waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echelon.hub.store import Entry, Event, Table

MAX_QUEUED_EVENTS = 20_000
"""Events one slow watcher may have waiting: 40 MB of references at 2 KB each, shared with history."""

MAX_QUEUED_BYTES = 64 * 1024 * 1024
"""Bytes of objects one slow watcher may keep from being forgotten: as many as history itself."""


class Watcher:
    """Follows one table, or one namespace or one object of it."""

    __slots__ = ("_waiter", "closed", "match", "queue", "scope", "size", "table")

    def __init__(self, table: Table, scope: str, match: Callable[[Entry], bool] | None) -> None:
        self.table = table
        self.scope = scope
        self.match = match
        self.queue: list[tuple[str, Event]] = []
        self.size = 0
        self.closed = False
        self._waiter: asyncio.Future[None] | None = None
        table.scopes.setdefault(scope, []).append(self)

    def push(self, event: Event) -> bool:
        """Queue an event if it concerns this watcher; say whether the watcher must be woken."""
        kind = event.kind
        if self.match is not None:
            kind = seen_as(event, self.match)
            if not kind:
                return False
        queue = self.queue
        self.size += len(event.entry.body)
        if queue and (len(queue) >= MAX_QUEUED_EVENTS or self.size > MAX_QUEUED_BYTES):
            self.close()
            return True
        queue.append((kind, event))
        return len(queue) == 1

    def wake(self) -> None:
        """Let the stream take what is queued."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Leave the table; the stream ends after what it has taken."""
        if not self.closed:
            self.closed = True
            watchers = self.table.scopes.get(self.scope)
            if watchers is not None:
                watchers.remove(self)
                if not watchers:
                    del self.table.scopes[self.scope]
        self.wake()

    def take(self) -> list[tuple[str, Event]]:
        """Return everything queued."""
        queue = self.queue
        self.queue, self.size = [], 0
        return queue

    async def ready(self, timeout_s: float) -> bool:
        """Wait until something is queued; False when time is up or the watcher was dropped."""
        if self.queue:
            return True
        if self.closed or timeout_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_s, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        return bool(self.queue)


def seen_as(event: Event, match: Callable[[Entry], bool]) -> str:
    """Return an event's type through a selector: an object that stops matching is DELETED."""
    after = event.kind != "DELETED" and match(event.entry)
    before = event.prev is not None and match(event.prev)
    if after:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else ""
