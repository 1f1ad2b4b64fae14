"""The contract's end-to-end stories on a whole fleet in virtual time: a namespace with a ConfigMap, a placement of
either scope, three members (member1 east/prod, member2 east/canary, member3 west/prod).

    story = Story(w, scope)
    await story.begin()
    await story.place()
    await story.holds(story.is_ok)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.placement import ClusterPlacementStatus
from echelon.api.resource import Resource
from echelon.api.scope import CLUSTER, NAMESPACED, Scope
from echelon.client.errors import NotFound
from tests.world import World, namespace

SPACE = "app-ns"
MEMBERS = {
    "member1": {"region": "east", "env": "prod"},
    "member2": {"region": "east", "env": "canary"},
    "member3": {"region": "west", "env": "prod"},
}
FINE = {
    "Scheduled": ("True", "Scheduled"),
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": ("True", "AllWorkSynced"),
    "Applied": ("True", "AllWorkHaveBeenApplied"),
    "Available": ("True", "AllWorkAreAvailable"),
}
OVERRIDDEN = {**FINE, "Overridden": ("True", "OverriddenSucceeded")}
PENDING = {"Scheduled": ("True", "Scheduled"), "RolloutStarted": ("False", "RolloutNotStartedYet")}
WHOLE_FINE = {
    "Scheduled": ("True", "SchedulingPolicyFulfilled"),
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": ("True", "WorkSynchronized"),
    "Applied": ("True", "ApplySucceeded"),
    "Available": ("True", "ResourceAvailable"),
}
WHOLE_OVERRIDDEN = {**WHOLE_FINE, "Overridden": ("True", "OverriddenSucceeded")}


def first(
    conditions: dict[str, tuple[str, str]], last: str, status: tuple[str, str]
) -> dict[str, tuple[str, str]]:
    """Return the conditions up to one that stands differently."""
    kept: dict[str, tuple[str, str]] = {}
    for type_, said in conditions.items():
        if type_ == last:
            return {**kept, last: status}
        kept[type_] = said
    raise KeyError(last)


class Story:
    """One placement on a fleet."""

    def __init__(self, w: World, scope: Scope = CLUSTER, name: str = "") -> None:
        self.w = w
        self.scope = scope
        self.name = name or ("rp" if scope.namespaced else "crp")
        self.namespace = SPACE if scope.namespaced else None
        self.hub = w.client()

    async def begin(self, *, place_namespace: bool = True) -> None:
        """Start the fleet and make the application; a namespaced placement needs its namespace on the members."""
        self.fleet = await self.w.fleet(3)
        for member, labels in MEMBERS.items():
            await self.hub.patch(MEMBER_CLUSTERS, member, None, {"metadata": {"labels": labels}})
        await self.hub.create(NAMESPACES, namespace(SPACE))
        await self.hub.create(CONFIG_MAPS, config_map(data="test"), SPACE)
        if self.scope.namespaced and place_namespace:
            await self.place_namespace()

    async def place_namespace(self) -> None:
        """Place the namespace alone."""
        selector = _selector("", "Namespace", SPACE) | {"selectionScope": "NamespaceOnly"}
        await self.make(CLUSTER.placement, "ns-only", {"resourceSelectors": [selector], "strategy": QUICK})
        await self.w.settle()

    async def make(self, kind: Resource, name: str, spec: dict[str, Any], space: str | None = None) -> Any:
        meta = {"name": name, **({"namespace": space} if space else {})}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
        return await self.hub.create(kind, body, space)

    async def place(
        self, *selectors: dict[str, Any], strategy: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        """Place the application (the ConfigMap alone, in the namespaced scope)."""
        if not selectors:
            selectors = (
                _selector("", "ConfigMap", "app-cm") if self.namespace else _selector("", "Namespace", SPACE),
            )
        body = {"resourceSelectors": list(selectors), "strategy": {**QUICK, **(strategy or {})}, **spec}
        await self.make(self.scope.placement, self.name, body, self.namespace)

    async def unplace(self) -> None:
        await self.hub.delete(self.scope.placement, self.name, self.namespace)

    async def override(self, name: str, *rules: dict[str, Any], placement: Any = "own", **more: Any) -> None:
        """Write an override of the namespace (`cro…`) or of the ConfigMap (`ro…`)."""
        spec = self.override_spec(name, *rules, placement=placement, **more)
        if name.startswith("cro"):
            await self.make(CLUSTER.override, name, spec)
        else:
            await self.make(NAMESPACED.override, name, spec, SPACE)

    def override_spec(
        self, name: str, *rules: dict[str, Any], placement: Any = "own", selector: Any = None
    ) -> dict[str, Any]:
        if placement == "own":
            placement = {"name": self.name} | ({"scope": "Namespaced"} if self.namespace else {})
        spec: dict[str, Any] = {"policy": {"overrideRules": list(rules)}}
        spec |= {"placement": placement} if placement else {}
        if name.startswith("cro"):
            return spec | {"clusterResourceSelectors": [selector or _selector("", "Namespace", SPACE)]}
        return spec | {"resourceSelectors": [selector or _selector("", "ConfigMap", "app-cm")]}

    async def rewrite(self, name: str, *rules: dict[str, Any]) -> None:
        """Change an override's rules."""
        body = {"spec": {"policy": {"overrideRules": list(rules)}}}
        kind, space = (CLUSTER, None) if name.startswith("cro") else (NAMESPACED, SPACE)
        await self.hub.patch(kind.override, name, space, body)

    # what is to be seen

    async def status(self) -> Any:
        placement = await self.hub.get(self.scope.placement, self.name, self.namespace)
        return placement.metadata.generation, placement.status

    async def whole(self) -> dict[str, tuple[str, str]]:
        """Return the placement's own conditions, without their prefix."""
        generation, status = await self.status()
        prefix = self.scope.condition_prefix
        return {
            c.type.removeprefix(prefix): (c.status, c.reason)
            for c in (status.conditions if status else ())
            if c.observed_generation == generation
        }

    async def clusters(self) -> dict[str, dict[str, tuple[str, str]]]:
        """Return the conditions of each cluster."""
        generation, status = await self.status()
        return {
            entry.cluster_name: {
                c.type: (c.status, c.reason) for c in entry.conditions if c.observed_generation == generation
            }
            for entry in (status.placement_statuses if status else ())
        }

    async def entry(self, member: str) -> Any:
        """Return what the placement says about a member; nothing while it says nothing."""
        _, status = await self.status()
        entries = status.placement_statuses if status else ()
        return next((entry for entry in entries if entry.cluster_name == member), ClusterPlacementStatus())

    async def on(
        self, member: str, kind: Resource = CONFIG_MAPS, name: str = "app-cm"
    ) -> dict[str, Any] | None:
        """Return an object on a member."""
        space = SPACE if kind.namespaced else None
        try:
            held: dict[str, Any] = await self.w.client(cluster=member).get(kind, name, space)
        except NotFound:
            return None
        return held

    async def data(self, member: str) -> dict[str, str] | None:
        held = await self.on(member)
        return held["data"] if held else None

    async def annotations(
        self, member: str, kind: Resource = CONFIG_MAPS, name: str = "app-cm"
    ) -> dict[str, str]:
        """Return the annotations that are not the fleet's own."""
        held = await self.on(member, kind, name)
        assert held is not None
        notes = held["metadata"].get("annotations") or {}
        return {key: value for key, value in notes.items() if "kubernetes-fleet.io/" not in key}

    async def is_ok(self) -> bool:
        return await self._is(WHOLE_FINE, FINE)

    async def is_overridden(self) -> bool:
        return await self._is(WHOLE_OVERRIDDEN, OVERRIDDEN)

    async def _is(self, whole: dict[str, Any], each: dict[str, Any]) -> bool:
        return await self.whole() == whole and await self.clusters() == dict.fromkeys(MEMBERS, each)

    async def becomes(self, look: Callable[[], Awaitable[Any]], wanted: Any, within_s: float = 60.0) -> None:
        """Wait until something looks as wanted; when it does not, show how it looks instead."""
        deadline = asyncio.get_running_loop().time() + within_s
        found = await look()
        while found != wanted:
            if asyncio.get_running_loop().time() > deadline:
                assert found == wanted
            await asyncio.sleep(0.1)
            found = await look()

    async def holds(self, look: Callable[[], Awaitable[bool]], within_s: float = 60.0) -> None:
        """Wait until something holds."""
        try:
            await self.becomes(look, wanted=True, within_s=within_s)
        except AssertionError:
            raise AssertionError(f"{await self.whole()}\n{await self.clusters()}") from None


QUICK: dict[str, Any] = {"type": "RollingUpdate", "rollingUpdate": {"unavailablePeriodSeconds": 2}}


def _selector(group: str, kind: str, name: str) -> dict[str, Any]:
    return {"group": group, "version": "v1", "kind": kind, "name": name}


def config_map(name: str = "app-cm", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": SPACE},
        "data": data,
    }
