"""The log forgets what nobody can ask for any more, and nothing else."""

import json

from echelon.hub import local, store
from tests.hub.widgets import MERGE, ask

CM = "/api/v1/namespaces/default/configmaps"


async def state(client):
    listed = await ask(client, "GET", CM)
    return {item["metadata"]["name"]: item for item in listed["items"]}


async def rows(hub):
    """Wait until the log's thread has done what it was told, and count its rows."""
    import asyncio

    before = -1
    for _ in range(200):
        count = hub.store.log._db.execute("SELECT count(*) FROM log").fetchone()[0]
        if count == before:
            return count
        before = count
        await asyncio.sleep(0.05)
    return before


async def test_a_log_does_not_grow_with_writes_to_the_same_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_HISTORY_EVENTS", 50)
    monkeypatch.setattr(store, "COMPACT_AT", 20)
    hub = local.start(tmp_path)
    client = local.client(hub)
    for name in "abc":
        await client.raw("POST", CM, {"metadata": {"name": name}})
    for number in range(300):
        await client.raw("PATCH", CM + "/a", {"data": {"n": str(number)}}, MERGE)
        if number % 10 == 0:
            await client.raw("POST", CM, {"metadata": {"name": "coming"}})
            await client.raw("DELETE", CM + "/coming")
    assert await rows(hub) < 150
    before = await state(client)
    last = hub.store.committed
    await hub.close()

    again = local.start(tmp_path)
    client = local.client(again)
    assert await state(client) == before
    assert again.store.committed == last
    made = json.loads(await client.raw("POST", CM, {"metadata": {"name": "new"}}))
    assert int(made["metadata"]["resourceVersion"]) > last
    await again.close()


async def test_what_a_cluster_is_born_with_stays_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_HISTORY_EVENTS", 10)
    monkeypatch.setattr(store, "COMPACT_AT", 2)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:heapster"
    hub = local.start(tmp_path)
    client = local.client(hub)
    await client.raw("DELETE", role)
    for number in range(60):
        await client.raw("POST", CM, {"metadata": {"generateName": f"c{number}-"}})
    await rows(hub)
    await hub.close()
    again = local.start(tmp_path)
    listed = await ask(local.client(again), "GET", role.rpartition("/")[0])
    assert "system:heapster" not in {item["metadata"]["name"] for item in listed["items"]}
    await again.close()
