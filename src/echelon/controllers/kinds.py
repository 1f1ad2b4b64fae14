"""The kinds that the hub serves, kept true: discovery once, then every custom resource definition as it changes.

Asks nothing twice. Other API servers behind the hub (APIServices) are looked at when one of them changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from echelon.api.builtin import API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.cache import Cache, Change, Store
from echelon.client.errors import error_of
from echelon.rules.kinds import Kinds, read_definition, read_discovery
from echelon.rules.propagate import Gvk

_AGGREGATED = {
    "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
}
_decode = msgspec.json.Decoder(dict[str, Any]).decode

Changed = Callable[[list[Resource], list[Resource]], None]


class ServedKinds:
    """What the hub serves. `changed(gone, new)` is told when that changes later on."""

    def __init__(self, cache: Cache, client: Client, changed: Changed) -> None:
        self.kinds = Kinds()
        self._cache = cache
        self._client = client
        self._changed = changed
        self._lock = asyncio.Lock()
        self._is_read = False
        self._followed: list[Store] = []

    async def ready(self) -> Kinds:
        """Return the kinds, reading them the first time."""
        if not self._is_read:
            async with self._lock:
                if not self._is_read:
                    await self._read()
                    self._is_read = True
        return self.kinds

    async def _read(self) -> None:
        definitions = self._cache.store(CUSTOM_RESOURCE_DEFINITIONS)
        await definitions.synced.wait()
        await self._discover()
        self._follow(definitions, self._definition_changed)
        if self.kinds.find(Gvk(API_SERVICES.group, API_SERVICES.version, API_SERVICES.kind)):
            self._follow(self._cache.store(API_SERVICES), self._service_changed)

    def _follow(self, store: Store, change: Change) -> None:
        if store not in self._followed:
            self._followed.append(store)
            store.subscribe(change)

    async def _discover(self) -> None:
        for path in ("/api", "/apis"):
            reply = await self._client.transport.send("GET", path, _AGGREGATED, None)
            if reply.status >= 400:
                raise error_of(reply.status, reply.body, reply.headers)
            self.kinds.add(read_discovery(_decode(reply.body)))

    def _take(self, crd: Any) -> tuple[list[Resource], list[Resource]]:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        before = self.kinds.served(group, plural)
        self.kinds.replace(group, plural, read_definition(crd))
        after = self.kinds.served(group, plural)
        return [row for row in before if row not in after], [row for row in after if row not in before]

    def _definition_changed(self, old: Any | None, new: Any | None) -> None:
        if new is not None:
            gone, fresh = self._take(new)
        elif old is not None:
            group, plural = old["spec"]["group"], old["spec"]["names"]["plural"]
            gone, fresh = self.kinds.served(group, plural), []
            self.kinds.replace(group, plural, ())
        if gone or fresh:
            self._changed(gone, fresh)

    def _service_changed(self, old: Any | None, new: Any | None) -> None:
        """Read discovery again at the next look when another API server comes, goes or recovers."""
        spec = ((new if new is not None else old) or {}).get("spec") or {}
        if self._is_read and spec.get("service"):
            self._is_read = False
            self._changed([], [])
