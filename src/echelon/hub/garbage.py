"""Garbage collection by owner references: background, foreground, orphan, absent owners.

Decides for one object at a time, from the store alone, as Kubernetes does: an
object goes when none of its owners is left, loses the references to owners that
are gone when another owner is left, and holds back an owner that is deleted in
the foreground as long as it blocks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echelon.hub.internal import call_for, discard, replace
from echelon.hub.rest_delete import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.kinds import Kind
    from echelon.hub.store import Entry, Event, Table

Json = dict[str, Any]
Place = tuple[str, str]
"""Resource and key of an object."""

SOLID, WAITING, DANGLING, UNKNOWN = "solid", "waiting", "dangling", "unknown"


class Garbage:
    """Who is owned by whom, and what follows."""

    def __init__(self, hub: Hub, add: Callable[..., None]) -> None:
        self._hub = hub
        self._add = add
        self._dependents: dict[str, dict[str, dict[Place, None]]] = {}
        self._foreground: dict[str, dict[str, Place]] = {}
        """Owners being deleted that wait for their dependents, by uid."""
        self._unresolved: dict[str, dict[Place, None]] = {}
        """Objects with owners of kinds that are not served."""

    def observe(self, event: Event) -> None:
        """Follow a write."""
        entry, prev = event.entry, event.prev
        gone = event.kind == "DELETED"
        after = () if gone else entry.owners
        before = prev.owners if prev is not None else ()
        cluster = event.table.cluster
        if after or before:
            self._reindex(event.table, entry.key, before, after)
        if gone:
            self._foreground.get(cluster, {}).pop(entry.uid, None)
            if entry.uid in self._dependents.get(cluster, ()):
                self._add("gone", cluster, entry.uid)
        elif entry.ending:
            self._add("ending", cluster, event.table.resource, entry.key)

    def scan(self, cluster: str, tables: list[Table]) -> None:
        """Index a cluster that was loaded from the log, and queue what was left half done."""
        alive = {entry.uid for table in tables for entry in table.live.values()}
        for table in tables:
            for entry in table.live.values():
                if entry.owners:
                    self._index(cluster, (table.resource, entry.key), entry.owners)
                    if not alive.issuperset(entry.owners):
                        self._add("owners", cluster, table.resource, entry.key)
                if entry.ending:
                    self._add("ending", cluster, table.resource, entry.key)

    def kinds_changed(self, cluster: str) -> None:
        """Look again at objects whose owners' kinds were not served."""
        for resource, key in self._unresolved.pop(cluster, ()):
            self._add("owners", cluster, resource, key)

    async def owner_gone(self, cluster: str, uid: str) -> None:
        """Look at everything that a deleted object owned."""
        for resource, key in list(self._dependents.get(cluster, {}).get(uid, ())):
            self._add("owners", cluster, resource, key)

    async def check_owners(self, cluster: str, resource: str, key: str) -> None:
        """Delete an object without owners left; else forget those that are gone."""
        found = self._read(cluster, resource, key)
        if found is None:
            return
        kind, entry, obj = found
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or ()
        refs = meta.get("ownerReferences") or ()
        if entry.ending:
            if FOREGROUND in finalizers:
                self._add("ending", cluster, resource, key)
            return
        if not refs:
            return
        states = [self._state_of(cluster, kind, key, ref) for ref in refs]
        if UNKNOWN in states:
            self._unresolved.setdefault(cluster, {})[resource, key] = None
            return
        call = call_for(self._hub, self._hub.clusters[cluster], kind, key, "delete")
        if SOLID in states:
            kept = [ref for ref, state in zip(refs, states, strict=True) if state == SOLID]
            if len(kept) < len(refs):
                replace(call, obj, {**obj, "metadata": {**meta, "ownerReferences": kept}}, entry)
            return
        dependents = self._dependents.get(cluster, {}).get(entry.uid)
        if WAITING in states and dependents:
            if any(self._waits(cluster, place) for place in dependents):  # a circle: somebody must let go
                refs = [{**ref, "blockOwnerDeletion": False} for ref in refs]
                new = {**obj, "metadata": {**meta, "ownerReferences": refs}}
                entry = replace(call, obj, new, entry)
            discard(call, entry, "Foreground")
            return
        policy = (
            "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        )
        discard(call, entry, policy)

    async def finish(self, cluster: str, resource: str, key: str) -> None:
        """Do for a deleted object what its finalizers ask of the garbage collector."""
        found = self._read(cluster, resource, key)
        if found is None:
            return
        _, entry, obj = found
        finalizers = obj["metadata"].get("finalizers") or ()
        if not entry.ending:
            return
        if ORPHAN in finalizers:
            await self._orphan(cluster, entry.uid)
            self._drop_finalizer(cluster, resource, key, ORPHAN)
        elif FOREGROUND in finalizers:
            self._foreground.setdefault(cluster, {})[entry.uid] = (resource, key)
            blocking = self._blocking(cluster, entry.uid)
            for place in blocking:
                self._add("owners", cluster, *place)
            if not blocking:
                self._foreground[cluster].pop(entry.uid, None)
                self._drop_finalizer(cluster, resource, key, FOREGROUND)

    async def _orphan(self, cluster: str, uid: str) -> None:
        for resource, key in list(self._dependents.get(cluster, {}).get(uid, ())):
            found = self._read(cluster, resource, key)
            if found is None:
                continue
            kind, entry, obj = found
            refs = obj["metadata"].get("ownerReferences") or ()
            meta = {**obj["metadata"], "ownerReferences": [ref for ref in refs if ref["uid"] != uid]}
            if not meta["ownerReferences"]:
                del meta["ownerReferences"]
            call = call_for(self._hub, self._hub.clusters[cluster], kind, key, "patch")
            replace(call, obj, {**obj, "metadata": meta}, entry)

    def _drop_finalizer(self, cluster: str, resource: str, key: str, finalizer: str) -> None:
        found = self._read(cluster, resource, key)
        if found is None:
            return
        kind, entry, obj = found
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        meta = {**obj["metadata"], "finalizers": left}
        if not left:
            del meta["finalizers"]
        call = call_for(self._hub, self._hub.clusters[cluster], kind, key, "patch")
        replace(call, obj, {**obj, "metadata": meta}, entry)

    def _blocking(self, cluster: str, uid: str) -> list[Place]:
        blocking = []
        for resource, key in self._dependents.get(cluster, {}).get(uid, ()):
            found = self._read(cluster, resource, key)
            if found is None:
                continue
            refs = found[2]["metadata"].get("ownerReferences") or ()
            if any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in refs):
                blocking.append((resource, key))
        return blocking

    def _state_of(self, cluster: str, kind: Kind, key: str, ref: Json) -> str:
        group, _, version = ref["apiVersion"].rpartition("/")
        owner = self._hub.clusters[cluster].catalog.of_kind(group, version, ref["kind"])
        if owner is None:
            return UNKNOWN
        if owner.namespaced and not kind.namespaced:
            return SOLID  # such a reference means nothing; nothing is deleted for it
        namespace = key.rpartition("/")[0]
        place = f"{namespace}/{ref['name']}" if owner.namespaced else ref["name"]
        entry = self._hub.store.table(cluster, owner.resource).head(place)
        if entry is None or entry.uid != ref["uid"]:
            return DANGLING
        if self._waits(cluster, (owner.resource, place)):
            return WAITING
        return SOLID

    def _waits(self, cluster: str, place: Place) -> bool:
        entry = self._hub.store.table(cluster, place[0]).head(place[1])
        return entry is not None and entry.ending and f'"{FOREGROUND}"'.encode() in entry.body

    def _read(self, cluster: str, resource: str, key: str) -> tuple[Kind, Entry, Json] | None:
        entry = self._hub.store.table(cluster, resource).head(key)
        if entry is None:
            return None
        kind = self._hub.clusters[cluster].catalog.by_resource(resource)
        return (kind, entry, kind.read(entry.body)) if kind is not None else None

    def _reindex(self, table: Table, key: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        cluster, place = table.cluster, (table.resource, key)
        if before != after:
            index = self._dependents.get(cluster, {})
            for uid in before:
                places = index.get(uid)
                if places is not None:
                    places.pop(place, None)
                    if not places:
                        del index[uid]
            if after:
                self._index(cluster, place, after)
                self._add("owners", cluster, *place)
        waiting = self._foreground.get(cluster)
        if waiting:
            for uid in before:
                owner = waiting.get(uid)
                if owner is not None:
                    self._add("ending", cluster, *owner)

    def _index(self, cluster: str, place: Place, owners: tuple[str, ...]) -> None:
        index = self._dependents.setdefault(cluster, {})
        for uid in owners:
            index.setdefault(uid, {})[place] = None
