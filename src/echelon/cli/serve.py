"""`echelon up`, `down`, `status`: a hub, its engine and simulated members on this machine, as a service.

One process serves everything on loopback. What it is and how to reach it stands in `up.json` of its data folder, so
`down` and `status` need no daemon, and a second `up` on the same folder is refused with the address of the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from echelon.cli.duration import Duration

READY_FD = "ECHELON_READY_FD"  # the detached child says here that it is ready, or why not
STOP_TIMEOUT_S = 15.0  # streams get two seconds to end, the log is synced; more than this is a hang
MAX_MEMBERS = 1000


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What runs on a data folder."""

    pid: int
    server: str
    kubeconfig: str
    started: str


def default_data() -> Path:
    """Return the folder of the sandbox, under the user's state directory."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("ECHELON_DATA") or Path(base) / "echelon")


def running(data: Path) -> Service | None:
    """Return what serves a data folder now; a file left by a killed process counts for nothing."""
    try:
        service = msgspec.json.decode((data / "up.json").read_bytes(), type=Service)
    except (OSError, msgspec.DecodeError):
        return None
    return service if is_ours(service.pid, data) else None


def is_ours(pid: int, data: Path) -> bool:
    """Tell whether a process lives and holds the folder's lock: a pid alone may have been given to somebody else."""
    import fcntl

    try:
        os.kill(pid, 0)
        with (data / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


DATA = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder that keeps everything.  [default: ~/.local/state/echelon]",
)


@click.command()
@click.option(
    "--members", type=click.IntRange(0, MAX_MEMBERS), default=3, show_default=True, help="Simulated members."
)
@DATA
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one, kept]"
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write.  [default: DATA/kubeconfig]",
)
@click.option(
    "--stuck-after",
    type=Duration(),
    default="5m",
    show_default=True,
    help="A cluster that takes longer is stuck.",
)
@click.option(
    "--pod-start",
    type=Duration(),
    default="1s",
    show_default=True,
    help="How long a simulated pod takes to start.",
)
@click.option("--detach", "-d", is_flag=True, help="Return when ready; end it with 'echelon down'.")
def up(
    members: int,
    data: Path | None,
    port: int,
    kubeconfig: Path | None,
    stuck_after: float,
    pod_start: float,
    detach: bool,
) -> None:
    """Start a hub and simulated members on this machine.

    \b
    Contexts of the kubeconfig: hub, member1, member2, ...
    More members later: echelon sandbox add member4
    """
    folder = (data or default_data()).absolute()
    held = running(folder)
    if held is not None:
        tell_running(held, "already running")
        return
    if detach:
        start_detached(folder)
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = folder / "port"
    port = port or (int(kept.read_text()) if kept.exists() else 0)
    target = (kubeconfig or folder / "kubeconfig").absolute()
    run_loop(serve(folder, port, target, members, timedelta(seconds=stuck_after), pod_start))


def start_detached(folder: Path) -> None:
    """Start the same command in a session of its own and wait until it says it is ready."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    arguments = [argument for argument in sys.argv[1:] if argument not in {"--detach", "-d"}]
    read_end, write_end = os.pipe()
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "echelon.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(write_end,),
            env={**os.environ, READY_FD: str(write_end)},
        )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read().decode()
    held = running(folder)
    if said != "ready" or held is None:
        tail = "\n".join((folder / "log").read_text(errors="replace").splitlines()[-5:])
        raise click.ClickException(
            f"it did not start (exit code {child.poll()}). The end of {folder / 'log'}:\n{tail}"
        )
    tell_running(held, "ready")


def say_ready() -> None:
    """Tell a waiting parent, if there is one, that everything is up."""
    number = os.environ.pop(READY_FD, "")
    if number:
        os.write(int(number), b"ready")
        os.close(int(number))


def tell_running(service: Service, word: str) -> None:
    """Say where it is and what to type next."""
    click.echo(f"{word}: {service.server} (pid {service.pid})")
    click.echo("\nNext:")
    click.echo(f"  export KUBECONFIG={service.kubeconfig}")
    click.echo("  kubectl get memberclusters        # contexts: hub, member1, member2, ...")


def run_loop(main: Any) -> None:
    """Run a server's coroutine, on uvloop where it is installed."""
    gc.set_threshold(50_000, 20, 100)  # the default looks at long-lived objects for a tenth of the CPU
    run: Any = asyncio.run
    with contextlib.suppress(ImportError):
        import uvloop

        run = uvloop.run
    run(main)


async def serve(
    folder: Path, port: int, kubeconfig: Path, members: int, stuck_after: timedelta, pod_start_s: float
) -> None:
    """Serve hub, engine and members until told to stop."""
    from echelon.controllers.all import EngineOptions
    from echelon.hub.sqlite import DataInUseError
    from echelon.rules import run_seen
    from echelon.runtime.telemetry import configure_logs
    from echelon.sandbox.fleet import FleetOptions
    from echelon.sandbox.served import served_fleet
    from echelon.sandbox.workloads import WorkloadOptions

    configure_logs("warning")
    options = FleetOptions(
        engine=EngineOptions(runs=run_seen.Options(stuck_after=stuck_after)),
        workloads=WorkloadOptions(start_delay_s=pod_start_s),
    )
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    wanted: dict[str, dict[str, str]] = {f"member{number}": {} for number in range(1, members + 1)}
    try:
        async with served_fleet(folder, wanted, options, kubeconfig=kubeconfig, port=port) as served:
            (folder / "port").write_text(str(served.port))
            gc.freeze()
            started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            service = Service(
                pid=os.getpid(), server=served.address, kubeconfig=str(kubeconfig), started=started
            )
            (folder / "up.json").write_bytes(msgspec.json.encode(service))
            if READY_FD not in os.environ:
                tell_running(service, "ready")
                click.echo("  Ctrl-C ends it; everything is kept for the next time.")
            say_ready()
            await stop.wait()
    except DataInUseError as error:
        raise click.ClickException(f"{error}; choose another --data") from None
    (folder / "up.json").unlink(missing_ok=True)


@click.command()
@DATA
def down(data: Path | None) -> None:
    """End what 'up' started; its data is kept."""
    folder = (data or default_data()).absolute()
    held = running(folder)
    if held is None:
        click.echo(f"nothing is running on {folder}")
        return
    os.kill(held.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_ours(held.pid, folder):
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"process {held.pid} did not end in {STOP_TIMEOUT_S:.0f} s; see {folder / 'log'}"
            )
        time.sleep(0.05)
    click.echo(f"stopped; everything is kept in {folder}. Start again: echelon up")


def service_status(data: Path | None) -> dict[str, Any] | None:
    """Return what runs on a data folder, as plain data."""
    held = running((data or default_data()).absolute())
    return json.loads(msgspec.json.encode(held)) if held is not None else None
