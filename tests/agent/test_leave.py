"""Leaving the fleet and coming back (membership scenarios C; delivery scenarios G25, G26)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from echelon.agent.agent import Options
from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.own import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from echelon.client.errors import NotFound
from echelon.rules import work_apply
from tests.agent.fleet import FOREIGN, MEMBER, SPACE, config_map, run, said, space
from tests.world import World, member_cluster, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(31) as made:
        yield made


async def is_gone(fleet, resource, name, namespace=None):
    try:
        await fleet.hub.get(resource, name, namespace)
    except NotFound:
        return True
    return False


async def leave(fleet, within_s=60):
    await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
    await fleet.world.until(lambda: is_gone(fleet, MEMBER_CLUSTERS, MEMBER), within_s)
    await fleet.world.settle()


async def come_back(fleet):
    await fleet.hub.create(MEMBER_CLUSTERS, member_cluster(MEMBER))
    await fleet.world.until(lambda: fleet.is_joined(MEMBER), 120)


def test_c1_what_was_placed_stays_when_a_member_leaves_and_is_taken_up_again_when_it_returns(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        before = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        await leave(fleet)
        await asyncio.sleep(45)
        assert await fleet.member().get(CONFIG_MAPS, "app-cm", "app") == before
        assert len((await fleet.member().list(APPLIED_WORKS)).items) == 1
        await come_back(fleet)
        await fleet.place("work", space(), config_map(data="newer"))
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        after = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["data"] == {"data": "newer"}

    run(w, scenario)


def test_a_placement_that_is_not_there_any_more_when_a_member_returns_leaves_its_objects_alone(w):
    async def scenario(fleet):
        await fleet.place("old-work", space(), config_map())
        await fleet.settled("old-work")
        await leave(fleet)
        await come_back(fleet)
        await fleet.place("new-work", space(), config_map(data="newer"))
        work = await fleet.settled("new-work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        (owner,) = (await fleet.member().get(CONFIG_MAPS, "app-cm", "app"))["metadata"]["ownerReferences"]
        assert owner["name"] == "new-work"

    run(w, scenario)


def test_c5_an_agent_that_is_gone_is_waited_for_and_can_join_again_later(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        await fleet.stop_agent(MEMBER)
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
        await asyncio.sleep(14 * 60)
        assert not await is_gone(fleet, MEMBER_CLUSTERS, MEMBER)
        desk = await fleet.hub.get(INTERNAL_MEMBER_CLUSTERS, MEMBER, SPACE)
        assert desk.spec.state == "Leave"
        await asyncio.sleep(2 * 60)
        assert await is_gone(fleet, MEMBER_CLUSTERS, MEMBER)
        assert await is_gone(fleet, NAMESPACES, SPACE)
        assert await fleet.config_maps() == {"app-cm": {"data": "test"}}
        await fleet.hub.create(MEMBER_CLUSTERS, member_cluster(MEMBER))
        await fleet.start_agent(MEMBER)
        await fleet.world.until(lambda: fleet.is_joined(MEMBER), 120)

    run(w, scenario)


def test_an_agent_that_comes_back_while_its_member_is_being_forgotten_deletes_nothing(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        await fleet.stop_agent(MEMBER)
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
        await asyncio.sleep(60)
        await fleet.start_agent(MEMBER)
        await fleet.world.until(lambda: is_gone(fleet, MEMBER_CLUSTERS, MEMBER), 120)
        await asyncio.sleep(60)
        assert await fleet.config_maps() == {"app-cm": {"data": "test"}}

    run(w, scenario)


def test_c7_g26_every_work_is_let_go_of(w):
    async def scenario(fleet):
        for number in range(10):
            await fleet.place(f"work-{number}", config_map(f"cm-{number}", "default"))
        await fleet.world.settle()
        await leave(fleet)
        assert await is_gone(fleet, NAMESPACES, SPACE)
        assert len(await fleet.config_maps("default")) == 10

    run(w, scenario)


def test_g26_a_member_told_to_leave_applies_nothing_and_told_to_join_applies_what_it_missed(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        await w.managers[0].stop()  # the hub would take the word back at once
        await fleet.hub.patch(INTERNAL_MEMBER_CLUSTERS, MEMBER, SPACE, {"spec": {"state": "Leave"}})
        await asyncio.sleep(5)
        assert (await fleet.work("work")).metadata.finalizers == ()
        await fleet.place("work", config_map(space="default", data="missed"))
        await asyncio.sleep(30)
        assert await fleet.config_maps("default") == {"app-cm": {"data": "test"}}
        await fleet.hub.patch(INTERNAL_MEMBER_CLUSTERS, MEMBER, SPACE, {"spec": {"state": "Join"}})
        await asyncio.sleep(5)
        assert await fleet.config_maps("default") == {"app-cm": {"data": "missed"}}
        assert (await fleet.work("work")).metadata.finalizers == ("kubernetes-fleet.io/work-cleanup",)

    run(w, scenario)


def test_a_member_that_is_to_be_cleaned_up_gives_back_what_was_placed_before_it_leaves(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        choice = {"metadata": {"annotations": {"echelon.dev/on-leave": "CleanUp"}}}
        await fleet.hub.patch(MEMBER_CLUSTERS, MEMBER, None, choice)
        await leave(fleet)
        assert await fleet.config_maps("default") == {}
        assert (await fleet.member().list(APPLIED_WORKS)).items == []

    run(w, scenario)


def test_a_member_that_cannot_be_cleaned_up_is_left_behind_after_the_wait(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        choice = {"metadata": {"annotations": {"echelon.dev/on-leave": "CleanUp"}}}
        await fleet.hub.patch(MEMBER_CLUSTERS, MEMBER, None, choice)
        w.links[MEMBER].cut()
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
        await asyncio.sleep(14 * 60)
        assert not await is_gone(fleet, MEMBER_CLUSTERS, MEMBER)
        await asyncio.sleep(2 * 60)
        assert await is_gone(fleet, MEMBER_CLUSTERS, MEMBER)

    run(w, scenario)


def test_c9_a_namespace_that_does_not_go_keeps_its_member(w):
    async def scenario(fleet):
        held = config_map("held", SPACE)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await fleet.hub.create(CONFIG_MAPS, held, SPACE)
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
        await asyncio.sleep(20 * 60)
        assert not await is_gone(fleet, MEMBER_CLUSTERS, MEMBER)
        await fleet.hub.patch(CONFIG_MAPS, "held", SPACE, {"metadata": {"finalizers": None}})
        await fleet.world.until(lambda: is_gone(fleet, MEMBER_CLUSTERS, MEMBER), 120)

    run(w, scenario)


def test_g25_a_co_owned_object_does_not_hold_up_the_deletion_of_a_work(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        other = await fleet.person().create(CONFIG_MAPS, config_map("somebody", "default"), "default")
        foreign = {**FOREIGN, "uid": other["metadata"]["uid"]}
        held = await fleet.member().get(CONFIG_MAPS, "app-cm", "default")
        owners = {
            "metadata": {
                "ownerReferences": [*held["metadata"]["ownerReferences"], foreign],
                "finalizers": ["example.com/hold"],
            }
        }
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "default", owners)
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.until(lambda: is_gone(fleet, WORKS, "work", SPACE), 120)
        assert (await fleet.member().list(APPLIED_WORKS)).items == []
        live = await fleet.member().get(CONFIG_MAPS, "app-cm", "default")
        assert foreign in live["metadata"]["ownerReferences"]
        for owner in live["metadata"]["ownerReferences"]:
            if owner["kind"] == "AppliedWork":
                assert owner["blockOwnerDeletion"] is False

    options = Options(works=work_apply.Options(deletion_wait=timedelta(seconds=30)))
    run(w, scenario, options=options)
