"""`echelon hub-agent` and `echelon member-agent`: the engine and the member's side as processes on any Kubernetes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

import click

from echelon.cli.duration import Duration
from echelon.cli.placing import placing_flags, read_placing
from echelon.cli.serve import run_loop

LOST_LEASE = 3  # exit code: another replica leads now; whoever restarts us makes us a candidate again


def address(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int] | None:
    """Read HOST:PORT; a bare :PORT means every interface, 0 or nothing means none."""
    if value in {"", "0"}:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdigit():
        raise click.BadParameter(f"'{value}' is not HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - only when the operator leaves the host out


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options both agents have."""
    for option in reversed(
        (
            click.option(
                "--kubeconfig", envvar="KUBECONFIG", help="Kubeconfig of the hub.  [default: in-cluster]"
            ),
            click.option("--context", help="Context of the kubeconfig."),
            click.option(
                "--health-probe-bind-address",
                "probes",
                default="127.0.0.1:8081",
                show_default=True,
                callback=address,
                help="Where /healthz, /readyz and /metrics are served; 0 for nowhere.",
            ),
            click.option(
                "--log-level",
                type=click.Choice(["debug", "info", "warning", "error"]),
                default="info",
                show_default=True,
            ),
            click.option("--log-json", is_flag=True, help="One JSON object a line."),
        )
    ):
        command = option(command)
    return command


class Engine(Protocol):
    """What an agent process runs."""

    async def start(self) -> None:
        """Start and return when everything is followed."""

    async def wait(self) -> None:
        """Wait for an end that only a bug brings."""

    async def stop(self) -> None:
        """Let decisions in flight finish their write, then end."""


@click.command("hub-agent")
@common
@click.option(
    "--stuck-after",
    type=Duration(),
    default="5m",
    show_default=True,
    help="A cluster that takes longer is stuck.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Only one of several replicas works.",
)
@click.option("--leader-election-namespace", default="fleet-system", show_default=True)
@placing_flags
def hub_agent(
    kubeconfig: str | None,
    context: str | None,
    probes: tuple[str, int] | None,
    log_level: Any,
    log_json: bool,
    stuck_after: float,
    leader_elect: bool,
    leader_election_namespace: str,
    **placing: Any,
) -> None:
    """Run the engine against a hub cluster."""
    from echelon.client import kubeconfig as config
    from echelon.client.http import connect
    from echelon.controllers.all import EngineOptions, hub_controllers
    from echelon.rules import run_seen
    from echelon.runtime.lease import Election
    from echelon.runtime.manager import Manager
    from echelon.runtime.probes import Probes
    from echelon.runtime.telemetry import configure_logs

    configure_logs(log_level, as_json=log_json)
    access = config.load(kubeconfig, context)
    runs = run_seen.Options(stuck_after=timedelta(seconds=stuck_after))
    options = EngineOptions(runs=runs, **read_placing(placing))

    async def run() -> int:
        client = connect(access, field_manager="echelon-hub-agent", user_agent="echelon-hub-agent")
        manager = Manager(client, component="echelon")
        served = Probes(
            manager.telemetry, lambda: "" if manager.is_synced() else "the first lists are not in yet"
        )
        if probes:
            await served.start(*probes)
        election = Election(
            client,
            manager.clock,
            name="echelon-hub-agent",
            namespace=leader_election_namespace,
            identity=f"{socket.gethostname()}_{os.getpid()}",
        )
        code = await until_stopped(
            _lead(election if leader_elect else None, manager, lambda: hub_controllers(manager, options))
        )
        await manager.stop()
        await election.release()
        await served.stop()
        await client.close()
        return code

    code: list[int] = []

    async def main() -> None:
        code.append(await run())

    run_loop(main())
    raise click.exceptions.Exit(code[0])


async def _lead(election: Any | None, manager: Any, controllers: Callable[[], Any]) -> None:
    """Wait for the lease, then work for as long as it is held."""
    if election is not None:
        await election.acquire()
    await manager.start(controllers())
    if election is None:
        await manager.wait()
        return
    done, rest = await asyncio.wait(
        (asyncio.create_task(election.hold()), asyncio.create_task(manager.wait())),
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in rest:
        task.cancel()
    for task in done:
        task.result()


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


@click.command("member-agent")
@common
@click.option(
    "--name", envvar="MEMBER_CLUSTER_NAME", required=True, help="Name of the MemberCluster on the hub."
)
@click.option(
    "--member-kubeconfig", envvar="MEMBER_KUBECONFIG", help="Kubeconfig of the member.  [default: in-cluster]"
)
@click.option("--member-context", help="Context of the member's kubeconfig.")
def member_agent(
    kubeconfig: str | None,
    context: str | None,
    probes: tuple[str, int] | None,
    log_level: Any,
    log_json: bool,
    name: str,
    member_kubeconfig: str | None,
    member_context: str | None,
) -> None:
    """Run the member's side: applies what the hub has for this cluster, and reports back."""
    from echelon.agent.agent import Agent
    from echelon.client import kubeconfig as config
    from echelon.client.http import connect
    from echelon.runtime.clock import WallClock
    from echelon.runtime.member_metrics import AgentMetrics
    from echelon.runtime.probes import Probes
    from echelon.runtime.telemetry import Telemetry, configure_logs

    configure_logs(log_level, as_json=log_json)
    hub_access = config.load(kubeconfig, context)
    member_access = (
        config.load(member_kubeconfig, member_context)
        if member_kubeconfig or member_context
        else config.in_cluster()
    )

    async def run() -> None:
        hub = connect(hub_access, field_manager="echelon-member-agent", user_agent="echelon-member-agent")
        member = connect(member_access, field_manager="work-api-agent", user_agent="echelon-member-agent")
        telemetry = Telemetry()
        metrics = AgentMetrics(telemetry.registry)
        agent = Agent(hub, member, WallClock(), name, telemetry=telemetry, metrics=metrics)
        started = asyncio.Event()
        served = Probes(telemetry, lambda: "" if started.is_set() else "the first lists are not in yet")
        if probes:
            await served.start(*probes)

        async def work() -> None:
            await agent.start()
            started.set()
            await asyncio.Event().wait()

        await until_stopped(work())
        await agent.stop()
        await served.stop()
        await hub.close()
        await member.close()

    run_loop(run())
