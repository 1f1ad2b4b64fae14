"""A whole fleet in one process: the hub, the engine, and simulated members that behave like clusters.

The MemberClusters of the hub say which simulated members there are and how they misbehave (annotations below), so
people rehearse with kubectl, and a restart goes on where it was. Engine and agents are the same code that runs on
real Kubernetes; only what a real cluster would do by itself (its workloads) is simulated here.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec
import structlog

from echelon.agent.agent import Agent
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition
from echelon.api.crds import crd, crds
from echelon.api.meta import TRUE
from echelon.api.names import FLEET_SYSTEM_NAMESPACE, MemberCondition
from echelon.api.own import APPLIED_WORKS, MEMBER_CLUSTERS
from echelon.api.registry import resource_of
from echelon.client.base import Client
from echelon.client.errors import AlreadyExists, ApiError, NotFound, Unreachable
from echelon.client.faults import Link
from echelon.controllers.all import EngineOptions, hub_controllers
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.call import ADMIN, User
from echelon.install.authors import authors
from echelon.install.manifests import namespace
from echelon.install.policies import policies
from echelon.install.rights import HUB_AGENT, hub_account
from echelon.runtime.clock import Clock, WallClock
from echelon.runtime.manager import Manager
from echelon.sandbox.images import log_of
from echelon.sandbox.workloads import WorkloadOptions, Workloads

log = structlog.get_logger("echelon.sandbox")

SIMULATED = "sandbox.echelon.dev/simulated"  # "true" on the MemberClusters this process plays
LINK = "sandbox.echelon.dev/link"  # "cut", or a delay each way such as "200ms" or "2s"
WORKLOADS = "sandbox.echelon.dev/workloads"  # "broken": nothing starts any more
MAX_DELAY_S = 60.0
# The engine acts as the service account that an installation gives it, with exactly its rights.
ENGINE = User(
    f"system:serviceaccount:{FLEET_SYSTEM_NAMESPACE}:{HUB_AGENT}",
    ("system:serviceaccounts", f"system:serviceaccounts:{FLEET_SYSTEM_NAMESPACE}", "system:authenticated"),
)

_DELAY = re.compile(r"^(\d+(?:\.\d+)?)(ms|s)$")


class FleetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the fleet behaves."""

    engine: EngineOptions = EngineOptions()
    workloads: WorkloadOptions = WorkloadOptions()


def delay_of(text: str) -> float | None:
    """Read a delay such as 200ms or 2s; None when it is none."""
    found = _DELAY.match(text)
    if not found:
        return None
    seconds = float(found.group(1)) / (1000 if found.group(2) == "ms" else 1)
    return min(seconds, MAX_DELAY_S)


def member_user(name: str) -> User:
    """Say who a simulated member's agent is on the hub."""
    return User(f"echelon:member:{name}", ("system:authenticated",))


