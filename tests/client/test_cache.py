"""The indexed copy: follows the hub through lost watches, expired revisions and own writes."""

import asyncio

import pytest

from echelon.api.builtin import CONFIG_MAPS
from echelon.client.cache import Cache
from tests.world import world


@pytest.fixture
def w():
    with world(3) as made:
        yield made


def config_map(name, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


async def put(w, name, **data):
    return await w.client().create(CONFIG_MAPS, config_map(name, **data), "default")


def names(store):
    return sorted(
        item["metadata"]["name"] for item in store.all() if item["metadata"]["namespace"] == "default"
    )


def run(w, scenario):
    async def whole():
        cache = Cache(w.client(link="reader"))
        try:
            await scenario(cache)
        finally:
            await cache.close()

    w.run(whole())


def test_the_first_list_and_every_change_after_it_arrive(w):
    async def scenario(cache):
        await put(w, "a")
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        assert "a" in names(store)
        await put(w, "b")
        await w.client().delete(CONFIG_MAPS, "a", "default")
        await w.until(lambda: "b" in names(store) and "a" not in names(store))

    run(w, scenario)


def test_what_happened_while_the_link_was_cut_is_seen_afterwards(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        w.links["reader"].cut()
        await put(w, "while-cut")
        await asyncio.sleep(30)
        assert "while-cut" not in names(store)
        assert store.error
        w.links["reader"].mend()
        await w.until(lambda: "while-cut" in names(store))
        assert not store.error

    run(w, scenario)


def test_a_copy_that_lags_behind_catches_up_when_it_is_asked_to(w):
    async def scenario(cache):
        for name in ("changed", "gone"):
            await put(w, name, v="1")
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        w.links["reader"].cut()
        await w.client().patch(CONFIG_MAPS, "changed", "default", {"data": {"v": "2"}})
        await w.client().delete(CONFIG_MAPS, "gone", "default")
        await put(w, "new")
        w.links["reader"].mend()
        assert store.get("changed", "default")["data"] == {"v": "1"}
        await store.catch_up("default", "changed")
        assert store.get("changed", "default")["data"] == {"v": "2"}
        await store.catch_up("default")
        assert "gone" not in names(store)
        assert "new" in names(store)

    run(w, scenario)


def test_an_expired_revision_is_listed_anew(w):
    async def scenario(cache):
        await put(w, "gone-meanwhile")
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        w.links["reader"].cut()
        await w.client().delete(CONFIG_MAPS, "gone-meanwhile", "default")
        await put(w, "new")
        w.hub.store.compact(w.hub.store.committed)
        w.links["reader"].mend()
        await w.until(lambda: "new" in names(store) and "gone-meanwhile" not in names(store))

    run(w, scenario)


def test_an_index_follows_its_objects(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        store.add_index("colour", lambda obj: tuple((obj.get("data") or {}).values()))
        await store.synced.wait()
        await put(w, "a", colour="red")
        await w.until(lambda: store.by("colour", "red"))
        await w.client().patch(CONFIG_MAPS, "a", "default", {"data": {"colour": "blue"}})
        await w.until(lambda: store.by("colour", "blue"))
        assert store.by("colour", "red") == []
        await w.client().delete(CONFIG_MAPS, "a", "default")
        await w.until(lambda: not store.by("colour", "blue"))

    run(w, scenario)


def test_a_late_answer_never_brings_a_deleted_object_back(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        made = await put(w, "a")
        await w.until(lambda: "a" in names(store))
        await w.client().delete(CONFIG_MAPS, "a", "default")
        await w.until(lambda: "a" not in names(store))
        store.observe(made)
        assert "a" not in names(store)

    run(w, scenario)


def test_an_own_write_is_readable_at_once_and_an_older_one_never_replaces_a_newer(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        first = await put(w, "a", v="1")
        second = await w.client().patch(CONFIG_MAPS, "a", "default", {"data": {"v": "2"}})
        store.observe(second)
        assert store.get("a", "default")["data"] == {"v": "2"}
        store.observe(first)
        assert store.get("a", "default")["data"] == {"v": "2"}

    run(w, scenario)


def test_watches_that_break_all_the_time_lose_nothing(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        w.links["reader"].drop_watch = 0.3
        for number in range(60):
            await put(w, f"n{number}")
            await asyncio.sleep(0.01)
        await w.until(lambda: sum(name.startswith("n") for name in names(store)) == 60)

    run(w, scenario)


def test_a_list_does_not_take_back_an_own_write_that_it_cannot_know(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        first = await put(w, "a", v="1")
        before = (await w.client().list(CONFIG_MAPS, "default")).resource_version
        store.observe(await w.client().patch(CONFIG_MAPS, "a", "default", {"data": {"v": "2"}}))
        store.observe(await put(w, "b"))
        store._replace({("default", "a"): first}, before)
        assert store.get("a", "default")["data"] == {"v": "2"}
        assert store.get("b", "default") is not None

    run(w, scenario)


def test_a_server_restored_from_a_backup_is_believed(w):
    async def scenario(cache):
        first = await put(w, "a", v="1")
        await put(w, "b")
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        store._replace({("default", "a"): first}, "1")
        assert names(store) == ["a"]

    run(w, scenario)


def test_an_api_that_was_away_for_hours_is_followed_again_within_seconds(w):
    async def scenario(cache):
        store = cache.store(CONFIG_MAPS, "default")
        await store.synced.wait()
        w.links["reader"].cut()
        await put(w, "meanwhile")
        await asyncio.sleep(7200)
        w.links["reader"].mend()
        await asyncio.sleep(2.5)
        assert "meanwhile" in names(store)

    run(w, scenario)
