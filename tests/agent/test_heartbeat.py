"""What a member says about itself, and when (membership scenarios A3, B1 to B6)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from echelon.agent.agent import Options
from echelon.agent.properties import ReachableProvider
from echelon.api.builtin import NAMESPACES, NODES, PODS
from echelon.api.cluster import PropertyValue, ResourceUsage
from echelon.api.conditions import find_condition
from echelon.api.meta import Condition
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS
from echelon.rules.properties import Collected
from tests.agent.fleet import MEMBER, SPACE, run, said, space
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(21) as made:
        yield made


class Pretended:
    """A provider that does as it is told."""

    def __init__(self, world, *, start_s=0.0, collect_s=0.0, value="1"):
        self.world, self.start_s, self.collect_s, self.value = world, start_s, collect_s, value
        self.verdict = "True"

    async def start(self, member):
        await asyncio.sleep(self.start_s)

    async def collect(self):
        at = self.world.now()
        await asyncio.sleep(self.collect_s)
        own = Condition(type="Costs", status=self.verdict, reason="Told", message="", last_transition_time=at)
        return Collected(
            properties={"example.com/cost": PropertyValue(value=self.value, observation_time=at)},
            usage=ResourceUsage(capacity={"cpu": "4"}, allocatable={"cpu": "4"}, available={"cpu": "2"}),
            namespaces={"test-namespace-1": "work-1", "test-namespace-2": ""},
            conditions=(own,),
        )


async def desk(fleet):
    return await fleet.hub.get(INTERNAL_MEMBER_CLUSTERS, MEMBER, SPACE)


async def with_provider(fleet, provider):
    """Let the member's agent begin again, with a provider."""
    await fleet.stop_agent(MEMBER)
    await fleet.start_agent(MEMBER, provider=provider)
    await beat(fleet)


async def beat(fleet):
    """Wait for the next heartbeat and for what the hub makes of it."""
    before = (await desk(fleet)).status.agent_status[0].last_received_heartbeat

    async def has_beaten():
        return (await desk(fleet)).status.agent_status[0].last_received_heartbeat > before

    await fleet.world.until(has_beaten, within_s=120)
    await fleet.world.settle()


def test_b1_a_provider_and_how_it_goes_show_on_the_desk_and_on_the_member(w):
    async def scenario(fleet):
        begun = w.now() - timedelta(seconds=1)
        await with_provider(fleet, Pretended(w))
        for held in ((await desk(fleet)), await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)):
            found = said(held.status.conditions)
            assert found["ClusterPropertyProviderStarted"] == ("True", "Started")
            assert found["ClusterPropertyCollectionSucceeded"] == ("True", "PropertiesCollected")
            assert found["Costs"] == ("True", "Told")
            assert held.status.properties["example.com/cost"].value == "1"
            assert held.status.resource_usage.available == {"cpu": "2"}
            assert held.status.namespaces == {"test-namespace-1": "work-1", "test-namespace-2": ""}
            assert all(one.observed_generation == held.metadata.generation for one in held.status.conditions)
            agent = held.status.agent_status[0]
            assert said(agent.conditions) == {
                "Joined": ("True", "InternalMemberClusterJoined"),
                "Healthy": ("True", "InternalMemberClusterHealthy"),
            }
            assert agent.last_received_heartbeat >= begun

    run(w, scenario)


def test_b2_the_desk_follows_what_the_provider_says(w):
    async def scenario(fleet):
        provider = Pretended(w)
        await with_provider(fleet, provider)
        provider.value, provider.verdict = "2", "False"
        await beat(fleet)
        held = await desk(fleet)
        assert held.status.properties["example.com/cost"].value == "2"
        assert said(held.status.conditions)["Costs"] == ("False", "Told")
        assert said(held.status.conditions)["ClusterPropertyCollectionSucceeded"][0] == "True"

    run(w, scenario)


def node(name, cpu, memory):
    size = {"cpu": cpu, "memory": memory}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return {**body, "status": {"capacity": size, "allocatable": size}}


def pod(name, cpu, node_name="n1"):
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "nodeName": node_name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def test_b3_without_a_provider_nodes_and_pods_are_added_up_however_many_there_are(w):
    async def scenario(fleet):
        person = fleet.person()
        await person.create(NODES, node("n1", "100", "64Gi"))
        for number in range(150):
            await person.create(PODS, pod(f"p{number}", "100m"), "default")
        await beat(fleet)
        status = (await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)).status
        assert status.properties["kubernetes-fleet.io/node-count"].value == "1"
        assert status.properties["k8s.io/k8s-version"].value.startswith("v1.")
        assert status.resource_usage.capacity == {"cpu": "100", "memory": "67108864Ki"}
        assert status.resource_usage.available == {"cpu": "85", "memory": "67108864Ki"}
        assert not [one for one in status.conditions if one.type.startswith("ClusterProperty")]
        await person.create(NODES, node("n2", "4", "16Gi"))
        await beat(fleet)
        status = (await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)).status
        assert status.properties["kubernetes-fleet.io/node-count"].value == "2"
        assert status.resource_usage.available["cpu"] == "89"

    run(w, scenario)


