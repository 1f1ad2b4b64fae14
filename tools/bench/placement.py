"""What scheduling and binding cost on a big fleet: time, CPU, API requests, memory, and a restart.

Run `./dev bench placement`. One process holds the hub and the controllers of placements; member clusters are objects
that report now and then, without agents behind them. Every placement picks `--clusters` of the members (PickN) and
rolls its one ConfigMap out by itself, so every binding is made and bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.crds import crds
from echelon.api.own import CLUSTER_BINDINGS, CLUSTER_PLACEMENTS, MEMBER_CLUSTERS
from echelon.api.scope import CLUSTER
from echelon.client.base import Client
from echelon.controllers.placement import Placements
from echelon.controllers.rollout import Rollouts
from echelon.controllers.scheduler import Scheduler
from echelon.controllers.selection import Selection
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.call import ADMIN, MASTERS, Request, Response, User
from echelon.rules import placements
from echelon.rules.snapshots import AT_ONCE
from echelon.runtime.controller import Controller
from echelon.runtime.manager import Manager

ENGINE = User("bench:engine", (MASTERS, "system:authenticated"))
REGIONS = 10


class Requests:
    """Counts what the engine asks the hub."""

    def __init__(self, hub: Hub) -> None:
        self.counted: Counter[str] = Counter()
        self._handle = hub.handle
        hub.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request) -> Response:
        """Count a request of the engine and pass it on."""
        if request.user is not None and request.user.name == ENGINE.name and "watch" not in request.query:
            parts = request.path.strip("/").split("/")
            kind = parts[3] if len(parts) > 3 else request.path
            self.counted[f"{request.method} {kind}{'/status' if parts[-1] == 'status' else ''}"] += 1
        return await self._handle(request)


def member(number: int, now: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a member that is healthy, and its status."""
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": now,
        "conditions": [
            {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now}
            for type_ in ("Joined", "Healthy")
        ],
    }
    usage = {
        "capacity": {"cpu": "16", "memory": "64Gi"},
        "available": {"cpu": str(number % 16), "memory": "32Gi"},
    }
    body = {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {"name": f"member{number:04}", "labels": {"region": f"r{number % REGIONS}"}},
        "spec": {"identity": {"kind": "User", "name": f"m{number}"}},
    }
    return body, {"agentStatus": [agent], "resourceUsage": usage, "conditions": []}


async def fill(hub: Client, members: int, count: int) -> None:
    """Make the members and what is placed."""
    for crd in crds():
        await hub.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for number in range(members):
        body, status = member(number, now)
        await hub.create(MEMBER_CLUSTERS, body)
        name = body["metadata"]["name"]
        await hub.patch(MEMBER_CLUSTERS, name, None, {"status": status}, subresource="status")
    for number in range(count):
        space = f"app{number:04}"
        await hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        meta = {"name": "settings", "namespace": space}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": "1"}}
        await hub.create(CONFIG_MAPS, body, space)


async def place(hub: Client, count: int, clusters: int) -> None:
    """Make the placements: half of them prefer a region."""
    for number in range(count):
        preference = {"labelSelector": {"matchLabels": {"region": f"r{number % REGIONS}"}}}
        affinity = {
            "clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": preference}]
            }
        }
        policy: dict[str, Any] = {"placementType": "PickN", "numberOfClusters": clusters}
        if number % 2:
            policy["affinity"] = affinity
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": f"app{number:04}"}
        body = {
            "apiVersion": CLUSTER_PLACEMENTS.api_version,
            "kind": CLUSTER_PLACEMENTS.kind,
            "metadata": {"name": f"p{number:04}"},
            "spec": {"resourceSelectors": [selector], "policy": policy},
        }
        await hub.create(CLUSTER_PLACEMENTS, body)


def controllers(manager: Manager) -> Sequence[Controller]:
    """Make the controllers that are measured."""
    selection = Selection(manager.cache, manager.client)
    options = placements.Options(delays=AT_ONCE)
    return [
        Placements(manager.cache, selection, CLUSTER, options),
        Scheduler(manager.cache, CLUSTER),
        Rollouts(manager.cache, CLUSTER),
    ]


