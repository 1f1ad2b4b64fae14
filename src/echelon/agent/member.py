"""The member's API as the agent sees it: which kinds it serves, and live copies of exactly what Works speak of.

Kinds are looked up once and remembered; unknown ones are looked up again when a definition changes. Objects are
followed with one watch per kind and namespace that some Work names, dropped when none does, so drift and
availability arrive as events and nothing is ever polled. It decides nothing and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from echelon.api.builtin import BUILT_IN, CUSTOM_RESOURCE_DEFINITIONS
from echelon.api.registry import find
from echelon.api.resource import Resource
from echelon.api.scope import Key
from echelon.client.base import Client
from echelon.client.cache import Cache, Store
from echelon.client.errors import NotFound

SYNC_WAIT_S = 5.0  # a first list that takes longer is not waited for: the object is read on its own

Kind = tuple[str, str, str]  # group, version, kind
_BUILT_IN = frozenset(BUILT_IN)


class Place(NamedTuple):
    """Where objects are followed: a kind, and a namespace unless the kind has none."""

    resource: Resource
    namespace: str | None


class Thing(NamedTuple):
    """One object of the member."""

    place: Place
    name: str


def thing_of(resource: Resource, namespace: str, name: str) -> Thing:
    """Name an object."""
    return Thing(Place(resource, (namespace or None) if resource.namespaced else None), name)


class Member:
    """Kinds and objects of one member cluster."""

    def __init__(self, client: Client, changed: Callable[[Key], None]) -> None:
        self.client = client
        self.cache = Cache(client)
        self._changed = changed
        self._kinds: dict[Kind, Resource] = {}
        self._unknown: dict[Kind, set[Key]] = {}
        self._held: dict[Key, frozenset[Thing]] = {}
        self._holders: dict[Place, dict[str, set[Key]]] = {}
        self._follows_definitions = False

    # kinds

    async def resolve(self, group: str, version: str, kind: str, asked_by: Key) -> Resource | None:
        """Find out how the member serves a kind; None when it does not (whoever asked hears when it may)."""
        known = find(group, kind)
        if known is not None and known.version == version and known in _BUILT_IN:
            return known
        resource = self._kinds.get((group, version, kind))
        if resource is not None:
            return resource
        self._follow_definitions()
        await self._discover(group, version)
        resource = self._kinds.get((group, version, kind))
        if resource is None:
            self._unknown.setdefault((group, version, kind), set()).add(asked_by)
        return resource

    async def _discover(self, group: str, version: str) -> None:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = msgspec.json.decode(await self.client.raw("GET", path), type=dict[str, Any])
        except NotFound:
            return
        for row in answer.get("resources") or ():
            if "/" not in row["name"]:
                found = Resource(group, version, row["name"], row["kind"], bool(row["namespaced"]))
                self._kinds[group, version, row["kind"]] = found

    def _follow_definitions(self) -> None:
        if not self._follows_definitions:
            self._follows_definitions = True
            self.cache.store(CUSTOM_RESOURCE_DEFINITIONS).subscribe(self._definition_changed)

    def _definition_changed(self, old: Any | None, new: Any | None) -> None:
        group = (new if new is not None else old or {})["spec"]["group"]
        for kind in [kind for kind in self._kinds if kind[0] == group]:
            del self._kinds[kind]
        for kind in [kind for kind in self._unknown if kind[0] == group]:
            for key in self._unknown.pop(kind):
                self._changed(key)

    # objects

    async def live(self, thing: Thing) -> dict[str, Any] | None:
        """Return the object as it is now, as far as watches have told."""
        place = thing.place
        store = self._store(place)
        if not store.synced.is_set():
            try:
                await asyncio.wait_for(store.synced.wait(), SYNC_WAIT_S)
            except TimeoutError:
                return await self.read(thing)
        found: dict[str, Any] | None = store.get(thing.name, place.namespace)
        return found

    async def read(self, thing: Thing) -> dict[str, Any] | None:
        """Ask the member for the object, past all copies."""
        place = thing.place
        try:
            found: dict[str, Any] = await self.client.get(place.resource, thing.name, place.namespace)
        except NotFound:
            return None
        self.observe(thing, found)
        return found

    def observe(self, thing: Thing, found: dict[str, Any]) -> None:
        """Take in what the member answered to a write or read of ours."""
        self._store(thing.place).observe(found)

    def hold_also(self, key: Key, things: Iterable[Thing]) -> None:
        """Add to the objects a Work speaks of."""
        self.hold(key, self._held.get(key, frozenset()) | frozenset(things))

    def hold(self, key: Key, things: Iterable[Thing]) -> None:
        """Say which objects a Work speaks of: their changes are its changes. Replaces what it held before."""
        wanted = frozenset(things)
        before = self._held.get(key, frozenset())
        for thing in before - wanted:
            names = self._holders[thing.place]
            names[thing.name].discard(key)
            if not names[thing.name]:
                del names[thing.name]
        for thing in wanted - before:
            self._store(thing.place)
            self._holders[thing.place].setdefault(thing.name, set()).add(key)
        if wanted:
            self._held[key] = wanted
        else:
            self._held.pop(key, None)

    async def release_unused(self) -> None:
        """Stop following what no Work speaks of any more."""
        for place in [place for place, names in self._holders.items() if not names]:
            del self._holders[place]
            await self.cache.drop(place.resource, place.namespace)

    async def close(self) -> None:
        """Stop following everything."""
        await self.cache.close()

    def _store(self, place: Place) -> Store:
        store = self.cache.store(place.resource, place.namespace)
        if place not in self._holders:
            self._holders[place] = {}
            store.subscribe(lambda old, new: self._object_changed(place, new if new is not None else old))
        return store

    def _object_changed(self, place: Place, obj: Any) -> None:
        for key in tuple(self._holders.get(place, {}).get(obj["metadata"]["name"], ())):
            self._changed(key)
