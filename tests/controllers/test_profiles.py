"""ClusterProfiles (membership scenarios D)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from echelon.api.cluster import MemberCluster
from echelon.api.own import CLUSTER_PROFILES, MEMBER_CLUSTERS
from echelon.client.errors import NotFound
from echelon.controllers.profiles import Profiles
from echelon.rules.membership_mirror import Options
from echelon.rules.profiles import health_of
from tests.agent.fleet import MEMBER, Fleet, said
from tests.agent.test_heartbeat import Pretended, beat, with_provider
from tests.world import World, member_cluster, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(41) as made:
        yield made


def run(w, scenario):
    async def whole():
        fleet = Fleet(w)
        await w.install()
        await w.start(lambda manager: [Profiles(manager.cache)])
        await scenario(fleet)
        await w.stop()

    w.run(whole())


async def joined(fleet):
    from echelon.controllers.membership import Membership

    await fleet.world.start(lambda manager: [Membership(manager.cache)])
    await fleet.join(MEMBER)
    await fleet.world.settle()


async def profile(fleet):
    return await fleet.hub.get(CLUSTER_PROFILES, MEMBER, "fleet-system")


def test_d1_a_profile_is_made_once_the_member_has_joined(w):
    async def scenario(fleet):
        await fleet.hub.create(MEMBER_CLUSTERS, member_cluster("waiting"))
        await joined(fleet)
        made = await profile(fleet)
        assert made.metadata.labels == {"x-k8s.io/cluster-manager": "KubeFleet"}
        assert made.spec.display_name == MEMBER
        assert made.spec.cluster_manager.name == "KubeFleet"
        assert said(made.status.conditions) == {
            "ControlPlaneHealthy": ("True", "MemberClusterAPIServerHealthy")
        }
        member = await fleet.hub.get(MEMBER_CLUSTERS, MEMBER)
        assert "kubernetes-fleet.io/cluster-profile-cleanup" in member.metadata.finalizers
        with pytest.raises(NotFound):
            await fleet.hub.get(CLUSTER_PROFILES, "waiting", "fleet-system")

    run(w, scenario)


def test_d2_a_profile_deleted_by_hand_comes_back_and_promises_no_access_it_does_not_know(w):
    async def scenario(fleet):
        await joined(fleet)
        await fleet.hub.delete(CLUSTER_PROFILES, MEMBER, "fleet-system")
        await fleet.world.settle()
        made = await profile(fleet)
        assert made.status.access_providers == ()

    run(w, scenario)


def test_d3_d5_what_the_member_tells_about_its_api_server_is_passed_on_and_edits_are_undone(w):
    class Reachable(Pretended):
        async def collect(self):
            found = await super().collect()
            any_one = next(iter(found.properties.values()))
            told = {
                "k8s.io/k8s-version": "v1.37.1",
                "k8s.io/cluster-entrypoint": "https://m1",
                "k8s.io/cluster-certificate-authority-data": "CERT",
            }
            values = {name: msgspec.structs.replace(any_one, value=value) for name, value in told.items()}
            return msgspec.structs.replace(found, properties=values)

    async def scenario(fleet):
        await joined(fleet)
        await with_provider(fleet, Reachable(w))
        made = await profile(fleet)
        assert made.status.version.kubernetes == "v1.37.1"
        (access,) = made.status.access_providers
        assert access.name == "KubeFleet"
        assert (access.cluster.server, access.cluster.certificate_authority_data) == ("https://m1", b"CERT")
        edit = {"spec": {"displayName": "other"}, "metadata": {"labels": None}}
        await fleet.hub.patch(CLUSTER_PROFILES, MEMBER, "fleet-system", edit)
        await fleet.world.settle()
        made = await profile(fleet)
        assert made.spec.display_name == MEMBER
        assert made.metadata.labels == {"x-k8s.io/cluster-manager": "KubeFleet"}

    run(w, scenario)


def test_d4_the_profile_of_a_member_that_leaves_goes_at_once_and_stays_away(w):
    async def scenario(fleet):
        await joined(fleet)
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)

        async def is_gone():
            return not (await fleet.hub.list(CLUSTER_PROFILES)).items

        await fleet.world.until(is_gone, 5)
        await fleet.world.settle()
        assert (await fleet.hub.list(CLUSTER_PROFILES)).items == []
        assert (await fleet.hub.list(MEMBER_CLUSTERS)).items == []

    run(w, scenario)


def test_a_profile_somebody_else_made_is_left_alone(w):
    async def scenario(fleet):
        other = {
            "apiVersion": CLUSTER_PROFILES.api_version,
            "kind": "ClusterProfile",
            "metadata": {"name": "other", "namespace": "fleet-system"},
            "spec": {"clusterManager": {"name": "somebody"}},
        }
        await fleet.hub.create(CLUSTER_PROFILES, other, "fleet-system")
        await fleet.world.settle()
        await fleet.hub.get(CLUSTER_PROFILES, "other", "fleet-system")

    run(w, scenario)


def test_the_health_of_a_silent_member_turns_false_by_itself(w):
    async def scenario(fleet):
        await joined(fleet)
        await beat(fleet)
        w.links[MEMBER].cut()

        async def is_lost():
            found = said((await profile(fleet)).status.conditions)
            return found["ControlPlaneHealthy"] == ("False", "MemberAgentHeartbeatLost")

        await fleet.world.until(is_lost, 200)

    run(w, scenario)


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def agent(healthy=None, age_s=0):
    beaten = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    at = {"lastTransitionTime": beaten, "reason": "R", "message": ""}
    conditions = [{"type": "Healthy", "status": healthy, **at}] if healthy else []
    return {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": beaten}


@pytest.mark.parametrize(
    ("agents", "status", "reason", "message"),
    [
        ([], "Unknown", "MemberAgentReportedNoStatus", "has not reported its status yet"),
        ([agent()], "Unknown", "MemberAgentReportedNoHealthInfo", "the health condition is missing"),
        ([agent("True", 300)], "False", "MemberAgentHeartbeatLost", "has lost its heartbeat connection"),
        ([agent("Unknown")], "Unknown", "MemberAgentReportedNoHealthInfo", "out of date or unknown"),
        ([agent("False")], "False", "MemberClusterAPIServerUnhealthy", "API server is unhealthy"),
        ([agent("True")], "True", "MemberClusterAPIServerHealthy", "API server is healthy"),
    ],
)
def test_d6_the_health_of_a_control_plane_in_words(agents, status, reason, message):
    body = {**member_cluster("m1"), "status": {"conditions": [], "agentStatus": agents}}
    found, _ = health_of(msgspec.convert(body, MemberCluster), Options(), NOW)
    assert (found.status, found.reason) == (status, reason)
    assert message in found.message
