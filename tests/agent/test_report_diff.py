"""Looking without touching: ReportDiff (contract scenarios A10, A11, B7, B8, G19 to G23)."""

from collections.abc import Iterator

import pytest

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES, SECRETS
from echelon.api.own import WORKS
from tests.agent.fleet import (
    SPACE,
    VALVES,
    config_map,
    deployment,
    details,
    manifest,
    of_manifest,
    run,
    said,
    secret,
    space,
    valve,
    valve_definition,
)
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(14) as made:
        yield made


REPORT = {"type": "ReportDiff"}
REPORT_FULL = {"type": "ReportDiff", "comparisonOption": "FullComparison", "whenToTakeOver": "Never"}
WHOLE = [("/", None, "(the whole object)")]


async def resources_held(fleet):
    status = (await fleet.applied("work")).status
    return status.applied_resources if status else ()


def test_g19_an_object_that_is_not_there_differs_as_a_whole_and_is_not_created(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(), applyStrategy=REPORT)
        work = await fleet.settled("work")
        for ordinal in (0, 1):
            assert of_manifest(work, ordinal) == {"DiffReported": ("True", "FoundDiff")}
            found = manifest(work, ordinal).diff_details
            assert details(found) == WHOLE
            assert found.observed_in_member_cluster_generation is None
        assert said(work.status.conditions) == {"DiffReported": ("True", "AllManifestsDiffReported")}
        spaces = (await fleet.member().list(NAMESPACES)).items
        assert "app" not in [one["metadata"]["name"] for one in spaces]
        assert await resources_held(fleet) == ()

    run(w, scenario)


def test_b7_b8_differences_with_what_was_there_before_come_and_go_without_any_owner(w):
    async def scenario(fleet):
        person = fleet.person()
        await person.create(NAMESPACES, space(foo="bar"))
        await person.create(CONFIG_MAPS, config_map(data="foo-value"), "app")
        await fleet.place("work", space(), config_map(), applyStrategy=REPORT_FULL)
        work = await fleet.settled("work")
        assert ("/metadata/labels/foo", "bar", None) in details(manifest(work, 0).diff_details)
        assert details(manifest(work, 1).diff_details) == [("/data/data", "foo-value", "test")]
        for what in ((NAMESPACES, "app"), (CONFIG_MAPS, "app-cm", "app")):
            live = await fleet.member().get(*what)
            assert not live["metadata"].get("ownerReferences")
        await person.patch(NAMESPACES, "app", None, {"metadata": {"labels": {"foo": None}}})
        await person.patch(CONFIG_MAPS, "app-cm", "app", {"data": {"data": "test"}})
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"DiffReported": ("True", "NoDiffFound")}
        assert manifest(work, 1).diff_details is None

    run(w, scenario)


def test_g20_reporting_writes_nothing_even_where_taking_over_would_be_allowed(w):
    async def scenario(fleet):
        await fleet.person().create(NAMESPACES, space())
        await fleet.person().create(DEPLOYMENTS, deployment(replicas=2), "app")
        await fleet.place("work", space(), deployment(), applyStrategy=REPORT)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"DiffReported": ("True", "NoDiffFound")}
        assert of_manifest(work, 1) == {"DiffReported": ("True", "FoundDiff")}
        assert details(manifest(work, 1).diff_details) == [("/spec/replicas", "2", "1")]
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        assert live["spec"]["replicas"] == 2
        assert not live["metadata"].get("ownerReferences")
        await fleet.person().patch(DEPLOYMENTS, "web", "app", {"spec": {"replicas": 1}})
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"DiffReported": ("True", "NoDiffFound")}
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.settle()
        await fleet.member().get(DEPLOYMENTS, "web", "app")

    run(w, scenario)


