"""The key that seals Secrets in history: made once, kept in a Secret of the engine's own namespace.

`SealKey` sees to it that the key is there; `Seals` seals and opens with it for everybody else. Without the key
nothing is sealed and nothing is opened: whoever needs it tries again until it is there.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import NAMESPACES, SECRETS
from echelon.api.names import FLEET_SYSTEM_NAMESPACE, SEAL_KEY_SECRET, SEAL_KEY_TYPE
from echelon.api.scope import Key
from echelon.api.snapshot import ResourceSnapshot
from echelon.client.cache import Cache
from echelon.client.errors import Unreachable
from echelon.rules.plan import NOTHING, Create, Plan
from echelon.rules.sealing import KEY_BYTES, CannotOpen, any_sealed, holds_secrets, open_sealed, seal
from echelon.runtime.controller import Watch

MAX_OPENED = 64  # snapshots kept open in memory: those of a few placements under way
_FIELD = "key"
_THE_KEY = Key(FLEET_SYSTEM_NAMESPACE, SEAL_KEY_SECRET)


class Seals:
    """Seals and opens."""

    def __init__(self, cache: Cache) -> None:
        self._secrets = cache.store(SECRETS, FLEET_SYSTEM_NAMESPACE)
        self._opened: dict[tuple[str, str], ResourceSnapshot] = {}

    def sealed(self, manifests: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return manifests as they may enter a snapshot."""
        if not any(map(holds_secrets, manifests)):
            return manifests
        return seal(manifests, self._key())

    def opened(self, snapshot: ResourceSnapshot) -> ResourceSnapshot:
        """Return a snapshot with its Secrets as they are delivered; one that does not open stays as it is."""
        place = (snapshot.metadata.uid, snapshot.metadata.resource_version)
        found = self._opened.get(place)
        if found is None:
            found = snapshot
            if any_sealed(snapshot.spec.selected_resources):
                try:
                    opened = tuple(open_sealed(snapshot.spec.selected_resources, self._key()))
                except CannotOpen:
                    return snapshot  # delivery says so: it never delivers what is sealed
                spec = msgspec.structs.replace(snapshot.spec, selected_resources=opened)
                found = msgspec.structs.replace(snapshot, spec=spec)
            if len(self._opened) >= MAX_OPENED:
                self._opened.pop(next(iter(self._opened)))
            self._opened[place] = found
        return found

    def _key(self) -> bytes:
        held = self._secrets.get(_THE_KEY.name, _THE_KEY.namespace)
        key = base64.b64decode((held.get("data") or {}).get(_FIELD, "")) if held else b""
        if len(key) != KEY_BYTES:
            state = "has no usable key" if held else "is not there yet"
            raise Unreachable(f"Secrets cannot be sealed or opened: Secret {_THE_KEY} {state}")
        return key


class SealKey:
    """Loads the Secret that holds the key."""

    name = "seal-key"
    workers = 1

    def __init__(self, cache: Cache, fresh_key: bytes) -> None:
        self._fresh_key = fresh_key  # used if there is no key yet
        self._secrets = cache.store(SECRETS, FLEET_SYSTEM_NAMESPACE)
        self._namespaces = cache.store(NAMESPACES)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow the Secret and the namespace it is in."""
        return (Watch(SECRETS, _of_secret, FLEET_SYSTEM_NAMESPACE), Watch(NAMESPACES, _of_namespace))

    async def load(self, key: Key) -> bool | None:
        """Tell whether the key is missing where it could be."""
        namespace = self._namespaces.get(FLEET_SYSTEM_NAMESPACE)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        return self._secrets.get(key.name, key.namespace) is None

    def decide(self, seen: bool, now: datetime) -> Plan:
        """Make the key if it is missing."""
        del now
        if not seen:
            return NOTHING
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SEAL_KEY_SECRET, "namespace": FLEET_SYSTEM_NAMESPACE},
            "type": SEAL_KEY_TYPE,
            "immutable": True,
            "data": {_FIELD: base64.b64encode(self._fresh_key).decode()},
        }
        return Plan(steps=((Create(resource=SECRETS, body=body),),), why="Secrets in history need a key")


def _of_secret(old: Any | None, new: Any | None) -> Iterable[Key]:
    name = (new if new is not None else old or {})["metadata"]["name"]
    return (_THE_KEY,) if name == SEAL_KEY_SECRET else ()


def _of_namespace(old: Any | None, new: Any | None) -> Iterable[Key]:
    name = (new if new is not None else old or {})["metadata"]["name"]
    return (_THE_KEY,) if name == FLEET_SYSTEM_NAMESPACE else ()
