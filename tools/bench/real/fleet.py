"""A fleet on a lab of its own for one measurement: real members with agents, or many pretended ones."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "real"))  # the lab's tools are scripts beside each other

from agents import FAKES, Agents
from lab import Lab

from echelon.client.base import Client
from echelon.client.cache import Store
from echelon.client.http import connect
from echelon.client.kubeconfig import load
from tools.bench.real.cost import BENCH, Meter

LIMIT_S = 900.0


class Fleet(NamedTuple):
    """What runs."""

    lab: Any
    agents: Any
    members: int
    is_fake: bool

    def client(self, context: str = "hub") -> Client:
        """Return an administrator's client of one plane."""
        return connect(load(str(self.lab.kubeconfig), context), user_agent=BENCH, field_manager=BENCH)

    def pid(self, name: str) -> int:
        """Return the pid of a component or an agent."""
        processes = self.lab.processes if "/" in name or name == "etcd" else self.agents.processes
        found = processes.find(name)
        if found is None:
            raise SystemExit(f"{name} does not run:\n{processes.tail(name)}")
        return int(found)

    def meter(self) -> Meter:
        """Return a meter of what matters."""
        pids = {
            "hub agent": self.pid("hub-0"),
            "API server": self.pid("hub/apiserver"),
            "etcd": self.pid("etcd"),
        }
        return Meter(pids, self.lab.layout(self.lab.load()).audit_log)

    def silence(self) -> None:
        """End everybody who would react to what is written."""
        self.agents.processes.stop([*self.agents.names(), FAKES])


@contextmanager
def fleet(members: int, fakes: int, hub_flags: tuple[str, ...] = ()) -> Iterator[Fleet]:
    """Bring a fleet up in a folder of its own; everything is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="echelon-bench-") as folder:
        lab = Lab(Path(folder) / "lab")
        lab.up(0 if fakes else members, 3, audit=True)
        try:
            agents = Agents(lab)
            names = agents.members
            stages = {name: {"stage": str(number * 4 // len(names))} for number, name in enumerate(names)}
            agents.up(1, "5m", stages, hub_flags=hub_flags)
            if fakes:
                agents.pretend(fakes, {})
            yield Fleet(lab, agents, fakes or members, bool(fakes))
        finally:
            lab.down(keep_data=True)


async def until(store: Store, holds: Callable[[], Any]) -> None:
    """Wait for a change of a store after which something holds."""
    news = asyncio.Event()

    def told(_old: Any, _new: Any) -> None:
        news.set()

    store.subscribe(told)
    try:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                await news.wait()
                news.clear()
    finally:
        store.unsubscribe(told)


def read_sizes(what: str, about: str | None, arguments: list[str]) -> argparse.Namespace:
    """Read the arguments that all benches of the lab have."""
    parser = argparse.ArgumentParser(
        prog=f"./dev bench {what} --real",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--members", type=int, default=3, help="real members, each with control plane and agent"
    )
    parser.add_argument("--fakes", type=int, default=0, help="members played by one process instead")
    parser.add_argument("--changes", type=int, default=30, help="delivery: changes measured")
    return parser.parse_args(arguments)
