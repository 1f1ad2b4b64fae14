"""A fake store for rule tests: carries plans out the way an API server would, in memory and in no time.

Merge patches, generations that rise with the spec, finalizers, resource versions, status as a subresource. Plus
short ways to write down clusters and placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api import names, own
from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.placement import Placement
from echelon.api.resource import Resource
from echelon.api.scope import CLUSTER, NAMESPACED, Scope
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot
from echelon.rules.merge import merge_patch
from echelon.rules.plan import Create, Delete, Emit, Patch, Plan

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCOPES = (CLUSTER, NAMESPACED)


class Conflict(Exception):
    """A compare-and-swap lost."""


class Store:
    """Objects by kind and name."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.events: list[tuple[str, str]] = []
        self.writes = 0
        self._revision = 0
        self._decoded: dict[
            tuple[str, str, str, str], Any
        ] = {}  # each version once and shared, as a cache does
        self._own: set[tuple[str, str, str]] = set()  # written by the plan that is being performed

    def _stamp(self, obj: dict[str, Any]) -> None:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)

    def put(self, resource: Resource, body: Mapping[str, Any]) -> Any:
        """Create an object as somebody else would."""
        obj = msgspec.json.decode(msgspec.json.encode(body))
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        meta = obj["metadata"]
        key = (resource.plural, meta.get("namespace") or "", meta["name"])
        assert key not in self.objects, key
        meta.setdefault("uid", f"uid-{resource.plural}-{meta['name']}")
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._stamp(obj)
        self.objects[key] = obj
        return self.get(resource, meta["name"], meta.get("namespace"))

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Any | None:
        """Read one object, typed."""
        obj = self.objects.get((resource.plural, namespace or "", name))
        return None if obj is None else self._typed(resource, obj)

    def all(self, resource: Resource, **labels: str) -> list[Any]:
        """Read all objects of a kind, by name; labels are given as `parent="x"`."""
        found = [obj for key, obj in sorted(self.objects.items()) if key[0] == resource.plural]
        return [self._typed(resource, obj) for obj in found]

    def _typed(self, resource: Resource, obj: Mapping[str, Any]) -> Any:
        meta = obj["metadata"]
        key = (resource.plural, meta.get("namespace") or "", meta["name"], meta["resourceVersion"])
        if key not in self._decoded:
            self._decoded[key] = msgspec.json.decode(msgspec.json.encode(obj), type=resource.type)
        return self._decoded[key]

    def edit(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        status: bool = False,
    ) -> Any:
        """Merge-patch an object as somebody else would."""
        key = (resource.plural, namespace or "", name)
        old = self.objects[key]
        if status:
            new = {**old, "status": merge_patch(old.get("status") or {}, body["status"])}
        else:
            body = {part: value for part, value in body.items() if part != "status"}
            new = merge_patch(old, body)
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if new == old:
            return self._typed(resource, new)
        new = msgspec.json.decode(msgspec.json.encode(new))
        self._stamp(new)
        self.objects[key] = new
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            del self.objects[key]
        return self._typed(resource, new)

    def delete(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object; finalizers hold it."""
        key = (resource.plural, namespace or "", name)
        obj = self.objects.get(key)
        if obj is None:
            return
        if obj["metadata"].get("finalizers"):
            if not obj["metadata"].get("deletionTimestamp"):
                obj["metadata"]["deletionTimestamp"] = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
                obj["metadata"]["generation"] += 1
                self._stamp(obj)
        else:
            del self.objects[key]

    def perform(self, plan: Plan) -> None:
        """Carry a plan out. A plan does not conflict with its own writes."""
        self._own = set()
        for step in plan.steps:
            for action in step:
                self._act(action)
        if plan.status:
            ref = plan.status.ref
            self._compare(ref)
            old, new = msgspec.to_builtins(plan.status.old) or {}, msgspec.to_builtins(plan.status.new)
            patch = {**{name: None for name in old if name not in new}, **new}
            self.writes += 1
            self.edit(ref.resource, ref.name, {"status": _plain(patch)}, ref.namespace, status=True)
        self.events += [(event.reason, event.message) for event in plan.events]

    def _act(self, action: Any) -> None:
        self.writes += 1
        match action:
            case Create():
                meta = action.body["metadata"]
                key = (action.resource.plural, meta.get("namespace") or "", meta["name"])
                if key not in self.objects:
                    self.put(action.resource, action.body)
            case Patch():
                if self.get(action.ref.resource, action.ref.name, action.ref.namespace) is None:
                    assert action.gone_ok
                    return
                self._compare(action.ref)
                if action.body:
                    self.edit(action.ref.resource, action.ref.name, _plain(action.body), action.ref.namespace)
                if action.status is not None:
                    body = {"status": _plain(action.status)}
                    self.edit(action.ref.resource, action.ref.name, body, action.ref.namespace, status=True)
            case Delete():
                self.delete(action.ref.resource, action.ref.name, action.ref.namespace)
            case Emit():
                self.events.append((action.reason, action.message))

    def _compare(self, ref: Any) -> None:
        key = (ref.resource.plural, ref.namespace or "", ref.name)
        obj = self.objects[key]
        if key in self._own:
            return
        self._own.add(key)
        if ref.resource_version and obj["metadata"]["resourceVersion"] != ref.resource_version:
            raise Conflict(f"{ref.name}: {ref.resource_version} is not {obj['metadata']['resourceVersion']}")

    # our kinds, shortly

    def clusters(self) -> dict[str, MemberCluster]:
        return {cluster.name: cluster for cluster in self.all(own.MEMBER_CLUSTERS)}

    def placement(self, scope: Scope, name: str = "p") -> Placement:
        found = self.get(scope.placement, name, namespace_of(scope))
        assert found is not None
        return found

    def snapshots(self, scope: Scope) -> list[PolicySnapshot]:
        return self.all(scope.policy_snapshot)

    def resource_snapshots(self, scope: Scope) -> list[ResourceSnapshot]:
        return self.all(scope.resource_snapshot)

    def bindings(self, scope: Scope) -> list[Binding]:
        return self.all(scope.binding)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def namespace_of(scope: Scope) -> str | None:
    return "work" if scope.namespaced else None


def meta_for(scope: Scope, name: str, **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, **more}
    if scope.namespaced:
        meta["namespace"] = "work"
    return meta


def iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def a_condition(type_: str, status: str = "True", at: datetime = NOW, **more: Any) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": iso(at),
        "reason": more.pop("reason", type_),
        "message": "",
        **more,
    }


def a_cluster(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    health: str = "healthy",
    taints: Iterable[Mapping[str, str]] = (),
    properties: Mapping[str, str] | None = None,
    usage: Mapping[str, Mapping[str, str]] | None = None,
    namespaces: Mapping[str, str] | None = None,
    at: datetime = NOW,
) -> dict[str, Any]:
    """Write a MemberCluster down: health is healthy, silent, sick, unjoined or absent."""
    long_ago = at - timedelta(minutes=20)
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": iso(long_ago if health == "silent" else at),
        "conditions": [
            a_condition("Joined", "False" if health == "unjoined" else "True", long_ago),
            a_condition("Healthy", "False" if health == "sick" else "True", long_ago),
        ],
    }
    status: dict[str, Any] = {"agentStatus": [] if health == "absent" else [agent], "conditions": []}
    if properties:
        status["properties"] = {
            key: {"value": value, "observationTime": iso(at)} for key, value in properties.items()
        }
    if usage:
        status["resourceUsage"] = dict(usage)
    if namespaces is not None:
        status["namespaces"] = dict(namespaces)
        status["conditions"].append(a_condition("NamespaceCollectionSucceeded"))
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"identity": {"kind": "User", "name": name}, "taints": list(taints)},
        "status": status,
    }


def a_placement(scope: Scope, policy: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    selector = (
        {"group": "", "version": "v1", "kind": "ConfigMap"}
        if scope.namespaced
        else {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
    )
    body: dict[str, Any] = {"resourceSelectors": [selector], **spec}
    if policy is not None:
        body["policy"] = policy
    return {"metadata": meta_for(scope, "p", finalizers=[names.FINALIZER_CRP_CLEANUP]), "spec": body}
