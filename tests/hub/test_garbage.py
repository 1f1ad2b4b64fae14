"""What becomes of dependents: background, foreground, orphan, absent owners."""

import asyncio

import pytest

from echelon.client.errors import NotFound
from tests.hub.serve import client, hub, settle, world  # noqa: F401
from tests.hub.widgets import MERGE, ask

CM = "/api/v1/namespaces/default/configmaps"


def reference(owner, *, block=False):
    ref = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {**ref, "blockOwnerDeletion": True} if block else ref


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


async def make(api, name, *owners, finalizers=(), block=False):
    meta = {"name": name, "ownerReferences": [reference(owner, block=block) for owner in owners]}
    return await api("POST", CM, {"metadata": {**meta, "finalizers": list(finalizers)}})


async def exists(api, name):
    try:
        return await api("GET", f"{CM}/{name}")
    except NotFound:
        return None


async def test_dependents_go_after_their_owner(hub, api):
    owner = await make(api, "owner")
    child = await make(api, "child", owner)
    await make(api, "grandchild", child)
    await api("DELETE", CM + "/owner")
    await settle(hub)
    assert not await exists(api, "child")
    assert not await exists(api, "grandchild")


async def test_a_dependent_with_another_owner_stays_and_forgets_the_one_that_is_gone(hub, api):
    one, two = await make(api, "one"), await make(api, "two")
    await make(api, "child", one, two)
    await api("DELETE", CM + "/one")
    await settle(hub)
    child = await exists(api, "child")
    assert [ref["name"] for ref in child["metadata"]["ownerReferences"]] == ["two"]


async def test_orphaned_dependents_stay_without_their_owner(hub, api):
    owner = await make(api, "owner")
    await make(api, "child", owner)
    await api("DELETE", CM + "/owner", {"propagationPolicy": "Orphan"})
    await settle(hub)
    assert not await exists(api, "owner")
    assert "ownerReferences" not in (await exists(api, "child"))["metadata"]


async def test_a_foreground_deletion_waits_for_the_dependents_that_block_it(hub, api):
    owner = await make(api, "owner")
    await make(api, "child", owner, finalizers=["x.io/hold"], block=True)
    await api("DELETE", CM + "/owner", {"propagationPolicy": "Foreground"})
    await settle(hub)
    assert (await exists(api, "owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (await exists(api, "child"))["metadata"]["deletionTimestamp"]
    await api("PATCH", CM + "/child", {"metadata": {"finalizers": None}}, MERGE)
    await settle(hub)
    assert not await exists(api, "child")
    assert not await exists(api, "owner")


async def test_a_foreground_deletion_does_not_wait_for_dependents_that_do_not_block(hub, api):
    owner = await make(api, "owner")
    await make(api, "child", owner, finalizers=["x.io/hold"])
    await api("DELETE", CM + "/owner", {"propagationPolicy": "Foreground"})
    await settle(hub)
    assert not await exists(api, "owner")
    assert (await exists(api, "child"))["metadata"]["deletionTimestamp"]


async def test_a_foreground_deletion_goes_through_generations(hub, api):
    owner = await make(api, "owner")
    child = await make(api, "child", owner, block=True)
    await make(api, "grandchild", child, finalizers=["x.io/hold"], block=True)
    await api("DELETE", CM + "/owner", {"propagationPolicy": "Foreground"})
    await settle(hub)
    assert await exists(api, "owner")
    assert (await exists(api, "child"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api("PATCH", CM + "/grandchild", {"metadata": {"finalizers": None}}, MERGE)
    await settle(hub)
    assert not await exists(api, "owner")


async def test_an_object_whose_owner_never_was_goes(hub, api):
    owner = await make(api, "owner")
    await api("DELETE", CM + "/owner")
    await make(api, "child", owner)
    await settle(hub)
    assert not await exists(api, "child")


async def test_an_owner_of_the_same_name_but_another_uid_is_not_the_owner(hub, api):
    old = await make(api, "owner")
    await api("DELETE", CM + "/owner")
    await make(api, "owner")
    await make(api, "child", old)
    await settle(hub)
    assert not await exists(api, "child")


async def test_an_owner_of_a_kind_nobody_knows_keeps_its_dependents(hub, api):
    owner = await make(api, "owner")
    stranger = {**reference(owner), "apiVersion": "unknown.io/v1", "kind": "Stranger"}
    await api("POST", CM, {"metadata": {"name": "child", "ownerReferences": [stranger]}})
    await settle(hub)
    assert await exists(api, "child")


async def test_an_orphan_that_is_deleted_goes_even_if_its_owner_is_long_gone(hub, api):
    owner = await make(api, "owner")
    await make(api, "child", owner, finalizers=["x.io/hold"])
    await api("DELETE", CM + "/owner")
    await settle(hub)
    assert (await exists(api, "child"))["metadata"]["deletionTimestamp"]
    await api("PATCH", CM + "/child", {"metadata": {"finalizers": None}}, MERGE)
    assert not await exists(api, "child")


async def test_two_that_own_each_other_both_go_in_the_foreground(hub, api):
    one = await make(api, "one")
    two = await make(api, "two", one, block=True)
    refs = [reference(two, block=True)]
    await api("PATCH", CM + "/one", {"metadata": {"ownerReferences": refs}}, MERGE)
    await api("DELETE", CM + "/one", {"propagationPolicy": "Foreground"})
    await settle(hub)
    await asyncio.sleep(0)
    assert not await exists(api, "one")
    assert not await exists(api, "two")
