"""The revision log in memory: what exists now, what existed a moment ago, who waits to hear.

One integer counts every write of every logical cluster; it is the
resourceVersion. A write is decided on the loop's thread against the newest
accepted state (`head`), handed to the log, and becomes visible to readers and
watchers only when the log says it is durable. So a reader never sees what a
crash could take back, and writers to one object still queue up without locks.

Bodies are kept as encoded bytes with a little metadata beside them: a decoded
object costs five times as much. Nothing here decodes, waits on the network, or
knows HTTP.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from echelon.hub.watch import Watcher

MAX_HISTORY_EVENTS = 100_000
"""Events kept for watches that come back: ten minutes of 150 writes a second."""

MAX_HISTORY_BYTES = 64 * 1024 * 1024
"""Bytes those events may hold on to: superseded bodies are the hub's second largest memory."""

COMPACT_AT = 1_000
"""Revisions beyond history that are dropped from the log together."""

FIRST_REVISION = 1
"""The revision of what every cluster is born with; real writes come after it."""


class Entry:
    """One object as stored: bytes, and what selectors and owners need to know of it."""

    __slots__ = ("body", "ending", "fields", "key", "labels", "owners", "rev", "uid")

    def __init__(self, key: str, rev: int, body: bytes) -> None:
        self.key = key
        self.rev = rev
        self.body = body
        self.labels: dict[str, str] | None = None
        self.fields: dict[str, str] | None = None
        self.owners: tuple[str, ...] = ()
        self.uid = ""
        self.ending = False
        """Whether the object is marked as being deleted."""


class Event:
    """One write: what became of one key at one revision."""

    __slots__ = ("entry", "frames", "kind", "prev", "rev", "table")

    def __init__(self, table: Table, kind: str, entry: Entry, prev: Entry | None) -> None:
        self.table = table
        self.kind = kind
        self.entry = entry
        self.prev = prev
        self.rev = entry.rev
        self.frames: dict[str, bytes] | None = None


class Table:
    """All objects of one resource in one logical cluster."""

    __slots__ = (
        "_order",
        "_sorted",
        "base",
        "cluster",
        "events",
        "live",
        "pending",
        "resource",
        "scopes",
        "version",
    )

    def __init__(self, cluster: str, resource: str) -> None:
        self.cluster = cluster
        self.resource = resource
        self.live: dict[str, Entry] = {}
        self.base: frozenset[str] = frozenset()
        self.pending: dict[str, Event] = {}
        self.events: deque[Event] | None = None
        self.scopes: dict[str, list[Watcher]] = {}
        self.version = 0
        self._order: list[str] = []
        self._sorted = True

    def keys(self) -> list[str]:
        """Return all keys in order; the caller must not change the list."""
        if not self._sorted:
            self._order = sorted(self.live)
            self._sorted = True
        return self._order

    def span(self, prefix: str, after: str = "") -> tuple[list[str], int, int]:
        """Return the ordered keys and the bounds of those that start with the prefix, from `after` on."""
        keys = self.keys()
        start = bisect_left(keys, after or prefix)
        end = bisect_left(keys, prefix[:-1] + chr(ord(prefix[-1]) + 1)) if prefix else len(keys)
        return keys, start, max(start, end)

    def install(self, event: Event) -> None:
        """Make a durable write visible."""
        entry = event.entry
        key = entry.key
        self.version += 1
        if event.kind == "DELETED":
            if self.live.pop(key, None) is not None and self._sorted:
                at = bisect_left(self._order, key)
                del self._order[at]
        else:
            if self._sorted and key not in self.live:
                if not self._order or key > self._order[-1]:
                    self._order.append(key)
                else:
                    insort(self._order, key)
            self.live[key] = entry
        if self.pending.get(key) is event:
            del self.pending[key]

    def load(self, entry: Entry) -> None:
        """Put an entry in without keeping order: start-up only."""
        self.live[entry.key] = entry
        self._sorted = False

    def head(self, key: str) -> Entry | None:
        """Return the newest accepted state of a key, durable or about to be."""
        if self.pending:
            event = self.pending.get(key)
            if event is not None:
                return None if event.kind == "DELETED" else event.entry
        return self.live.get(key)

    def at(self, rev: int) -> dict[str, Entry | None]:
        """Return how keys differed from now at an earlier revision."""
        then: dict[str, Entry | None] = {}
        for event in reversed(self.events or ()):
            if event.rev <= rev:
                break
            then[event.entry.key] = event.prev
        return then

    def since(self, rev: int) -> list[Event]:
        """Return the writes after a revision, oldest first."""
        events: list[Event] = []
        for event in reversed(self.events or ()):
            if event.rev <= rev:
                break
            events.append(event)
        events.reverse()
        return events


