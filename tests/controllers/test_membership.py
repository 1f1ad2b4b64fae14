"""Membership end to end on the in-process hub: join, silence, leave (contract scenarios A, B, C)."""

import asyncio

import pytest

from echelon.agent.heartbeat import Heartbeat
from echelon.api import builtin
from echelon.api.conditions import find_condition
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from echelon.client.errors import Forbidden, NotFound
from echelon.controllers.membership import Membership
from echelon.hub.call import User
from tests.world import member_cluster, world


@pytest.fixture
def w():
    with world(5) as made:
        yield made


async def fleet(w, *names, agents=True):
    await w.install()
    await w.start(lambda manager: [Membership(manager.cache)])
    for name in names:
        await w.client().create(MEMBER_CLUSTERS, member_cluster(name))
    return [await agent(w, name) for name in names] if agents else []


async def agent(w, name):
    if name not in w.hub.clusters:
        w.hub.add_cluster(name)
    member = w.client(cluster=name)
    hub = w.client(link=name)
    return await w.start(lambda manager: [Heartbeat(manager.cache, member, w, name)], hub)


async def get(w, name):
    return await w.client().get(MEMBER_CLUSTERS, name)


async def condition(w, name, kind):
    member = await get(w, name)
    return find_condition(member.status.conditions, kind) if member.status else None


async def is_(w, name, kind, status):
    found = await condition(w, name, kind)
    return found is not None and found.status == status


def test_a_new_member_gets_its_desk_and_joins(w):
    async def scenario():
        await fleet(w, "m1")
        await w.until(lambda: is_(w, "m1", "Joined", "True"))
        client = w.client()
        namespace = await client.get(builtin.NAMESPACES, "fleet-member-m1")
        assert namespace["metadata"]["labels"]["kubernetes-fleet.io/is-fleet-resource"] == "true"
        await client.get(builtin.ROLES, "fleet-role-m1", "fleet-member-m1")
        await client.get(builtin.ROLE_BINDINGS, "fleet-rolebinding-m1", "fleet-member-m1")
        desk = await client.get(INTERNAL_MEMBER_CLUSTERS, "m1", "fleet-member-m1")
        assert desk.spec.state == "Join"
        member = await get(w, "m1")
        assert member.metadata.labels["kubernetes-fleet.io/member-name"] == "m1"
        reasons = {condition.type: condition.reason for condition in member.status.conditions}
        assert reasons == {
            "ReadyToJoin": "MemberClusterReadyToJoin",
            "Joined": "MemberClusterJoined",
            "Healthy": "MemberClusterAPIServerHealthy",
        }
        await w.stop()

    w.run(scenario())


def test_a_member_without_an_agent_has_an_unknown_join_state_that_says_why(w):
    async def scenario():
        await fleet(w, "m1", agents=False)
        await w.settle()
        joined = await condition(w, "m1", "Joined")
        assert (joined.status, joined.reason) == ("Unknown", "MemberClusterJoinStateUnknown")
        assert joined.message == (
            "Member cluster m1 has not reported all the expected agents, expected 1, got 0"
        )
        await w.stop()

    w.run(scenario())


@pytest.mark.parametrize("kind", ["ROLES", "ROLE_BINDINGS"])
def test_what_is_deleted_by_hand_comes_back(w, kind):
    async def scenario():
        await fleet(w, "m1", agents=False)
        await w.settle()
        resource = getattr(builtin, kind)
        name = (await w.client().list(resource, "fleet-member-m1")).items[0]["metadata"]["name"]
        await w.client().delete(resource, name, "fleet-member-m1")
        await w.settle()
        await w.client().get(resource, name, "fleet-member-m1")
        await w.stop()

    w.run(scenario())


def test_labels_the_fleet_needs_come_back(w):
    async def scenario():
        await fleet(w, "m1", agents=False)
        await w.settle()
        client = w.client()
        await client.patch(MEMBER_CLUSTERS, "m1", None, {"metadata": {"labels": None}})
        await client.patch(builtin.NAMESPACES, "fleet-member-m1", None, {"metadata": {"labels": None}})
        await w.settle()
        assert (await get(w, "m1")).metadata.labels == {"kubernetes-fleet.io/member-name": "m1"}
        namespace = await client.get(builtin.NAMESPACES, "fleet-member-m1")
        assert namespace["metadata"]["labels"]["kubernetes-fleet.io/is-fleet-resource"] == "true"
        await w.stop()

    w.run(scenario())


