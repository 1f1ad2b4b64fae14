"""Secrets on their way: sealed in every version, open only in the Works of those who get them."""

import base64

import pytest

from echelon.api.builtin import CONFIG_MAPS, SECRETS
from echelon.api.names import SEAL_KEY_SECRET, member_namespace
from echelon.api.own import WORKS
from echelon.api.scope import SCOPES
from tests.scenarios.placing import CONFIG_MAP, NAMESPACE, Place
from tests.world import world

SECRET = {"group": "", "version": "v1", "kind": "Secret"}
VALUE = "correct horse battery staple"


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def place(request):
    with world(24) as w:
        yield Place(w, request.param)


def play(place, scenario):
    async def whole():
        await place.begin()
        await scenario()
        await place.w.stop()

    place.w.run(whole())


async def secret(place, value):
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "work"},
        "stringData": {"password": value},
    }
    await place.hub.create(SECRETS, body, "work")


def selectors(place):
    return [CONFIG_MAP, SECRET] if place.namespace else [NAMESPACE]


async def on_member(place, member="member1"):
    held = await place.w.client(cluster=member).get(SECRETS, "s", "work")
    assert "echelon.dev/sealed" not in held["metadata"].get("annotations", {})
    return base64.b64decode(held["data"]["password"]).decode()


def test_a_version_holds_no_readable_secret_and_members_get_it_all_the_same(place):
    async def scenario():
        await secret(place, VALUE)
        await place.place(resourceSelectors=selectors(place))
        await place.done("member1", "member2", "member3")
        assert await on_member(place) == VALUE
        versions = str([s.spec.selected_resources for s in await place.list(place.scope.resource_snapshot)])
        assert VALUE not in versions
        assert base64.b64encode(VALUE.encode()).decode()[:16] not in versions
        assert "echelon.dev/sealed" in versions
        await place.hub.patch(SECRETS, "s", "work", {"stringData": {"password": "other"}})
        await place.rest(10)
        await place.done("member1", "member2", "member3", index="1")
        assert await on_member(place, "member3") == "other"

    play(place, scenario)


def test_after_a_restart_nothing_is_made_anew(place):
    async def scenario():
        await secret(place, VALUE)
        await place.place(resourceSelectors=selectors(place))
        await place.done("member1", "member2", "member3")
        await place.fleet.stop_engine()
        await place.fleet.restart_engine()
        await place.rest(5)
        assert place.fleet.manager.performer.write_count == 0
        await place.done("member1", "member2", "member3")

    play(place, scenario)


def test_after_a_lost_key_a_new_version_is_made_with_the_new_key(place):
    async def scenario():
        await secret(place, VALUE)
        await place.place(resourceSelectors=selectors(place), strategy={"type": "RollingUpdate"})
        await place.done("member1", "member2", "member3")
        await place.fleet.stop_engine()
        await place.hub.delete(SECRETS, SEAL_KEY_SECRET, "fleet-system")
        await place.fleet.restart_engine()
        await place.rest(10)
        await place.done("member1", "member2", "member3", index="1")
        assert await on_member(place) == VALUE, "nothing sealed is ever delivered"

    play(place, scenario)


def test_a_version_that_does_not_open_is_not_delivered_and_says_why(place):
    async def scenario():
        await secret(place, VALUE)
        await place.place(resourceSelectors=selectors(place))
        await place.edit(strategy={"type": "External"})
        await place.fleet.stop_engine()
        await place.hub.delete(SECRETS, SEAL_KEY_SECRET, "fleet-system")
        works = [(m, n) for m in place.fleet.members for n in await place.works(m)]
        for member, name in works:
            await place.hub.delete(WORKS, name, member_namespace(member))
        await place.fleet.restart_engine()
        await place.rest(30)
        entries = await place.entries()
        assert entries["member1"]["WorkSynchronized"] == ("False", "SyncWorkFailed")
        binding = (await place.list(place.scope.binding))[0]
        said = next(c.message for c in binding.status.conditions if c.type == "WorkSynchronized")
        assert "sealed with a key that this hub does not have any more; make a new version" in said
        assert VALUE not in said

    play(place, scenario)


def test_the_key_itself_is_never_placed(place):
    async def scenario():
        key = await place.hub.get(SECRETS, SEAL_KEY_SECRET, "fleet-system")
        copy = {**key, "metadata": {"name": "stolen", "namespace": "work"}}
        await place.hub.create(SECRETS, copy, "work")
        await place.place(resourceSelectors=selectors(place))
        assert ("Secret", "stolen") not in await place.resources()
        assert await place.has("member1") == {"v": "0"}
        assert CONFIG_MAPS.kind == "ConfigMap"

    play(place, scenario)