def test_g21_a_manifest_that_cannot_be_read_blocks_only_its_own_report(w):
    async def scenario(fleet):
        fake = {"apiVersion": "dummy/v10", "kind": "Fake", "metadata": {"name": "x"}}
        await fleet.place("work", space(), fake, applyStrategy=REPORT)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"DiffReported": ("True", "FoundDiff")}
        assert of_manifest(work, 1) == {"DiffReported": ("False", "FailedToReportDiff")}
        assert said(work.status.conditions) == {"DiffReported": ("False", "SomeManifestsHaveNotReportedDiff")}
        assert work.status.conditions[0].message == (
            "Failed to report diff on all manifests (1 of 2 manifests have reported diff)"
        )

    run(w, scenario)


def test_g22_a_report_in_degraded_mode_counts_as_a_report(w):
    async def scenario(fleet):
        person = fleet.person()
        await person.create(NAMESPACES, space())
        await person.create(CUSTOM_RESOURCE_DEFINITIONS, valve_definition())
        await fleet.world.settle()
        await person.create(VALVES, valve(size=2, locked=True), "app")
        never = {**REPORT, "whenToTakeOver": "Never"}
        await fleet.place("work", space(), valve(size=3, locked=True), applyStrategy=never)
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"DiffReported": ("True", "FoundDiffInDegradedMode")}
        found = manifest(work, 1).diff_details
        assert details(found) == [("/spec/size", "2", "3")]
        assert found.observed_in_member_cluster_generation == 1
        assert said(work.status.conditions) == {"DiffReported": ("True", "AllManifestsDiffReported")}
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.settle()
        await fleet.member().get(VALVES, "v", "app")

    run(w, scenario)


def test_g23_from_reporting_to_applying_and_back(w):
    async def scenario(fleet):
        await fleet.person().create(NAMESPACES, space())
        await fleet.person().create(CONFIG_MAPS, config_map(data="other"), "app")
        await fleet.place("work", space(), config_map(), applyStrategy=REPORT)
        await fleet.settled("work")
        await fleet.place("work", space(), config_map())
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"Applied": ("True", "Applied"), "Available": ("True", "Available")}
        assert manifest(work, 1).diff_details is None
        assert await fleet.config_maps() == {"app-cm": {"data": "test"}}
        await fleet.place("work", space(), config_map(), applyStrategy=REPORT)
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"DiffReported": ("True", "NoDiffFound")}
        assert said(work.status.conditions) == {"DiffReported": ("True", "AllManifestsDiffReported")}
        assert await resources_held(fleet) == ()

    run(w, scenario)


def test_what_is_dropped_while_only_reporting_goes_when_applying_comes_back(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map("one"), config_map("two"))
        await fleet.settled("work")
        await fleet.place("work", space(), config_map("two"), applyStrategy=REPORT)
        await fleet.settled("work")
        assert sorted(await fleet.config_maps()) == ["one", "two"]
        await fleet.place("work", space(), config_map("two"))
        await fleet.settled("work")
        assert sorted(await fleet.config_maps()) == ["two"]
        assert (await fleet.applied("work")).metadata.annotations == {}

    run(w, scenario)


def test_a10_the_values_of_both_sides_are_shown(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        never = {**REPORT, "whenToTakeOver": "Never", "comparisonOption": "PartialComparison"}
        await fleet.place("work", space(), config_map(data="bar"), applyStrategy=never)
        work = await fleet.settled("work")
        found = manifest(work, 1).diff_details
        assert details(found) == [("/data/data", "test", "bar")]
        assert found.observed_in_member_cluster_generation == 0

    run(w, scenario)


def test_g18_secrets_are_redacted_in_reports_too(w):
    async def scenario(fleet):
        await fleet.person().create(NAMESPACES, space())
        await fleet.person().create(SECRETS, secret(password="d29ybGQ="), "app")
        await fleet.place("work", space(), secret(password="aGVsbG8="), applyStrategy=REPORT)
        work = await fleet.settled("work")
        ((path, there, here),) = details(manifest(work, 1).diff_details)
        assert path == "/data/password"
        assert "redacted" in there
        assert "redacted" in here
        assert "d29ybGQ=" not in repr(work.status)

    run(w, scenario)
