"""A hub with members whose agents run: what tests of the member side stand on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from echelon.agent.agent import Agent, Options
from echelon.agent.properties import Provider
from echelon.api.builtin import CONFIG_MAPS
from echelon.api.conditions import find_condition
from echelon.api.own import APPLIED_WORKS, MEMBER_CLUSTERS, WORKS
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.errors import NotFound
from echelon.controllers.membership import Membership
from echelon.hub.call import User
from echelon.runtime.member_metrics import AgentMetrics
from tests.world import World, member_cluster, namespace

MEMBER = "m1"
SPACE = f"fleet-member-{MEMBER}"


class Fleet:
    """One hub, some members, their agents."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hub = world.client()
        self.agents: dict[str, Agent] = {}

    async def start(self, *names: str, options: Options | None = None) -> Fleet:
        """Join members (one, if none is named) and wait until they have."""
        w = self.world
        await w.install()
        await w.start(lambda manager: [Membership(manager.cache)])
        for name in names or (MEMBER,):
            await self.join(name, options)
        return self

    async def join(
        self, name: str, options: Options | None = None, metrics: AgentMetrics | None = None
    ) -> None:
        w = self.world
        if name not in w.hub.clusters:
            await w.install(name)
        await self.hub.create(MEMBER_CLUSTERS, member_cluster(name))
        await self.start_agent(name, options, metrics=metrics)
        await w.until(lambda: self.is_joined(name))

    async def start_agent(
        self,
        name: str,
        options: Options | None = None,
        provider: Provider | None = None,
        metrics: AgentMetrics | None = None,
    ) -> Agent:
        w = self.world
        hub = w.client(User(f"agent:{name}", ("system:authenticated",)), link=name)
        agent = self.agents[name] = Agent(
            hub, self.member(name), w, name, options, provider=provider, metrics=metrics
        )
        await agent.start()
        w.managers.append(agent)  # type: ignore[arg-type]  # it can be idle and be stopped, as they can
        return agent

    async def stop_agent(self, name: str) -> None:
        agent = self.agents.pop(name)
        self.world.managers.remove(agent)  # type: ignore[arg-type]
        await agent.stop()

    async def is_joined(self, name: str) -> bool:
        member = await self.hub.get(MEMBER_CLUSTERS, name)
        joined = find_condition(member.status.conditions, "Joined") if member.status else None
        return joined is not None and joined.status == "True"

    def member(self, name: str = MEMBER) -> Client:
        return self.world.client(cluster=name, link=f"{name}-self")

    def person(self, name: str = MEMBER) -> Client:
        """Somebody working on the member by hand."""
        return Client(self.world.client(cluster=name).transport, field_manager="somebody")

    # Works

    async def place(self, name: str, *manifests: Any, space: str = SPACE, **spec: Any) -> Any:
        """Create a Work, or give it new content."""
        body = {"workload": {"manifests": list(manifests)}, **spec}
        try:
            held = await self.hub.get(WORKS, name, space)
        except NotFound:
            work = {
                "apiVersion": WORKS.api_version,
                "kind": "Work",
                "metadata": {"name": name, "namespace": space},
                "spec": body,
            }
            return await self.hub.create(WORKS, work, space)
        patch = {"spec": {**dict.fromkeys(("applyStrategy", "reportBackStrategy")), **body}}
        return await self.hub.patch(WORKS, held.name, space, patch)

    async def work(self, name: str, space: str = SPACE) -> Any:
        return await self.hub.get(WORKS, name, space)

    async def settled(self, name: str, space: str = SPACE) -> Any:
        """Return the Work once nothing happens any more."""
        await self.world.settle()
        return await self.work(name, space)

    async def applied(self, name: str, member: str = MEMBER) -> Any:
        return await self.member(member).get(APPLIED_WORKS, name)

    async def config_maps(self, space: str = "app", member: str = MEMBER) -> dict[str, Any]:
        """Return the data of the ConfigMaps of a namespace that people made, by name."""
        found = (await self.member(member).list(CONFIG_MAPS, space)).items
        named = {one["metadata"]["name"]: one.get("data") for one in found}
        named.pop("kube-root-ca.crt", None)
        return named

    def was_at_once(self, before: datetime) -> bool:
        """Tell whether no more time has passed than events need to travel."""
        limit_s = getattr(self.world, "at_once_s", 1.0)
        return (self.world.now() - before).total_seconds() < limit_s

    async def stop(self) -> None:
        await self.world.stop()


def run(world: World, scenario: Any, *names: str, options: Options | None = None) -> None:
    """Run a scenario over a started fleet and stop it."""

    async def whole() -> None:
        fleet = await Fleet(world).start(*names, options=options)
        await scenario(fleet)
        await fleet.stop()

    world.run(whole())


def said(conditions: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """Show conditions as {type: (status, reason)}."""
    return {condition.type: (condition.status, condition.reason) for condition in conditions}


def of_manifest(work: Any, ordinal: int) -> dict[str, tuple[str, str]]:
    """Show the conditions of one manifest."""
    return said(work.status.manifest_conditions[ordinal].conditions)


def manifest(work: Any, ordinal: int) -> Any:
    return work.status.manifest_conditions[ordinal]


def config_map(name: str = "app-cm", space: str = "app", **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data or {"data": "test"}}


def space(name: str = "app", **labels: str) -> dict[str, Any]:
    made = namespace(name, **labels)
    if not labels:
        del made["metadata"]["labels"]
    return made


def deployment(name: str = "web", space: str = "app", replicas: int = 1, **template: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "nginx:1.27"}], **template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def job(name: str = "job", space: str = "app", **more: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"foo": "bar"}}, "spec": pod}
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **more}}


def secret(name: str = "key", space: str = "app", **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}


VALVES = Resource("example.com", "v1", "valves", "Valve", namespaced=True)


def valve_definition() -> dict[str, Any]:
    """Define a kind whose size cannot be changed once it is locked, as a Job's template once it runs."""
    rule = {
        "rule": "!oldSelf.locked || self.size == oldSelf.size",
        "message": "a locked valve keeps its size",
    }
    fields = {"size": {"type": "integer"}, "locked": {"type": "boolean", "default": False}}
    spec = {"type": "object", "properties": fields, "x-kubernetes-validations": [rule]}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "valves", "singular": "valve", "kind": "Valve", "listKind": "ValveList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "valves.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def valve(**spec: Any) -> dict[str, Any]:
    meta = {"name": "v", "namespace": "app"}
    body = {"locked": False, **spec}
    return {"apiVersion": "example.com/v1", "kind": "Valve", "metadata": meta, "spec": body}


def details(found: Any) -> list[tuple[str, str | None, str | None]]:
    """Show drifts or diffs as (path, on the member, on the hub)."""
    if found is None:
        return []
    every = getattr(found, "observed_drifts", None) or getattr(found, "observed_diffs", None) or ()
    return [(one.path, one.value_in_member, one.value_in_hub) for one in every]


FOREIGN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "somebody",
    "uid": "0b0c1d9e-0000-4000-8000-000000000001",
}


async def nap(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)
