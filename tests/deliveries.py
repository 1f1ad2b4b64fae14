"""A hub with members' namespaces and no agents: tests play the rollout (bindings) and the member (Work status)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from echelon.api import names as n
from echelon.api.builtin import NAMESPACES
from echelon.api.conditions import find_condition
from echelon.api.own import MEMBER_CLUSTERS, WORKS
from echelon.api.scope import CLUSTER, Scope
from echelon.api.work import Work
from echelon.client.base import path_of
from echelon.client.errors import Conflict, NotFound
from echelon.controllers.delivery import Delivery
from echelon.rules.work_generation import PATIENCE
from echelon.rules.work_generation_seen import Options
from tests.world import World, member_cluster, namespace

NAMESPACE = "app"
PLACEMENT = "web"
EMPTY_LIST_HASH = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"


def config_map(name: str = "cm", space: str | None = NAMESPACE, **data: str) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": space} if space else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def envelope(name: str, *manifests: dict[str, Any], space: str | None = NAMESPACE) -> dict[str, Any]:
    kind = "ResourceEnvelope" if space else "ClusterResourceEnvelope"
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": space} if space else {})},
        "data": {f"m{index}.yaml": manifest for index, manifest in enumerate(manifests)},
    }


class Desk:
    """One placement of one scope, seen from both sides of delivery."""

    def __init__(self, w: World, scope: Scope, placement: str = PLACEMENT) -> None:
        self.w = w
        self.scope = scope
        self.placement = placement
        self.namespace = NAMESPACE if scope.namespaced else None
        self.client = w.client()

    async def start(self, *clusters: str, options: Options | None = None, **labels: str) -> None:
        """Install, make members, start delivery of this scope."""
        await self.begin(*clusters, **labels)
        await self.deliver(options)

    async def begin(self, *clusters: str, **labels: str) -> None:
        """Install and make members."""
        await self.w.install()
        await self.client.create(NAMESPACES, namespace(NAMESPACE))
        for cluster in clusters:
            await self.add_member(cluster, **labels)

    async def deliver(self, options: Options | None = None) -> None:
        """Start delivery of this scope."""
        self.manager = await self.w.start(lambda m: [Delivery(m.cache, self.scope, options)])

    async def restart(self) -> None:
        """Stop delivery and start it anew, with nothing remembered."""
        await self.manager.stop()
        self.w.managers.remove(self.manager)
        await self.deliver()

    async def add_member(self, cluster: str, **labels: str) -> None:
        await self.client.create(MEMBER_CLUSTERS, member_cluster(cluster, **labels))
        await self.client.create(NAMESPACES, namespace(n.member_namespace(cluster)))

    async def settle(self) -> None:
        """Let events travel, and time for a member to answer pass."""
        await self.w.settle()
        await asyncio.sleep(2 * PATIENCE.total_seconds())
        await self.w.settle()

    # the rollout's side

    def _meta(self, name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, **({"namespace": self.namespace} if self.namespace else {}), **more}

    async def snapshot(
        self, index: int, *resources: dict[str, Any], subindex: int | None = None, parts: int = 1
    ) -> str:
        """Make one part of a version."""
        labels = {n.LABEL_PARENT_CRP: self.placement, n.LABEL_RESOURCE_INDEX: str(index)}
        if subindex is None:
            notes = {n.ANNOTATION_RESOURCE_HASH: "x", n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: str(parts)}
        else:
            notes = {n.ANNOTATION_SUBINDEX: str(subindex)}
        name = n.resource_snapshot_name(self.placement, index, subindex)
        kind = self.scope.resource_snapshot
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": self._meta(name, labels=labels, annotations=notes),
            "spec": {"selectedResources": list(resources)},
        }
        await self.client.create(kind, body, self.namespace)
        return name

    async def bind(
        self,
        cluster: str = "m1",
        version: str | int = 0,
        *,
        name: str = "",
        state: str = "Bound",
        stamp: bool = True,
        **spec: Any,
    ) -> str:
        """Make a binding and hand it over."""
        name = name or f"{self.placement}-{cluster}-00000000"
        kind = self.scope.binding
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": self._meta(name, labels={n.LABEL_PARENT_CRP: self.placement}),
            "spec": {
                "state": state,
                "resourceSnapshotName": self._version(version),
                "schedulingPolicySnapshotName": "",
                "targetCluster": cluster,
                "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
                **spec,
            },
        }
        await self.client.create(kind, body, self.namespace)
        if stamp:
            await self.hand_over(name)
        return name

    def _version(self, version: str | int) -> str:
        return n.resource_snapshot_name(self.placement, version) if isinstance(version, int) else version

    async def move(
        self, binding: str, version: str | int | None = None, *, stamp: bool = True, **spec: Any
    ) -> None:
        """Change what a binding is to have, and hand it over again."""
        if version is not None:
            spec["resourceSnapshotName"] = self._version(version)
        await self.client.patch(self.scope.binding, binding, self.namespace, {"spec": spec})
        if stamp:
            await self.hand_over(binding)

    async def retry_move(self, binding: str, version: int) -> None:
        """Move a binding while others write to it, as a rollout does."""
        while True:
            try:
                await self.move(binding, version)
            except Conflict:
                continue
            return

    async def hand_over(self, binding: str, status: str = "True") -> None:
        """Stamp RolloutStarted at the binding's generation."""
        seen = await self.binding(binding)
        others = [
            c
            for c in (await self.plain(binding)).get("status", {}).get("conditions", [])
            if c["type"] != "RolloutStarted"
        ]
        stamp = {
            "type": "RolloutStarted",
            "status": status,
            "reason": "RolloutStarted",
            "message": "started",
            "observedGeneration": seen.metadata.generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [stamp, *others]}}
        await self.client.patch(self.scope.binding, binding, self.namespace, body, subresource="status")

    # reading

    async def binding(self, name: str) -> Any:
        return await self.client.get(self.scope.binding, name, self.namespace)

    async def plain(self, name: str) -> dict[str, Any]:
        return msgspec.json.decode(
            await self.client.raw("GET", path_of(self.scope.binding, name, self.namespace))
        )

    async def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Return (status, reason) by type, of conditions at the binding's generation."""
        found = await self.binding(name)
        return {
            c.type: (c.status, c.reason)
            for c in (found.status.conditions if found.status else ())
            if c.observed_generation == found.metadata.generation
        }

    async def said(self, name: str, type_: str) -> str:
        """Return the message of a condition."""
        found = await self.binding(name)
        condition = find_condition(found.status.conditions, type_)
        assert condition, type_
        return condition.message

    async def works(self, cluster: str = "m1") -> dict[str, Work]:
        page = await self.client.list(WORKS, n.member_namespace(cluster))
        return {work.name: work for work in page.items}

    def work_name(self, subindex: int | None = None) -> str:
        return n.work_name(self.placement, self.namespace, subindex)

    # the member's side

    async def report(
        self,
        work: str = "",
        cluster: str = "m1",
        *,
        manifests: list[dict[str, Any]] | None = None,
        **answers: str | tuple[str, str] | None,
    ) -> None:
        """Answer as the member: `Applied="True"`, `Available=("True", "WorkNotTrackable")`, `DiffReported=...`."""
        work = work or self.work_name()
        space = n.member_namespace(cluster)
        seen = await self.client.get(WORKS, work, space)
        answers = answers or {"Applied": "True", "Available": "True"}
        conditions = [
            _condition(
                type_, *((answer, "Said") if isinstance(answer, str) else answer), seen.metadata.generation
            )
            for type_, answer in answers.items()
            if answer is not None
        ]
        body = {"status": {"conditions": conditions, "manifestConditions": manifests or []}}
        await self.client.patch(WORKS, work, space, body, subresource="status")

    async def hold(self, work: str, cluster: str = "m1") -> None:
        """Put the agent's finalizer on a Work."""
        body = {"metadata": {"finalizers": [n.FINALIZER_WORK_CLEANUP]}}
        await self.client.patch(WORKS, work, n.member_namespace(cluster), body)

    async def release(self, work: str, cluster: str = "m1") -> None:
        await self.client.patch(WORKS, work, n.member_namespace(cluster), {"metadata": {"finalizers": None}})

    async def is_gone(self, binding: str) -> bool:
        try:
            await self.binding(binding)
        except NotFound:
            return True
        return False

    def writes(self) -> int:
        return sum(manager.performer.write_count for manager in self.w.managers)


