"""`python -m echelon.hub`: the hub alone, as a test server for anything that speaks Kubernetes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import signal
from pathlib import Path

from echelon.hub import local
from echelon.hub.server import serving


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m echelon.hub", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the revision log and the certificates")
    parser.add_argument("--memory", action="store_true", help="keep nothing")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; any free one by default")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="file to write")
    parser.add_argument("--members", type=int, default=0, help="logical clusters member1 ... memberN")
    chosen = parser.parse_args(arguments)
    if not chosen.memory and chosen.data is None:
        parser.error("say --data DIR or --memory")
    return chosen


async def run(chosen: argparse.Namespace) -> None:
    """Serve until told to stop."""
    hub = local.start(None if chosen.memory else chosen.data, members=chosen.members)
    gc.freeze()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with serving(hub, chosen.kubeconfig, port=chosen.port, data=chosen.data) as server:
        print(f"ready: https://{server.host}:{server.port} ({chosen.kubeconfig})", flush=True)  # noqa: T201 - its one line
        await stop.wait()
    await hub.close()


def main() -> None:
    """Start with uvloop where it is installed."""
    logging.basicConfig(level=logging.WARNING)
    gc.set_threshold(50_000, 20, 100)
    chosen = options()
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415 - optional

        uvloop.run(run(chosen))
        return
    asyncio.run(run(chosen))


if __name__ == "__main__":
    main()
