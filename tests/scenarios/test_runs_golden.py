"""Runs as the peer recorded them on real Kubernetes: after the same steps, the same status, condition by condition."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from echelon.api.builtin import NAMESPACES
from echelon.api.scope import CLUSTER, SCOPES, scope_of
from echelon.client.base import path_of
from echelon.rules.run_phases import RunPhase
from tests.rollouts import play
from tests.world import namespace

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "contract" / "golden"
LABELS = {name: {"env": "canary" if name == "kind-cluster-2" else "prod"} for name in
          ("kind-cluster-1", "kind-cluster-2", "kind-cluster-3")}  # fmt: skip
TIMES = ("lastTransitionTime", "startTime", "endTime")

pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(not GOLDEN.is_dir(), reason="the contract is not beside this clone"),
]


def golden(name: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / f"{name}.json").read_text())) if GOLDEN.is_dir() else {}


def timeless(value: Any) -> Any:
    """The same value with every time replaced by whether there is one."""
    if isinstance(value, dict):
        return {key: bool(part) if key in TIMES else timeless(part) for key, part in value.items()}
    return [timeless(part) for part in value] if isinstance(value, list) else value


async def raw(r: Any, resource: Any, name: str) -> dict[str, Any]:
    return dict(json.loads(await r.client.raw("GET", path_of(resource, name, r.namespace))))


def recorded(step: dict[str, Any], resource: Any, name: str) -> dict[str, Any]:
    return next(one for one in step[resource.plural] if one["metadata"]["name"] == name)


async def same(r: Any, step: dict[str, Any], name: str, suffix: str = "") -> None:
    """The run, its requests and what it wrote on bindings are as recorded."""
    scope = r.scope
    wanted, held = recorded(step, scope.run, name), await raw(r, scope.run, name)
    text = json.dumps(held["status"]).replace(suffix, "") if suffix else json.dumps(held["status"])
    assert timeless(json.loads(text)) == timeless(wanted["status"])
    assert held["spec"] == wanted["spec"]
    assert held["metadata"]["generation"] == wanted["metadata"]["generation"]
    assert held["metadata"]["finalizers"] == wanted["metadata"]["finalizers"]
    for request in step.get(scope.approval.plural, ()):
        await same_request(r, request)
    planned = {
        entry["clusterName"] for one in held["status"].get("stagesStatus", ()) for entry in one["clusters"]
    }
    for binding in step[scope.binding.plural]:
        if binding["spec"]["targetCluster"] in planned:
            await same_binding(r, binding)


async def same_request(r: Any, wanted: dict[str, Any]) -> None:
    held = await raw(r, r.scope.approval, wanted["metadata"]["name"])
    assert (held["spec"], held["metadata"]["labels"]) == (wanted["spec"], wanted["metadata"]["labels"])
    ours, theirs = (
        [one for one in obj.get("status", {}).get("conditions", []) if one["type"] == "ApprovalAccepted"]
        for obj in (held, wanted)
    )
    assert timeless(ours) == timeless(theirs)


async def same_binding(r: Any, wanted: dict[str, Any]) -> None:
    held = to_builtins(await r.get_binding(wanted["spec"]["targetCluster"]))
    theirs = wanted["spec"]
    for field in ("state", "resourceSnapshotName", "applyStrategy"):
        assert held["spec"].get(field) == theirs.get(field), field
    stamps = [
        [one for one in obj.get("status", {}).get("conditions", []) if one["type"] == "RolloutStarted"]
        for obj in (held, wanted)
    ]
    assert timeless(stamps[0]) == timeless(stamps[1])


async def begin(r: Any, step: dict[str, Any], name: str, only: set[str] | None = None) -> None:
    """Make the surroundings of a recording; `only` names the clusters that were there when it mattered."""
    r.placement = name
    strategies = step[r.scope.strategy.plural]
    r.namespace = strategies[0]["metadata"].get("namespace")
    await r.install()
    if r.namespace:
        await r.client.create(NAMESPACES, namespace(r.namespace))
    bindings = {one["spec"]["targetCluster"]: one["metadata"]["name"] for one in step[r.scope.binding.plural]}
    bindings = {cluster: held for cluster, held in bindings.items() if only is None or cluster in only}
    r.binding_name = bindings.__getitem__
    await r.begin({cluster: LABELS[cluster] for cluster in bindings}, [], install=False, snapshots=0)
    for one in strategies:
        await r.create(r.scope.strategy, one["metadata"]["name"], one["spec"])


async def create(r: Any, step: dict[str, Any], name: str, **spec: str) -> None:
    held = dict(recorded(step, r.scope.run, name)["spec"])
    if not held["resourceSnapshotIndex"]:
        del held["resourceSnapshotIndex"]  # left out by its author; the engine writes it empty
    await r.create(r.scope.run, name, {**held, **spec})


def test_a_gated_run_from_plan_to_success_as_recorded():
    steps = golden("success")

    async def scenario(r: Any) -> None:
        first = steps["02-initialized"]
        await begin(r, first, "ga")
        await r.start()
        await create(r, first, "ga-run")
        await r.reaches(RunPhase.INITIALIZED, "ga-run")
        await same(r, first, "ga-run")
        await r.set_state("Run", "ga-run")
        for step, gate in (
            ("03-canary-waiting-before", "ga-run-before-canary"),
            ("04-canary-waiting-after", "ga-run-after-canary"),
            ("05-prod-waiting-before", "ga-run-before-prod"),
        ):
            await r.w.settle()
            await same(r, steps[step], "ga-run")
            await r.approve(gate)
        await r.w.settle()
        await same(r, steps["06-prod-waiting-after"], "ga-run")
        await r.approve("ga-run-after-prod")
        await r.reaches(RunPhase.SUCCEEDED, "ga-run")
        await same(r, steps["07-succeeded"], "ga-run")

    play(CLUSTER, scenario)


def test_a_run_stopped_and_resumed_as_recorded():
    steps = golden("stop-resume")

    async def scenario(r: Any) -> None:
        await begin(r, steps["01-initialized"], "gg")
        await r.start()
        await create(r, steps["01-initialized"], "gg-run")
        await r.reaches(RunPhase.INITIALIZED, "gg-run")
        await same(r, steps["01-initialized"], "gg-run")
        await r.set_state("Run", "gg-run")
        await r.reaches(RunPhase.WAITING, "gg-run")
        await r.w.settle()
        await same(r, steps["02-running-waiting-after-canary"], "gg-run")
        await r.set_state("Stop", "gg-run")
        await r.reaches(RunPhase.STOPPED, "gg-run")
        await same(r, steps["03-stopped"], "gg-run")
        await r.approve("gg-run-after-canary")
        await r.w.settle()
        await same(r, steps["04-stopped-and-approved"], "gg-run")
        r.delivery.silent.add("kind-cluster-1")
        await r.set_state("Run", "gg-run")
        await r.w.settle()
        await same(r, steps["05-prod-started"], "gg-run")
        r.delivery.silent.clear()
        r.delivery.again(r.w)
        await r.reaches(RunPhase.SUCCEEDED, "gg-run")
        await same(r, steps["06-succeeded"], "gg-run")

    play(CLUSTER, scenario)


def test_a_preempted_run_as_recorded_but_for_the_name_of_the_other():
    steps = golden("preempted-midcluster")

    async def scenario(r: Any) -> None:
        first = steps["01-first-run-cluster-pending"]
        await begin(r, first, "ge")
        for one in steps["03-second-run-succeeded"][r.scope.strategy.plural]:
            if one["metadata"]["name"] not in {
                held["metadata"]["name"] for held in first[r.scope.strategy.plural]
            }:
                await r.create(r.scope.strategy, one["metadata"]["name"], one["spec"])
        await r.start()
        r.delivery.silent.add("kind-cluster-1")
        await create(r, first, "ge-run", state="Run")
        await r.reaches(RunPhase.PROGRESSING, "ge-run")
        await same(r, first, "ge-run")
        await asyncio.sleep(2)  # the second run is of a later second
        r.selection.manifests[0]["data"] = {"v": "2"}
        r.delivery.silent.clear()
        await create(r, steps["03-second-run-succeeded"], "ge-run2")
        await r.reaches(RunPhase.FAILED, "ge-run")
        await r.reaches(RunPhase.SUCCEEDED, "ge-run2")
        suffix = ": it was moved by updateRun `ge-run2`"
        last = steps["03-second-run-succeeded"]
        await same(r, last, "ge-run", suffix)
        await same(r, last, "ge-run2")

    play(CLUSTER, scenario)


def failures() -> list[Any]:
    found = []
    for name in ("init-failure", "ns-init-failure"):
        for step, objects in golden(name).items():
            scope = next(one for one in SCOPES if one.run.plural in objects)
            run = max(objects[scope.run.plural], key=lambda one: one["metadata"]["name"])
            found.append(pytest.param(objects, run["metadata"]["name"], id=f"{name}/{step}"))
    return found


@pytest.mark.parametrize(("objects", "name"), failures())
def test_a_run_that_cannot_be_planned_as_recorded(objects: dict[str, Any], name: str):
    run = next(
        one
        for kind in objects.values()
        for one in kind
        if one.get("metadata", {}).get("name") == name and "spec" in one
    )
    scope = scope_of(run["metadata"].get("namespace"))
    stages = run["status"].get("stagesStatus")
    clusters = {entry["clusterName"] for one in stages for entry in one["clusters"]} if stages else None

    async def scenario(r: Any) -> None:
        await begin(r, objects, run["spec"]["placementName"], clusters)
        if objects.get(scope.resource_snapshot.plural):
            await r.snapshot(0)
        await r.start()
        await create(r, objects, name)
        await r.reaches(RunPhase.INIT_FAILED, name)
        await same(r, objects, name)

    play(scope, scenario)
