"""Works and bindings as the peer wrote them on a real cluster: from the same binding and snapshot come the same objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from echelon.api import names as n
from echelon.api.builtin import NAMESPACES
from echelon.api.own import MEMBER_CLUSTERS, WORKS
from echelon.api.scope import SCOPES
from echelon.client.base import path_of
from echelon.controllers.delivery import Delivery
from tests.world import member_cluster, namespace, world

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "contract" / "golden"


def recordings() -> list[Any]:
    """Return (scope, objects) of every recording in which something was delivered."""
    found = []
    for path in sorted(GOLDEN.glob("*.json")) if GOLDEN.is_dir() else ():
        for phase, objects in json.loads(path.read_text()).items():
            for scope in SCOPES if isinstance(objects, dict) else ():
                kinds = (scope.binding.plural, scope.resource_snapshot.plural, "works")
                if all(objects.get(kind) for kind in kinds):
                    found.append(pytest.param(scope, objects, id=f"{path.stem}/{phase}/{scope.name}"))
    return found


pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(not GOLDEN.is_dir(), reason="the contract is not beside this clone"),
]


def without_times(value: Any) -> Any:
    """Drop what differs between any two runs."""
    dropped = {"creationTimestamp", "lastTransitionTime", "resourceVersion", "uid", "managedFields"}
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in dropped}
    return [without_times(item) for item in value] if isinstance(value, list) else value


async def put(client, resource, body) -> None:
    """Create an object as it was, status included."""
    meta = {
        key: body["metadata"][key]
        for key in ("name", "namespace", "labels", "annotations", "finalizers")
        if key in body["metadata"]
    }
    space = meta.get("namespace")
    made = await client.create(resource, {**body, "metadata": meta, "status": None}, space)
    if body.get("status"):
        status = json.loads(json.dumps(body["status"]))
        for condition in status.get("conditions", []):
            condition["observedGeneration"] = made.metadata.generation
        await client.patch(resource, meta["name"], space, {"status": status}, subresource="status")


async def plain(client, resource, name, space=None) -> dict[str, Any]:
    return json.loads(await client.raw("GET", path_of(resource, name, space)))


@pytest.mark.parametrize(("scope", "objects"), recordings())
def test_the_same_works_and_the_same_conditions(scope, objects):
    bindings, snapshots = objects[scope.binding.plural], objects[scope.resource_snapshot.plural]

    async def scenario(w):
        client = w.client()
        await w.install()
        for space in {obj["metadata"]["namespace"] for obj in snapshots if "namespace" in obj["metadata"]}:
            await client.create(NAMESPACES, namespace(space))
        for snapshot in snapshots:
            await put(client, scope.resource_snapshot, snapshot)
        delivered = [b for b in bindings if b["spec"]["state"] == "Bound" and b.get("status")]
        clusters = {b["spec"]["targetCluster"] for b in bindings}
        for cluster in clusters:
            await client.create(MEMBER_CLUSTERS, member_cluster(cluster))
            await client.create(NAMESPACES, namespace(n.member_namespace(cluster)))
        await w.start(lambda m: [Delivery(m.cache, scope)])
        for binding in delivered:
            stamp = [c for c in binding["status"]["conditions"] if c["type"] == "RolloutStarted"]
            await put(client, scope.binding, {**binding, "status": {"conditions": stamp}})
        await w.settle()
        names = {binding["metadata"]["name"] for binding in delivered}
        wanted = [
            w for w in objects["works"] if w["metadata"]["labels"][n.LABEL_PARENT_RESOURCE_BINDING] in names
        ]
        assert wanted or not delivered
        for work in wanted:
            name, space = work["metadata"]["name"], work["metadata"]["namespace"]
            made = without_times(await plain(client, WORKS, name, space))
            recorded = without_times(work)
            assert made["spec"] == recorded["spec"]
            assert made["metadata"]["labels"] == recorded["metadata"]["labels"]
            notes = made["metadata"]["annotations"]
            theirs = {key: note for key, note in notes.items() if not key.startswith("echelon.dev/")}
            assert theirs == recorded["metadata"]["annotations"]
            if work.get("status"):
                status = json.loads(json.dumps(work["status"]))
                for condition in status["conditions"]:
                    fresh = condition["observedGeneration"] == work["metadata"]["generation"]
                    condition["observedGeneration"] = 1 if fresh else 0
                await client.patch(WORKS, name, space, {"status": status}, subresource="status")
        await w.settle()
        for binding in delivered:
            name, space = binding["metadata"]["name"], binding["metadata"].get("namespace")
            made = without_times(await plain(client, scope.binding, name, space))
            recorded = without_times(binding)
            generation = recorded["metadata"]["generation"]
            for condition in recorded["status"]["conditions"]:
                condition["observedGeneration"] -= generation - 1
            assert made["status"] == recorded["status"]
            assert n.FINALIZER_WORK_CLEANUP in made["metadata"]["finalizers"]
        await w.stop()

    with world(15) as w:
        w.run(scenario(w))
