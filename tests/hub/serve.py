"""Fixtures that serve a hub: in memory in this process, or over TLS on a free port.

Import the fixtures you need into a test module or its conftest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from echelon.client.base import Client
from echelon.hub import local
from echelon.hub.app import Hub
from echelon.hub.server import Server, serving
from echelon.hub.world import SeededWorld

CRDS = Path(__file__).parents[3] / "shared" / "contract" / "crds"


def contract_crds() -> list[dict]:
    """Return the CRDs of the contract."""
    return [yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader) for path in sorted(CRDS.glob("*.yaml"))]


async def install_crds(client: Client) -> None:
    """Create the contract's CRDs."""
    for crd in contract_crds():
        await client.raw("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)


async def settle(hub: Hub) -> None:
    """Let the hub's housekeeping finish; virtual or real time, it waits for nothing but itself."""
    for _ in range(10_000):
        if hub.housekeeping.idle:
            return
        await asyncio.sleep(0)
    raise AssertionError("the housekeeping does not come to an end")


@pytest.fixture
def world() -> SeededWorld:
    return SeededWorld(7)


@pytest.fixture
async def hub(world: SeededWorld) -> AsyncIterator[Hub]:
    made = local.start(world=world, members=2)
    yield made
    await made.close()


@pytest.fixture
def client(hub: Hub) -> Client:
    return local.client(hub)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Server, Path]]:
    made = local.start(members=2)
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(made, kubeconfig) as server:
        yield server, kubeconfig
    await made.close()
