"""Many members played by one process: they join, beat, and answer every Work as an agent that applied it.

    python -m tools.bench.real.fakes --kubeconfig FILE --count 200 [--label KEY=VALUE] [--stages 4]

They stand for clusters that nobody could run on one machine; what they cost the hub's API server is what agents cost it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from echelon.api.names import member_namespace
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS
from echelon.cli.serve import run_loop
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.errors import AlreadyExists, Unreachable
from echelon.client.http import connect
from echelon.client.kubeconfig import load
from echelon.rules import heartbeat
from echelon.rules.plan import Key, Plan
from echelon.runtime.controller import Watch, each
from echelon.runtime.manager import Manager
from tools.bench.rollout import Members

FAKE = "fake"
AGENT = "bench-fakes"  # as what they are seen in the audit log
BEAT_S = 600  # the longest there is: heartbeats are not what is measured


def name_of(number: int) -> str:
    """Name a member."""
    return f"{FAKE}{number:04}"


def _is_fake(key: Key) -> bool:
    return (key.namespace or "").startswith(member_namespace(FAKE))


class Works(Members):
    """Answers the Works of pretended members and leaves those of others alone."""

    async def load(self, key: Key) -> Any | None:
        """Return a Work."""
        return await super().load(key) if _is_fake(key) else None


class Desks:
    """Joins, and beats."""

    name = "bench desks"
    workers = 8

    def __init__(self, cache: Cache) -> None:
        self._desks = cache.store(INTERNAL_MEMBER_CLUSTERS)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow all desks."""
        return (each(INTERNAL_MEMBER_CLUSTERS),)

    async def load(self, key: Key) -> heartbeat.Seen | None:
        """Read a desk; a pretended cluster is always well."""
        desk = self._desks.get(key.name, key.namespace) if _is_fake(key) else None
        if desk is None:
            return None
        probe = heartbeat.Probe(ready_code=heartbeat.HEALTHY)
        return heartbeat.Seen(desk=desk, probe=probe if heartbeat.needs_probe(desk, _now()) else None)

    def decide(self, seen: heartbeat.Seen, now: datetime) -> Plan:
        """Apply the agents' own rule."""
        return heartbeat.step(seen, now)


def _now() -> datetime:
    return datetime.now().astimezone()


async def invite(hub: Client, count: int, labels: dict[str, str], stages: int) -> None:
    """Make the MemberClusters."""
    for number in range(count):
        name = name_of(number)
        body = {
            "apiVersion": MEMBER_CLUSTERS.api_version,
            "kind": MEMBER_CLUSTERS.kind,
            "metadata": {"name": name, "labels": {**labels, "stage": str(number * stages // count)}},
            "spec": {"identity": {"kind": "User", "name": name}, "heartbeatPeriodSeconds": BEAT_S},
        }
        with contextlib.suppress(AlreadyExists):
            await hub.create(MEMBER_CLUSTERS, body)


async def play(kubeconfig: str, count: int, labels: dict[str, str], stages: int) -> None:
    """Play until ended."""
    client = connect(load(kubeconfig, "hub"), field_manager=AGENT, user_agent=AGENT)
    while True:
        try:
            await invite(client, count, labels, stages)
        except Unreachable:
            await asyncio.sleep(1)
        else:
            break
    manager = Manager(client, component=AGENT)
    await manager.start([Desks(manager.cache), Works(manager.cache)])
    await manager.wait()


def main() -> None:
    """Read the arguments and play."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--label", action="append", default=[])
    parser.add_argument("--stages", type=int, default=4)
    given = parser.parse_args()
    labels = dict(label.split("=", 1) for label in given.label)
    run_loop(play(given.kubeconfig, given.count, labels, given.stages))


if __name__ == "__main__":
    main()
