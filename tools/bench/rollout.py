"""What staged runs cost: time, ratio to the bare API writes, requests per cluster, CPU, memory, bytes of status.

Run `./dev bench rollout`: one run over 1,000 clusters in 4 stages; `./dev bench rollout --runs 100 --clusters 100`: a
hundred runs at once. One process holds the hub and the engine (placements, scheduler, delivery, runs), as `echelon up`
does, and the hub keeps what is written on disk, as there (`--memory`: it does not). Members are played by one controller
that answers every Work at once, as an agent would after applying it.

Two yardsticks. The CPU time that the hub spends on the writes of this very run, with everybody watching; and the same
writes sent again, bare and side by side, to a hub prepared the same way that nobody watches. The ratios say what the
whole rollout takes over what its writes alone take.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.conditions import is_true_at
from echelon.api.crds import crds
from echelon.api.meta import timestamp
from echelon.api.names import member_namespace
from echelon.api.own import (
    CLUSTER_BINDINGS,
    CLUSTER_PLACEMENTS,
    CLUSTER_RUNS,
    CLUSTER_STRATEGIES,
    MEMBER_CLUSTERS,
    WORKS,
)
from echelon.api.scope import CLUSTER, Key
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.controllers.delivery import Delivery
from echelon.controllers.placement import Placements
from echelon.controllers.scheduler import Scheduler
from echelon.controllers.selection import Selection
from echelon.controllers.staged import StagedRuns
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.call import ADMIN, MASTERS, Request, Response, User
from echelon.rules.plan import NOTHING, Patch, Plan, ref_of
from echelon.rules.run_phases import RunPhase, run_phase
from echelon.runtime.controller import Watch, each
from echelon.runtime.manager import Manager

ENGINE = User("bench:engine", (MASTERS, "system:authenticated"))
MEMBERS = User("bench:members", (MASTERS, "system:authenticated"))
PARALLEL = (
    64  # bare writes side by side: as many as engine (32 of a plan, 16 deliveries) and members (16) send
)


class Sizes(NamedTuple):
    """What is rolled out."""

    runs: int
    clusters: int
    stages: int
    concurrency: str
    is_durable: bool = True


class Noted:
    """Notes every write of engine and members."""

    def __init__(self, hub: Hub) -> None:
        self.counted: Counter[str] = Counter()
        self.writes: list[Request] = []
        self.status_bytes = 0  # sent as status of runs
        self.cpu_s = 0.0  # spent on writes inside the hub
        self._handle = hub.handle
        hub.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request) -> Response:
        """Note a request and pass it on."""
        who = request.user.name
        if who in {ENGINE.name, MEMBERS.name} and "watch" not in request.query:
            parts = request.path.strip("/").split("/")
            plural = next((part for part in reversed(parts) if part in _PLURALS), request.path)
            status = "/status" if parts[-1] == "status" else ""
            side = "engine" if who == ENGINE.name else "members"
            self.counted[f"{side} {request.method} {plural}{status}"] += 1
            if plural == CLUSTER_RUNS.plural and status:
                self.status_bytes += len(request.body)
            if request.method != "GET":
                self.writes.append(request)
                return await Timed(self, self._handle(request))
        return await self._handle(request)


class Timed:
    """Awaits something and notes the CPU time of its own steps, not of what runs while it waits."""

    def __init__(self, noted: Noted, coroutine: Coroutine[Any, Any, Response]) -> None:
        self.noted = noted
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Response]:
        steps = self.coroutine.__await__()
        sent: Any = None
        while True:
            began = time.process_time()
            try:
                waits_for = steps.send(sent)
            except StopIteration as done:
                response: Response = done.value
                return response
            finally:
                self.noted.cpu_s += time.process_time() - began
            sent = yield waits_for


_PLURALS = frozenset(
    (*(crd["spec"]["names"]["plural"] for crd in crds()), "events", "namespaces", "configmaps")
)


class Members:
    """Answers every Work as an agent does that applied it and found everything available."""

    name = "bench members"
    workers = 16

    def __init__(self, cache: Cache) -> None:
        self._works = cache.store(WORKS)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow the Works of all members."""
        return (each(WORKS),)

    async def load(self, key: Key) -> Any | None:
        """Return a Work."""
        return self._works.get(key.name, key.namespace)

    def decide(self, work: Any, now: datetime) -> Plan:
        """Answer it once."""
        generation = work.metadata.generation
        if work.status and is_true_at(work.status.conditions, "Available", generation):
            return NOTHING
        said = [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": "",
                "observedGeneration": generation,
                "lastTransitionTime": msgspec.to_builtins(timestamp(now)),
            }
            for type_, reason in (("Applied", "AllManifestsApplied"), ("Available", "WorkAvailable"))
        ]
        patch = Patch(ref=ref_of(WORKS, work), body={}, status={"conditions": said}, gone_ok=True)
        return Plan(steps=((patch,),))


