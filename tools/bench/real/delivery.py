"""How fast a change on the hub reaches members through a real API server, and what it costs.

    ./dev bench delivery --real [--members 3 | --fakes 200]

A lab of its own, as for rollout. One ConfigMap is placed on all members by a rolling update that may touch all at once.
With real members a change has arrived when the member's own API server has it, with pretended ones when the placement
says that all of them have it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from echelon.api.builtin import CONFIG_MAPS
from echelon.api.conditions import find_condition
from echelon.api.own import CLUSTER_PLACEMENTS
from echelon.client.base import Client
from echelon.client.cache import Cache, Store
from tools.bench.delivery import NAME, SPACE, WARM_UP, place, quantile
from tools.bench.real.cost import memory_mib
from tools.bench.real.fleet import Fleet, fleet, read_sizes, until

AT_ONCE = ("--resource-changes-collection-duration=0s", "--resource-snapshot-creation-minimum-interval=0s")


class Hub:
    """What `place` of the bench in memory needs of a fleet."""

    def __init__(self, client: Client) -> None:
        self.client = client


async def measure(on: Fleet, changes: int) -> dict[str, Any]:
    """Change, and wait until it has arrived, again and again."""
    hub = on.client()
    cache = Cache(hub)
    await place(Hub(hub), {"filler": "x" * 1024, "v": "0"})  # type: ignore[arg-type]
    placements = cache.store(CLUSTER_PLACEMENTS)
    await until(placements, lambda: is_placed(placements, on.members, ""))
    clients = [] if on.is_fake else [on.client(name) for name in on.agents.members]
    stores = [Cache(client).store(CONFIG_MAPS, SPACE) for client in clients]
    to_members: list[float] = []
    to_status: list[float] = []
    meter = on.meter()
    await meter.at_rest()
    for change in range(1, changes + WARM_UP + 1):
        if change == WARM_UP + 1:
            meter.start()
        index = observed(placements)
        await hub.patch(CONFIG_MAPS, NAME, SPACE, {"data": {"v": str(change)}})
        began = time.perf_counter()
        for store in stores:
            await until(store, lambda store=store, change=change: value(store) == str(change))
        arrived_s = time.perf_counter() - began
        await until(placements, lambda index=index: is_placed(placements, on.members, index))
        if change > WARM_UP:
            to_members.append(arrived_s)
            to_status.append(time.perf_counter() - began)
    await asyncio.sleep(1.0)
    cpu, asked = meter.cpu(), meter.requests()
    deliveries = changes * on.members
    found = {
        "members": on.members,
        "played_by_one_process": on.is_fake,
        "changes": changes,
        "hub_write_to_all_members_ms": None if on.is_fake else _summary(to_members),
        "hub_write_to_placement_available_ms": _summary(to_status),
        "hub_agent_cpu_ms_per_delivery": round(1000 * cpu["hub agent"] / deliveries, 2),
        "api_server_cpu_ms_per_delivery": round(1000 * cpu["API server"] / deliveries, 2),
        "hub_agent_memory_mib": memory_mib(on.pid("hub-0")),
        "requests_per_delivery": _by_kind(asked, deliveries),
    }
    await cache.close()
    for client in (hub, *clients):
        await client.close()
    return found


def observed(placements: Store) -> str:
    """Return the version the placement speaks of."""
    placement = placements.get("bench")
    return str(placement.status.observed_resource_index or "") if placement and placement.status else ""


def is_placed(placements: Store, members: int, before: str) -> bool:
    """Tell whether a version other than the one before is available everywhere."""
    placement = placements.get("bench")
    index = observed(placements)
    if placement is None or not index or index == before:
        return False
    found = find_condition(placement.status.conditions, "ClusterResourcePlacementAvailable")
    rows = placement.status.placement_statuses
    return (
        found is not None
        and found.status == "True"
        and len(rows) == members
        and all(row.observed_resource_index == index for row in rows)
    )


def value(store: Store) -> str:
    """Return what a member has."""
    held = store.get(NAME, SPACE)
    return str(held["data"].get("v", "")) if held else ""


def _by_kind(asked: Counter[tuple[str, str, str]], deliveries: int) -> dict[str, float]:
    rows = {
        f"{who} {verb} {what}": round(count / deliveries, 2)
        for (who, verb, what), count in asked.most_common()
    }
    return {key: share for key, share in rows.items() if share >= 0.01}


def _summary(seconds: list[float]) -> dict[str, float]:
    return {name: round(quantile(seconds, q) * 1000, 1) for name, q in (("p50", 0.5), ("p99", 0.99))}


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    chosen = read_sizes("delivery", __doc__, list(arguments))
    with fleet(chosen.members, chosen.fakes, AT_ONCE) as on:
        print(json.dumps(asyncio.run(measure(on, chosen.changes)), indent=2))
    return 0