def member_manifest(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the MemberCluster of a simulated member."""
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": {SIMULATED: "true"}},
        "spec": {
            "identity": {
                "kind": "User",
                "name": member_user(name).name,
                "apiGroup": "rbac.authorization.k8s.io",
            }
        },
    }


async def ensure(client: Client, wanted: Mapping[str, Any]) -> None:
    """Make sure an object is there and says what it should; what else stands in it stays."""
    resource, meta = resource_of(wanted), wanted["metadata"]
    try:
        held = await client.get(resource, meta["name"], meta.get("namespace"))
    except NotFound:
        await client.create(resource, wanted, meta.get("namespace"))
        return
    said = {key: value for key, value in wanted.items() if key not in {"apiVersion", "kind", "metadata"}}
    if any(not holds(held.get(key), value) for key, value in said.items()):
        await client.patch(resource, meta["name"], meta.get("namespace"), said)


def holds(held: Any, wanted: Any) -> bool:
    """Tell whether an object has everything that is wanted; defaults the server filled in do not matter."""
    if isinstance(wanted, Mapping):
        return isinstance(held, Mapping) and all(holds(held.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(held, list) and len(held) == len(wanted) and all(map(holds, held, wanted))
    return bool(held == wanted)


class Member:
    """One simulated member: a logical cluster, its workloads, its agent and the agent's link to the hub."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.name = name
        fleet.hub.add_cluster(name)
        self.client = local.client(fleet.hub, ADMIN, name)
        self.link = Link(local.LocalTransport(fleet.hub, member_user(name)), Random(f"{fleet.seed}/{name}"))
        self.agent = Agent(Client(self.link), self.client, fleet.clock, name)
        self.workloads = Workloads(
            local.client(fleet.hub, ADMIN, name, field_manager="kube-controller-manager"),
            fleet.clock,
            fleet.options.workloads,
        )
        self._works = False

    async def start(self) -> None:
        """Start the cluster, then the agent in it."""
        await ensure(self.client, crd(APPLIED_WORKS))
        await self.workloads.start()
        self._works = True
        await self.agent.start()

    async def misbehave(self, annotations: Mapping[str, str]) -> None:
        """Do what the annotations say; none means behave."""
        how = annotations.get(LINK, "")
        delay_s = delay_of(how) or 0.0
        self.link.latency_s = (delay_s, delay_s)
        if how == "cut":
            self.link.cut()
        else:
            self.link.mend()
        works = annotations.get(WORKLOADS) != "broken"
        if works != self._works:
            self._works = works
            await (self.workloads.start() if works else self.workloads.stop())

    async def stop(self) -> None:
        """Stop agent and workloads; the objects stay."""
        await self.agent.stop()
        if self._works:
            await self.workloads.stop()


class Fleet:
    """The hub's engine and all simulated members."""

    def __init__(
        self,
        hub: Hub,
        clock: Clock | None = None,
        options: FleetOptions | None = None,
        *,
        seed: int = 0,
        on_members: Callable[[list[str]], None] = lambda _names: None,
    ) -> None:
        self.hub = hub
        hub.pod_log = lambda _cluster, pod, container: log_of(pod, container)
        self.clock = clock or WallClock()
        self.options = options or FleetOptions()
        self.seed = seed
        self.members: dict[str, Member] = {}
        self.client = local.client(hub, ADMIN)
        self.manager = Manager(
            local.client(hub, ENGINE, field_manager="echelon-hub-agent"), self.clock, component="echelon"
        )
        self._on_members = on_members
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, members: Mapping[str, Mapping[str, str]]) -> None:
        """Start the engine and the members the hub knows; `members` (with labels) are added if they are new."""
        for manifest in (namespace(FLEET_SYSTEM_NAMESPACE), *crds(), *hub_account(), *policies(), *authors()):
            await ensure(self.client, manifest)
        for name, labels in members.items():
            with contextlib.suppress(AlreadyExists):
                await self.client.create(MEMBER_CLUSTERS, member_manifest(name, labels))
        await self.manager.start(hub_controllers(self.manager, self.options.engine))
        store = self.manager.cache.store(MEMBER_CLUSTERS)
        store.subscribe(lambda _old, _new: self._changed.set())
        await self._follow()
        self._task = asyncio.create_task(self._keep_following(), name="fleet")

    async def joined(self) -> None:
        """Wait until every simulated member has joined."""
        store = self.manager.cache.store(MEMBER_CLUSTERS)
        news = asyncio.Event()

        def told(_old: Any, _new: Any) -> None:
            news.set()

        store.subscribe(told)
        try:
            while not all(has_joined(store.get(name)) for name in self._simulated()):
                await news.wait()
                news.clear()
        finally:
            store.unsubscribe(told)

    def make_member(self, name: str) -> Member:
        """Make a member of a name."""
        return Member(self, name)

    def is_idle(self) -> bool:
        """Tell whether nobody has anything to look at right now (timers aside)."""
        parts = (
            self.manager,
            *(part for member in self.members.values() for part in (member.agent, member.workloads)),
        )
        return not self._changed.is_set() and all(part.is_idle() for part in parts)

    async def stop(self) -> None:
        """Stop everything but the hub."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(member.stop() for member in self.members.values()))
        await self.manager.stop()

    async def stop_engine(self) -> None:
        """Stop the engine alone, as when its process dies; `restart_engine` brings it back."""
        await self.manager.stop()

    async def restart_engine(self) -> None:
        """Start a new engine that knows nothing but what the hub holds."""
        self.manager = Manager(self.manager.client, self.clock, component="echelon")
        await self.manager.start(hub_controllers(self.manager, self.options.engine))
        self.manager.cache.store(MEMBER_CLUSTERS).subscribe(lambda _old, _new: self._changed.set())

    async def _keep_following(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._follow()
            except (ApiError, Unreachable) as error:
                log.warning("will look at the members again", error=str(error))
                await asyncio.sleep(1.0)
                self._changed.set()

    async def _follow(self) -> None:
        """Play exactly the members the hub says are simulated, the way it says."""
        wanted = self._simulated()
        for name in [name for name in self.members if name not in wanted]:
            await self.members.pop(name).stop()
        # An agent that comes before its rights would be turned away and wait for seconds to ask again.
        news = [name for name, held in wanted.items() if name not in self.members and is_expected(held)]
        for name in news:
            member = self.members[name] = self.make_member(name)
            await member.start()
        for name in [name for name in wanted if name in self.members]:
            await self.members[name].misbehave(wanted[name].metadata.annotations)
        self._on_members(sorted(self.members))

    def _simulated(self) -> dict[str, MemberCluster]:
        return {
            member.metadata.name: member
            for member in self.manager.cache.store(MEMBER_CLUSTERS).all()
            if member.metadata.annotations.get(SIMULATED) == "true"
        }


def is_expected(member: MemberCluster) -> bool:
    """Tell whether the hub is prepared for a member's agent."""
    conditions = member.status.conditions if member.status else ()
    ready = find_condition(conditions, MemberCondition.READY_TO_JOIN)
    return ready is not None and ready.status == TRUE


def has_joined(member: MemberCluster | None) -> bool:
    """Tell whether a member is part of the fleet."""
    if member is None:
        return True  # gone meanwhile: nothing to wait for
    conditions = member.status.conditions if member.status else ()
    joined = find_condition(conditions, MemberCondition.JOINED)
    return joined is not None and joined.status == TRUE
