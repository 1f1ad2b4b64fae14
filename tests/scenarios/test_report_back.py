"""Status back-reporting on the hub's side (contract scenarios H2, H3), for both scopes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from echelon.api import names as n
from echelon.api.builtin import DEPLOYMENTS, EVENTS, NAMESPACES
from echelon.api.own import WORKS
from echelon.api.placement import Placement
from echelon.api.scope import SCOPES
from echelon.controllers.report_back import ReportsBack
from echelon.rules.report_back import problem_of
from tests.deliveries import Desk, manifest_condition
from tests.world import world

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "app", "namespace": "app"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]},
        },
    },
}
MIRROR = {"type": "Mirror", "destination": "OriginalResource"}
ONE = {"placementType": "PickFixed", "clusterNames": ["m1"]}
STATUS = {"observedGeneration": 1, "replicas": 10, "availableReplicas": 8}


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def desk(request):
    with world(11) as w:
        yield Desk(w, request.param)


def play(desk, scenario):
    async def whole():
        await scenario()
        await desk.w.stop()

    desk.w.run(whole())


async def start(desk, policy: dict[str, Any] | None = ONE, strategy: dict[str, Any] | None = MIRROR) -> str:
    await desk.start("m1")
    await desk.w.start(lambda m: [ReportsBack(m.cache, desk.scope)])
    await desk.client.create(DEPLOYMENTS, DEPLOYMENT, "app")
    kind = desk.scope.placement
    spec: dict[str, Any] = {
        "resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "app"}]
    }
    spec |= {"policy": policy} if policy else {}
    spec |= {"strategy": {"reportBackStrategy": strategy}} if strategy else {}
    meta = {"name": desk.placement, **({"namespace": desk.namespace} if desk.namespace else {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
    await desk.client.create(kind, body, desk.namespace)
    selected = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "app", "namespace": "app"}
    status = {"status": {"selectedResources": [selected], "conditions": []}}
    await desk.client.patch(kind, desk.placement, desk.namespace, status, subresource="status")
    await desk.snapshot(0, DEPLOYMENT)
    name = await desk.bind()
    await desk.settle()
    return name


def reported(status=None, **identifier):
    entry = manifest_condition(DEPLOYMENT, generation=1, Applied=("True", "Applied"))
    entry["identifier"] |= {"resource": "deployments", **identifier}
    observed = {"apiVersion": "apps/v1", "kind": "Deployment", "status": status or STATUS}
    entry["backReportedStatus"] = {"observedStatus": observed, "observationTime": "2026-01-01T00:00:00Z"}
    return entry


async def hub_status(desk):
    return (await desk.client.get(DEPLOYMENTS, "app", "app")).get("status") or {}


def test_h2_the_original_shows_the_status_of_its_one_member(desk):
    async def scenario():
        await start(desk)
        work = (await desk.works())[desk.work_name()]
        assert msgspec.to_builtins(work.spec.report_back_strategy) == MIRROR
        await desk.report(manifests=[reported()])
        await desk.settle()
        assert await hub_status(desk) == STATUS
        less = {"observedGeneration": 2, "replicas": 3}
        await desk.report(manifests=[reported(less)])
        await desk.settle()
        assert await hub_status(desk) == less
        before = desk.writes()
        await desk.report(manifests=[reported(less)])
        await desk.settle()
        assert desk.writes() == before

    play(desk, scenario)


def test_h2_a_report_of_something_not_applied_counts_for_nothing(desk):
    async def scenario():
        await start(desk)
        await desk.report(Applied="False", manifests=[reported()])
        await desk.settle()
        assert await hub_status(desk) == {}

    play(desk, scenario)


def test_h3_what_the_placement_does_not_select_is_left_alone(desk):
    async def scenario():
        await start(desk)
        other = {**DEPLOYMENT, "metadata": {"name": "other", "namespace": "app"}}
        await desk.client.create(DEPLOYMENTS, other, "app")
        await desk.report(manifests=[reported(name="other")])
        await desk.settle()
        assert "replicas" not in ((await desk.client.get(DEPLOYMENTS, "other", "app")).get("status") or {})

    play(desk, scenario)


def test_h3_the_content_of_envelopes_has_no_original(desk):
    async def scenario():
        await start(desk)
        label = {
            "metadata": {"labels": {n.LABEL_ENVELOPE_WORK: "ResourceEnvelope", n.LABEL_ENVELOPE_NAME: "e"}}
        }
        await desk.client.patch(WORKS, desk.work_name(), "fleet-member-m1", label)
        await desk.report(manifests=[reported()])
        await desk.settle()
        assert await hub_status(desk) == {}

    play(desk, scenario)


@pytest.mark.parametrize(
    "strategy", [None, {"type": "Disabled"}, {"type": "Mirror", "destination": "WorkAPI"}]
)
def test_h3_without_being_asked_nothing_is_reported_back(desk, strategy):
    async def scenario():
        await start(desk, strategy=strategy)
        work = (await desk.works())[desk.work_name()]
        mirrors = work.spec.report_back_strategy is not None
        assert mirrors is (strategy is not None and strategy["type"] == "Mirror")
        await desk.report(manifests=[reported()])
        await desk.settle()
        assert await hub_status(desk) == {}

    play(desk, scenario)


def test_a_changed_strategy_reaches_the_work_and_ends_there(desk):
    async def scenario():
        await start(desk)
        for strategy in ({"type": "Mirror", "destination": "WorkAPI"}, None, MIRROR):
            body = {"spec": {"strategy": {"reportBackStrategy": None}}}
            await desk.client.patch(desk.scope.placement, desk.placement, desk.namespace, body)
            body = {"spec": {"strategy": {"reportBackStrategy": strategy}}}
            await desk.client.patch(desk.scope.placement, desk.placement, desk.namespace, body)
            await desk.settle()
            work = (await desk.works())[desk.work_name()]
            held = work.spec.report_back_strategy
            assert (msgspec.to_builtins(held) if held else None) == strategy

    play(desk, scenario)


def test_h3_a_policy_with_several_clusters_is_explained_in_an_event(desk):
    async def scenario():
        await start(desk, policy={"placementType": "PickN", "numberOfClusters": 2})
        await desk.report(manifests=[reported()])
        await desk.settle()
        assert await hub_status(desk) == {}
        events = (await desk.client.list(EVENTS, desk.namespace or "default")).items
        said = [event["message"] for event in events if event["reason"] == "StatusNotReportedBack"]
        assert said == [
            (
                "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; "
                "cannot back-report status to original resources"
            )
        ]

    play(desk, scenario)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (None, "no scheduling policy specified (the PickAll type is in use)"),
        ({"placementType": "PickAll"}, "the scheduling policy in use is of the PickAll type"),
        (
            {"placementType": "PickFixed", "clusterNames": ["a", "b"]},
            "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster (2 clusters)",
        ),
        (
            {"placementType": "PickFixed"},
            "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster (0 clusters)",
        ),
        (
            {"placementType": "PickN"},
            "the scheduling policy in use is of the PickN type, but no number of target clusters is specified",
        ),
        ({"placementType": "PickN", "numberOfClusters": 1}, ""),
        (ONE, ""),
    ],
)
def test_h3_policies(policy, said):
    spec = {"resourceSelectors": [], **({"policy": policy} if policy else {})}
    placement = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Placement)
    wanted = f"{said}; cannot back-report status to original resources" if said else ""
    assert problem_of(placement) == wanted


def test_a_member_cannot_steer_the_hub_by_reporting(desk):
    async def scenario():
        await start(desk)
        entry = reported({"phase": "Terminating"}, group="", version="v1", kind="Namespace")
        entry["identifier"] |= {"resource": "namespaces", "name": "app", "namespace": ""}
        selected = {"version": "v1", "kind": "Namespace", "name": "app"}
        status = {"status": {"selectedResources": [selected]}}
        await desk.client.patch(
            desk.scope.placement, desk.placement, desk.namespace, status, subresource="status"
        )
        before = desk.writes()
        await desk.report(manifests=[entry])
        await desk.settle()
        assert (await desk.client.get(NAMESPACES, "app"))["status"]["phase"] == "Active"
        assert desk.writes() - before <= 1, "the binding's status alone"

    play(desk, scenario)
