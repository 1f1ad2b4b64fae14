"""What an operator asks: is it alive, is it ready, what does it count."""

import asyncio
import json

from echelon.hub import local
from echelon.hub.call import ADMIN, ANONYMOUS, Request
from tests.hub.serve import client, hub, world  # noqa: F401

CM = "/api/v1/namespaces/default/configmaps"


async def get(hub, path, user=ANONYMOUS, **query):
    answer = await hub.handle(Request("GET", path, {k: [v] for k, v in query.items()}, {}, b"", user))
    return answer.status, (await local.whole(answer)).decode()


async def test_health_is_told_to_everybody(hub):
    for path in ("/healthz", "/livez", "/readyz"):
        assert await get(hub, path) == (200, "ok")
    status, text = await get(hub, "/readyz", verbose="")
    assert status == 200
    assert text.startswith("[+]ping ok\n[+]log ok\n[+]etcd ok\n")
    assert text.endswith("readyz check passed\n")
    assert await get(hub, "/livez/ping", ADMIN) == (200, "ok")
    assert (await get(hub, "/livez/nope", ADMIN))[0] == 404


async def test_a_log_that_cannot_be_written_is_no_health(hub):
    hub.store.lost(RuntimeError("disk is full"))
    status, text = await get(hub, "/readyz")
    assert status == 500
    assert "[-]etcd failed: disk is full" in text
    assert text.endswith("readyz check failed\n")
    assert (await get(hub, "/readyz", exclude="etcd"))[0] == 500


async def test_metrics_count_requests_and_objects(hub, client):
    await client.raw("POST", CM, {"metadata": {"name": "a"}})
    await client.raw("GET", CM)
    status, text = await get(hub, "/metrics", ADMIN)
    assert status == 200
    lines = text.splitlines()
    wanted = 'verb="LIST",group="",version="v1",resource="configmaps",subresource=""'
    assert f'apiserver_request_total{{code="200",{wanted}}} 1' in lines
    assert f"apiserver_request_duration_seconds_count{{{wanted}}} 1" in lines
    assert any(line.startswith('apiserver_storage_objects{resource="configmaps"}') for line in lines)
    for line in lines:
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2
    assert (await get(hub, "/metrics"))[0] == 403


async def test_a_scanner_cannot_fill_memory_with_its_paths(hub):
    for number in range(200):
        await get(hub, f"/api/v1/nothing{number}", ADMIN)
    _, text = await get(hub, "/metrics", ADMIN)
    assert "nothing1" not in text


async def test_the_version_is_a_kubernetes_version(hub):
    status, text = await get(hub, "/version")
    assert status == 200
    assert json.loads(text)["gitVersion"].startswith("v1.37.")
    await asyncio.sleep(0)
