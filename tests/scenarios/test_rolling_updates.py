"""Rolling updates end to end on a whole fleet (contract scenarios 41, 81 to 85; numbers in brackets)."""

import asyncio
import itertools

import pytest

from echelon.api.builtin import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, JOBS, STATEFUL_SETS
from echelon.api.scope import SCOPES
from echelon.rules.rolling import UNTRACKABLE
from tests.rules.fleet_b import pick_fixed
from tests.scenarios.placing import CONFIG_MAP, EACH, NAMESPACE, SUMMED, Place
from tests.world import world

ALL = ("member1", "member2", "member3")
GOOD, BAD = "nginx:1.27", "nginx:no-such-tag"
BLOCKED = {"Scheduled": ("True", "Scheduled"), "RolloutStarted": ("False", "RolloutNotStartedYet")}


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def place(request):
    with world(23) as w:
        yield Place(w, request.param)


def play(place, scenario):
    async def whole():
        await place.begin()
        await scenario()
        await place.w.stop()

    place.w.run(whole())


def workload(resource, image):
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    if resource is STATEFUL_SETS:
        spec["serviceName"] = "web"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web", "namespace": "work"},
        "spec": spec,
    }


def selectors(place, resource):
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind, "name": "web"}
    return [CONFIG_MAP, own] if place.namespace else [NAMESPACE]


async def image(place, resource, image):
    containers = [{"name": "web", "image": image}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    await place.hub.patch(resource, "web", "work", body)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS], ids=lambda kind: kind.kind)
def test_a_bad_version_stops_at_the_first_cluster_and_a_good_one_repairs_it_83(place, resource):
    async def scenario():
        await place.hub.create(resource, workload(resource, GOOD), "work")
        update = {"maxUnavailable": 1}
        await place.place(
            resourceSelectors=selectors(place, resource),
            strategy={"type": "RollingUpdate", "rollingUpdate": update},
        )
        await place.rest(60)
        await place.done(*ALL)
        await image(place, resource, BAD)
        await place.rest(120)
        assert await place.summed() == {
            "Scheduled": SUMMED["Scheduled"],
            "RolloutStarted": ("False", "RolloutNotStartedYet"),
        }
        entries = await place.entries()
        tried = [name for name in ALL if entries[name] != BLOCKED]
        assert len(tried) == 1
        assert entries[tried[0]] == {**EACH, "Available": ("False", "NotAllWorkAreAvailable")}
        entry = next(e for e in (await place.get()).status.placement_statuses if e.cluster_name == tried[0])
        failed = [(row.kind, row.condition.type, row.condition.reason) for row in entry.failed_placements]
        assert failed == [(resource.kind, "Available", "ManifestNotAvailableYet")]
        assert await place.index() == "1"
        await image(place, resource, "nginx:1.28")
        await place.rest(180)
        await place.done(*ALL, index="2")

    play(place, scenario)


def test_what_nobody_can_watch_goes_one_cluster_a_period_84(place):
    async def scenario():
        job = workload(JOBS, GOOD)
        del job["spec"]["selector"]
        job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        await place.hub.create(JOBS, job, "work")
        update = {"maxUnavailable": 1, "unavailablePeriodSeconds": 15}
        await place.place(
            resourceSelectors=selectors(place, JOBS),
            strategy={"type": "RollingUpdate", "rollingUpdate": update},
        )
        await place.rest(30)
        entries = await place.entries()
        assert {entries[name]["Available"] for name in ALL} == {
            ("True", "NotAllWorkAreAvailabilityTrackable")
        }
        assert entries[ALL[0]]["Available"][1] in UNTRACKABLE
        await place.hub.patch(JOBS, "web", "work", {"spec": {"suspend": True}})
        seen = []
        for _ in range(60):
            await asyncio.sleep(1)
            seen.append(len([name for name in ALL if await suspended(place, name)]))
        assert seen[0] == 1
        assert max(b - a for a, b in itertools.pairwise(seen)) == 1
        assert seen.index(2) >= 14
        assert seen.index(3) - seen.index(2) >= 14
        assert seen.index(3) <= 5 * 15

    play(place, scenario)


async def suspended(place, member):
    held = await place.w.client(cluster=member).get(JOBS, "web", "work")
    return bool(held["spec"].get("suspend"))


def test_an_apply_strategy_reaches_all_clusters_at_once_81(place):
    async def scenario():
        await place.place(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}})
        await place.done(*ALL)
        await place.edit(strategy={"applyStrategy": {"type": "ServerSideApply"}})
        await place.rest(5)
        await place.done(*ALL)
        kinds = {b.spec.apply_strategy.type for b in await place.list(place.scope.binding)}
        assert kinds == {"ServerSideApply"}

    play(place, scenario)


def test_reporting_differences_instead_of_applying_90(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        await place.edit(strategy={"applyStrategy": {"type": "ReportDiff"}})
        await place.rest(5)
        summed = await place.summed()
        assert summed["DiffReported"] == ("True", "DiffReportingCompleted")
        assert "Applied" not in summed
        await place.edit(strategy={"applyStrategy": {"type": "ClientSideApply"}})
        await place.rest(5)
        await place.done(*ALL)

    play(place, scenario)


def test_handing_the_rollout_over_to_runs_stops_rolling_82(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        await place.edit(strategy={"type": "External"})
        await place.config("app", v="1")
        await place.rest(10)
        assert {b.spec.resource_snapshot_name for b in await place.list(place.scope.binding)} == {
            "p-0-snapshot"
        }
        assert len(await place.list(place.scope.resource_snapshot)) == 1
        await place.done(*ALL)
        assert await place.has("member1") == {"v": "0"}

    play(place, scenario)


def test_a_stuck_deletion_on_one_member_holds_up_nobody_41(place):
    async def scenario():
        await place.place(pick_fixed("member1"))
        await place.done("member1")
        member = place.w.client(cluster="member1")
        await member.patch(CONFIG_MAPS, "app", "work", {"metadata": {"finalizers": ["example.com/mine"]}})
        await place.edit(policy={"clusterNames": ["member2"]})
        assert await place.summed() == SUMMED
        assert await place.entries() == {"member2": EACH}
        assert await place.works("member1")
        await member.patch(CONFIG_MAPS, "app", "work", {"metadata": {"finalizers": None}})
        await place.rest(10)
        assert await place.works("member1") == set()
        await place.done("member2")

    play(place, scenario)


def test_an_engine_that_dies_at_any_moment_of_an_update_finishes_it_later(place):
    async def scenario():
        await place.place(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
        await place.done(*ALL)
        for number in range(1, 5):
            await place.config("app", v=str(number))
            await asyncio.sleep(0.013 * number)
            await place.fleet.stop_engine()
            await asyncio.sleep(1)
            await place.fleet.restart_engine()
            await place.rest(10)
            await place.done(*ALL, index=str(number))
            assert await place.has("member3") == {"v": str(number)}

    play(place, scenario)
