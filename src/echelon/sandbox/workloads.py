"""A member's own controllers, simulated: what makes the objects of a cluster behave on the embedded hub.

One loop over one queue serves all kinds: keys are `Kind/name` in a namespace. This file watches and gathers; what
becomes of an object is decided in the module of its kind (`workloads_*.py`) and written by the one writer. It talks
to the member through its client alone and knows nothing of placements, so it could drive any empty API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, STORAGE_CLASSES
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.errors import AlreadyExists
from echelon.rules.plan import Key, Plan
from echelon.runtime.clock import Clock
from echelon.runtime.controller import Loop, Watch
from echelon.runtime.perform import Performer
from echelon.runtime.telemetry import Telemetry
from echelon.sandbox import nodes, workloads_deployment, workloads_pod, workloads_replicas
from echelon.sandbox.workloads_objects import (
    Obj,
    WorkloadOptions,
    controller_of,
    controller_uid,
    meta,
)

Seen = Any  # what a kind's module looks at, with its `step`
Look = tuple[Callable[[Any, datetime], Plan], Seen]


def key_of(kind: str, namespace: str | None, name: str) -> Key:
    """Name an object of any kind in the one queue."""
    return Key(namespace, f"{kind}/{name}")


class Controllers:
    """The controller of all simulated kinds of one member."""

    name = "workloads"
    workers = 4

    def __init__(self, cache: Cache, clock: Clock, options: WorkloadOptions) -> None:
        self.options = options
        self.clock = clock
        self.nodes = nodes.node_names(options.nodes)
        self._cache = cache
        self._pods = self._dependants(PODS)
        self._replica_sets = self._dependants(REPLICA_SETS)
        self._deployments = cache.store(DEPLOYMENTS)
        self._since: dict[str, tuple[bool, datetime]] = {}  # uid of a pod under way: is it going, since when
        self._load: dict[str, Callable[[str | None, str], Awaitable[Look | None]]] = {
            "Deployment": self._deployment,
            "ReplicaSet": self._replica_set,
            "Pod": self._pod,
        }

    def _dependants(self, resource: Resource) -> Any:
        store = self._cache.store(resource)
        store.add_index("controller", controller_uid)
        return store

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow every kind that does something by itself."""
        return tuple(self._watch(resource) for resource in (DEPLOYMENTS, REPLICA_SETS, PODS))

    def _watch(self, resource: Resource) -> Watch:
        def keys(old: Obj | None, new: Obj | None) -> Iterable[Key]:
            obj = new if new is not None else old
            assert obj is not None
            yield key_of(resource.kind, meta(obj).get("namespace"), meta(obj)["name"])
            owner = controller_of(obj)
            if owner is not None and owner["kind"] in self._load:
                yield key_of(owner["kind"], meta(obj).get("namespace"), owner["name"])

        return Watch(resource, keys)

    async def load(self, key: Key) -> Look | None:
        """Gather what the kind's rule looks at."""
        kind, _, name = key.name.partition("/")
        return await self._load[kind](key.namespace, name)

    def decide(self, seen: Look, now: datetime) -> Plan:
        """Apply the kind's rule."""
        step, what = seen
        return step(what, now)

    async def _deployment(self, namespace: str | None, name: str) -> Look | None:
        owner = self._deployments.get(name, namespace)
        if owner is None:
            return None
        replica_sets = tuple(self._replica_sets.by("controller", meta(owner)["uid"]))
        new = workloads_deployment.find_new(owner, replica_sets)
        has_old_pods = any(
            self._pods.by("controller", meta(one)["uid"]) for one in replica_sets if one is not new
        )
        seen = workloads_deployment.Seen(
            deployment=owner, replica_sets=replica_sets, has_old_pods=has_old_pods, options=self.options
        )
        return workloads_deployment.step, seen

    async def _replica_set(self, namespace: str | None, name: str) -> Look | None:
        owner = self._replica_sets.get(name, namespace)
        if owner is None:
            return None
        pods = tuple(self._pods.by("controller", meta(owner)["uid"]))
        seen = workloads_replicas.Seen(replica_set=owner, pods=pods, nodes=self.nodes, options=self.options)
        return workloads_replicas.step, seen

    async def _pod(self, namespace: str | None, name: str) -> Look | None:
        pod = self._pods.get(name, namespace)
        if pod is None:
            return None
        uid = meta(pod)["uid"]
        if workloads_pod.is_settled(pod):
            self._since.pop(uid, None)
        seen = workloads_pod.Seen(
            pod=pod,
            since=self._since_of(pod),
            node=self.nodes[sum(name.encode()) % len(self.nodes)],
            options=self.options,
        )
        return workloads_pod.step, seen

    def _since_of(self, pod: Obj) -> datetime:
        """Tell since when a pod is coming up or going; a saving would be wrong only by a restart of ours."""
        uid, now = meta(pod)["uid"], self.clock.now()
        is_going = bool(meta(pod).get("deletionTimestamp"))
        held = self._since.get(uid)
        if held is None or held[0] != is_going:
            if workloads_pod.is_settled(pod):
                return now
            held = self._since[uid] = (is_going, now)
        return held[1]

    def forget(self, old: Obj | None, new: Obj | None) -> None:
        """Drop what is remembered about a pod that is gone."""
        if new is None and old is not None:
            self._since.pop(meta(old)["uid"], None)


class Workloads:
    """One member's workloads, started and stopped."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: WorkloadOptions | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.options = options or WorkloadOptions()
        self._telemetry = telemetry
        self._task: asyncio.Task[None] | None = None
        self.loop: Loop | None = None

    async def start(self) -> None:
        """Bring the member's nodes up and start its controllers."""
        await self._be_born()
        self._cache = Cache(self.client)
        controllers = Controllers(self._cache, self.clock, self.options)
        performer = Performer(self.client, self._cache, self.clock, component="sandbox")
        self.loop = Loop(controllers, self._cache, performer, self.clock, self._telemetry or Telemetry())
        self._cache.store(PODS).subscribe(controllers.forget)
        self._task = asyncio.create_task(self.loop.run(), name="workloads")

    async def _be_born(self) -> None:
        now = self.clock.now()
        version = str(msgspec.json.decode(await self.client.raw("GET", "/version"))["gitVersion"])
        for name in nodes.node_names(self.options.nodes):
            await self._make(NODES, nodes.node(name, version, now))
        await self._make(STORAGE_CLASSES, nodes.storage_class())

    async def _make(self, resource: Resource, body: dict[str, Any]) -> None:
        try:
            made = await self.client.create(resource, body)
        except AlreadyExists:
            return
        if "status" in body and not made.get("status", {}).get("conditions"):
            status = {"status": body["status"]}
            await self.client.patch(resource, body["metadata"]["name"], None, status, subresource="status")

    def is_idle(self) -> bool:
        """Tell whether there is nothing to look at right now (timers aside)."""
        return self.loop is None or self.loop.queue.is_idle()

    async def stop(self) -> None:
        """Stop the controllers; the objects stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._cache.close()


__all__ = ["Controllers", "WorkloadOptions", "Workloads"]
