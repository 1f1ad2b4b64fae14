"""How fast a change on the hub becomes an object on members, and what it costs in API requests.

Run `./dev bench delivery`. One process holds the hub, the engine and the members; one ConfigMap is placed on all of
them by a rolling update that may touch all members at once. Each change is timed from the hub's answer to the write
until the member holds the new object, and until the placement says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from typing import Any

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.conditions import find_condition
from echelon.api.own import CLUSTER_PLACEMENTS
from echelon.client.cache import Cache
from echelon.controllers.all import EngineOptions
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.call import Request, Response
from echelon.rules import placements
from echelon.rules.snapshots import AT_ONCE
from echelon.sandbox.fleet import Fleet, FleetOptions

SPACE, NAME = "bench", "settings"
WARM_UP = 3  # first changes fill caches; they are not counted


class Requests:
    """Counts what a hub is asked, by who asks and for what."""

    def __init__(self, hub: Hub) -> None:
        self.counted: Counter[str] = Counter()
        self._handle = hub.handle
        hub.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request) -> Response:
        """Count a request and pass it on."""
        if "watch" not in request.query:
            self.counted[f"{_who(request)} {request.method} {_what(request.path)}"] += 1
        return await self._handle(request)


def _who(request: Request) -> str:
    user = request.user.name if request.user else ""
    if "hub-agent" in user:
        return "engine"
    if "member" in user:
        return "agent on hub"
    return "agent on member" if request.path.startswith("/clusters/") else "bench"


def _what(path: str) -> str:
    """Return the resource of a path, with its subresource."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["clusters"]:
        parts = parts[2:]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join((parts[0] if parts else "", *parts[2:3])).strip("/")


class Arrivals:
    """Notices when a value reaches every member."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.wanted = ""
        self.at: dict[str, float] = {}
        self.all_here = asyncio.Event()
        self._caches: list[Cache] = []

    async def follow(self) -> None:
        """Watch the object on every member."""
        for name, member in self.fleet.members.items():
            cache = Cache(local.client(self.fleet.hub, cluster=name))
            store = cache.store(CONFIG_MAPS, SPACE)
            store.subscribe(lambda _old, new, name=name: self._seen(name, new))
            self._caches.append(cache)
            await store.synced.wait()
            assert member

    def _seen(self, member: str, new: Any) -> None:
        if new is None or new["metadata"]["name"] != NAME or new["data"].get("v") != self.wanted:
            return
        self.at.setdefault(member, time.perf_counter())
        if len(self.at) == len(self.fleet.members):
            self.all_here.set()

    def expect(self, value: str) -> None:
        """Begin to wait for a value."""
        self.wanted, self.at = value, {}
        self.all_here.clear()

    async def close(self) -> None:
        """Stop watching."""
        for cache in self._caches:
            await cache.close()


async def place(fleet: Fleet, content: dict[str, str]) -> None:
    """Make the object and place it."""
    hub = fleet.client
    await hub.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": SPACE}}
    await hub.create(CONFIG_MAPS, {**body, "data": content}, SPACE)
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": SPACE}
    rolling = {"maxUnavailable": "100%", "unavailablePeriodSeconds": 0}
    placement = {
        "apiVersion": CLUSTER_PLACEMENTS.api_version,
        "kind": CLUSTER_PLACEMENTS.kind,
        "metadata": {"name": "bench"},
        "spec": {"resourceSelectors": [selector], "strategy": {"rollingUpdate": rolling}},
    }
    await hub.create(CLUSTER_PLACEMENTS, placement)


async def is_placed(fleet: Fleet, index: int) -> None:
    """Wait until the placement says that version `index` is available everywhere."""
    store = fleet.manager.cache.store(CLUSTER_PLACEMENTS)
    news = asyncio.Event()

    def told(_old: Any, _new: Any) -> None:
        news.set()

    store.subscribe(told)
    try:
        while not _is_placed(store.get("bench"), index):
            await news.wait()
            news.clear()
    finally:
        store.unsubscribe(told)


def _is_placed(placement: Any, index: int) -> bool:
    status = placement.status if placement else None
    if status is None or status.observed_resource_index != str(index):
        return False
    found = find_condition(status.conditions, "ClusterResourcePlacementAvailable")
    return (
        found is not None
        and found.status == "True"
        and all(entry.observed_resource_index == str(index) for entry in status.placement_statuses)
    )


def quantile(values: list[float], q: float) -> float:
    """Return the value that a share q of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


async def measure(members: int, changes: int, size_bytes: int) -> dict[str, Any]:
    """Run the bench."""
    hub = local.start()
    requests = Requests(hub)
    engine = EngineOptions(placements=placements.Options(delays=AT_ONCE))  # a version for each change
    fleet = Fleet(hub, options=FleetOptions(engine=engine))
    await fleet.start({f"member{number + 1}": {} for number in range(members)})
    await fleet.joined()
    filler = {"filler": "x" * size_bytes}
    await place(fleet, {**filler, "v": "first"})
    await is_placed(fleet, 0)
    arrivals = Arrivals(fleet)
    await arrivals.follow()
    to_member: list[float] = []
    to_status: list[float] = []
    for change in range(1, changes + WARM_UP + 1):
        if change == WARM_UP + 1:
            requests.counted.clear()
            began = time.perf_counter()
        arrivals.expect(str(change))
        await fleet.client.patch(CONFIG_MAPS, NAME, SPACE, {"data": {"v": str(change)}})
        asked_at = time.perf_counter()
        await arrivals.all_here.wait()
        await is_placed(fleet, change)
        if change > WARM_UP:
            to_member += [at - asked_at for at in arrivals.at.values()]
            to_status.append(time.perf_counter() - asked_at)
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.2)  # whatever is still on its way is counted too
    deliveries = changes * members
    counted = {key: round(count / deliveries, 2) for key, count in requests.counted.most_common()}
    await arrivals.close()
    await fleet.stop()
    return {
        "members": members,
        "changes": changes,
        "object_bytes": size_bytes,
        "hub_write_to_member_ms": _summary(to_member),
        "hub_write_to_placement_available_ms": _summary(to_status),
        "deliveries_per_s": round(deliveries / seconds, 1),
        "requests_per_delivery": round(sum(requests.counted.values()) / deliveries, 2),
        "requests_by_kind": {key: count for key, count in counted.items() if count >= 0.01},
    }


def _summary(seconds: list[float]) -> dict[str, float]:
    return {
        name: round(quantile(seconds, q) * 1000, 2) for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="./dev bench delivery", description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--size", type=int, default=1024, help="bytes in the object")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    found = asyncio.run(measure(chosen.members, chosen.changes, chosen.size))
    if chosen.json:
        print(json.dumps(found))
        return 0
    for key, value in found.items():
        if isinstance(value, dict):
            print(f"{key}:")
            for inner, number in value.items():
                print(f"  {inner:55} {number}")
        else:
            print(f"{key:57} {value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
