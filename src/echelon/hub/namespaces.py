"""The life of a namespace: what it is furnished with, and how it is emptied before it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub.bootstrap import root_metadata
from echelon.hub.internal import call_for, discard, replace
from echelon.hub.rest_write import create_object
from echelon.hub.status import StatusError
from echelon.hub.world import rfc3339

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.store import Event

Json = dict[str, Any]

NAMESPACES = "/namespaces"
SERVICE_ACCOUNTS = "/serviceaccounts"
CONFIG_MAPS = "/configmaps"
DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
FINALIZER = "kubernetes"

CONDITIONS = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class Namespaces:
    """Furnishes new namespaces and empties those on their way out."""

    def __init__(self, hub: Hub, add: Callable[..., None]) -> None:
        self._hub = hub
        self._add = add
        self._ending: dict[str, set[str]] = {}

    def observe(self, event: Event) -> None:
        """Follow a write to a namespace."""
        cluster, name = event.table.cluster, event.entry.key
        ending = self._ending.get(cluster, set())
        if event.kind == "DELETED":
            ending.discard(name)
        elif event.entry.ending:
            self._ending.setdefault(cluster, ending).add(name)
            self._add("namespace-ending", cluster, name)
        elif event.kind == "ADDED":
            self._add("namespace", cluster, name)

    def content_gone(self, cluster: str, resource: str, key: str) -> None:
        """Look again at a namespace that lost an object."""
        namespace, slash, name = key.partition("/")
        if not slash:
            return
        if namespace in self._ending.get(cluster, ()):
            self._add("namespace-ending", cluster, namespace)
        elif (resource == SERVICE_ACCOUNTS and name == DEFAULT_ACCOUNT) or (
            resource == CONFIG_MAPS and name == ROOT_CA
        ):
            self._add("namespace", cluster, namespace)

    def scan(self, cluster: str) -> None:
        """Queue what a start finds undone."""
        accounts = self._hub.store.table(cluster, SERVICE_ACCOUNTS).live
        roots = self._hub.store.table(cluster, CONFIG_MAPS).live
        for name, entry in self._hub.store.table(cluster, NAMESPACES).live.items():
            if entry.ending:
                self._ending.setdefault(cluster, set()).add(name)
                self._add("namespace-ending", cluster, name)
            elif f"{name}/{DEFAULT_ACCOUNT}" not in accounts or f"{name}/{ROOT_CA}" not in roots:
                self._add("namespace", cluster, name)

    async def furnish(self, cluster: str, name: str) -> None:
        """Give a namespace its service account and the certificate to trust."""
        namespace = self._hub.store.table(cluster, NAMESPACES).head(name)
        if namespace is None or namespace.ending:
            return
        root = root_metadata(name)
        del root["namespace"]
        wanted: tuple[tuple[str, Json], ...] = (
            (SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_ACCOUNT}}),
            (CONFIG_MAPS, {"metadata": root, "data": {"ca.crt": self._hub.root_certificate()}}),
        )
        for resource, obj in wanted:
            key = f"{name}/{obj['metadata']['name']}"
            if self._hub.store.table(cluster, resource).head(key) is not None:
                continue
            kind = self._hub.clusters[cluster].catalog.by_resource(resource)
            assert kind is not None
            call = call_for(self._hub, self._hub.clusters[cluster], kind, key, "create")
            try:
                await create_object(call, {"apiVersion": kind.api_version, "kind": kind.kind, **obj})
            except StatusError as error:
                if error.reason not in {"AlreadyExists", "NotFound", "Forbidden"}:
                    raise

    async def empty(self, cluster: str, name: str) -> None:
        """Delete what is in a namespace; let it go when nothing is left."""
        table = self._hub.store.table(cluster, NAMESPACES)
        entry = table.head(name)
        if entry is None or not entry.ending:
            return
        left, held = await self._delete_content(cluster, name)
        entry = table.head(name)
        if entry is None:
            return
        if left:
            self._tell(cluster, name, left, held)
            return
        owner = self._hub.clusters[cluster]
        kind = owner.catalog.by_resource(NAMESPACES)
        assert kind is not None
        old = kind.read(entry.body)
        finalizers = [text for text in old["spec"].get("finalizers") or () if text != FINALIZER]
        if finalizers != (old["spec"].get("finalizers") or []):
            spec = {"finalizers": finalizers} if finalizers else {}
            replace(call_for(self._hub, owner, kind, name), old, {**old, "spec": spec}, entry)

    async def _delete_content(self, cluster: str, name: str) -> tuple[Counter[str], Counter[str]]:
        owner = self._hub.clusters[cluster]
        store = self._hub.store
        tables = list(store.tables.get(cluster, {}).values())
        last = 0
        for table in tables:
            keys, start, end = table.span(f"{name}/")
            for key in keys[start:end]:
                entry = table.head(key)
                kind = owner.catalog.by_resource(table.resource)
                if entry is None or entry.ending or kind is None:
                    continue
                last = max(last, discard(call_for(self._hub, owner, kind, key, "delete"), entry).rev)
        await store.durable(last)
        left: Counter[str] = Counter()
        held: Counter[str] = Counter()
        for table in tables:
            keys, start, end = table.span(f"{name}/")
            for key in keys[start:end]:
                entry = table.head(key)
                if entry is None:
                    continue
                group, _, plural = table.resource.partition("/")
                left[f"{plural}.{group}"] += 1
                meta = msgspec.json.decode(entry.body)["metadata"]
                held.update(meta.get("finalizers") or ())
        return left, held

    def _tell(self, cluster: str, name: str, left: Counter[str], held: Counter[str]) -> None:
        """Say in the status of a namespace what it waits for."""
        owner = self._hub.clusters[cluster]
        kind = owner.catalog.by_resource(NAMESPACES)
        entry = self._hub.store.table(cluster, NAMESPACES).head(name)
        if entry is None or kind is None:
            return
        old = kind.read(entry.body)
        now = rfc3339(self._hub.world.now())
        remaining = ", ".join(
            f"{what} has {count} resource instances" for what, count in sorted(left.items())
        )
        waiting = ", ".join(f"{what} in {count} resource instances" for what, count in sorted(held.items()))
        said = {
            "NamespaceContentRemaining": (
                "SomeResourcesRemain",
                f"Some resources are remaining: {remaining}",
            ),
        }
        if held:
            said["NamespaceFinalizersRemaining"] = (
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {waiting}",
            )
        before = {one["type"]: one for one in (old.get("status") or {}).get("conditions") or ()}
        conditions = []
        for type_, reason, message in CONDITIONS:
            status = "False"
            if type_ in said:
                status, (reason, message) = "True", said[type_]
            was = before.get(type_, {})
            at = was.get("lastTransitionTime", now) if was.get("status") == status else now
            conditions.append(
                {
                    "type": type_,
                    "status": status,
                    "lastTransitionTime": at,
                    "reason": reason,
                    "message": message,
                }
            )
        new_status = {"phase": "Terminating", "conditions": conditions}
        if new_status != old.get("status"):
            call = call_for(self._hub, owner, kind, name)
            call.subresource = "status"
            replace(call, old, {**old, "status": new_status}, entry)
