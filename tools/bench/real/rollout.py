"""What a staged run costs on a real API server: time, ratio to the bare writes, requests, CPU, memory.

    ./dev bench rollout --real [--members 3 | --fakes 200]

A lab of its own: hub agent as a process with the rights of an installation; members with control plane and agent, or
pretended ones that answer every Work. One ConfigMap is rolled out in four stages, a quarter of a stage at a time.

The yardstick: as many writes to the same objects as the rollout took, bare and side by side, with nobody watching.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.own import CLUSTER_BINDINGS, CLUSTER_PLACEMENTS, CLUSTER_RUNS, CLUSTER_STRATEGIES
from echelon.api.registry import OWN
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.rules.run_phases import RunPhase, run_phase
from tools.bench.real.cost import memory_mib
from tools.bench.real.fleet import Fleet, fleet, read_sizes, until
from tools.bench.rollout import PARALLEL, Sizes, create_runs

SPACE, STAGES = "app0000", 4  # names that create_runs expects
OVER = (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.INIT_FAILED)
REST_S = 3.0
WRITES = ("create", "update", "patch", "delete")


def _object(resource: Resource, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def place(hub: Client) -> None:
    """Make what is rolled out, its placement and the strategy."""
    await hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"v": "1"}}
    await hub.create(CONFIG_MAPS, body, SPACE)
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": SPACE}
    spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
    await hub.create(CLUSTER_PLACEMENTS, _object(CLUSTER_PLACEMENTS, "p0000", spec))
    stages = [
        {"name": f"stage{n}", "labelSelector": {"matchLabels": {"stage": str(n)}}, "maxConcurrency": "25%"}
        for n in range(STAGES)
    ]
    await hub.create(CLUSTER_STRATEGIES, _object(CLUSTER_STRATEGIES, "bench", {"stages": stages}))


async def measure(on: Fleet) -> dict[str, Any]:
    """Roll out, and then write as much, bare."""
    hub = on.client()
    cache = Cache(hub)
    await place(hub)
    bindings, runs = cache.store(CLUSTER_BINDINGS), cache.store(CLUSTER_RUNS)
    await until(bindings, lambda: len(bindings) == on.members)
    meter = on.meter()
    await meter.at_rest()
    began = time.perf_counter()
    await create_runs(hub, Sizes(1, on.members, STAGES, "25%"))
    await until(runs, lambda: any(_phase(run) in OVER for run in runs.all()))
    wall_s = time.perf_counter() - began
    (run,) = runs.all()
    if _phase(run) is not RunPhase.SUCCEEDED:
        raise SystemExit("the run did not succeed")
    await asyncio.sleep(REST_S)
    cpu, asked = meter.cpu(), meter.requests()
    memory = memory_mib(on.pid("hub-0")), memory_mib(on.pid("hub-0"), "VmHWM")
    on.silence()
    await cache.close()
    writes = Counter({key[1:]: 0 for key in asked if key[1] in WRITES})
    for (_, verb, what), count in asked.items():
        if verb in WRITES:
            writes[verb, what] += count
    bare_s = await bare(hub, writes)
    await hub.close()
    return told(on, wall_s, bare_s, cpu, asked, memory)


def told(
    on: Fleet,
    wall_s: float,
    bare_s: float,
    cpu: dict[str, float],
    asked: Counter[tuple[str, str, str]],
    memory: tuple[int, int],
) -> dict[str, Any]:
    """Return the figures by name."""
    n = on.members
    by_verb: dict[str, Counter[str]] = defaultdict(Counter)
    for (who, verb, _), count in asked.items():
        by_verb[who][verb] += count
    return {
        "members": n,
        "played_by_one_process": on.is_fake,
        "wall_s": round(wall_s, 2),
        "bare_writes_wall_s": round(bare_s, 2),
        "ratio_to_bare_writes": round(wall_s / bare_s, 2),
        "hub_agent_cpu_s": round(cpu["hub agent"], 2),
        "hub_agent_cpu_ms_per_cluster": round(1000 * cpu["hub agent"] / n, 1),
        "api_server_cpu_ms_per_cluster": round(1000 * cpu["API server"] / n, 1),
        "etcd_cpu_ms_per_cluster": round(1000 * cpu["etcd"] / n, 1),
        "hub_agent_memory_mib": memory[0],
        "hub_agent_memory_peak_mib": memory[1],
        "requests_per_cluster": {
            who: {verb: round(count / n, 2) for verb, count in sorted(verbs.items())}
            for who, verbs in sorted(by_verb.items())
        },
        "requests_per_cluster_by_kind": {
            f"{who} {verb} {what}": round(count / n, 2)
            for (who, verb, what), count in asked.most_common()
            if count >= n / 10
        },
    }


def _phase(run: Any) -> RunPhase:
    return run_phase(run.status.conditions) if run.status else RunPhase.NEW


# --- the yardstick --------------------------------------------------------------------------------------------------
async def bare(hub: Client, writes: Counter[tuple[str, str]]) -> float:
    """Write as often to the same objects; returns the seconds that took."""
    held = {
        resource.plural: (
            resource,
            [(one.name, one.metadata.namespace) for one in (await hub.list(resource)).items],
        )
        for resource in OWN
        if any(what.split("/")[0] == resource.plural for _, what in writes)
    }
    slots = asyncio.Semaphore(PARALLEL)
    locks: dict[tuple[str, str, str | None], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def change(resource: Resource, name: str, space: str | None, subresource: str, number: int) -> None:
        async with locks[resource.plural, name, space], slots:
            await hub.patch(resource, name, space, _change(subresource, number), subresource=subresource)

    async def make(number: int) -> None:
        async with slots:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"bare{number}"}}
            await hub.create(CONFIG_MAPS, {**body, "data": {"v": "x" * 1000}}, SPACE)

    tasks = []
    for (verb, what), count in writes.items():
        plural, _, subresource = what.partition("/")
        resource, names = held.get(plural, (None, []))
        for number in range(count):
            if resource is not None and names and verb in {"patch", "update"}:
                name, space = names[number % len(names)]
                tasks.append(change(resource, name, space, subresource, number))
            else:
                tasks.append(make(len(tasks)))
    began = time.perf_counter()
    await asyncio.gather(*tasks)
    return time.perf_counter() - began


def _change(subresource: str, number: int) -> dict[str, Any]:
    """Return a patch that changes an object, about as large as the engine's."""
    if subresource != "status":
        return {"metadata": {"annotations": {"bench": f"{number} {'x' * 300}"}}}
    row = {
        "type": "Bench",
        "status": "True",
        "reason": "Bench",
        "message": f"{number} {'x' * 300}",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [row]}}


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    chosen = read_sizes("rollout", __doc__, list(arguments))
    with fleet(chosen.members, chosen.fakes) as on:
        print(json.dumps(asyncio.run(measure(on)), indent=2))
    return 0