def test_b4_a_member_that_is_to_leave_says_so_and_keeps_its_last_values(w):
    async def scenario(fleet):
        before = (await desk(fleet)).status
        await w.managers[0].stop()  # or the hub, which knows nothing of this, would ask it to join again
        await fleet.hub.patch(INTERNAL_MEMBER_CLUSTERS, MEMBER, SPACE, {"spec": {"state": "Leave"}})

        async def has_left():
            status = (await desk(fleet)).status
            return said(status.agent_status[0].conditions)["Joined"][0] == "False"

        await fleet.world.until(has_left)
        status = (await desk(fleet)).status
        assert said(status.agent_status[0].conditions) == {
            "Joined": ("False", "InternalMemberClusterLeft"),
            "Healthy": ("True", "InternalMemberClusterHealthy"),
        }
        assert status.properties == before.properties

    run(w, scenario)


def test_b5_a_member_that_is_down_says_so_and_is_asked_more_often(w):
    async def scenario(fleet):
        link = w.links[f"{MEMBER}-self"]
        link.cut()
        await beat(fleet)
        agent = (await desk(fleet)).status.agent_status[0]
        healthy = find_condition(agent.conditions, "Healthy")
        assert (healthy.status, healthy.reason) == ("False", "InternalMemberClusterUnhealthy")
        assert healthy.message == "health probe failed with status code 0"
        assert said(agent.conditions)["Joined"][0] == "True"
        link.mend()
        before = w.now()
        await beat(fleet)
        assert w.now() - before <= timedelta(seconds=12)
        assert said((await desk(fleet)).status.agent_status[0].conditions)["Healthy"][0] == "True"

    run(w, scenario)


def test_b6_a_provider_that_hangs_while_starting_is_done_without_and_started_again_later(w):
    async def scenario(fleet):
        provider = Pretended(w, start_s=60)
        await with_provider(fleet, provider)
        held = await desk(fleet)
        assert said(held.status.conditions) == {"ClusterPropertyProviderStarted": ("False", "TimedOut")}
        assert "k8s.io/k8s-version" in held.status.properties
        provider.start_s = 0
        await beat(fleet)
        found = said((await desk(fleet)).status.conditions)
        assert found["ClusterPropertyProviderStarted"] == ("True", "Started")

    run(w, scenario)


def test_b6_calls_that_hang_time_out_and_never_pile_up(w):
    async def scenario(fleet):
        await fleet.hub.patch(MEMBER_CLUSTERS, MEMBER, None, {"spec": {"heartbeatPeriodSeconds": 1}})
        await with_provider(fleet, Pretended(w, collect_s=45))
        seen = []
        for _ in range(4):
            found = said((await desk(fleet)).status.conditions)
            seen.append(found["ClusterPropertyCollectionSucceeded"][1])
            await beat(fleet)
        assert seen == ["TimedOut", "TimedOut", "TimedOut", "TooManyCalls"]
        await asyncio.sleep(60)
        agent = (await desk(fleet)).status.agent_status[0]
        assert said(agent.conditions)["Healthy"][0] == "True"

    run(w, scenario)


def test_a_provider_that_fails_says_why_and_the_member_still_reports(w):
    class Failing(Pretended):
        async def collect(self):
            raise RuntimeError("no price list")

    async def scenario(fleet):
        await with_provider(fleet, Failing(w))
        held = await desk(fleet)
        failed = find_condition(held.status.conditions, "ClusterPropertyCollectionSucceeded")
        assert (failed.status, failed.message) == ("False", "The property provider has failed: no price list")
        assert "k8s.io/k8s-version" in held.status.properties

    run(w, scenario)


def test_a3_namespaces_are_told_when_asked_for_with_the_work_that_owns_them(w):
    async def scenario(fleet):
        await fleet.place("work", space("placed"))
        await fleet.person().create(NAMESPACES, space("own"))
        await fleet.settled("work")
        await beat(fleet)
        status = (await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)).status
        assert status.namespaces["placed"] == "work"
        assert status.namespaces["own"] == ""
        assert said(status.conditions)["NamespaceCollectionSucceeded"] == ("True", "Succeeded")

    run(w, scenario, options=Options(collect_namespaces=True))


def test_a_provider_may_tell_how_the_member_is_reached(w):
    async def scenario(fleet):
        provider = ReachableProvider(w, "https://m1.example.com", b"-----BEGIN CERTIFICATE-----")
        await with_provider(fleet, provider)
        found = (await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)).status.properties
        assert found["k8s.io/cluster-entrypoint"].value == "https://m1.example.com"
        assert "kubernetes-fleet.io/node-count" in found

    run(w, scenario)


def test_what_a_member_reports_is_bounded_and_never_speaks_for_the_hub(w):
    class Lying(Pretended):
        async def collect(self):
            found = await super().collect()
            at = self.world.now()
            more = tuple(
                Condition(type=kind, status="False", reason="Lie", message="", last_transition_time=at)
                for kind in ("Joined", "Healthy", "ReadyToJoin", *(f"Kind{n:03}" for n in range(50)))
            )
            many = {f"p{n:04}": PropertyValue(value="x", observation_time=at) for n in range(1000)}
            return msgspec.structs.replace(found, conditions=more, properties=many)

    async def scenario(fleet):
        await with_provider(fleet, Lying(w))
        status = (await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)).status
        found = said(status.conditions)
        assert found["Joined"] == ("True", "MemberClusterJoined")
        assert found["Healthy"][0] == "True"
        assert found["ReadyToJoin"][0] == "True"
        assert len(status.conditions) <= 23
        assert len(status.properties) <= 200

    run(w, scenario)
