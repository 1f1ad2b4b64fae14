"""A read-only, indexed copy of what the API holds, kept true by list + watch and shared by a whole process.

One Store per resource (and namespace): it lists once, then follows the watch; a lost watch is resumed from the
last revision seen, an expired one (410) is listed anew. Objects are decoded once and shared, so nobody may
change them. Own writes are fed back through `observe`, so a controller reads what it just wrote.

It never polls and never writes. Callbacks run on the event loop, get (old, new), and must not block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import structlog

from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.errors import ApiError, Expired, NotFound, Unreachable

log = structlog.get_logger("echelon.cache")

Name = tuple[str | None, str]
Change = Callable[[Any | None, Any | None], None]
Index = Callable[[Any], Iterable[Any]]

FIRST_RETRY_S = 0.05  # a dropped watch is usually back at once
MAX_RETRY_S = (
    2.0  # everything waits for an API that is away, or answers but is not ready yet; asking costs little
)
MAX_RETRY_MISSING_S = 5.0  # a kind that is not served may never be
RETRY_FACTOR = 2.0


def meta_of(obj: Any) -> tuple[Name, str, str]:
    """Return ((namespace, name), resourceVersion, uid) of a typed or plain object."""
    if isinstance(obj, Mapping):
        meta = obj["metadata"]
        name = (meta.get("namespace") or None, meta["name"])
        return name, meta.get("resourceVersion", ""), meta.get("uid", "")
    meta = obj.metadata
    return (meta.namespace or None, meta.name), meta.resource_version or "", meta.uid or ""


def is_older(left: str, right: str) -> bool:
    """Tell whether revision `left` is at most `right`; revisions that are no numbers are never older."""
    return left.isdigit() and right.isdigit() and int(left) <= int(right)


class Store:
    """The copy of one resource. Reads are plain calls; `run` keeps it true."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.labels = labels
        self.fields = fields
        self.synced = asyncio.Event()
        self.error: str = ""  # why the copy is not following right now; empty while it does
        self._objects: dict[Name, Any] = {}
        self._indexes: dict[str, Index] = {}
        self._index_rows: dict[str, dict[Any, dict[Name, None]]] = {}
        self._index_keys: dict[tuple[str, Name], tuple[Any, ...]] = {}
        self._subscribers: list[Change] = []
        self._listed_at = ""  # the revision of the last list
        self._gone: dict[Name, str] = {}  # uid of objects deleted since the last list, against late `observe`

    # reading

    def get(self, name: str, namespace: str | None = None) -> Any | None:
        """Return one object, or None."""
        return self._objects.get((namespace or None, name))

    def all(self) -> Iterator[Any]:
        """Iterate over all objects, in the order they came."""
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def by(self, index: str, value: Any) -> list[Any]:
        """Return the objects an index files under a value."""
        rows = self._index_rows[index].get(value)
        return [self._objects[name] for name in rows] if rows else []

    def add_index(self, index: str, keys: Index) -> None:
        """File objects under the values `keys(object)` gives. Adding the same index again changes nothing."""
        if index in self._indexes:
            return
        self._indexes[index] = keys
        self._index_rows[index] = {}
        for name, obj in self._objects.items():
            self._file(index, name, obj)

    def subscribe(self, change: Change) -> None:
        """Call `change(old, new)` for every change; what is already here is told at once as (None, object)."""
        self._subscribers.append(change)
        for obj in tuple(self._objects.values()):
            change(None, obj)

    def unsubscribe(self, change: Change) -> None:
        """Stop telling `change`."""
        self._subscribers.remove(change)

    # keeping true

    def observe(self, obj: Any) -> None:
        """Take in an object returned by a write of our own, unless the watch has already brought a newer one."""
        name, revision, uid = meta_of(obj)
        if self.namespace is not None and name[0] != self.namespace:
            return
        if not self.synced.is_set() or self._gone.get(name) == uid or self.labels or self.fields:
            return
        held = self._objects.get(name)
        if held is not None and is_older(revision, meta_of(held)[1]):
            return
        self._put(name, obj)

    async def catch_up(self, namespace: str | None = None, name: str = "") -> None:
        """Compare a part of the copy with the API itself and, where it lags behind, list anew.

        A watch tells everything, but nobody can know how soon: what must not be older than now asks first.
        """
        fields = f"metadata.name={name}" if name else ""
        now = (await self.client.list(self.resource, namespace, fields=fields, only_meta=True)).items
        there = {meta_of(item)[0]: meta_of(item)[1] for item in now}
        is_behind = any(
            (held := self._objects.get(key)) is None or not is_older(revision, meta_of(held)[1])
            for key, revision in there.items()
        )
        if is_behind or any(key not in there for key in self._held_in(namespace, name)):
            await self._list()

    def _held_in(self, namespace: str | None, name: str) -> list[Name]:
        return [key for key in self._objects if namespace in (None, key[0]) and (not name or key[1] == name)]

    async def run(self) -> None:
        """List and watch until cancelled."""
        retry_s = FIRST_RETRY_S
        revision = ""
        while True:
            try:
                if not revision:
                    revision = await self._list()
                self.error = ""
                async for event in self.client.watch(
                    self.resource,
                    self.namespace,
                    resource_version=revision,
                    labels=self.labels,
                    fields=self.fields,
                ):
                    retry_s = FIRST_RETRY_S
                    if event.type == "BOOKMARK":
                        revision = event.object.metadata.resource_version
                    else:
                        revision = self._take(event.type, event.object) or revision
            except Expired:
                revision = ""
            except (ApiError, Unreachable, msgspec.DecodeError) as error:
                self.error = str(error)
                if isinstance(error, msgspec.DecodeError):  # half an event, or an object nobody can read
                    log.warning(
                        "cannot read what is watched", resource=self.resource.plural, error=self.error
                    )
                    revision = ""
                if isinstance(error, NotFound):  # the kind itself is gone: so are its objects
                    revision = ""
                    self._replace({})
                await asyncio.sleep(retry_s)
                most_s = MAX_RETRY_MISSING_S if isinstance(error, NotFound) else MAX_RETRY_S
                retry_s = min(retry_s * RETRY_FACTOR, most_s)

    async def _list(self) -> str:
        page = await self.client.list(self.resource, self.namespace, labels=self.labels, fields=self.fields)
        self._gone.clear()
        self._replace({meta_of(item)[0]: item for item in page.items}, page.resource_version)
        self._listed_at = page.resource_version
        self.synced.set()
        return page.resource_version

    def _replace(self, objects: Mapping[Name, Any], revision: str = "") -> None:
        """Hold exactly these objects, but for own writes made after the list's `revision`, which it cannot know.

        A server whose revisions have gone back (restored from a backup) is believed as it is.
        """
        has_gone_back = not is_older(self._listed_at or "0", revision)

        def knows(held: Any) -> bool:
            return has_gone_back or is_older(meta_of(held)[1], revision)

        for name in [name for name, held in self._objects.items() if name not in objects and knows(held)]:
            self._drop(name)
        for name, obj in objects.items():
            held = self._objects.get(name)
            if held is None or (knows(held) and meta_of(held)[1:] != meta_of(obj)[1:]):
                self._put(name, obj)

    def _take(self, kind: str, obj: Any) -> str:
        name, revision, uid = meta_of(obj)
        if kind == "DELETED":
            self._gone[name] = uid
            held = self._objects.get(name)
            if held is not None and meta_of(held)[2] == uid:
                self._drop(name)
            return revision
        held = self._objects.get(name)
        if held is None or not is_older(revision, meta_of(held)[1]):
            self._put(name, obj)
        return revision

    def _put(self, name: Name, obj: Any) -> None:
        old = self._objects.get(name)
        self._objects[name] = obj
        for index in self._indexes:
            self._file(index, name, obj)
        self._tell(old, obj)

    def _drop(self, name: Name) -> None:
        old = self._objects.pop(name)
        for index in self._indexes:
            self._file(index, name, None)
        self._tell(old, None)

    def _file(self, index: str, name: Name, obj: Any | None) -> None:
        rows = self._index_rows[index]
        keys = () if obj is None else tuple(self._indexes[index](obj))
        before = self._index_keys.get((index, name), ())
        if keys == before:
            return
        for key in before:
            rows[key].pop(name, None)
            if not rows[key]:
                del rows[key]
        for key in keys:
            rows.setdefault(key, {})[name] = None
        if keys:
            self._index_keys[index, name] = keys
        else:
            self._index_keys.pop((index, name), None)

    def _tell(self, old: Any | None, new: Any | None) -> None:
        for change in tuple(self._subscribers):
            change(old, new)


