"""Members that leave, return, fall silent or are tainted, as placements show it (membership scenarios B7, C1, C2, J7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from echelon.api.builtin import CLUSTER_ROLES, CONFIG_MAPS
from echelon.api.own import CLUSTER_PROFILES, MEMBER_CLUSTERS
from echelon.api.scope import CLUSTER, SCOPES
from echelon.sandbox.fleet import LINK, member_manifest
from tests.stories import MEMBERS, QUICK, Story
from tests.world import world


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request: Any) -> Iterator[Story]:
    with world(61) as w:
        yield Story(w, request.param)


@pytest.fixture
def wide() -> Iterator[Story]:
    with world(62) as w:
        yield Story(w, CLUSTER)


ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "other"}


def play(story: Story, scenario: Any) -> None:
    async def whole() -> None:
        await story.begin()
        for name in ("other", "alone"):
            role = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
            }
            await story.hub.create(CLUSTER_ROLES, role)
        await scenario()
        await story.w.stop()

    story.w.run(whole())


async def members(story: Story) -> set[str]:
    return {one.name for one in (await story.hub.list(MEMBER_CLUSTERS)).items}


async def picked(story: Story) -> set[str]:
    """Return the clusters that hold the application as far as the placement says."""
    found = await story.clusters()
    return {name for name, said in found.items() if said.get("Available", ("",))[0] == "True"}


async def reasons(story: Story) -> set[str]:
    _, status = await story.status()
    return {
        condition.message
        for entry in status.placement_statuses
        for condition in entry.conditions
        if condition.type == "Scheduled" and condition.status == "False"
    }


def test_c1_c2_everything_stays_on_members_that_leave_and_is_taken_up_again_when_they_return(story):
    async def scenario():
        await story.place()
        await story.holds(story.is_ok)
        before = {name: await story.on(name) for name in MEMBERS}
        for name in MEMBERS:
            await story.hub.delete(MEMBER_CLUSTERS, name)
        await story.becomes(lambda: members(story), set(), 120)
        await story.becomes(lambda: picked(story), set())
        await asyncio.sleep(45)
        for name in MEMBERS:
            held = await story.on(name)
            assert held["metadata"]["uid"] == before[name]["metadata"]["uid"]
            assert held["data"] == {"data": "test"}
        for name, labels in MEMBERS.items():
            await story.hub.create(MEMBER_CLUSTERS, member_manifest(name, labels))
        await story.holds(story.is_ok, 300)
        for name in MEMBERS:
            held = await story.on(name)
            assert held["metadata"]["uid"] == before[name]["metadata"]["uid"]

    play(story, scenario)


def test_a_member_that_returns_gets_what_changed_while_it_was_away(wide):
    async def scenario():
        await wide.place()
        await wide.holds(wide.is_ok)
        await wide.hub.delete(MEMBER_CLUSTERS, "member2")
        await wide.becomes(lambda: members(wide), {"member1", "member3"}, 120)
        change = {"data": {"data": "newer"}}
        await wide.hub.patch(CONFIG_MAPS, "app-cm", "app-ns", change)
        await wide.becomes(lambda: wide.data("member1"), {"data": "newer"}, 120)
        assert await wide.data("member2") == {"data": "test"}
        await wide.hub.create(MEMBER_CLUSTERS, member_manifest("member2", MEMBERS["member2"]))
        await wide.becomes(lambda: wide.data("member2"), {"data": "newer"}, 300)

    play(wide, scenario)


def test_b7_a_silent_member_is_not_picked_anew_and_keeps_what_it_has(wide):
    async def scenario():
        await wide.place()
        await wide.holds(wide.is_ok)
        cut = {"metadata": {"annotations": {LINK: "cut"}}}
        await wide.hub.patch(MEMBER_CLUSTERS, "member2", None, cut)
        await asyncio.sleep(6 * 60)
        assert await picked(wide) == set(MEMBERS)  # what is there stays there
        other = Story(wide.w, CLUSTER, "other")
        policy = {"placementType": "PickN", "numberOfClusters": 3}
        await wide.make(
            CLUSTER.placement,
            "other",
            {"resourceSelectors": [ROLE], "policy": policy, "strategy": QUICK},
        )
        await wide.becomes(lambda: picked(other), {"member1", "member3"})
        (why,) = await reasons(other)
        assert "cluster is not connected to the fleet: no recent heartbeat signals (last received" in why
        await wide.hub.patch(MEMBER_CLUSTERS, "member2", None, {"metadata": {"annotations": {LINK: None}}})
        await wide.becomes(lambda: picked(other), set(MEMBERS), 120)

    play(wide, scenario)


def test_j7_taints_keep_new_placements_away_and_move_nothing(wide):
    async def scenario():
        await wide.place()
        await wide.holds(wide.is_ok)
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        await wide.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})
        await wide.w.settle()
        assert await picked(wide) == set(MEMBERS)
        spec = {"resourceSelectors": [ROLE], "strategy": QUICK}
        everywhere, fixed = Story(wide.w, CLUSTER, "everywhere"), Story(wide.w, CLUSTER, "fixed")
        await wide.make(CLUSTER.placement, "everywhere", spec)
        named = {"placementType": "PickFixed", "clusterNames": ["member1"]}
        alone = {**spec, "resourceSelectors": [{**ROLE, "name": "alone"}], "policy": named}
        await wide.make(CLUSTER.placement, "fixed", alone)
        await wide.becomes(lambda: picked(fixed), {"member1"})  # who names a cluster gets it
        await wide.becomes(lambda: picked(everywhere), {"member2", "member3"})
        await wide.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": None}})
        await wide.becomes(lambda: picked(everywhere), set(MEMBERS))

    play(wide, scenario)


def test_every_simulated_member_has_a_profile_with_a_healthy_control_plane(wide):
    async def scenario():
        async def healthy() -> set[str]:
            return {
                one.name
                for one in (await wide.hub.list(CLUSTER_PROFILES)).items
                if one.status and [c.status for c in one.status.conditions] == ["True"]
            }

        await wide.becomes(healthy, set(MEMBERS))

    play(wide, scenario)
