"""`python -m tests.conformance.serve`: an embedded hub and members whose workloads live, without an engine.

The suites want an API server beside which nothing acts but what acts beside a real one.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from echelon.hub import local
from echelon.hub.server import serving
from echelon.runtime.clock import WallClock
from echelon.sandbox.workloads import WorkloadOptions, Workloads


async def serve(kubeconfig: Path, members: int) -> None:
    """Serves until told to stop."""
    hub = local.start(members=members)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(hub, kubeconfig) as server:
        playing = []
        for name in sorted(hub.clusters.keys() - {"hub"}):
            client = local.client(hub, cluster=name, field_manager="kube-controller-manager")
            workloads = Workloads(client, WallClock(), WorkloadOptions(start_delay_s=0.1))
            await workloads.start()
            playing.append(workloads)
        print(f"ready: https://{server.host}:{server.port}", flush=True)
        await stop.wait()
        for workloads in playing:
            await workloads.stop()
    await hub.close()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--members", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(serve(options.kubeconfig, options.members))


if __name__ == "__main__":
    main()