class Cache:
    """The stores of one process for one API server, each started the first time somebody asks for it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._stores: dict[tuple[str, str, str, str | None, str, str], Store] = {}
        self._tasks: dict[tuple[str, str, str, str | None, str, str], asyncio.Task[None]] = {}
        self._of_kind: dict[tuple[str, str, str], list[Store]] = {}  # by group, version and plural

    def store(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Store:
        """Return the store of a resource, following it from now on. Needs a running event loop."""
        key = (resource.group, resource.version, resource.plural, namespace, labels, fields)
        if key not in self._stores:
            store = self._stores[key] = Store(self.client, resource, namespace, labels=labels, fields=fields)
            self._of_kind.setdefault(key[:3], []).append(store)
            self._tasks[key] = asyncio.create_task(store.run(), name=f"cache {resource.plural}")
        return self._stores[key]

    def observe(self, resource: Resource, obj: Any) -> None:
        """Feed back the result of a write of our own."""
        for store in self._of_kind.get((resource.group, resource.version, resource.plural), ()):
            store.observe(obj)

    async def drop(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> None:
        """Stop following a resource nobody needs any more."""
        key = (resource.group, resource.version, resource.plural, namespace, labels, fields)
        store = self._stores.pop(key, None)
        if store is not None:
            self._of_kind[key[:3]].remove(store)
        task = self._tasks.pop(key, None)
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def synced(self) -> None:
        """Wait until every store that was asked for holds its first list."""
        for store in tuple(self._stores.values()):
            await store.synced.wait()

    def is_synced(self) -> bool:
        """Tell whether every store that was asked for holds its first list."""
        return all(store.synced.is_set() for store in self._stores.values())

    async def close(self) -> None:
        """Stop following everything."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stores.clear()
        self._of_kind.clear()
        self._tasks.clear()
