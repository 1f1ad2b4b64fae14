"""`echelon hub-agent` and `echelon member-agent`: the engine and the member's side as processes on any Kubernetes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.agent_flags import (
    AgentCommand,
    addresses,
    bind_flag,
    common_flags,
    configure_logs,
    lease_flags,
    rate_flags,
    read_lease,
    read_rate,
    switch,
)
from echelon.cli.engine_flags import engine_flags, read_engine
from echelon.cli.peer_flags import HUB, MEMBER, peer_flags
from echelon.cli.serve import run_loop

if TYPE_CHECKING:
    from echelon.client.base import Client
    from echelon.client.kubeconfig import Access
    from echelon.runtime.lease import Election, Timing

LOST_LEASE = 3  # exit code: another replica leads now; whoever restarts us makes us a candidate again
NOT_READY = "the first lists are not in yet"


@click.command(HUB, cls=AgentCommand)
@common_flags
@rate_flags("hub-api")
@lease_flags(elects=True, namespace="fleet-system", timing=("15s", "10s", "2s"))
@engine_flags
@peer_flags(HUB)
def hub_agent(**given: Any) -> None:
    """Run the engine against a hub cluster."""
    from echelon.client import kubeconfig as config
    from echelon.client.http import connect
    from echelon.controllers.all import hub_controllers
    from echelon.runtime.manager import Manager
    from echelon.runtime.probes import Probes

    configure_logs(given)
    access = config.load(given["kubeconfig"], given["context"])
    options, timing, rate = read_engine(given), read_lease(given), read_rate(given, "hub-api")

    async def run() -> int:
        client = connect(access, field_manager="echelon-hub-agent", user_agent="echelon-hub-agent", rate=rate)
        manager = Manager(client, component="echelon")
        served = Probes(manager.telemetry, lambda: "" if manager.is_synced() else NOT_READY)
        await served.start(*addresses(given))
        lease = Office(access, HUB, given["leader_election_namespace"], timing)

        async def work() -> None:
            await manager.start(hub_controllers(manager, options))
            await manager.wait()

        code = await until_stopped(lease.hold_during(work))
        await manager.stop()
        await lease.leave()
        await served.stop()
        await client.close()
        return code

    end(run())


@click.command(MEMBER, cls=AgentCommand)
@common_flags
@click.option(
    "--name", envvar="MEMBER_CLUSTER_NAME", required=True, help="Name of the MemberCluster on the hub."
)
@click.option(
    "--member-kubeconfig", envvar="MEMBER_KUBECONFIG", help="Kubeconfig of the member.  [default: in-cluster]"
)
@click.option("--member-context", help="Context of the member's kubeconfig.")
@bind_flag("--hub-health-probe-bind-address", "", "Serve /healthz, /readyz and /metrics here too.")
@bind_flag("--hub-metrics-bind-address", "", "And here.")
@switch("--use-ca-auth", "by_certificate", "With HUB_SERVER_URL: IDENTITY_CERT and IDENTITY_KEY, no token.")
@switch("--tls-insecure", "insecure", "With HUB_SERVER_URL: trust whoever answers. For tests only.")
@rate_flags("hub-api")
@rate_flags("member-api")
@lease_flags(elects=False, namespace="kube-system", timing=("15s", "10s", "2s"))
@click.option(
    "--deletion-wait-time",
    "deletion_wait_min",
    type=click.IntRange(1, 60),
    default=5,
    show_default=True,
    help="Minutes after which owners of ours no longer hold up a deletion.",
)
@switch(
    "--enable-namespace-collection-in-property-provider",
    "collect_namespaces",
    "Tell the hub which namespaces there are, for placements that follow them.",
)
@peer_flags(MEMBER)
def member_agent(**given: Any) -> None:
    """Run the member's side: applies what the hub has for this cluster, and reports back.

    \b
    Instead of --kubeconfig the environment may say how to reach the hub:
    HUB_SERVER_URL, CONFIG_PATH (a file with a token), CA_BUNDLE (a file)
    or HUB_CERTIFICATE_AUTHORITY (base64), HUB_KUBE_HEADER.
    """
    from echelon.agent.agent import Agent, Options
    from echelon.client.http import connect
    from echelon.rules import work_apply
    from echelon.runtime.clock import WallClock
    from echelon.runtime.member_metrics import AgentMetrics
    from echelon.runtime.probes import Probes
    from echelon.runtime.telemetry import Telemetry

    configure_logs(given)
    hub_access, member_access = accesses(given)
    timing = read_lease(given)
    hub_rate, member_rate = read_rate(given, "hub-api"), read_rate(given, "member-api")
    options = Options(
        works=work_apply.Options(deletion_wait=timedelta(minutes=given["deletion_wait_min"])),
        collect_namespaces=given["collect_namespaces"],
    )

    async def run() -> int:
        agent_name = "echelon-member-agent"
        hub = connect(hub_access, field_manager=agent_name, user_agent=agent_name, rate=hub_rate)
        member = connect(
            member_access, field_manager="work-api-agent", user_agent=agent_name, rate=member_rate
        )
        telemetry = Telemetry()
        metrics = AgentMetrics(telemetry.registry)
        agent = Agent(hub, member, WallClock(), given["name"], options, telemetry=telemetry, metrics=metrics)
        served = Probes(telemetry, lambda: "" if agent.is_started else NOT_READY)
        await served.start(*addresses(given))
        lease = Office(member_access, MEMBER, given["leader_election_namespace"], timing)

        async def work() -> None:
            await agent.start()
            await agent.wait()

        code = await until_stopped(lease.hold_during(work))
        await agent.stop()
        await lease.leave()
        await served.stop()
        await hub.close()
        await member.close()
        return code

    end(run())


def accesses(given: dict[str, Any]) -> tuple[Access, Access]:
    """Return how a member agent reaches its hub and its member."""
    from echelon.cli.hub_access import SERVER, access_from
    from echelon.client import kubeconfig as config

    if os.environ.get(SERVER) and not given["kubeconfig"]:
        hub = access_from(os.environ, by_certificate=given["by_certificate"], insecure=given["insecure"])
    else:
        hub = config.load(given["kubeconfig"], given["context"])
    if given["member_kubeconfig"] or given["member_context"]:
        return hub, config.load(given["member_kubeconfig"], given["member_context"])
    return hub, config.in_cluster()


class Office:
    """The lease of an agent, or none: work is done only while it is held."""

    def __init__(self, access: Access, agent: str, namespace: str, timing: Timing | None) -> None:
        """Takes no lease when there is no timing: then nobody is elected."""
        self._access = access
        self._name = f"echelon-{agent}"
        self._namespace = namespace
        self._timing = timing
        self._client: Client | None = None
        self._election: Election | None = None

    async def hold_during(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then work for as long as it is held."""
        if self._timing is None:
            await work()
            return
        election = self._candidate(self._timing)
        await election.acquire()
        tasks = [asyncio.create_task(election.hold()), asyncio.ensure_future(work())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    def _candidate(self, timing: Timing) -> Election:
        from echelon.client.http import connect
        from echelon.runtime.clock import WallClock
        from echelon.runtime.lease import Election

        # a client of its own: renewing must not wait behind whatever the agent has in flight
        self._client = connect(self._access, field_manager=self._name, user_agent=self._name)
        self._election = Election(
            self._client,
            WallClock(),
            name=self._name,
            namespace=self._namespace,
            identity=f"{socket.gethostname()}_{os.getpid()}",
            timing=timing,
        )
        return self._election

    async def leave(self) -> None:
        """Let go of the lease, so that the next one need not wait for it to run out."""
        if self._election is not None and self._client is not None:
            await self._election.release()
            await self._client.close()


async def until_stopped(work: Awaitable[None]) -> int:
    """Do the work until it ends or a signal comes; the exit code says which."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    task = asyncio.ensure_future(work)
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        asked.cancel()
        task.result()
        return LOST_LEASE
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return 0


def end(run: Any) -> None:
    """Run an agent to its end; the process ends with its code."""
    code: list[int] = []

    async def main() -> None:
        code.append(await run)

    run_loop(main())
    raise click.exceptions.Exit(code[0])
