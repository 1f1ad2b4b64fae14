"""A log that cannot be written for a while: writes are refused, nothing half happens, and it goes on by itself."""

import asyncio
import json

import pytest

from echelon.client.errors import ApiError
from echelon.hub import local
from echelon.hub.call import ANONYMOUS, Request
from tests.hub.widgets import MERGE, ask

CM = "/api/v1/namespaces/default/configmaps"


async def ready(hub):
    return (await hub.handle(Request("GET", "/readyz", {}, {}, b"", ANONYMOUS))).status


async def test_writes_are_refused_and_nothing_half_happens(tmp_path):
    hub = local.start(tmp_path)
    client = local.client(hub)
    first = json.loads(await client.raw("POST", CM, {"metadata": {"name": "a"}, "data": {"n": "0"}}))
    hub.store.log._db.execute("PRAGMA query_only=1")
    attempts = [client.raw("PATCH", CM + "/a", {"data": {"n": str(number)}}, MERGE) for number in range(1, 6)]
    attempts += [client.raw("POST", CM, {"metadata": {"name": f"new{number}"}}) for number in range(5)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    assert all(isinstance(answer, ApiError) and answer.code == 500 for answer in answers)
    assert "the revision log could not be written" in str(answers[0])
    assert (await ask(client, "GET", CM + "/a")) == first
    assert await ready(hub) == 500

    hub.store.log._db.execute("PRAGMA query_only=0")
    after = json.loads(await client.raw("PATCH", CM + "/a", {"data": {"n": "9"}}, MERGE))
    assert int(after["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    await client.raw("POST", CM, {"metadata": {"name": "new1"}})
    assert await ready(hub) == 200
    await hub.close()

    again = local.start(tmp_path)
    client = local.client(again)
    assert (await ask(client, "GET", CM + "/a"))["data"] == {"n": "9"}
    with pytest.raises(ApiError):
        await client.raw("GET", CM + "/new2")
    await again.close()


async def test_nobody_is_refused_because_of_a_write_that_was_lost(tmp_path):
    hub = local.start(tmp_path)
    client = local.client(hub)
    hub.store.log._db.execute("PRAGMA query_only=1")
    attempts = [client.raw("POST", CM, {"metadata": {"name": "one"}}) for _ in range(2)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    assert [answer.code for answer in answers] == [500, 500]
    await hub.close()


async def test_a_watch_is_never_told_of_a_write_that_was_lost(tmp_path):
    hub = local.start(tmp_path)
    client = local.client(hub)
    start = (await ask(client, "GET", CM))["metadata"]["resourceVersion"]
    hub.store.log._db.execute("PRAGMA query_only=1")
    with pytest.raises(ApiError):
        await client.raw("POST", CM, {"metadata": {"name": "lost"}})
    hub.store.log._db.execute("PRAGMA query_only=0")
    await client.raw("POST", CM, {"metadata": {"name": "kept"}})
    lines = client.transport.stream(f"{CM}?watch=1&resourceVersion={start}", {})
    names = [json.loads(await anext(lines))["object"]["metadata"]["name"]]
    assert names == ["kept"]
    await lines.aclose()
    await hub.close()
