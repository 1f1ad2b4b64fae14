"""The end of a CustomResourceDefinition: emptied before it goes; what its names held up is judged again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echelon.hub.cluster import CRDS
from echelon.hub.crd_status import FINALIZER, IN_PROGRESS, judge_in, set_condition
from echelon.hub.internal import call_for, discard, replace
from echelon.hub.world import rfc3339

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.call import Call
    from echelon.hub.store import Event

Json = dict[str, Any]


class CrdLife:
    """Empties definitions on their way out, and judges those a conflict held up."""

    def __init__(self, hub: Hub, add: Callable[..., None]) -> None:
        self._hub = hub
        self._add = add
        self._ending: dict[str, dict[str, str]] = {}
        """Cluster -> resource of a definition being deleted -> its name."""

    def observe(self, event: Event) -> None:
        """Follow a write to a definition."""
        cluster, name = event.table.cluster, event.entry.key
        resource = _resource_of(name)
        if event.kind == "DELETED":
            self._ending.get(cluster, {}).pop(resource, None)
            for other, entry in event.table.live.items():
                if b'"NotAccepted"' in entry.body or b'Conflict","' in entry.body:
                    self._add("crd", cluster, other)
        elif event.entry.ending:
            self._ending.setdefault(cluster, {})[resource] = name
            self._add("crd-ending", cluster, name)

    def scan(self, cluster: str) -> None:
        """Queue what a start finds undone."""
        for name, entry in self._hub.store.table(cluster, CRDS).live.items():
            if entry.ending:
                self._ending.setdefault(cluster, {})[_resource_of(name)] = name
                self._add("crd-ending", cluster, name)

    def instance_gone(self, cluster: str, resource: str) -> None:
        """Look again at a definition that lost an object."""
        ending = self._ending.get(cluster)
        if ending and resource in ending:
            self._add("crd-ending", cluster, ending[resource])

    async def judge(self, cluster: str, name: str) -> None:
        """Judge a definition again whose names were taken."""
        call, entry = self._call(cluster, name)
        if entry is None or entry.ending:
            return
        old = call.kind.read(entry.body)
        new = {**old, "status": dict(old.get("status") or {})}
        judge_in(call, new)
        if new["status"] != old.get("status"):
            replace(call, old, new, entry)

    async def empty(self, cluster: str, name: str) -> None:
        """Delete the objects of a definition; let it go when none is left."""
        call, entry = self._call(cluster, name)
        if entry is None or not entry.ending:
            return
        owner = self._hub.clusters[cluster]
        table = self._hub.store.table(cluster, _resource_of(name))
        kind = owner.catalog.by_resource(table.resource)
        last = 0
        for key in list(table.live) if kind is not None else ():
            instance = table.head(key)
            if instance is not None and not instance.ending:
                assert kind is not None
                last = max(last, discard(call_for(self._hub, owner, kind, key, "delete"), instance).rev)
        await self._hub.store.durable(last)
        entry = call.table.head(name)
        if entry is None:
            return
        old = call.kind.read(entry.body)
        left = any(table.head(key) is not None for key in table.live)
        new = {**old, "metadata": dict(old["metadata"]), "status": dict(old.get("status") or {})}
        if left:
            now = rfc3339(self._hub.world.now())
            set_condition(new["status"], "Terminating", "True", IN_PROGRESS, now)
        else:
            finalizers = [text for text in new["metadata"].get("finalizers") or () if text != FINALIZER]
            new["metadata"]["finalizers"] = finalizers
            if not finalizers:
                del new["metadata"]["finalizers"]
        if new != old:
            replace(call, old, new, entry)

    def _call(self, cluster: str, name: str) -> tuple[Call, Any]:
        owner = self._hub.clusters[cluster]
        kind = owner.catalog.by_resource(CRDS)
        assert kind is not None
        call = call_for(self._hub, owner, kind, name, manager="kube-apiserver")
        call.subresource = "status"
        return call, call.table.head(name)


def _resource_of(name: str) -> str:
    plural, _, group = name.partition(".")
    return f"{group}/{plural}"
