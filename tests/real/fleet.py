"""The world of `tests/world.py` with a whole fleet on real clusters and in real time, so that stories run there unchanged.

The engine acts as the service account of an installation, the agents as their members' identities on the hub and as the
agent's service account on the member (all impersonated): real RBAC and real admission decide. Whatever an earlier test
left is removed first. The lab's control planes are left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from echelon.agent.agent import Agent
from echelon.api.builtin import CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES
from echelon.api.crds import crds
from echelon.api.names import FLEET_SYSTEM_NAMESPACE
from echelon.api.own import APPLIED_WORKS, WORKS
from echelon.api.registry import OWN
from echelon.api.resource import Resource
from echelon.api.scope import CLUSTER, SCOPES
from echelon.client.base import Client
from echelon.client.errors import NotFound
from echelon.client.faults import Link
from echelon.client.http import HttpTransport
from echelon.client.kubeconfig import load
from echelon.controllers.all import EngineOptions
from echelon.hub.call import ADMIN, User
from echelon.install.manifests import hub_policies, member_definitions, namespace
from echelon.install.rights import MEMBER_AGENT, hub_account, member_account
from echelon.rules.placements import Options
from echelon.rules.snapshots import AT_ONCE
from echelon.runtime.clock import WallClock
from echelon.runtime.manager import Manager
from echelon.sandbox.fleet import ENGINE, Fleet, FleetOptions, Member, ensure, member_user
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.real.members import RealWorld
from tests.stories import Story

CONTEXTS = ("hub", "member1", "member2", "member3")
LEAVING_S = 20.0  # what stays longer is held up on purpose
KEPT_SPACES = ("default", "kube-", "c-")  # c-: of the request sequences, some of which can never end
OURS = ("other", "alone", "reader", "owner")  # cluster roles that stories make
AGENT = User(
    f"system:serviceaccount:{FLEET_SYSTEM_NAMESPACE}:{MEMBER_AGENT}",
    ("system:serviceaccounts", f"system:serviceaccounts:{FLEET_SYSTEM_NAMESPACE}", "system:authenticated"),
)
QUICK = FleetOptions(engine=EngineOptions(placements=Options(delays=AT_ONCE)))


class RealMember(Member):
    """One of the lab's members: its workloads live by themselves."""

    def __init__(self, fleet: RealFleet, name: str) -> None:
        self.name = name
        self.client = fleet.w.client(cluster=name)
        self.link = Link(fleet.w.transport(member_user(name)), Random(f"{fleet.seed}/{name}"))
        self.agent = Agent(Client(self.link), fleet.w.client(AGENT, name), fleet.clock, name)
        self._works = False

    async def start(self) -> None:
        await self.agent.start()

    async def misbehave(self, annotations: Mapping[str, str]) -> None:
        await super().misbehave({**annotations, "sandbox.echelon.dev/workloads": "broken"})

    async def stop(self) -> None:
        await self.agent.stop()


class RealFleet(Fleet):
    """The engine and the lab's members."""

    def __init__(self, w: RealFleetWorld, options: FleetOptions) -> None:
        self.w = w
        self.clock = WallClock()
        self.options = options
        self.seed = 0
        self.members = {}
        self.client = w.client()
        self.manager = Manager(w.client(ENGINE), self.clock, component="echelon")
        self._on_members = lambda _names: None
        self._changed = asyncio.Event()
        self._task = None

    def make_member(self, name: str) -> Member:
        return RealMember(self, name)

    def is_idle(self) -> bool:
        parts = (self.manager, *(member.agent for member in self.members.values()))
        return not self._changed.is_set() and all(part.is_idle() for part in parts)


