"""One simulated member on the in-process hub: what tests of workloads stand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.api.builtin import DEPLOYMENTS, NAMESPACES, PODS
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.sandbox.workloads import WorkloadOptions, Workloads
from echelon.sandbox.workloads_objects import status
from tests.world import World, namespace

SPACE = "app"


class Member:
    def __init__(self, world: World, workloads: Workloads, client: Client) -> None:
        self.world = world
        self.workloads = workloads
        self.client = client

    async def make(self, resource: Resource, body: dict[str, Any]) -> Any:
        return await self.client.create(resource, body, body["metadata"].get("namespace"))

    async def get(self, resource: Resource, name: str) -> Any:
        return await self.client.get(resource, name, SPACE)

    async def all(self, resource: Resource) -> list[Any]:
        return list((await self.client.list(resource, SPACE if resource.namespaced else None)).items)

    async def pods(self) -> list[Any]:
        return await self.all(PODS)

    async def until(self, resource: Resource, name: str, holds: Callable[[Any], Any]) -> Any:
        async def check() -> Any:
            found = await self.get(resource, name)
            return found if holds(found) else None

        return await self.world.until(check)

    async def rolled_out(self, name: str, replicas: int) -> Any:
        """Wait for what `kubectl rollout status` waits for."""

        def is_done(one: Any) -> bool:
            said = status(one)
            return bool(
                said.get("observedGeneration") == one["metadata"]["generation"]
                and said.get("updatedReplicas", 0) == said.get("availableReplicas", 0) == replicas
                and said.get("replicas", 0) == replicas
            )

        return await self.until(DEPLOYMENTS, name, is_done)


def run(world: World, scenario: Any, options: WorkloadOptions | None = None) -> None:
    async def whole() -> None:
        world.hub.add_cluster("m1")
        client = world.client(cluster="m1")
        workloads = Workloads(client, world, options)
        await workloads.start()
        world.managers.append(workloads)  # type: ignore[arg-type]
        member = Member(world, workloads, Client(client.transport, field_manager="kubectl"))
        await member.client.create(NAMESPACES, namespace(SPACE))
        await scenario(member)
        await world.stop()

    world.run(whole())