def test_a_new_identity_takes_the_place_of_the_old(w):
    async def scenario():
        await fleet(w, "m1", agents=False)
        await w.settle()
        old, new = User("agent:m1", ("system:authenticated",)), User("new", ("system:authenticated",))
        await w.client(old).list(WORKS, "fleet-member-m1")
        identity = {"spec": {"identity": {"kind": "User", "name": "new"}}}
        await w.client().patch(MEMBER_CLUSTERS, "m1", None, identity)
        await w.settle()
        await w.client(new).list(WORKS, "fleet-member-m1")
        with pytest.raises(Forbidden):
            await w.client(old).list(WORKS, "fleet-member-m1")
        await w.stop()

    w.run(scenario())


def test_a_silent_member_turns_unhealthy_by_itself_and_recovers(w):
    async def scenario():
        await fleet(w, "m1")
        await w.until(lambda: is_(w, "m1", "Healthy", "True"))
        w.links["m1"].cut()
        await asyncio.sleep(100)
        assert await is_(w, "m1", "Healthy", "True"), "one missed beat is no silence"
        await asyncio.sleep(80)
        healthy = await condition(w, "m1", "Healthy")
        assert (healthy.status, healthy.reason) == ("False", "MemberAgentHeartbeatLost")
        w.links["m1"].mend()
        await w.until(lambda: is_(w, "m1", "Healthy", "True"), 70)
        await w.stop()

    w.run(scenario())


def test_heartbeats_cost_two_writes_a_period_and_nothing_else(w):
    async def scenario():
        await fleet(w, "m1")
        await w.until(lambda: is_(w, "m1", "Healthy", "True"))
        await w.settle()
        before = sum(manager.performer.write_count for manager in w.managers)
        await asyncio.sleep(600)
        after = sum(manager.performer.write_count for manager in w.managers)
        assert after - before <= 2 * 11
        await w.stop()

    w.run(scenario())


def test_a_name_that_cannot_become_a_namespace_is_refused_in_words(w):
    async def scenario():
        await fleet(w, "m" * 51, agents=False)
        await w.settle()
        ready = await condition(w, "m" * 51, "ReadyToJoin")
        assert ready.status == "False"
        assert "at most 50" in ready.message
        await w.stop()

    w.run(scenario())


def test_a_member_leaves_by_saying_so_and_its_works_are_released(w):
    async def scenario():
        await fleet(w, "m1")
        await w.until(lambda: is_(w, "m1", "Joined", "True"))
        client = w.client()
        work = {
            "apiVersion": WORKS.api_version,
            "kind": "Work",
            "metadata": {"name": "w", "finalizers": ["kubernetes-fleet.io/work-cleanup"]},
            "spec": {"workload": {"manifests": []}},
        }
        await client.create(WORKS, work, "fleet-member-m1")
        await client.delete(MEMBER_CLUSTERS, "m1")

        async def gone():
            try:
                await get(w, "m1")
            except NotFound:
                return True
            return False

        await w.until(gone, 60)
        with pytest.raises(NotFound):
            await client.get(builtin.NAMESPACES, "fleet-member-m1")
        await w.stop()

    w.run(scenario())


def test_a_dead_agent_is_waited_for_and_then_left_behind(w):
    async def scenario():
        await fleet(w, "m1")
        await w.until(lambda: is_(w, "m1", "Joined", "True"))
        w.links["m1"].cut()
        await w.client().delete(MEMBER_CLUSTERS, "m1")
        await asyncio.sleep(14 * 60)
        assert await is_(w, "m1", "Joined", "True")
        desk = await w.client().get(INTERNAL_MEMBER_CLUSTERS, "m1", "fleet-member-m1")
        assert desk.spec.state == "Leave"
        await asyncio.sleep(2 * 60)
        with pytest.raises(NotFound):
            await get(w, "m1")
        await w.stop()

    w.run(scenario())