class RealFleetWorld(RealWorld):
    """The lab as a world with fleets."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig)
        self.fleets: list[RealFleet] = []
        self._transports: list[HttpTransport] = []

    def client(self, user: User = ADMIN, cluster: str = "hub", *, link: str = "") -> Client:
        made = Client(self.transport(user, cluster))
        if link:
            made.transport = self.links[link] = Link(made.transport)
        return made

    def transport(self, user: User = ADMIN, cluster: str = "hub") -> HttpTransport:
        access = load(self.kubeconfig, cluster)
        if user is not ADMIN:
            access = msgspec.structs.replace(access, impersonate=user.name, impersonate_groups=user.groups)
        made = HttpTransport(access)
        self._transports.append(made)
        return made

    def run(self, scenario: Any) -> Any:
        async def whole() -> Any:
            try:
                await self._clean()
                return await scenario
            finally:
                await self.stop()
                for transport in self._transports:
                    await transport.close()

        return asyncio.run(whole())

    async def install(self, cluster: str = "hub") -> None:
        """Nothing: everything stays installed, and is put there once."""

    async def fleet(self, members: int = 3, options: FleetOptions | None = None, **labels: str) -> RealFleet:
        made = RealFleet(self, options or QUICK)
        self.fleets.append(made)
        numbers = range(1, members + 1)
        await made.start({f"member{n}": {key: v.format(n) for key, v in labels.items()} for n in numbers})
        await made.joined()
        return made

    async def settle(self) -> None:
        """Wait for rest, and for what members are taking off: their garbage collectors need seconds, and tell nobody."""
        self.managers, kept = [*self.managers, *self.fleets], self.managers
        try:
            await super().settle()
            deadline = time.monotonic() + LEAVING_S
            while self.fleets and await self._is_something_leaving() and time.monotonic() < deadline:
                await super().settle()
        finally:
            self.managers = kept

    async def _is_something_leaving(self) -> bool:
        hub = self.fleets[0].client
        lists = [hub.list(WORKS), *(m.client.list(APPLIED_WORKS) for m in self.fleets[0].members.values())]
        return any(held.metadata.is_deleting for page in await asyncio.gather(*lists) for held in page.items)

    async def stop(self) -> None:
        for fleet in self.fleets:
            await fleet.stop()
        self.fleets.clear()
        await super().stop()

    # what earlier tests left

    async def _clean(self) -> None:
        await asyncio.gather(*(self._clean_plane(name) for name in CONTEXTS))

    async def _clean_plane(self, name: str) -> None:
        client = self.client(cluster=name)
        manifests = [namespace(FLEET_SYSTEM_NAMESPACE)]
        manifests += [*crds(), *hub_account(), *hub_policies(FLEET_SYSTEM_NAMESPACE)] if name == "hub" else []
        manifests += [*member_definitions(), *member_account()] if name != "hub" else []
        for manifest in manifests:
            await ensure(client, manifest)
        for resource in OWN if name == "hub" else (APPLIED_WORKS,):
            await self.until(lambda resource=resource: remove_all(client, resource))
        for role in OURS:
            with contextlib.suppress(NotFound):
                await client.delete(CLUSTER_ROLES, role)
        spaces = await old_spaces(client)
        for space in spaces:
            await client.delete(NAMESPACES, space)
        for held in (await client.list(CONFIG_MAPS, "default")).items:
            if held["metadata"]["name"] != "kube-root-ca.crt":
                await client.delete(CONFIG_MAPS, held["metadata"]["name"], "default")
        await self.until(lambda: is_clean(client))


async def is_clean(client: Client) -> bool:
    return not await old_spaces(client)


async def old_spaces(client: Client) -> list[str]:
    """The namespaces that tests have made."""
    names = [one["metadata"]["name"] for one in (await client.list(NAMESPACES)).items]
    return [name for name in names if name != FLEET_SYSTEM_NAMESPACE and not name.startswith(KEPT_SPACES)]


async def remove_all(client: Client, resource: Resource) -> bool:
    """Remove every object of a kind, whoever still wants to clean up; True when none is left."""
    try:
        items = (await client.list(resource)).items
    except NotFound:
        return resource is APPLIED_WORKS or False
    for held in items:
        meta = held.metadata
        with contextlib.suppress(NotFound):
            if meta.finalizers:
                await client.patch(resource, meta.name, meta.namespace, {"metadata": {"finalizers": None}})
            await client.delete(resource, meta.name, meta.namespace, propagation="Background")
    return not items


@pytest.fixture(scope="module", autouse=True)
def swept(kubeconfig: Path) -> Iterator[None]:
    """Leave nothing that other suites could take for their own: members of the same names, for one."""
    yield
    RealFleetWorld(kubeconfig).run(nothing())


async def nothing() -> None:
    """A scenario of which only the cleaning before it matters."""


@contextmanager
def real_world(kubeconfig: Path) -> Iterator[RealFleetWorld]:
    """Stands where a test makes its own world."""
    yield RealFleetWorld(kubeconfig)


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request: Any, kubeconfig: Path) -> Story:
    """What tests of one scope after the other are about."""
    return Story(RealFleetWorld(kubeconfig), request.param)


@pytest.fixture
def wide(kubeconfig: Path) -> Story:
    """What tests of the cluster scope are about."""
    return Story(RealFleetWorld(kubeconfig), CLUSTER)
