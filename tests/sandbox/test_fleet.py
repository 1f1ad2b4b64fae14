"""A whole fleet on virtual time: it starts, changes, misbehaves and comes back."""

import asyncio

import pytest

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.conditions import find_condition
from echelon.api.own import CLUSTER_PLACEMENTS, CLUSTER_RUNS, CLUSTER_STRATEGIES, MEMBER_CLUSTERS
from echelon.client.errors import NotFound
from echelon.sandbox.fleet import LINK, delay_of, member_manifest
from tests.world import namespace, world


@pytest.fixture
def w():
    with world(11) as made:
        yield made


def manifest(resource, name, **spec):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def settings(**data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "app"},
        "data": data,
    }


async def application(w):
    hub = w.client()
    await hub.create(NAMESPACES, namespace("app"))
    await hub.create(CONFIG_MAPS, settings(colour="green"), "app")
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    external = {"type": "External"}
    placement = manifest(CLUSTER_PLACEMENTS, "web", resourceSelectors=[selector], strategy=external)
    await hub.create(CLUSTER_PLACEMENTS, placement)
    stages = [
        {"name": "canary", "labelSelector": {"matchLabels": {"number": "1"}}},
        {
            "name": "rest",
            "maxConcurrency": 2,
            "labelSelector": {"matchExpressions": [{"key": "number", "operator": "NotIn", "values": ["1"]}]},
        },
    ]
    await hub.create(CLUSTER_STRATEGIES, manifest(CLUSTER_STRATEGIES, "safe", stages=stages))


async def start_run(w, name):
    spec = {"placementName": "web", "stagedRolloutStrategyName": "safe", "state": "Run"}
    await w.client().create(CLUSTER_RUNS, manifest(CLUSTER_RUNS, name, **spec))


async def succeeded(w, name):
    run = await w.client().get(CLUSTER_RUNS, name)
    found = find_condition(run.status.conditions, "Succeeded") if run.status else None
    return found is not None and found.status == "True"


async def colour(w, member):
    try:
        held = await w.client(cluster=member).get(CONFIG_MAPS, "settings", "app")
    except NotFound:
        return None
    return held["data"]["colour"]


def test_a_staged_run_reaches_every_member(w):
    async def scenario():
        await w.fleet(3, number="{}")
        await application(w)
        await w.settle()
        await start_run(w, "first")
        await w.until(lambda: succeeded(w, "first"), within_s=10)
        assert [await colour(w, f"member{n}") for n in (1, 2, 3)] == ["green"] * 3
        await w.stop()

    w.run(scenario())


def test_a_run_made_together_with_its_placement_waits_for_the_scheduler(w):
    async def scenario():
        await w.fleet(3, number="{}")
        await application(w)
        await start_run(w, "first")  # nothing was scheduled yet
        await w.until(lambda: succeeded(w, "first"), within_s=10)
        await w.stop()

    w.run(scenario())


def test_a_member_that_is_cut_off_holds_the_run_and_lets_it_go_on_when_it_is_back(w):
    async def scenario():
        await w.fleet(3, number="{}")
        await application(w)
        await w.settle()
        cut = {"metadata": {"annotations": {LINK: "cut"}}}
        await w.client().patch(MEMBER_CLUSTERS, "member1", None, cut)
        await w.settle()
        await start_run(w, "first")
        await asyncio.sleep(60)
        assert not await succeeded(w, "first")
        assert await colour(w, "member2") is None, "the canary has not finished"
        await w.client().patch(MEMBER_CLUSTERS, "member1", None, {"metadata": {"annotations": {LINK: None}}})
        await w.until(lambda: succeeded(w, "first"), within_s=60)
        await w.stop()

    w.run(scenario())


def test_an_engine_that_dies_is_followed_by_one_that_goes_on(w):
    async def scenario():
        fleet = await w.fleet(3, number="{}")
        await application(w)
        await w.settle()
        fleet.members["member1"].link.cut()
        await start_run(w, "first")
        await w.settle()
        await fleet.stop_engine()
        fleet.members["member1"].link.mend()
        await asyncio.sleep(10)
        assert await colour(w, "member1") == "green", "the member works without the engine"
        assert not await succeeded(w, "first")
        await fleet.restart_engine()
        await w.until(lambda: succeeded(w, "first"), within_s=30)
        await w.stop()

    w.run(scenario())


def test_members_come_and_go_while_the_fleet_runs(w):
    async def scenario():
        fleet = await w.fleet(1)
        await w.client().create(MEMBER_CLUSTERS, member_manifest("late"))
        await w.until(lambda: "late" in fleet.members)
        await fleet.joined()
        await w.client().delete(MEMBER_CLUSTERS, "late")
        await w.until(lambda: "late" not in fleet.members)
        with pytest.raises(NotFound):
            await w.client().get(NAMESPACES, "fleet-member-late")
        await w.stop()

    w.run(scenario())


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("2s", 2.0), ("1h", None), ("", None), ("999s", 60.0)]
)
def test_a_delay_is_read_and_bounded(text, seconds):
    assert delay_of(text) == seconds
