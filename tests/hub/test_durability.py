"""After kill -9 everything goes on from where it was; `tests/history` proves that nothing acknowledged is lost."""

import asyncio
import json
import sys

import pytest

from echelon.client.errors import NotFound
from tests.history.server import READY_S, Process

CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def process(tmp_path):
    made = Process(tmp_path)
    yield made
    if made.process is not None:
        await made.kill()


async def test_a_watch_goes_on_over_a_restart(process):
    client = await process.start()
    start = json.loads(await client.raw("GET", CM))["metadata"]["resourceVersion"]
    await client.raw("POST", CM, {"metadata": {"name": "before"}})
    await process.kill()
    await client.transport.close()
    client = await process.start()
    await client.raw("POST", CM, {"metadata": {"name": "after"}})
    seen = []
    async for line in client.transport.stream(f"{CM}?watch=1&resourceVersion={start}&timeoutSeconds=20", {}):
        event = json.loads(line)
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if len(seen) == 2:
            break
    assert seen == [("ADDED", "before"), ("ADDED", "after")]
    await client.transport.close()


async def test_what_was_half_done_is_finished_after_a_restart(process):
    client = await process.start()
    await client.raw("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    for number in range(200):
        await client.raw("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": f"c{number}"}})
    await client.raw("DELETE", "/api/v1/namespaces/team")
    await process.kill()
    await client.transport.close()
    client = await process.start()
    for _ in range(200):
        try:
            await client.raw("GET", "/api/v1/namespaces/team")
        except NotFound:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the namespace never went")
    await client.transport.close()


async def test_a_second_process_on_the_same_folder_is_refused(process):
    client = await process.start()
    command = (sys.executable, "-m", "echelon.hub", "--data", str(process.folder / "data"))
    second = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(process.folder / "other"), stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(second.communicate(), READY_S)
    assert second.returncode != 0
    assert b"is served by another process" in said
    await client.raw("GET", CM)
    await client.transport.close()
