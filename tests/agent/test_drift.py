"""Changes made on a member by hand: undone, or found and named (contract scenarios B4 to B6, B9, G12 to G18)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from echelon.api.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from tests.agent.fleet import (
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
    with world(13) as made:
        yield made


CAREFUL = {"whenToApply": "IfNotDrifted", "comparisonOption": "PartialComparison"}
CAREFUL_FULL = {"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"}
REDACTED = "(redacted for security reasons)"


async def placed_and_edited(fleet, strategy):
    await fleet.place("work", whole_space(), config_map(), applyStrategy=strategy)
    await fleet.settled("work")
    person = fleet.person()
    await person.patch(NAMESPACES, "app", None, {"metadata": {"labels": {"foo": "bar"}}})
    await person.patch(CONFIG_MAPS, "app-cm", "app", {"data": {"data": "edited"}})
    return await fleet.settled("work")


def whole_space():
    """Return the namespace as it travels: with what the hub's API server filled in."""
    return {**space(), "spec": {"finalizers": ["kubernetes"]}}


async def label(fleet):
    return (await fleet.member().get(NAMESPACES, "app"))["metadata"]["labels"].get("foo")


def test_b4_always_with_full_comparison_undoes_what_it_manages_and_reports_the_rest(w):
    async def scenario(fleet):
        work = await placed_and_edited(fleet, {"comparisonOption": "FullComparison"})
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        drift = manifest(work, 0).drift_details
        assert details(drift) == [("/metadata/labels/foo", "bar", None)]
        assert drift.observed_in_member_cluster_generation == 0
        assert manifest(work, 1).drift_details is None
        assert await fleet.config_maps() == {"app-cm": {"data": "test"}}
        assert await label(fleet) == "bar"

    run(w, scenario)


def test_b5_if_not_drifted_reports_changed_fields_of_the_manifest_and_undoes_nothing(w):
    async def scenario(fleet):
        work = await placed_and_edited(fleet, CAREFUL)
        assert of_manifest(work, 0)["Applied"] == ("True", "Applied")
        assert manifest(work, 0).drift_details is None
        assert of_manifest(work, 1) == {"Applied": ("False", "FoundDrifts")}
        assert details(manifest(work, 1).drift_details) == [("/data/data", "edited", "test")]
        assert await fleet.config_maps() == {"app-cm": {"data": "edited"}}
        assert await label(fleet) == "bar"

    run(w, scenario)


def test_b6_g14_if_not_drifted_with_full_comparison_reports_every_change(w):
    async def scenario(fleet):
        work = await placed_and_edited(fleet, CAREFUL_FULL)
        assert of_manifest(work, 0) == {"Applied": ("False", "FoundDrifts")}
        assert ("/metadata/labels/foo", "bar", None) in details(manifest(work, 0).drift_details)
        assert of_manifest(work, 1) == {"Applied": ("False", "FoundDrifts")}
        assert details(manifest(work, 1).drift_details) == [("/data/data", "edited", "test")]
        assert await fleet.config_maps() == {"app-cm": {"data": "edited"}}

    run(w, scenario)


