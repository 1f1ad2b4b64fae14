import asyncio
import json

import pytest

from echelon.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from tests.hub.serve import client, hub, world  # noqa: F401

CM = "/api/v1/namespaces/default/configmaps"


async def test_an_object_created_is_read_back(client):
    await client.raw("POST", CM, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    got = json.loads(await client.raw("GET", CM + "/a"))
    assert got["data"] == {"k": "v"}
    assert got["metadata"]["namespace"] == "default"
    assert got["metadata"]["resourceVersion"].isdecimal()


async def test_the_same_name_twice_is_refused(client):
    await client.raw("POST", CM, {"metadata": {"name": "a"}})
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.raw("POST", CM, {"metadata": {"name": "a"}})


async def test_an_update_of_an_old_revision_is_a_conflict(client):
    first = json.loads(await client.raw("POST", CM, {"metadata": {"name": "a"}}))
    await client.raw("PATCH", CM + "/a", {"data": {"k": "1"}}, "application/merge-patch+json")
    with pytest.raises(Conflict):
        await client.raw("PUT", CM + "/a", first)


async def test_a_write_that_changes_nothing_keeps_the_revision(client):
    first = json.loads(await client.raw("POST", CM, {"metadata": {"name": "a"}, "data": {"k": "1"}}))
    again = json.loads(
        await client.raw("PATCH", CM + "/a", {"data": {"k": "1"}}, "application/merge-patch+json")
    )
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_finalizer_holds_a_deleted_object(client):
    await client.raw("POST", CM, {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}})
    held = json.loads(await client.raw("DELETE", CM + "/a"))
    assert held["metadata"]["deletionTimestamp"]
    await client.raw("PATCH", CM + "/a", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    with pytest.raises(NotFound):
        await client.raw("GET", CM + "/a")


async def test_logical_clusters_do_not_see_each_other(hub, client):
    from echelon.hub import local

    await client.raw("POST", CM, {"metadata": {"name": "a"}})
    with pytest.raises(NotFound):
        await local.client(hub, cluster="member1").raw("GET", CM + "/a")


async def test_pages_of_a_list_are_of_one_revision(client):
    for name in "abcd":
        await client.raw("POST", CM, {"metadata": {"name": name, "labels": {"t": "x"}}})
    first = json.loads(await client.raw("GET", CM + "?limit=2&labelSelector=t%3Dx"))
    await client.raw("DELETE", CM + "/c")
    await client.raw("POST", CM, {"metadata": {"name": "cc", "labels": {"t": "x"}}})
    token = first["metadata"]["continue"]
    rest = json.loads(await client.raw("GET", CM + f"?limit=5&labelSelector=t%3Dx&continue={token}"))
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_watch_tells_every_write_after_its_revision_in_order(client):
    start = json.loads(await client.raw("GET", CM))["metadata"]["resourceVersion"]
    await client.raw("POST", CM, {"metadata": {"name": "a"}})
    await client.raw("PATCH", CM + "/a", {"data": {"k": "1"}}, "application/merge-patch+json")
    seen = []

    async def follow():
        async for line in client.transport.stream(
            f"{CM}?watch=1&resourceVersion={start}&timeoutSeconds=1", {}
        ):
            event = json.loads(line)
            seen.append((event["type"], event["object"]["metadata"]["name"]))
            if len(seen) == 3:
                return

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await client.raw("DELETE", CM + "/a")
    await asyncio.wait_for(task, 5)
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_nothing_is_created_in_an_absent_namespace(client):
    with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
        await client.raw("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}})
