"""A whole fleet in a test: the real hub, client and controllers on virtual time, replayed from a seed.

def test_x():
    with world() as w:
        w.run(scenario(w))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from echelon.api.builtin import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.crds import crds
from echelon.api.own import MEMBER_CLUSTERS
from echelon.client.base import Client
from echelon.client.faults import Link
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.call import ADMIN, User
from echelon.hub.world import SeededWorld
from echelon.runtime.controller import Controller
from echelon.runtime.manager import Manager
from echelon.runtime.simulation import Simulation
from echelon.sandbox.fleet import Fleet, FleetOptions

SETTLE_S = 0.02  # one round of virtual time in which events travel
MAX_SETTLE_ROUNDS = 3000


class SimulatedWorld(SeededWorld):
    """The hub's clock is the simulation's, its chance the simulation's seed."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(sim.seed)
        self._sim = sim

    def now(self) -> datetime:
        return self._sim.now()


class World:
    """One simulated fleet."""

    def __init__(self, seed: int = 0, *, shuffle: bool = False) -> None:
        self.sim = Simulation(seed, shuffle=shuffle)
        self.hub: Hub = local.start(world=SimulatedWorld(self.sim))
        self.links: dict[str, Link] = {}
        self.managers: list[Manager] = []
        self.fleets: list[Fleet] = []

    def run(self, scenario: Any) -> Any:
        return self.sim.run(scenario)

    def now(self) -> datetime:
        return self.sim.now()

    def client(self, user: User = ADMIN, cluster: str = "hub", *, link: str = "") -> Client:
        """Return a client; with `link`, over a faulty link of that name."""
        transport: Any = local.LocalTransport(self.hub, user, cluster)
        if link:
            transport = self.links[link] = Link(transport, self.sim.rng)
        return Client(transport)

    async def install(self, cluster: str = "hub") -> None:
        """Install our kinds."""
        if cluster not in self.hub.clusters:
            self.hub.add_cluster(cluster)
        client = self.client(cluster=cluster)
        for crd in crds():
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        await client.create(NAMESPACES, namespace("fleet-system"))

    async def start(
        self, controllers: Callable[[Manager], Sequence[Controller]], client: Client | None = None
    ) -> Manager:
        """Start controllers; `controllers` makes them from the manager they will run in."""
        manager = Manager(client or self.client(), self.sim)
        self.managers.append(manager)
        await manager.start(controllers(manager))
        return manager

    async def fleet(self, members: int = 3, options: FleetOptions | None = None, **labels: str) -> Fleet:
        """Start a whole fleet: the engine and simulated members, which have joined on return.

        A label's value may hold `{}` for the member's number.
        """
        fleet = Fleet(self.hub, self.sim, options, seed=self.sim.seed)
        self.fleets.append(fleet)
        numbers = range(1, members + 1)
        await fleet.start(
            {f"member{n}": {key: value.format(n) for key, value in labels.items()} for n in numbers}
        )
        await fleet.joined()
        return fleet

    async def settle(self) -> None:
        """Let events travel until no controller has anything to look at."""
        quiet = 0
        for _ in range(MAX_SETTLE_ROUNDS):
            await asyncio.sleep(SETTLE_S)
            quiet = quiet + 1 if all(part.is_idle() for part in (*self.managers, *self.fleets)) else 0
            if quiet >= 3:
                return
        raise AssertionError("the fleet does not come to rest")

    async def until(self, holds: Callable[[], Any], within_s: float = 600.0) -> Any:
        """Wait (in virtual time) until `holds()` (plain or async) returns something true."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            result = holds()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not within {within_s} s")
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        for part in (*self.fleets, *self.managers):
            await part.stop()


@contextmanager
def world(seed: int = 0, *, shuffle: bool = False) -> Iterator[World]:
    made = World(seed, shuffle=shuffle)
    try:
        yield made
    finally:
        made.sim.close()


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def member_cluster(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": f"agent:{name}"}},
    }
