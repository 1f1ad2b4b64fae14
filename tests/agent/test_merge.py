"""Many writers on one object: what client-side and server-side apply keep and drop (scenarios A7, A8, G8, G24)."""

from collections.abc import Iterator

import pytest

from echelon.api.builtin import CONFIG_MAPS, DEPLOYMENTS
from tests.agent.fleet import config_map, deployment, of_manifest, run, said, space
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(15) as made:
        yield made


LAST_APPLIED = "kubernetes-fleet.io/last-applied-configuration"
SERVER_SIDE = {"type": "ServerSideApply"}
BIG = "x" * 400_000


async def live_map(fleet):
    return await fleet.member().get(CONFIG_MAPS, "app-cm", "app")


def last_applied(live):
    return (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "")


def test_g8_keys_dropped_from_the_manifest_go_and_keys_of_others_stay(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(keep="1", change="1", drop="1"))
        await fleet.settled("work")
        edit = {"data": {"theirs": "1"}, "metadata": {"labels": {"theirs": "yes"}}}
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", edit)
        await fleet.place("work", space(), config_map(keep="1", change="2"))
        await fleet.settled("work")
        live = await live_map(fleet)
        assert live["data"] == {"keep": "1", "change": "2", "theirs": "1"}
        assert live["metadata"]["labels"] == {"theirs": "yes"}

    run(w, scenario)


def test_g8_without_the_record_of_the_last_apply_the_next_one_still_works(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(keep="1", drop="1"))
        await fleet.settled("work")
        await fleet.stop_agent("m1")
        lost = {"metadata": {"annotations": {LAST_APPLIED: None}}}
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", lost)
        await fleet.place("work", space(), config_map(keep="2"))
        await fleet.start_agent("m1")
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await live_map(fleet)
        assert live["data"] == {"keep": "2", "drop": "1"}  # nobody knows any more that it was ours
        assert last_applied(live)

    run(w, scenario)


@pytest.mark.parametrize("strategy", [{}, SERVER_SIDE])
def test_a_container_added_on_the_member_stays_and_ours_is_changed_in_place(w, strategy):
    async def scenario(fleet):
        await fleet.place("work", space(), deployment(), applyStrategy=strategy)
        await fleet.settled("work")
        sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "proxy:1"}]}}}}
        await fleet.person().patch(DEPLOYMENTS, "web", "app", sidecar, type="strategic")
        wanted = deployment(containers=[{"name": "main", "image": "nginx:2"}])
        await fleet.place("work", space(), wanted, applyStrategy=strategy)
        await fleet.settled("work")
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        images = {one["name"]: one["image"] for one in live["spec"]["template"]["spec"]["containers"]}
        assert images == {"main": "nginx:2", "sidecar": "proxy:1"}

    run(w, scenario)


def test_a7_server_side_apply_does_not_conflict_with_itself(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(one="1"), applyStrategy=SERVER_SIDE)
        await fleet.settled("work")
        changed = config_map(one="2", two="2")
        changed["metadata"]["labels"] = {"new": "yes"}
        await fleet.place("work", space(team="a"), changed, applyStrategy=SERVER_SIDE)
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await live_map(fleet)
        assert live["data"] == {"one": "2", "two": "2"}
        assert live["metadata"]["labels"] == {"new": "yes"}
        await fleet.place("work", space(), config_map(two="2"), applyStrategy=SERVER_SIDE)
        await fleet.settled("work")
        assert (await live_map(fleet))["data"] == {"two": "2"}

    run(w, scenario)


def test_from_client_side_to_server_side_apply_what_was_dropped_goes(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(one="1", two="2"))
        await fleet.settled("work")
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", {"data": {"theirs": "1"}})
        await fleet.place("work", space(), config_map(one="1", three="3"), applyStrategy=SERVER_SIDE)
        work = await fleet.settled("work")
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        live = await live_map(fleet)
        assert live["data"] == {"one": "1", "three": "3", "theirs": "1"}
        assert not last_applied(live)
        await fleet.place("work", space(), config_map(three="3"), applyStrategy=SERVER_SIDE)
        await fleet.settled("work")
        assert (await live_map(fleet))["data"] == {"three": "3", "theirs": "1"}

    run(w, scenario)


def test_a8_g24_an_object_too_big_to_remember_is_applied_by_the_server_and_back(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(data="small"))
        await fleet.settled("work")
        assert last_applied(await live_map(fleet))
        await fleet.place("work", space(), config_map(data="small", big=BIG))
        work = await fleet.settled("work")
        assert said(work.status.conditions) == {
            "Applied": ("True", "AllManifestsApplied"),
            "Available": ("True", "AllManifestsAvailable"),
        }
        live = await live_map(fleet)
        assert live["data"]["big"] == BIG
        assert not last_applied(live)
        assert "work-api-agent" in {one["manager"] for one in live["metadata"]["managedFields"]}
        await fleet.place("work", space(), config_map(data="small again"))
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await live_map(fleet)
        assert live["data"] == {"data": "small again"}
        assert last_applied(live)

    run(w, scenario)


def test_g24_an_object_too_big_to_remember_from_the_start(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(big=BIG))
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Available"] == ("True", "AllManifestsAvailable")
        assert not last_applied(await live_map(fleet))

    run(w, scenario)