async def start(hub: Hub) -> Manager:
    """Start an engine."""
    manager = Manager(local.client(hub, ENGINE, field_manager="bench"), component="bench")
    await manager.start(controllers(manager))
    return manager


async def at_rest(manager: Manager) -> None:
    """Wait until nothing is left to look at."""
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0.02)
        quiet = quiet + 1 if manager.is_idle() else 0


class Stopwatch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return the seconds."""
        return {
            "wall_s": round(time.perf_counter() - self.wall, 2),
            "cpu_s": round(time.process_time() - self.cpu, 2),
        }


async def heartbeats(hub: Client, manager: Manager, count: int) -> dict[str, Any]:
    """Let members report other resources; nobody reads those, so nothing is decided."""
    await at_rest(manager)
    decisions = _decisions(manager)
    watch = Stopwatch()
    for number in range(count):
        usage = {"resourceUsage": {"available": {"cpu": str(100 + number)}}}
        body = {"status": usage}
        await hub.patch(MEMBER_CLUSTERS, f"member{number:04}", None, body, subresource="status")
    await at_rest(manager)
    return {"reports": count, **watch.read(), "decisions": _decisions(manager) - decisions}


def _decisions(manager: Manager) -> int:
    names = [loop.controller.name for loop in manager.loops]
    return sum(int(manager.telemetry.decisions.labels(name)._value.get()) for name in names)  # noqa: SLF001


async def bind_all(client: Client, manager: Manager, count: int, clusters: int) -> dict[str, float]:
    """Make the placements and wait until every binding is bound."""
    bindings = manager.cache.store(CLUSTER_BINDINGS)
    left = {"scheduled": 0}
    enough = asyncio.Event()

    def told(old: Any, new: Any) -> None:
        is_bound = new is not None and new.spec.state == "Bound"
        if is_bound and (old is None or old.spec.state != "Bound"):
            left["scheduled"] += 1
            if left["scheduled"] == count * clusters:
                enough.set()

    bindings.subscribe(told)
    watch = Stopwatch()
    await place(client, count, clusters)
    await enough.wait()
    await at_rest(manager)
    return watch.read()


async def measure(members: int, count: int, clusters: int) -> dict[str, Any]:
    """Run the bench."""
    hub = local.start()
    client = local.client(hub, ADMIN)
    await fill(client, members, count)
    requests = Requests(hub)
    manager = await start(hub)
    await at_rest(manager)
    memory_kb = memory_now_kb()
    placed = await bind_all(client, manager, count, clusters)
    wanted = count * clusters
    asked = {key: n for key, n in requests.counted.most_common() if n >= wanted / 1000}
    total = sum(requests.counted.values())
    grown_kb = memory_now_kb() - memory_kb
    beats = await heartbeats(client, manager, min(members, 100))
    await manager.stop()
    del manager
    gc.collect()
    requests.counted.clear()
    watch = Stopwatch()
    manager = await start(hub)
    await at_rest(manager)
    again = {
        **watch.read(),
        "requests": sum(requests.counted.values()),
        "writes": manager.performer.write_count,
    }
    await manager.stop()
    return {
        "members": members,
        "placements": count,
        "clusters_each": clusters,
        "placed": {
            **placed,
            "bindings_per_s": round(wanted / placed["wall_s"]),
            "requests_per_binding": round(total / wanted, 2),
            "requests_by_kind": asked,
            "memory_mb": round(grown_kb / 1024),
        },
        "reports_of_members": beats,
        "restart": again,
    }


def memory_now_kb() -> int:
    """Return the memory this process has now."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, run and print."""
    parser = argparse.ArgumentParser(prog="./dev bench placement", description=__doc__)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--placements", type=int, default=1000)
    parser.add_argument("--clusters", type=int, default=100)
    given = parser.parse_args(arguments)
    print(json.dumps(asyncio.run(measure(given.members, given.placements, given.clusters)), indent=2))


if __name__ == "__main__":
    main()
