"""Gathers what the rules of simulated objects look at: live copies, filed so that a look costs what it looks at.

Kinds that every member may have at any moment are followed from the start; what only some workloads need (revisions,
endpoint slices, storage classes) is followed from the first time it is needed. Decides nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from echelon.api.builtin import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from echelon.api.resource import Resource
from echelon.client.cache import Cache, Store
from echelon.rules.plan import Key, Plan
from echelon.runtime.clock import Clock
from echelon.sandbox import (
    nodes,
    workloads_cron,
    workloads_daemon,
    workloads_deployment,
    workloads_job,
    workloads_network,
    workloads_pod,
    workloads_replicas,
    workloads_stateful,
    workloads_storage,
)
from echelon.sandbox.workloads_objects import Obj, WorkloadOptions, controller_uid, labels, meta, spec

Look = tuple[Callable[[Any, datetime], Plan], Any]  # a kind's rule and what it looks at
FOLLOWED = (
    DEPLOYMENTS,
    REPLICA_SETS,
    PODS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    SERVICES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
)
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def key_of(kind: str, namespace: str | None, name: str) -> Key:
    """Name an object of any kind in the one queue."""
    return Key(namespace, f"{kind}/{name}")


def _namespace(obj: Obj) -> tuple[str]:
    return (meta(obj)["namespace"],)


def _claims(pod: Obj) -> list[tuple[str, str]]:
    """Return the claims a pod uses."""
    return [
        (meta(pod)["namespace"], volume["persistentVolumeClaim"]["claimName"])
        for volume in spec(pod).get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    ]


class Gatherer:
    """Live copies of one member's objects."""

    def __init__(self, cache: Cache, clock: Clock, options: WorkloadOptions) -> None:
        self.options = options
        self.clock = clock
        self.nodes = nodes.node_names(options.nodes)
        self._cache = cache
        self._stores: dict[str, Store] = {one.kind: cache.store(one) for one in FOLLOWED}
        for kind in ("ReplicaSet", "Pod", "Job"):
            self._stores[kind].add_index("controller", controller_uid)
        for kind in ("Service", "PodDisruptionBudget", "Pod"):
            self._stores[kind].add_index("namespace", _namespace)
        self._pods = self._stores["Pod"]
        self._pods.add_index("claims", _claims)
        self._since: dict[str, tuple[bool, datetime]] = {}  # uid of a pod under way: is it going, since when
        self._enqueue: Callable[[Key], None] = lambda _key: None
        self.loads: Mapping[str, Callable[[Any], Awaitable[Look]]] = {
            "Deployment": self._deployment,
            "ReplicaSet": self._replica_set,
            "Pod": self._pod,
            "StatefulSet": self._stateful_set,
            "DaemonSet": self._daemon_set,
            "Job": self._job,
            "CronJob": self._cron_job,
            "Service": self._service,
            "PersistentVolumeClaim": self._claim,
            "PodDisruptionBudget": self._budget,
        }

    def connect(self, enqueue: Callable[[Key], None]) -> None:
        """Say where keys go that change in kinds followed later."""
        self._enqueue = enqueue

    def get(self, kind: str, namespace: str | None, name: str) -> Any | None:
        """Return an object."""
        return self._stores[kind].get(name, namespace)

    async def _lazily(self, resource: Resource) -> Store:
        """Follow a kind from now on."""
        store = self._cache.store(resource)
        if resource.kind not in self._stores:
            self._stores[resource.kind] = store
            store.add_index("controller", controller_uid)
            if resource == STORAGE_CLASSES:
                store.subscribe(self._storage_class_changed)
        await store.synced.wait()
        return store

    def _storage_class_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is None and new is not None:
            for claim in self._stores["PersistentVolumeClaim"].all():
                self._enqueue(key_of("PersistentVolumeClaim", meta(claim)["namespace"], meta(claim)["name"]))

    # who else an event concerns

    def touched_by_pod(self, old: Obj | None, new: Obj | None) -> Iterable[Key]:
        """Return the Services and budgets that count a pod, and its claims when it is gone."""
        pod = new if new is not None else old
        assert pod is not None
        namespace = meta(pod)["namespace"]
        for service in self._stores["Service"].by("namespace", namespace):
            if workloads_network.selects(service, labels(pod)):
                yield key_of("Service", namespace, meta(service)["name"])
        for budget in self._stores["PodDisruptionBudget"].by("namespace", namespace):
            yield key_of("PodDisruptionBudget", namespace, meta(budget)["name"])
        if new is None:
            self._since.pop(meta(pod)["uid"], None)
            for space, claim in _claims(pod):
                yield key_of("PersistentVolumeClaim", space, claim)

    def touched_by_claim(self, claim: Obj) -> Iterable[Key]:
        """Return the pods that may have waited for a claim."""
        place = (meta(claim)["namespace"], meta(claim)["name"])
        for pod in self._pods.by("claims", place):
            yield key_of("Pod", place[0], meta(pod)["name"])

    # one look

    def _of(self, owner: Obj) -> tuple[Obj, ...]:
        return tuple(self._pods.by("controller", meta(owner)["uid"]))

    async def _revisions(self, owner: Obj) -> tuple[Obj, ...]:
        store = await self._lazily(CONTROLLER_REVISIONS)
        return tuple(store.by("controller", meta(owner)["uid"]))

    async def _deployment(self, owner: Obj) -> Look:
        replica_sets = tuple(self._stores["ReplicaSet"].by("controller", meta(owner)["uid"]))
        new = workloads_deployment.find_new(owner, replica_sets)
        has_old_pods = any(self._of(one) for one in replica_sets if one is not new)
        return workloads_deployment.step, workloads_deployment.Seen(
            deployment=owner, replica_sets=replica_sets, has_old_pods=has_old_pods, options=self.options
        )

    async def _replica_set(self, owner: Obj) -> Look:
        return workloads_replicas.step, workloads_replicas.Seen(
            replica_set=owner, pods=self._of(owner), nodes=self.nodes, options=self.options
        )

    async def _stateful_set(self, owner: Obj) -> Look:
        space = meta(owner)["namespace"]
        claims = frozenset(
            meta(one)["name"]
            for one in self._stores["PersistentVolumeClaim"].all()
            if spec(owner).get("volumeClaimTemplates") and meta(one)["namespace"] == space
        )
        return workloads_stateful.step, workloads_stateful.Seen(
            stateful_set=owner,
            pods=self._of(owner),
            revisions=await self._revisions(owner),
            claims=claims,
            nodes=self.nodes,
            options=self.options,
        )

    async def _daemon_set(self, owner: Obj) -> Look:
        marks = {name: nodes.node_labels(name) for name in self.nodes}
        return workloads_daemon.step, workloads_daemon.Seen(
            daemon_set=owner,
            pods=self._of(owner),
            revisions=await self._revisions(owner),
            nodes=marks,
            options=self.options,
        )

    async def _job(self, job: Obj) -> Look:
        return workloads_job.step, workloads_job.Seen(
            job=job, pods=self._of(job), nodes=self.nodes, options=self.options
        )

    async def _cron_job(self, owner: Obj) -> Look:
        jobs = tuple(self._stores["Job"].by("controller", meta(owner)["uid"]))
        return workloads_cron.step, workloads_cron.Seen(cron_job=owner, jobs=jobs)

    async def _service(self, service: Obj) -> Look:
        space = meta(service)["namespace"]
        held, pods = None, ()
        if spec(service).get("selector"):
            slices = await self._lazily(ENDPOINT_SLICES)
            held = next(iter(slices.by("controller", meta(service)["uid"])), None)
            pods = tuple(
                pod
                for pod in self._pods.by("namespace", space)
                if workloads_network.selects(service, labels(pod))
            )
        return workloads_network.step_service, workloads_network.SeenService(
            service=service, pods=pods, endpoint_slice=held
        )

    async def _budget(self, budget: Obj) -> Look:
        pods = tuple(self._pods.by("namespace", meta(budget)["namespace"]))
        return workloads_network.step_budget, workloads_network.SeenBudget(budget=budget, pods=pods)

    async def _claim(self, claim: Obj) -> Look:
        classes = await self._lazily(STORAGE_CLASSES)
        asked = spec(claim).get("storageClassName")
        found = classes.get(asked) if asked else None
        if asked is None:
            found = next((one for one in classes.all() if _is_default(one)), None)
        place = (meta(claim)["namespace"], meta(claim)["name"])
        is_used = bool(self._pods.by("claims", place))
        return workloads_storage.step, workloads_storage.Seen(
            claim=claim, storage_class=found, is_used=is_used
        )

    async def _pod(self, pod: Obj) -> Look:
        if workloads_pod.is_settled(pod):
            self._since.pop(meta(pod)["uid"], None)
        claims = self._stores["PersistentVolumeClaim"]
        missing = tuple(
            name
            for space, name in _claims(pod)
            if ((claims.get(name, space) or {}).get("status") or {}).get("phase") != "Bound"
        )
        return workloads_pod.step, workloads_pod.Seen(
            pod=pod,
            since=self._since_of(pod),
            node=self.nodes[sum(meta(pod)["name"].encode()) % len(self.nodes)],
            missing_claims=missing,
            options=self.options,
        )

    def _since_of(self, pod: Obj) -> datetime:
        """Tell since when a pod is coming up or going; after a restart of ours it begins anew."""
        uid, now = meta(pod)["uid"], self.clock.now()
        is_going = bool(meta(pod).get("deletionTimestamp"))
        held = self._since.get(uid)
        if held is None or held[0] != is_going:
            if workloads_pod.is_settled(pod):
                return now
            held = self._since[uid] = (is_going, now)
        return held[1]


def _is_default(storage_class: Obj) -> bool:
    return (meta(storage_class).get("annotations") or {}).get(_IS_DEFAULT) == "true"