def test_b9_a_drift_found_under_server_side_apply(w):
    async def scenario(fleet):
        strategy = {
            "type": "ServerSideApply",
            "serverSideApplyConfig": {"force": True},
            "whenToTakeOver": "IfNoDiff",
            **CAREFUL,
        }
        wanted = deployment(terminationGracePeriodSeconds=60)
        await fleet.place("work", space(), wanted, applyStrategy=strategy)
        await fleet.settled("work")
        edit = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}}}
        await fleet.person().patch(DEPLOYMENTS, "web", "app", edit)
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"Applied": ("False", "FoundDrifts")}
        path = "/spec/template/spec/terminationGracePeriodSeconds"
        assert details(manifest(work, 1).drift_details) == [(path, "30", "60")]
        # New content is applied over drifts.
        await fleet.place(
            "work", space(), deployment(replicas=2, terminationGracePeriodSeconds=60), applyStrategy=strategy
        )
        work = await fleet.settled("work")
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        assert live["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 60

    run(w, scenario)


def test_g12_a_drift_carries_the_generation_of_the_live_object(w):
    async def scenario(fleet):
        await fleet.place("work", space(), deployment(), applyStrategy=CAREFUL)
        await fleet.settled("work")
        await fleet.person().patch(NAMESPACES, "app", None, {"metadata": {"labels": {"foo": "bar"}}})
        await fleet.person().patch(DEPLOYMENTS, "web", "app", {"spec": {"replicas": 2}})
        work = await fleet.settled("work")
        assert of_manifest(work, 0)["Applied"] == ("True", "Applied")
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        found = manifest(work, 1)
        assert details(found.drift_details) == [("/spec/replicas", "2", "1")]
        assert (
            found.drift_details.observed_in_member_cluster_generation == live["metadata"]["generation"] == 2
        )
        assert found.conditions[0].observed_generation == 2
        assert live["spec"]["replicas"] == 2

    run(w, scenario)


def test_g13_what_the_api_server_refuses_is_compared_in_full(w):
    async def scenario(fleet):
        await fleet.place("work", space(), valve_definition(), valve(size=1), applyStrategy=CAREFUL)
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        edit = {"spec": {"size": 2, "locked": True}, "metadata": {"labels": {"unmanaged": "yes"}}}
        await fleet.person().patch(VALVES, "v", "app", edit)
        work = await fleet.settled("work")
        assert of_manifest(work, 2) == {"Applied": ("False", "FoundDriftsInDegradedMode")}
        assert details(manifest(work, 2).drift_details) == [
            ("/metadata/labels/unmanaged", "yes", None),
            ("/spec/locked", "true", "false"),
            ("/spec/size", "2", "1"),
        ]
        live = await fleet.member().get(VALVES, "v", "app")
        assert live["spec"] == {"size": 2, "locked": True}

    run(w, scenario)


def test_g15_always_with_partial_comparison_undoes_a_change_and_reports_nothing(w):
    async def scenario(fleet):
        await fleet.place("work", space(), deployment())
        await fleet.settled("work")
        before = w.now()
        await fleet.person().patch(DEPLOYMENTS, "web", "app", {"spec": {"replicas": 7}})
        work = await fleet.settled("work")
        assert fleet.was_at_once(before)
        live = await fleet.member().get(DEPLOYMENTS, "web", "app")
        assert live["spec"]["replicas"] == 1
        assert manifest(work, 1).drift_details is None

    run(w, scenario)


def test_g16_a_changed_manifest_is_applied_over_drifts(w):
    async def scenario(fleet):
        await placed_and_edited(fleet, CAREFUL)
        await fleet.place("work", space(), config_map(data="newer"), applyStrategy=CAREFUL)
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        assert manifest(work, 1).drift_details is None
        assert await fleet.config_maps() == {"app-cm": {"data": "newer"}}

    run(w, scenario)


def test_g17_the_time_a_drift_was_first_seen_stays_while_the_value_changes(w):
    async def scenario(fleet):
        work = await placed_and_edited(fleet, CAREFUL)
        first = manifest(work, 1).drift_details
        await asyncio.sleep(90)
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", {"data": {"data": "edited again"}})
        work = await fleet.settled("work")
        again = manifest(work, 1).drift_details
        assert again.first_drifted_observed_time == first.first_drifted_observed_time
        assert again.observation_time - first.observation_time >= timedelta(seconds=90)
        assert details(again) == [("/data/data", "edited again", "test")]

    run(w, scenario)


def test_g18_values_of_a_secret_are_never_shown(w):
    async def scenario(fleet):
        await fleet.place("work", space(), secret(password="aGVsbG8="), applyStrategy=CAREFUL_FULL)
        await fleet.settled("work")
        edit = {"data": {"password": "d29ybGQ=", "added": "bW9yZQ=="}}
        await fleet.person().patch(SECRETS, "key", "app", edit)
        work = await fleet.settled("work")
        found = {path: (there, here) for path, there, here in details(manifest(work, 1).drift_details)}
        assert found["/data/password"][0].startswith(REDACTED)
        assert found["/data/password"][1].startswith(REDACTED)
        assert found["/data/password"][0] != found["/data/password"][1]  # that they differ may be seen
        assert found["/data/added"][0].startswith(REDACTED)
        assert found["/data/added"][1] is None
        text = repr(work.status)
        assert all(value not in text for value in ("aGVsbG8=", "d29ybGQ=", "bW9yZQ=="))

    run(w, scenario)


def test_a_drift_that_is_undone_by_hand_is_applied_again_at_once(w):
    async def scenario(fleet):
        await placed_and_edited(fleet, CAREFUL)
        before = w.now()
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", {"data": {"data": "test"}})
        work = await fleet.settled("work")
        assert fleet.was_at_once(before)
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        assert manifest(work, 1).drift_details is None

    run(w, scenario)


def test_finalizers_and_reserved_labels_are_no_drift(w):
    async def scenario(fleet):
        await fleet.place("work", space(), config_map(), applyStrategy=CAREFUL_FULL)
        await fleet.settled("work")
        edit = {"metadata": {"finalizers": ["example.com/hold"], "labels": {"app.kubernetes.io/name": "x"}}}
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", edit)
        work = await fleet.settled("work")
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        assert manifest(work, 1).drift_details is None
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", {"metadata": {"finalizers": None}})

    run(w, scenario)
