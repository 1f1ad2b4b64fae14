"""Watches: what they tell, in which order, from when on, and when they end."""

import asyncio
import json

import pytest

from echelon.client.errors import Expired, Invalid
from echelon.hub import local, watch
from echelon.hub.call import ADMIN, Request
from echelon.hub.world import SeededWorld
from echelon.runtime.simulation import Simulation
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import MERGE, ask

CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


def cm(name, label=None, **data):
    labels = {"l": label} if label else {}
    return {"metadata": {"name": name, "labels": labels}, "data": data}


class Follower:
    """Reads one watch, event by event."""

    def __init__(self, lines):
        self.lines = lines

    async def next(self):
        event = json.loads(await asyncio.wait_for(anext(self.lines), 5))
        meta = event["object"].get("metadata") or {}
        return event["type"], meta.get("name"), event["object"]

    async def told(self, count):
        return [(await self.next())[:2] for _ in range(count)]

    async def rest(self):
        return [json.loads(line) async for line in self.lines]


async def follow(hub, **options):
    """Open a watch; it hears everything from here on."""
    query = {"watch": ["1"], **{name: [str(value)] for name, value in options.items()}}
    answer = await hub.handle(Request("GET", CM, query, {}, b"", ADMIN))
    assert answer.status == 200, answer.body
    if isinstance(answer.body, list):
        return Follower(_lines_of(answer.body))
    return Follower(_lines(answer.body))


async def _lines(pieces):
    async for piece in pieces:
        for line in piece.splitlines():
            yield line


async def _lines_of(pieces):
    for line in b"".join(pieces).splitlines():
        yield line


async def revision(api):
    return (await api("GET", CM))["metadata"]["resourceVersion"]


async def test_a_selector_turns_changes_into_coming_and_going(hub, api):
    follower = await follow(hub, labelSelector="l=x", resourceVersion=await revision(api))
    await api("POST", CM, cm("a", "x"))
    await api("POST", CM, cm("b", "y"))
    await api("PATCH", CM + "/a", {"data": {"k": "v"}}, MERGE)
    await api("PATCH", CM + "/a", {"metadata": {"labels": {"l": "y"}}}, MERGE)
    await api("PATCH", CM + "/a", {"data": {"k": "w"}}, MERGE)
    await api("PATCH", CM + "/b", {"metadata": {"labels": {"l": "x"}}}, MERGE)
    await api("DELETE", CM + "/b")
    assert await follower.told(5) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]


async def test_what_leaves_a_selection_is_told_as_it_was_at_the_revision_it_left(hub, api):
    await api("POST", CM, cm("a", "x", k="v"))
    follower = await follow(hub, labelSelector="l=x", resourceVersion=await revision(api))
    after = await api("PATCH", CM + "/a", {"metadata": {"labels": {"l": "y"}}, "data": {"k": "w"}}, MERGE)
    kind, _, obj = await follower.next()
    assert kind == "DELETED"
    assert obj["metadata"]["labels"] == {"l": "x"}
    assert obj["data"] == {"k": "v"}
    assert obj["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_one_object_is_watched_by_its_name(hub, api):
    follower = await follow(hub, fieldSelector="metadata.name=b", resourceVersion=await revision(api))
    await api("POST", CM, cm("a"))
    await api("POST", CM, cm("b"))
    assert await follower.told(1) == [("ADDED", "b")]


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_revision_begins_with_what_is_there(hub, api, start):
    await api("POST", CM, cm("a"))
    follower = await follow(hub, **start)
    told = await follower.told(2)
    assert ("ADDED", "a") in told
    await api("POST", CM, cm("b"))
    assert await follower.told(1) == [("ADDED", "b")]


async def test_a_streamed_list_ends_with_a_bookmark_that_says_so(hub, api):
    await api("POST", CM, cm("a", "x"))
    follower = await follow(
        hub,
        labelSelector="l=x",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert (await follower.next())[:2] == ("ADDED", "a")
    kind, _, obj = await follower.next()
    assert kind == "BOOKMARK"
    assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert obj["metadata"]["resourceVersion"] == await revision(api)


async def test_a_streamed_list_must_say_how_old_it_may_be(api):
    with pytest.raises(
        Invalid, match="sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    ):
        await api("GET", CM + "?watch=1&sendInitialEvents=true")


async def test_a_revision_that_is_no_longer_kept_is_gone(hub, api):
    old = await revision(api)
    for number in range(5):
        await api("POST", CM, cm(f"c{number}"))
    hub.store.compact(hub.store.committed)
    follower = await follow(hub, resourceVersion=old)
    kind, _, status = await follower.next()
    assert kind == "ERROR"
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"] == f"too old resource version: {old} ({hub.store.compacted})"


async def test_a_page_of_a_list_that_is_no_longer_kept_is_gone_and_says_how_to_go_on(hub, api):
    for number in range(4):
        await api("POST", CM, cm(f"c{number}", "x"))
    first = await api("GET", CM + "?limit=2&labelSelector=l%3Dx")
    await api("POST", CM, cm("later"))
    hub.store.compact(hub.store.committed)
    with pytest.raises(Expired) as caught:
        await api("GET", CM + f"?limit=2&labelSelector=l%3Dx&continue={first['metadata']['continue']}")
    assert caught.value.code == 410
    again = caught.value.status["metadata"]["continue"]
    rest = await api("GET", CM + f"?limit=5&labelSelector=l%3Dx&continue={again}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3"]


async def test_a_watcher_that_does_not_keep_up_is_dropped(hub, api, monkeypatch):
    monkeypatch.setattr(watch, "MAX_QUEUED_EVENTS", 3)
    follower = await follow(hub, resourceVersion=await revision(api))
    for number in range(10):
        await api("POST", CM, cm(f"c{number}"))
    told = [event["object"]["metadata"]["name"] for event in await asyncio.wait_for(follower.rest(), 5)]
    assert told == ["c0", "c1", "c2"]
    assert not hub.store.table("hub", "/configmaps").scopes


async def test_a_watch_that_is_left_is_forgotten(hub, api):
    answer = await hub.handle(Request("GET", CM, {"watch": ["1"], "resourceVersion": ["1"]}, {}, b"", ADMIN))
    assert hub.store.table("hub", "/configmaps").scopes
    await api("POST", CM, cm("a"))
    await anext(answer.body)
    await answer.body.aclose()
    assert not hub.store.table("hub", "/configmaps").scopes


async def test_a_watch_that_is_left_before_its_first_event_is_forgotten(hub):
    answer = await hub.handle(Request("GET", CM, {"watch": ["1"], "resourceVersion": ["1"]}, {}, b"", ADMIN))
    await answer.body.aclose()
    assert not hub.store.table("hub", "/configmaps").scopes


class VirtualWorld(SeededWorld):
    """A world whose time is the simulation's."""

    def __init__(self, sim):
        super().__init__(1)
        self.sim = sim

    def now(self):
        return self.sim.now()


def test_bookmarks_come_by_the_minute_and_the_watch_ends_on_time():
    sim = Simulation(3)

    async def scenario():
        hub = local.start(world=VirtualWorld(sim))
        follower = await follow(
            hub, resourceVersion=hub.store.committed, allowWatchBookmarks="true", timeoutSeconds="150"
        )
        events = await follower.rest()
        assert [event["type"] for event in events] == ["BOOKMARK"] * 3
        assert sim.loop.time() == pytest.approx(150, abs=1)
        await hub.close()

    sim.run(scenario())
    sim.close()
