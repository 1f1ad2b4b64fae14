"""Works on a member: applied, owned, reported (contract scenarios G1 to G7, G27, G28)."""

import asyncio
from collections.abc import Iterator

import pytest

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, JOBS, NAMESPACES
from echelon.api.own import APPLIED_WORKS, WORKS
from echelon.api.resource import Resource
from tests.agent.fleet import (
    FOREIGN,
    SPACE,
    config_map,
    deployment,
    job,
    manifest,
    of_manifest,
    run,
    said,
    space,
)
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(11) as made:
        yield made


def test_g1_a_work_is_applied_owned_and_reported_and_follows_the_availability_of_its_objects(w):
    async def scenario(fleet):
        await fleet.place("work", space(), deployment())
        work = await fleet.settled("work")
        assert work.metadata.finalizers == ("kubernetes-fleet.io/work-cleanup",)
        applied = await fleet.applied("work")
        assert (applied.spec.work_name, applied.spec.work_namespace) == ("work", SPACE)
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        (owner,) = live["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "AppliedWork",
            "name": "work",
            "uid": applied.metadata.uid,
            "blockOwnerDeletion": True,
        }
        assert of_manifest(work, 0) == {"Applied": ("True", "Applied"), "Available": ("True", "Available")}
        assert of_manifest(work, 1) == {
            "Applied": ("True", "Applied"),
            "Available": ("False", "ManifestNotAvailableYet"),
        }
        assert said(work.status.conditions) == {
            "Applied": ("True", "AllManifestsApplied"),
            "Available": ("False", "SomeManifestsAreNotAvailable"),
        }
        ready = {"observedGeneration": 1, "replicas": 1, "availableReplicas": 1, "updatedReplicas": 1}
        await fleet.person().patch(DEPLOYMENTS, "web", "app", {"status": ready}, subresource="status")
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Available"] == ("True", "AllManifestsAvailable")
        resources = (await fleet.applied("work")).status.applied_resources
        space_uid = (await fleet.member().get(NAMESPACES, "app"))["metadata"]["uid"]
        assert [(r.ordinal, r.kind, r.resource, r.uid) for r in resources] == [
            (0, "Namespace", "namespaces", space_uid),
            (1, "Deployment", "deployments", live["metadata"]["uid"]),
        ]

    run(w, scenario)


def test_g2_a_kind_whose_availability_cannot_be_told_counts_as_available(w):
    async def scenario(fleet):
        await fleet.place("work", space(), job())
        work = await fleet.settled("work")
        assert of_manifest(work, 1)["Available"] == ("True", "NotTrackable")
        assert said(work.status.conditions)["Available"] == ("True", "WorkNotTrackable")

    run(w, scenario)


def test_g3_a_manifest_that_is_dropped_takes_its_object_along(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map("one"), config_map("two"))
        await fleet.settled("work")
        await fleet.place("work", space(), config_map("two"))
        work = await fleet.settled("work")
        assert [one.identifier.name for one in work.status.manifest_conditions] == ["app", "two"]
        assert list(await fleet.config_maps()) == ["two"]
        held = (await fleet.applied("work")).status.applied_resources
        assert [one.name for one in held] == ["app", "two"]

    run(w, scenario)


