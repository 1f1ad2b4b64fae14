"""Membership end to end on the in-process hub: join, silence, leave (contract scenarios A, B, C)."""

import asyncio

import pytest

from echelon.agent.heartbeat import Heartbeat
from echelon.api import builtin
from echelon.api.conditions import find_condition
from echelon.api.own import (
    BINDINGS,
    ENVELOPES,
    INTERNAL_MEMBER_CLUSTERS,
    MEMBER_CLUSTERS,
    OVERRIDES,
    PLACEMENTS,
    RESOURCE_SNAPSHOTS,
    RUNS,
    WORKS,
)
from echelon.client.errors import Forbidden, Invalid, NotFound
from echelon.controllers.membership import Membership
from echelon.hub.call import User
from echelon.rules import membership
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


def agents_reporting(*agents):
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": ""}
    return {
        "status": {
            "agentStatus": [
                {
                    "type": kind,
                    "conditions": [{"type": "Joined", "status": joined, **at}],
                    "lastReceivedHeartbeat": "2026-01-01T00:00:00Z",
                }
                for kind, joined in agents
            ]
        }
    }


def test_a5_with_networking_agents_expected_a_member_has_joined_once_all_three_have(w):
    async def scenario():
        await w.install()
        options = membership.Options(
            agents=("MemberAgent", "MultiClusterServiceAgent", "ServiceExportImportAgent")
        )
        await w.start(lambda manager: [Membership(manager.cache, options)])
        await w.client().create(MEMBER_CLUSTERS, member_cluster("m1"))
        await w.settle()

        async def joined(*agents):
            said = agents_reporting(*agents)
            await w.client().patch(
                INTERNAL_MEMBER_CLUSTERS, "m1", "fleet-member-m1", said, subresource="status"
            )
            await w.settle()
            found = await condition(w, "m1", "Joined")
            return found.status, found.reason

        unknown = ("Unknown", "MemberClusterJoinStateUnknown")
        first, second, third = options.agents
        assert await joined((first, "True")) == unknown
        assert await joined((first, "True"), (second, "True")) == unknown
        assert await joined((first, "True"), (second, "True"), (third, "Unknown")) == unknown
        assert await joined((first, "True"), (second, "True"), (third, "True")) == (
            "True",
            "MemberClusterJoined",
        )
        assert await joined((first, "False"), (second, "True"), (third, "True")) == unknown
        assert (await condition(w, "m1", "Joined")).message == ("Member agents are not in a consistent state")
        await w.stop()

    w.run(scenario())


@pytest.mark.parametrize("name", ["m" * 64, "-m1", "m1-", "m_1", "M1"])
def test_a6_names_that_are_no_labels_are_refused_by_the_api(w, name):
    async def scenario():
        await fleet(w, agents=False)
        with pytest.raises(Invalid) as refused:
            await w.client().create(MEMBER_CLUSTERS, member_cluster(name))
        if len(name) > 63:
            assert "metadata.name max length is 63" in str(refused.value)
        await w.stop()

    w.run(scenario())


@pytest.mark.parametrize("name", ["m" * 63, "1m", "m1", "a.b"])
def test_a6_names_of_letters_digits_and_dashes_are_accepted(w, name):
    async def scenario():
        await fleet(w, agents=False)
        await w.client().create(MEMBER_CLUSTERS, member_cluster(name))
        await w.stop()

    w.run(scenario())


MAY = [
    ("list", WORKS, ""),
    ("patch", WORKS, ""),
    ("patch", WORKS, "status"),
    ("get", INTERNAL_MEMBER_CLUSTERS, ""),
    ("patch", INTERNAL_MEMBER_CLUSTERS, "status"),
    ("create", builtin.EVENTS, ""),
    ("update", builtin.LEASES, ""),
]
MAY_NOT = [
    ("create", WORKS, ""),
    ("delete", WORKS, ""),
    ("patch", INTERNAL_MEMBER_CLUSTERS, ""),
    ("create", INTERNAL_MEMBER_CLUSTERS, ""),
    ("list", builtin.SECRETS, ""),
    ("create", builtin.CONFIG_MAPS, ""),
    ("get", builtin.ROLES, ""),
    *(
        (verb, resource, "")
        for resource in (BINDINGS, RESOURCE_SNAPSHOTS, PLACEMENTS, ENVELOPES, RUNS, OVERRIDES)
        for verb in ("get", "list", "create", "update", "patch", "delete")
    ),
]


async def may(w, user, verb, resource, subresource, namespace):
    asked = {
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "namespace": namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    answer = await w.client(user).create(builtin.SELF_SUBJECT_ACCESS_REVIEWS, body)
    return answer["status"]["allowed"]


def test_h15_a_member_may_do_its_work_in_its_own_namespace_and_nothing_else_anywhere(w):
    async def scenario():
        await fleet(w, "m1", "m2", agents=False)
        await w.settle()
        agent = User("agent:m1", ("system:authenticated",))
        for verb, resource, subresource in MAY:
            assert await may(w, agent, verb, resource, subresource, "fleet-member-m1"), (verb, resource)
            assert not await may(w, agent, verb, resource, subresource, "fleet-member-m2"), (verb, resource)
            assert not await may(w, agent, verb, resource, subresource, ""), (verb, resource)
        for verb, resource, subresource in MAY_NOT:
            assert not await may(w, agent, verb, resource, subresource, "fleet-member-m1"), (verb, resource)
        assert not await may(w, agent, "get", MEMBER_CLUSTERS, "", "")
        await w.stop()

    w.run(scenario())