class Log(Protocol):
    """Where writes become durable."""

    def append(self, event: Event) -> None:
        """Take a write; report through the store's `durable_up_to` or `lost`, on the loop's thread."""

    def compact(self, up_to: int, superseded: list[int]) -> None:
        """Forget revisions that nobody can ask for any more."""

    def close(self) -> None:
        """Finish what was taken."""


class Store:
    """Every table of every logical cluster, and the one revision counter."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Table]] = {}
        self.revision = FIRST_REVISION
        self.committed = FIRST_REVISION
        self.compacted = 0
        self.log: Log = InlineLog(self)
        self.base: Callable[[str, str], list[Entry]] = lambda _cluster, _resource: []
        self.observers: list[Callable[[Event], None]] = []
        self.failure = ""
        """Why the log cannot be written at the moment."""
        self._accepted: deque[Event] = deque()
        self._acks: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._history: deque[Event] = deque()
        self._history_bytes = 0
        self._superseded: deque[tuple[int, int]] = deque()

    def table(self, cluster: str, resource: str) -> Table:
        """Return a table, made on first use with what every cluster is born with."""
        tables = self.tables.get(cluster)
        if tables is None:
            tables = self.tables[cluster] = {}
        table = tables.get(resource)
        if table is None:
            table = tables[resource] = Table(cluster, resource)
            born = self.base(cluster, resource)
            for entry in born:
                table.load(entry)
            if born:
                table.base = frozenset(entry.key for entry in born)
        return table

    def drop_cluster(self, cluster: str) -> None:
        """Forget a logical cluster whose tables are empty or no longer wanted."""
        self.tables.pop(cluster, None)

    def next_revision(self) -> int:
        """Draw the revision of the write about to be handed in."""
        self.revision += 1
        return self.revision

    def write(self, table: Table, entry: Entry, prev: Entry | None, *, gone: bool = False) -> Event:
        """Accept a write whose revision was just drawn; it is visible once `durable` returns."""
        kind = "DELETED" if gone else "MODIFIED" if prev is not None else "ADDED"
        event = Event(table, kind, entry, prev)
        table.pending[entry.key] = event
        self._accepted.append(event)
        self.log.append(event)
        return event

    async def durable(self, rev: int) -> None:
        """Wait until a write can no longer be lost."""
        if rev <= self.committed:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acks.append((rev, done))
        await done

    async def settled(self) -> None:
        """Wait until nothing accepted so far can be lost: what was decided on it may be told then."""
        if self._accepted:
            await self.durable(self._accepted[-1].rev)

    def durable_up_to(self, rev: int) -> None:
        """Make every accepted write up to a revision visible (called by the log)."""
        accepted = self._accepted
        woken: list[Watcher] = []
        while accepted and accepted[0].rev <= rev:
            event = accepted.popleft()
            event.table.install(event)
            self.committed = event.rev
            self.remember(event)
            self._tell(event, woken)
        for watcher in woken:
            watcher.wake()
        self.failure = ""
        if len(self._superseded) > COMPACT_AT and self._superseded[COMPACT_AT][0] <= self.compacted:
            self.log.compact(self.compacted, self.droppable())
        acks = self._acks
        while acks and acks[0][0] <= self.committed:
            done = acks.popleft()[1]
            if not done.done():
                done.set_result(None)

    @property
    def history_length(self) -> int:
        """Return how many events are kept for watches."""
        return len(self._history)

    def lost(self, error: Exception) -> None:
        """Take back every write that was accepted and could not be made durable."""
        self.failure = str(error)
        while self._accepted:
            event = self._accepted.pop()
            if event.table.pending.get(event.entry.key) is event:
                del event.table.pending[event.entry.key]
        for table in (table for tables in self.tables.values() for table in tables.values()):
            table.pending.clear()
        while self._acks:
            done = self._acks.popleft()[1]
            if not done.done():
                done.set_exception(error)

    def remember(self, event: Event) -> None:
        """Keep a write for watches and old lists, and let the oldest go."""
        if event.table.events is None:
            event.table.events = deque()
        event.table.events.append(event)
        self._history.append(event)
        self._history_bytes += len(event.entry.body)
        if event.prev is not None and event.prev.rev > FIRST_REVISION:
            self._superseded.append((event.rev, event.prev.rev))
        if event.kind == "DELETED" and event.entry.key not in event.table.base:
            self._superseded.append((event.rev, event.rev))
        while len(self._history) > MAX_HISTORY_EVENTS or self._history_bytes > MAX_HISTORY_BYTES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        event = self._history.popleft()
        self._history_bytes -= len(event.entry.body)
        self.compacted = event.rev
        events = event.table.events
        if events:
            events.popleft()

    def compact(self, up_to: int) -> list[int]:
        """Forget history up to a revision; return the revisions the log may drop."""
        up_to = min(up_to, self.committed)
        while self._history and self._history[0].rev <= up_to:
            self._forget_oldest()
        self.compacted = max(self.compacted, up_to)
        return self.droppable()

    def droppable(self) -> list[int]:
        """Return the revisions that lie before history and are superseded."""
        drop: list[int] = []
        while self._superseded and self._superseded[0][0] <= self.compacted:
            drop.append(self._superseded.popleft()[1])
        return drop

    def restore(self, table: Table, entry: Entry, *, gone: bool) -> None:
        """Replay one row of the log at start-up."""
        prev = table.live.get(entry.key)
        kind = "DELETED" if gone else "MODIFIED" if prev is not None else "ADDED"
        event = Event(table, kind, entry, prev)
        if gone:
            table.live.pop(entry.key, None)
        else:
            table.live[entry.key] = entry
        table._sorted = False  # noqa: SLF001 - one loader, one table
        self.revision = self.committed = max(self.revision, entry.rev)
        if entry.rev > self.compacted:
            self.remember(event)
        elif gone and entry.key not in table.base:
            self._superseded.append((entry.rev, entry.rev))

    def entries(self) -> Iterator[tuple[Table, Entry]]:
        """Walk every live object of every cluster."""
        for tables in list(self.tables.values()):
            for table in list(tables.values()):
                for entry in list(table.live.values()):
                    yield table, entry

    def _tell(self, event: Event, woken: list[Watcher]) -> None:
        scopes = event.table.scopes
        if scopes:
            key = event.entry.key
            slash = key.find("/")
            for scope in ("", key[: slash + 1], "=" + key) if slash >= 0 else ("", "=" + key):
                for watcher in scopes.get(scope, ()):
                    if watcher.push(event):
                        woken.append(watcher)
        for observe in self.observers:
            observe(event)


class InlineLog:
    """A log that keeps nothing: writes are visible at once, without threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, event: Event) -> None:
        """Count the write as durable."""
        self._store.durable_up_to(event.rev)

    def compact(self, up_to: int, superseded: list[int]) -> None:
        """Nothing is kept, nothing to drop."""

    def close(self) -> None:
        """Nothing to finish."""