def test_g3_a_dropped_object_that_others_own_too_is_only_let_go_of(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        other = await fleet.person().create(CONFIG_MAPS, config_map("somebody"), "app")
        held = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        foreign = {**FOREIGN, "uid": other["metadata"]["uid"]}
        owners = {"metadata": {"ownerReferences": [*held["metadata"]["ownerReferences"], foreign]}}
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", owners)
        await fleet.place("work", space())
        await fleet.settled("work")
        held = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        assert held["metadata"]["ownerReferences"] == [foreign]

    run(w, scenario)


def test_g3_dropped_objects_go_even_when_what_replaces_them_cannot_be_applied(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        await fleet.place("work", {"apiVersion": "dummy/v10", "kind": "Fake", "metadata": {"name": "x"}})
        await fleet.settled("work")
        assert await fleet.config_maps("default") == {}
        status = (await fleet.applied("work")).status
        assert status is None or status.applied_resources == ()

    run(w, scenario)


def test_g4_reordered_manifests_delete_nothing(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map("one"), config_map("two"))
        await fleet.settled("work")
        before = await fleet.member().get(CONFIG_MAPS, "one", "app")
        await fleet.place("work", config_map("two"), config_map("one"), space())
        await fleet.settled("work")
        after = await fleet.member().get(CONFIG_MAPS, "one", "app")
        assert before == after
        held = (await fleet.applied("work")).status.applied_resources
        assert [(one.ordinal, one.name) for one in held] == [(0, "two"), (1, "one"), (2, "app")]

    run(w, scenario)


def test_g5_an_unknown_kind_fails_alone(w):
    async def scenario(fleet):
        fake = {"apiVersion": "dummy/v10", "kind": "Fake", "metadata": {"name": "x", "namespace": "app"}}
        await fleet.place("work", space(), fake, config_map())
        work = await fleet.settled("work")
        identifier = manifest(work, 1).identifier
        assert (identifier.group, identifier.version, identifier.kind) == ("dummy", "v10", "Fake")
        assert identifier.resource == ""
        assert of_manifest(work, 1) == {"Applied": ("False", "DecodingErred")}
        assert "failed to find GVR from member cluster" in manifest(work, 1).conditions[0].message
        assert said(work.status.conditions) == {"Applied": ("False", "SomeManifestsAreNotApplied")}
        assert work.status.conditions[0].message == (
            "Failed to apply all manifests (2 of 3 manifests are applied)"
        )
        held = (await fleet.applied("work")).status.applied_resources
        assert [one.ordinal for one in held] == [0, 2]

    run(w, scenario)


def test_g6_a_manifest_without_a_name_is_refused_and_one_with_both_is_applied(w):
    async def scenario(fleet):
        named = space()
        named["metadata"]["generateName"] = "app-"
        unnamed = deployment()
        unnamed["metadata"] = {"generateName": "web-", "namespace": "app"}
        await fleet.place("work", named, unnamed)
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"Applied": ("False", "FoundGenerateName")}
        assert of_manifest(work, 0)["Applied"] == ("True", "Applied")
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["generateName"] == "app-"

    run(w, scenario)


def test_g7_of_two_equal_manifests_the_first_wins(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(data="first"), config_map(data="second"))
        work = await fleet.settled("work")
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        assert of_manifest(work, 2) == {"Applied": ("False", "Duplicated")}
        revision = work.metadata.resource_version
        await asyncio.sleep(600)
        assert (await fleet.work("work")).metadata.resource_version == revision
        live = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        assert live["data"] == {"data": "first"}

    run(w, scenario)


WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


def widget_definition():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def widget(**spec):
    meta = {"name": "w", "namespace": "app"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": spec}


def test_g27_a_custom_resource_is_applied_after_its_definition_in_the_same_work(w):
    async def scenario(fleet):
        await fleet.place("work", widget(size=1), widget_definition(), space())
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await fleet.member().get(WIDGETS, "w", "app")
        assert live["spec"] == {"size": 1}

    run(w, scenario)


def test_a_custom_resource_waits_for_a_definition_that_comes_later_without_asking_again(w):
    async def scenario(fleet):
        await fleet.place("work", space(), widget(size=1))
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"Applied": ("False", "DecodingErred")}
        await fleet.person().create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        before = w.now()
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        assert fleet.was_at_once(before)

    run(w, scenario)


def test_g27_namespaces_come_first_and_unknown_kinds_last_whatever_the_order_of_the_manifests(w):
    async def scenario(fleet):
        await fleet.place("work", deployment(), config_map(), space())
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        revisions = [
            int((await fleet.member().get(*what))["metadata"]["resourceVersion"])
            for what in ((NAMESPACES, "app"), (CONFIG_MAPS, "app-cm", "app"), (DEPLOYMENTS, "web", "app"))
        ]
        assert revisions == sorted(revisions)

    run(w, scenario)


def test_g28_a_stable_work_is_not_written_again(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        work = await fleet.settled("work")
        applied = await fleet.applied("work")
        sent = fleet.world.hub.store.revision
        await asyncio.sleep(7200)
        assert (await fleet.work("work")).metadata.resource_version == work.metadata.resource_version
        assert (await fleet.applied("work")).metadata.resource_version == applied.metadata.resource_version
        beats = 3 * 7200 // 57 + 3  # the heartbeat's status and what the hub makes of it
        assert fleet.world.hub.store.revision - sent <= beats

    run(w, scenario)


def test_a_changed_manifest_reaches_the_member(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(data="test"))
        await fleet.settled("work")
        await fleet.place("work", space(), config_map(data="changed", more="yes"))
        await fleet.settled("work")
        live = await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        assert live["data"] == {"data": "changed", "more": "yes"}

    run(w, scenario)


def test_a_deleted_work_takes_its_objects_along(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.settle()
        assert (await fleet.hub.list(WORKS, SPACE)).items == []
        assert (await fleet.member().list(APPLIED_WORKS)).items == []
        assert await fleet.config_maps("default") == {}

    run(w, scenario)


def test_an_object_deleted_on_the_member_comes_back(w):
    async def scenario(fleet):
        await fleet.place("work", space(), job("one"), config_map())
        await fleet.settled("work")
        await fleet.person().delete(CONFIG_MAPS, "app-cm", "app")
        await fleet.person().delete(JOBS, "one", "app", propagation="Background")
        work = await fleet.settled("work")
        await fleet.member().get(CONFIG_MAPS, "app-cm", "app")
        await fleet.member().get(JOBS, "one", "app")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")

    run(w, scenario)


def test_an_agent_that_is_stopped_anywhere_goes_on_where_it_was(w):
    async def scenario(fleet):
        for pause in range(12):
            await fleet.place("work", space(), config_map("one", n=str(pause)), config_map("two"))
            await asyncio.sleep(pause / 1000)
            await fleet.stop_agent("m1")
            await fleet.start_agent("m1")
            await fleet.settled("work")
            await fleet.place("work", space(), config_map("one", n=str(pause)))
            await asyncio.sleep(pause / 1000)
            await fleet.stop_agent("m1")
            await fleet.start_agent("m1")
            work = await fleet.settled("work")
            assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
            assert await fleet.config_maps() == {"one": {"n": str(pause)}}

    run(w, scenario)


def test_h1_the_status_of_applied_objects_is_brought_back_when_asked_for(w):
    async def scenario(fleet):
        mirror = {"type": "Mirror", "destination": "OriginalResource"}
        await fleet.place("work", space(), deployment(replicas=10), config_map(), reportBackStrategy=mirror)
        await fleet.settled("work")
        ready = {"observedGeneration": 1, "replicas": 10, "availableReplicas": 8, "updatedReplicas": 10}
        await fleet.person().patch(DEPLOYMENTS, "web", "app", {"status": ready}, subresource="status")
        work = await fleet.settled("work")
        seen = manifest(work, 1).back_reported_status
        assert seen.observed_status == {"apiVersion": "apps/v1", "kind": "Deployment", "status": ready}
        assert manifest(work, 2).back_reported_status is None

    run(w, scenario)


def test_an_object_whose_namespace_is_missing_follows_as_soon_as_the_namespace_comes(w):
    async def scenario(fleet):
        await fleet.place("work", config_map())
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"Applied": ("False", "ManifestApplyFailed")}
        await asyncio.sleep(3600)  # tries are far apart by now
        before = w.now()
        await fleet.person().create(NAMESPACES, space())
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        assert fleet.was_at_once(before)

    run(w, scenario)


def test_a_manifest_that_keeps_failing_never_delays_a_healthy_change(w):
    async def scenario(fleet):
        broken = config_map("broken", "missing")
        await fleet.place("work", space(), broken, config_map(data="1"))
        await fleet.place("other", space("other"))
        await fleet.settled("work")
        for number in range(2, 5):
            await asyncio.sleep(1000)
            before = w.now()
            await fleet.place("work", space(), broken, config_map(data=str(number)))
            await fleet.place("other", space("other", n=str(number)))
            await fleet.world.settle()
            assert await fleet.config_maps() == {"app-cm": {"data": str(number)}}
            live = await fleet.member().get(NAMESPACES, "other")
            assert live["metadata"]["labels"]["n"] == str(number)
            assert fleet.was_at_once(before)

    run(w, scenario)


def test_a_failing_manifest_costs_few_requests(w):
    async def scenario(fleet):
        await fleet.place("work", config_map())
        await fleet.settled("work")
        asked = []
        handle = w.hub.handle

        async def counted(request):
            if "/configmaps" in request.path and request.method != "GET":
                asked.append(request)
            return await handle(request)

        w.hub.handle = counted
        await asyncio.sleep(3600)
        w.hub.handle = handle
        assert 10 <= len(asked) <= 30  # 1 s, 1.5 s, ... 5 min apart

    run(w, scenario)
