"""A fleet that people can reach: hub and members over TLS on loopback, and the kubeconfig that names them all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from echelon.hub import local
from echelon.hub.call import MASTERS
from echelon.hub.kubeconfig import write
from echelon.hub.route import HUB
from echelon.hub.server import serving
from echelon.sandbox.fleet import Fleet, FleetOptions


class Served(msgspec.Struct, frozen=True):
    """Where it is."""

    address: str
    port: int
    kubeconfig: Path
    fleet: Fleet


@contextlib.asynccontextmanager
async def served_fleet(
    folder: Path,
    members: Mapping[str, Mapping[str, str]],
    options: FleetOptions,
    *,
    kubeconfig: Path | None = None,
    port: int = 0,
) -> AsyncIterator[Served]:
    """Serve a fleet kept in a folder; all its members have joined when the body begins."""
    kubeconfig = kubeconfig or folder / "kubeconfig"
    hub = local.start(folder)
    try:
        async with serving(hub, kubeconfig, port=port, data=folder) as server:
            address = f"https://{server.host}:{server.port}"
            assert hub.authority is not None
            certificate = hub.authority.pair.certificate
            admin = hub.authority.client("admin", (MASTERS,))

            def rewrite(names: list[str]) -> None:
                write(kubeconfig, address, certificate, admin, [HUB, *names])

            fleet = Fleet(hub, options=options, on_members=rewrite)
            try:
                await fleet.start(members)
                await fleet.joined()
                yield Served(address, server.port, kubeconfig, fleet)
            finally:
                await fleet.stop()
    finally:
        await hub.close()
