"""The world of `tests/world.py` over real clusters and real time, so that tests of the member side run there unchanged.

The lab's first member plays `m1`. Agents act under the member's own identity (impersonated), so real RBAC decides.
Whatever an earlier test left is removed first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from echelon.api.builtin import CLUSTER_ROLES, CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.crds import crds
from echelon.api.own import APPLIED_WORKS, MEMBER_CLUSTERS, WORKS
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.errors import AlreadyExists, NotFound
from echelon.client.http import connect
from echelon.client.kubeconfig import load
from echelon.hub.call import ADMIN, User
from echelon.runtime.controller import Controller
from echelon.runtime.manager import Manager
from tests.world import namespace

CONTEXTS = {"hub": "hub", "m1": "member1"}
QUIET_S, QUIETS = 0.2, 4  # most of a second in which nobody has anything to look at
MAX_WAIT_S = 60.0
OURS = ("app", "placed", "own")  # namespaces that tests place
KINDS = ("widgets.example.com", "valves.example.com")


class RealHub:
    """Stands where tests ask which clusters there are."""

    clusters: frozenset[str] = frozenset()  # so that every member is prepared


class RealWorld:
    """Real clusters."""

    at_once_s = 5.0  # events travel over the network, and others use the machine

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = str(kubeconfig)
        self.hub = RealHub()
        self.managers: list[Any] = []
        self.links: dict[str, Any] = {}
        self._clients: list[Client] = []

    def now(self) -> datetime:
        return datetime.now(UTC)

    def run(self, scenario: Any) -> Any:
        async def whole() -> Any:
            try:
                await self._clean()
                return await scenario
            finally:
                await self.stop()
                for client in self._clients:
                    await client.close()

        return asyncio.run(whole())

    def client(self, user: User = ADMIN, cluster: str = "hub", *, link: str = "") -> Client:
        access = load(self.kubeconfig, CONTEXTS[cluster])
        if user is not ADMIN:
            access = msgspec.structs.replace(access, impersonate=user.name, impersonate_groups=user.groups)
        client = connect(access)
        self._clients.append(client)
        return client

    async def install(self, cluster: str = "hub") -> None:
        client = self.client(cluster=cluster)
        for crd in crds():
            with contextlib.suppress(AlreadyExists):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, namespace("fleet-system"))
        wanted = MEMBER_CLUSTERS if cluster == "hub" else APPLIED_WORKS
        await self.until(lambda: self._is_served(client, wanted))

    async def _is_served(self, client: Client, resource: Resource) -> bool:
        try:
            await client.list(resource)
        except NotFound:
            return False
        return True

    async def start(
        self, controllers: Callable[[Manager], Sequence[Controller]], client: Client | None = None
    ) -> Manager:
        manager = Manager(client or self.client())
        self.managers.append(manager)
        await manager.start(controllers(manager))
        return manager

    async def settle(self) -> None:
        quiet = 0
        deadline = time.monotonic() + MAX_WAIT_S
        while quiet < QUIETS:
            await asyncio.sleep(QUIET_S)
            quiet = quiet + 1 if all(manager.is_idle() for manager in self.managers) else 0
            if time.monotonic() > deadline:
                raise AssertionError("the fleet does not come to rest")

    async def until(self, holds: Callable[[], Any], within_s: float = MAX_WAIT_S) -> Any:
        deadline = time.monotonic() + min(within_s, MAX_WAIT_S)
        while True:
            result = holds()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {min(within_s, MAX_WAIT_S)} s")
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        for manager in self.managers:
            await manager.stop()
        self.managers.clear()

    # what earlier tests left

    async def _clean(self) -> None:
        hub, member = self.client(), self.client(cluster="m1")
        for client, resource, space in (
            (hub, WORKS, "fleet-member-m1"),
            (hub, MEMBER_CLUSTERS, None),
            (member, APPLIED_WORKS, None),
        ):
            await _remove_all(client, resource, space)
        for name in ("fleet-member-m1",):
            await _remove(hub, NAMESPACES, name)
        for name in KINDS:
            await _remove(member, CUSTOM_RESOURCE_DEFINITIONS, name)
        for name in OURS:
            await _remove(member, NAMESPACES, name)
        await _remove(member, CLUSTER_ROLES, "somebody")
        for held in (await member.list(CONFIG_MAPS, "default")).items:
            if held["metadata"]["name"] != "kube-root-ca.crt":
                await _remove(member, CONFIG_MAPS, held["metadata"]["name"], "default")
        await self.until(lambda: _are_gone(hub, ("fleet-member-m1",)))
        await self.until(lambda: _are_gone(member, OURS))


async def _remove_all(client: Client, resource: Resource, space: str | None) -> None:
    with contextlib.suppress(NotFound):
        for held in (await client.list(resource, space)).items:
            await _remove(client, resource, held.name, space)


async def _remove(client: Client, resource: Resource, name: str, space: str | None = None) -> None:
    with contextlib.suppress(NotFound):
        if resource not in {NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS}:
            await client.patch(resource, name, space, {"metadata": {"finalizers": None}})
        await client.delete(resource, name, space, propagation="Background")


async def _are_gone(client: Client, names: Sequence[str]) -> bool:
    held = {one["metadata"]["name"] for one in (await client.list(NAMESPACES)).items}
    return not held & set(names)
