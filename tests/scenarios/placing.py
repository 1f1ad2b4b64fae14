"""A fleet with one placement of either scope, as the contract's placement scenarios need it.

Members member1 (east, prod), member2 (east, canary), member3 (west, prod); the namespace `work` with the ConfigMap
`app`. A cluster-scoped placement selects the namespace, a namespaced one the ConfigMap in it (whose namespace then
is on every member by other means).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.conditions import find_condition
from echelon.api.names import member_namespace
from echelon.api.own import MEMBER_CLUSTERS, WORKS
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.client.errors import NotFound
from echelon.controllers.all import EngineOptions
from echelon.rules.placements import Options
from echelon.rules.snapshots import AT_ONCE, Delays
from echelon.sandbox.fleet import FleetOptions
from tests.world import World, namespace

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "app"}
LABELS = {
    "member1": {"region": "east", "env": "prod"},
    "member2": {"region": "east", "env": "canary"},
    "member3": {"region": "west", "env": "prod"},
}
SUMMED = {
    "Scheduled": ("True", "SchedulingPolicyFulfilled"),
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": ("True", "WorkSynchronized"),
    "Applied": ("True", "ApplySucceeded"),
    "Available": ("True", "ResourceAvailable"),
}
EACH = {
    "Scheduled": ("True", "Scheduled"),
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": ("True", "AllWorkSynced"),
    "Applied": ("True", "AllWorkHaveBeenApplied"),
    "Available": ("True", "AllWorkAreAvailable"),
}


class Place:
    """One placement in a fleet."""

    def __init__(self, w: World, scope: Scope) -> None:
        self.w, self.scope = w, scope
        self.hub = w.client()
        self.namespace = "work" if scope.namespaced else None

    async def begin(self, delays: Delays = AT_ONCE, members: int = 3) -> None:
        options = FleetOptions(engine=EngineOptions(placements=Options(delays=delays)))
        self.fleet = await self.w.fleet(members, options)
        for name, labels in LABELS.items():
            if name in self.fleet.members:
                await self.label(name, **labels)
        await self.hub.create(NAMESPACES, namespace("work"))
        await self.config("app", v="0")
        if self.scope.namespaced:
            for name in self.fleet.members:
                await self.w.client(cluster=name).create(NAMESPACES, namespace("work"))
        await self.w.settle()

    async def label(self, member: str, **labels: str) -> None:
        await self.hub.patch(MEMBER_CLUSTERS, member, None, {"metadata": {"labels": labels}})

    async def config(self, name: str, space: str = "work", **data: str) -> None:
        meta = {"name": name, "namespace": space}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        try:
            await self.hub.create(CONFIG_MAPS, body, space)
        except Exception:  # noqa: BLE001 - it is there already
            await self.hub.patch(CONFIG_MAPS, name, space, {"data": data})

    async def place(self, policy: Mapping[str, Any] | None = None, **spec: Any) -> None:
        spec.setdefault("resourceSelectors", [CONFIG_MAP if self.scope.namespaced else NAMESPACE])
        if policy is not None:
            spec["policy"] = policy
        body = {
            "apiVersion": self.scope.placement.api_version,
            "kind": self.scope.placement.kind,
            "metadata": {"name": "p"},
            "spec": spec,
        }
        await self.hub.create(self.scope.placement, body, self.namespace)
        await self.rest()

    async def rest(self, seconds: float = 2.0) -> None:
        await asyncio.sleep(seconds)
        await self.w.settle()

    async def edit(self, **spec: Any) -> None:
        await self.hub.patch(self.scope.placement, "p", self.namespace, {"spec": spec})
        await self.rest()

    async def get(self) -> Placement:
        found: Placement = await self.hub.get(self.scope.placement, "p", self.namespace)
        return found

    async def list(self, resource: Any) -> list[Any]:
        return (await self.hub.list(resource, self.namespace)).items

    async def summed(self) -> dict[str, tuple[str, str]]:
        placement = await self.get()
        assert placement.status is not None
        prefix = self.scope.condition_prefix
        generations = {said.observed_generation for said in placement.status.conditions}
        assert generations == {placement.metadata.generation}, placement.status.conditions
        return {
            said.type.removeprefix(prefix): (said.status, said.reason) for said in placement.status.conditions
        }

    async def message(self, type_: str) -> str:
        status = (await self.get()).status
        assert status is not None
        found = find_condition(status.conditions, self.scope.condition_prefix + type_)
        assert found is not None
        return found.message

    async def entries(self) -> dict[str, dict[str, tuple[str, str]]]:
        status = (await self.get()).status
        assert status is not None
        return {
            entry.cluster_name: {said.type: (said.status, said.reason) for said in entry.conditions}
            for entry in status.placement_statuses
        }

    async def unscheduled(self) -> list[str]:
        status = (await self.get()).status
        assert status is not None
        rows = [entry for entry in status.placement_statuses if not entry.cluster_name]
        assert all(
            (said.type, said.reason) == ("Scheduled", "ScheduleFailed") for e in rows for said in e.conditions
        )
        return [said.message for entry in rows for said in entry.conditions]

    async def index(self) -> str:
        status = (await self.get()).status
        assert status is not None
        assert {e.observed_resource_index for e in status.placement_statuses if e.cluster_name} <= {
            status.observed_resource_index
        }
        return status.observed_resource_index

    async def resources(self) -> list[tuple[str, str]]:
        status = (await self.get()).status
        assert status is not None
        return [(row.kind, row.name) for row in status.selected_resources]

    async def done(self, *members: str, index: str = "0") -> None:
        """Check that the placement is done on exactly these members (DONE of the contract)."""
        assert await self.summed() == SUMMED
        assert await self.entries() == dict.fromkeys(members, EACH)
        assert await self.index() == index
        assert await self.where() == set(members)

    async def where(self, name: str = "app") -> set[str]:
        """Return the members that have the ConfigMap as placed."""
        return {member for member in self.fleet.members if await self.has(member, name)}

    async def has(self, member: str, name: str = "app") -> dict[str, str] | None:
        try:
            held = await self.w.client(cluster=member).get(CONFIG_MAPS, name, "work")
        except NotFound:
            return None
        data: dict[str, str] = held["data"]
        return data

    async def works(self, member: str) -> set[str]:
        return {work.name for work in (await self.hub.list(WORKS, member_namespace(member))).items}


WAIT_30_S = Delays(minimum_interval=timedelta(seconds=30), collection=timedelta(seconds=15))