def _condition(type_: str, status: str, reason: str, generation: int) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "said",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def manifest_condition(
    manifest: dict[str, Any], *, ordinal: int = 0, generation: int = 0, **answers: tuple[str, str]
) -> dict[str, Any]:
    """One manifest's part of a report: `Applied=("False", "FailedToTakeOver")`."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    meta = manifest["metadata"]
    identifier = {"ordinal": ordinal, "group": group, "version": version, "kind": manifest["kind"]}
    identifier |= {"name": meta.get("name", ""), "namespace": meta.get("namespace", "")}
    conditions = [_condition(type_, *answer, generation) for type_, answer in answers.items()]
    return {"identifier": identifier, "conditions": conditions}


def drift(path: str = "/data/data", member: str = "x", hub: str = "y") -> dict[str, Any]:
    return {
        "observationTime": "2026-01-01T00:00:00Z",
        "firstDriftedObservedTime": "2026-01-01T00:00:00Z",
        "observedInMemberClusterGeneration": 0,
        "observedDrifts": [{"path": path, "valueInMember": member, "valueInHub": hub}],
    }


def diff(path: str = "/data/data", member: str = "x", hub: str = "y") -> dict[str, Any]:
    return {
        "observationTime": "2026-01-01T00:00:00Z",
        "firstDiffedObservedTime": "2026-01-01T00:00:00Z",
        "observedInMemberClusterGeneration": 0,
        "observedDiffs": [{"path": path, "valueInMember": member, "valueInHub": hub}],
    }


def override(
    name: str, index: int, spec: dict[str, Any], *, space: str | None = None, latest: bool = True
) -> dict[str, Any]:
    """An override snapshot as its controller would have made it."""
    kind = CLUSTER.override_snapshot.kind if space is None else "ResourceOverrideSnapshot"
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {
            "name": f"{name}-{index}",
            **({"namespace": space} if space else {}),
            "labels": {
                n.LABEL_PARENT_RESOURCE_OVERRIDE: name,
                n.LABEL_IS_LATEST_SNAPSHOT: str(latest).lower(),
                n.LABEL_OVERRIDE_INDEX: str(index),
            },
        },
        "spec": {"overrideSpec": spec, "overrideHash": "eA=="},
    }
