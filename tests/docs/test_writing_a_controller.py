"""The controller in the documentation runs as it stands there: in virtual time, and against a server over TLS."""

import asyncio
import re
from pathlib import Path

from echelon.api.builtin import CONFIG_MAPS
from echelon.client import http, kubeconfig
from tests.hub.serve import served  # noqa: F401 - a fixture

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-controller.md"


def code():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    scope = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    return scope


def test_its_test_passes():
    code()["test_the_annotation_follows_the_data"]()


async def test_it_runs_against_a_server(served, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(served[1]))
    running = asyncio.create_task(code()["main"]())
    client = http.connect(kubeconfig.load())
    body = {"metadata": {"name": "a", "annotations": {"example.com/keys": ""}}, "data": {"k": "v"}}
    made = await client.create(CONFIG_MAPS, body, "default")
    events = client.watch(CONFIG_MAPS, "default", resource_version=made["metadata"]["resourceVersion"])
    event = await asyncio.wait_for(anext(events), 10)
    assert event.object["metadata"]["annotations"] == {"example.com/keys": "1"}
    await events.aclose()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()