# --- the scene ------------------------------------------------------------------------------------------------------
async def fill(hub: Client, sizes: Sizes) -> None:
    """Make members, resources, placements and the strategy."""
    for crd in crds():
        await hub.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for number in range(sizes.clusters):
        await _member(hub, number, sizes, now)
    for number in range(sizes.runs):
        await _placement(hub, number)
    stages = [
        {
            "name": f"stage{number}",
            "labelSelector": {"matchLabels": {"stage": str(number)}},
            "maxConcurrency": sizes.concurrency,
        }
        for number in range(sizes.stages)
    ]
    await hub.create(CLUSTER_STRATEGIES, _object(CLUSTER_STRATEGIES, "bench", {"stages": stages}))


async def _member(hub: Client, number: int, sizes: Sizes, now: str) -> None:
    name = f"member{number:04}"
    body = _object(MEMBER_CLUSTERS, name, {"identity": {"kind": "User", "name": name}})
    body["metadata"]["labels"] = {"stage": str(number * sizes.stages // sizes.clusters)}
    await hub.create(MEMBER_CLUSTERS, body)
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": now,
        "conditions": [
            {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now}
            for type_ in ("Joined", "Healthy")
        ],
    }
    status = {"agentStatus": [agent], "conditions": []}
    await hub.patch(MEMBER_CLUSTERS, name, None, {"status": status}, subresource="status")
    await hub.create(NAMESPACES, _named("Namespace", member_namespace(name)))


async def _placement(hub: Client, number: int) -> None:
    space = f"app{number:04}"
    await hub.create(NAMESPACES, _named("Namespace", space))
    config = {**_named("ConfigMap", "settings", space), "data": {"v": "1"}}
    await hub.create(CONFIG_MAPS, config, space)
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": space}
    spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
    await hub.create(CLUSTER_PLACEMENTS, _object(CLUSTER_PLACEMENTS, f"p{number:04}", spec))


def _named(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


def _object(resource_: Any, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource_.api_version,
        "kind": resource_.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def start(hub: Hub) -> list[Manager]:
    """Start the engine and the members."""
    engine = Manager(local.client(hub, ENGINE, field_manager="bench"), component="bench")
    selection = Selection(engine.cache, engine.client)
    await engine.start(
        [
            Placements(engine.cache, selection, CLUSTER),
            Scheduler(engine.cache, CLUSTER),
            Delivery(engine.cache, CLUSTER),
            StagedRuns(engine.cache, CLUSTER, selection=selection),
        ]
    )
    members = Manager(local.client(hub, MEMBERS, field_manager="bench-members"), component="bench")
    await members.start([Members(members.cache)])
    return [engine, members]


async def at_rest(managers: Sequence[Manager], rounds: int = 5) -> None:
    """Wait until nothing is left to look at."""
    quiet = 0
    while quiet < rounds:
        await asyncio.sleep(0.02)
        quiet = quiet + 1 if all(manager.is_idle() for manager in managers) else 0


async def all_over(engine: Manager, count: int) -> None:
    """Wait until every run is over."""
    store = engine.cache.store(CLUSTER_RUNS)
    over: set[str] = set()
    done = asyncio.Event()

    def told(_old: Any, new: Any) -> None:
        phase = run_phase(new.status.conditions) if new is not None and new.status else RunPhase.NEW
        if phase in (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.INIT_FAILED):
            over.add(new.name)
        if len(over) == count:
            done.set()

    store.subscribe(told)
    await done.wait()
    bad = [run.name for run in store.all() if run_phase(run.status.conditions) is not RunPhase.SUCCEEDED]
    if bad:
        raise SystemExit(f"runs that did not succeed: {', '.join(bad)}")


# --- the yardstick --------------------------------------------------------------------------------------------------
async def bare(hub: Hub, writes: Sequence[Request]) -> tuple[float, float]:
    """Send the noted writes again, bare; return the wall and CPU seconds that took."""
    prepared = [_unconditional(request) for request in writes]
    slots = asyncio.Semaphore(PARALLEL)
    last: dict[str, asyncio.Task[None]] = {}
    refused: Counter[int] = Counter()

    async def send(request: Request, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before  # writes of one object keep their order
        async with slots:
            response = await hub.handle(request)
            if response.status >= 400:
                refused[response.status] += 1

    wall, cpu = time.perf_counter(), time.process_time()
    for request in prepared:
        place = request.path.removesuffix("/status")
        last[place] = asyncio.create_task(send(request, last.get(place)))
    await asyncio.gather(*last.values())
    if sum(refused.values()) > len(writes) // 20:
        print(f"note: {dict(refused)} of {len(writes)} bare writes were refused")
    return time.perf_counter() - wall, time.process_time() - cpu


def _unconditional(request: Request) -> Request:
    """Drop what made the write conditional; the versions of another hub would not fit."""
    if not request.body or request.method == "DELETE":
        return request
    body = msgspec.json.decode(request.body)
    if isinstance(body, dict):
        body.get("metadata", {}).pop("resourceVersion", None)
    return Request(
        request.method, request.path, request.query, request.headers, msgspec.json.encode(body), request.user
    )


# --- the measurement ------------------------------------------------------------------------------------------------
async def measure(sizes: Sizes) -> dict[str, Any]:
    """Run the bench."""
    with tempfile.TemporaryDirectory(prefix="bench-rollout-") as folder:
        return await _measure(sizes, Path(folder))


def _hub(sizes: Sizes, folder: Path, name: str) -> Hub:
    return local.start(folder / name if sizes.is_durable else None)


async def _measure(sizes: Sizes, folder: Path) -> dict[str, Any]:
    hub = _hub(sizes, folder, "hub")
    client = local.client(hub, ADMIN)
    await fill(client, sizes)
    managers = await start(hub)
    bindings = await scheduled(managers, sizes.runs * sizes.clusters)
    gc.collect()
    memory_kb = memory_now_kb()
    noted = Noted(hub)
    wall, cpu = time.perf_counter(), time.process_time()
    await create_runs(client, sizes)
    await all_over(managers[0], sizes.runs)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await at_rest(managers)
    grown_kb = memory_now_kb() - memory_kb
    status = [len(msgspec.json.encode(run.status)) for run in managers[0].cache.store(CLUSTER_RUNS).all()]
    for manager in managers:
        await manager.stop()
    writes = list(noted.writes)
    del managers
    gc.collect()
    yardstick = _hub(sizes, folder, "yardstick")
    await _prepare_again(yardstick, sizes, bindings)
    bare_wall, bare_cpu = await bare(yardstick, writes)
    clusters = sizes.runs * sizes.clusters
    asked = {key: round(n / clusters, 2) for key, n in noted.counted.most_common() if n >= clusters / 100}
    return {
        **sizes._asdict(),
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "cpu_ms_per_cluster": round(1000 * cpu / clusters, 2),
        "cpu_s_in_writes": round(noted.cpu_s, 2),
        "cpu_ratio_to_own_writes": round(cpu / noted.cpu_s, 2),
        "bare_writes": len(writes),
        "bare_wall_s": round(bare_wall, 2),
        "bare_cpu_s": round(bare_cpu, 2),
        "ratio_to_bare_writes": round(wall / bare_wall, 2),
        "cpu_ratio_to_bare_writes": round(cpu / bare_cpu, 2),
        "hub_writes_per_cluster": round(len(writes) / clusters, 2),
        "requests_per_cluster": round(sum(noted.counted.values()) / clusters, 2),
        "requests_per_cluster_by_kind": asked,
        "run_status_bytes": max(status),
        "run_status_bytes_written_per_cluster": round(noted.status_bytes / clusters),
        "run_status_writes": noted.counted[f"engine PATCH {CLUSTER_RUNS.plural}/status"],
        "memory_grown_mb": round(grown_kb / 1024),
        "memory_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


async def _prepare_again(hub: Hub, sizes: Sizes, bindings: Sequence[Any]) -> None:
    """Bring a second hub to where the first was before the runs: the scheduler has done its part."""
    client = local.client(hub, ADMIN)
    await fill(client, sizes)
    for held in bindings:
        body = _object(CLUSTER_BINDINGS, held.name, msgspec.to_builtins(held.spec))
        body["metadata"] |= {
            "labels": dict(held.metadata.labels),
            "finalizers": list(held.metadata.finalizers),
        }
        await client.create(CLUSTER_BINDINGS, body)
    await create_runs(client, sizes)


async def create_runs(client: Client, sizes: Sizes) -> None:
    """Make one run for each placement."""
    for number in range(sizes.runs):
        spec = {"placementName": f"p{number:04}", "stagedRolloutStrategyName": "bench", "state": "Run"}
        await client.create(CLUSTER_RUNS, _object(CLUSTER_RUNS, f"run{number:04}", spec))


async def scheduled(managers: Sequence[Manager], count: int) -> list[Any]:
    """Wait until the scheduler is through; return the bindings."""
    store = managers[0].cache.store(CLUSTER_BINDINGS)
    enough = asyncio.Event()

    def told(_old: Any, _new: Any) -> None:
        if len(store) == count:
            enough.set()

    store.subscribe(told)
    await enough.wait()
    store.unsubscribe(told)
    await at_rest(managers)
    return list(store.all())


def memory_now_kb() -> int:
    """Return the memory this process has now."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, run and print."""
    parser = argparse.ArgumentParser(prog="./dev bench rollout", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--clusters", type=int, default=1000, help="clusters of each run")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--concurrency", default="25%", help="maxConcurrency of each stage, as a percentage")
    parser.add_argument("--memory", action="store_true", help="a hub that keeps nothing on disk")
    given = parser.parse_args(arguments)
    sizes = Sizes(given.runs, given.clusters, given.stages, given.concurrency, not given.memory)
    gc.set_threshold(50_000, 20, 100)  # as the served process does
    print(json.dumps(asyncio.run(measure(sizes)), indent=2))


if __name__ == "__main__":
    main()
