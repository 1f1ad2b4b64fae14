"""Objects that were on the member before: whose they are, and what is done with them (scenarios A, B1 to B3, G9 to G11)."""

from collections.abc import Iterator

import pytest

from echelon.api.builtin import CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from echelon.api.own import APPLIED_WORKS, WORKS
from echelon.client.errors import NotFound
from tests.agent.fleet import (
    SPACE,
    config_map,
    deployment,
    details,
    manifest,
    of_manifest,
    run,
    said,
    space,
)
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(12) as made:
        yield made


SERVER_SIDE = {"type": "ServerSideApply"}
PARTIAL = {"whenToTakeOver": "IfNoDiff", "comparisonOption": "PartialComparison"}
FULL = {"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"}


async def owned_space(fleet, **annotations):
    """Make the namespace on the member, owned by something of the member's own."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "somebody"},
    }
    held = await fleet.person().create(CLUSTER_ROLES, role)
    foreign = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": "somebody",
        "uid": held["metadata"]["uid"],
    }
    made = space()
    made["metadata"] |= {"ownerReferences": [foreign], "annotations": annotations or {"mine": "yes"}}
    await fleet.person().create(NAMESPACES, made)
    return foreign


async def owners(fleet, resource, name, namespace=None):
    live = await fleet.member().get(resource, name, namespace)
    return live["metadata"].get("ownerReferences") or []


def is_ours(owner):
    return owner["kind"] == "AppliedWork"


def test_a1_with_co_ownership_allowed_an_owned_object_is_shared_and_outlives_the_work(w):
    async def scenario(fleet):
        foreign = await owned_space(fleet)
        await fleet.place("work", space(), config_map(), applyStrategy={"allowCoOwnership": True})
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["annotations"]["mine"] == "yes"
        assert foreign in live["metadata"]["ownerReferences"]
        assert sum(map(is_ours, live["metadata"]["ownerReferences"])) == 1
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.until(lambda: gone(fleet, "work"), within_s=900)
        held = await owners(fleet, NAMESPACES, "app")
        assert foreign in held
        assert all(not owner.get("blockOwnerDeletion") for owner in held if is_ours(owner))
        assert await fleet.config_maps() == {}

    run(w, scenario)


async def gone(fleet, name):
    try:
        await fleet.work(name)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("strategy", [{}, SERVER_SIDE])
def test_a2_a3_an_object_nobody_owns_is_taken_over_and_goes_with_the_work(w, strategy):
    async def scenario(fleet):
        made = space()
        made["metadata"]["annotations"] = {"mine": "yes"}
        await fleet.person().create(NAMESPACES, made)
        await fleet.place("work", space(), applyStrategy=strategy)
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["annotations"]["mine"] == "yes"
        await fleet.hub.delete(WORKS, "work", SPACE)

        async def has_no_namespace():
            spaces = (await fleet.member().list(NAMESPACES)).items
            return "app" not in [one["metadata"]["name"] for one in spaces]

        await fleet.world.until(has_no_namespace)

    run(w, scenario)


def test_a4_an_owned_object_is_refused_without_co_ownership_and_its_neighbours_are_placed(w):
    async def scenario(fleet):
        foreign = await owned_space(fleet)
        await fleet.place("work", space(), config_map(), applyStrategy=SERVER_SIDE)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"Applied": ("False", "FailedToTakeOver")}
        assert manifest(work, 0).conditions[0].observed_generation == 0
        assert "co-ownership is disallowed" in manifest(work, 0).conditions[0].message
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        assert said(work.status.conditions) == {"Applied": ("False", "SomeManifestsAreNotApplied")}
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.settle()
        assert await owners(fleet, NAMESPACES, "app") == [foreign]
        assert await fleet.config_maps() == {}

    run(w, scenario)


def test_a5_a_forced_server_side_apply_wins_over_other_managers(w):
    async def scenario(fleet):
        await owned_space(fleet, shared="theirs")
        wanted = space()
        wanted["metadata"]["annotations"] = {"shared": "ours"}
        strategy = {
            "type": "ServerSideApply",
            "allowCoOwnership": True,
            "serverSideApplyConfig": {"force": True},
        }
        await fleet.place("work", wanted, applyStrategy=strategy)
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["annotations"]["shared"] == "ours"

    run(w, scenario)


def test_a_server_side_apply_without_force_reports_the_conflict_and_changes_nothing(w):
    async def scenario(fleet):
        made = space()
        made["metadata"]["annotations"] = {"shared": "theirs"}
        await fleet.person().create(NAMESPACES, made)
        wanted = space()
        wanted["metadata"]["annotations"] = {"shared": "ours"}
        await fleet.place("work", wanted, applyStrategy=SERVER_SIDE)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"Applied": ("False", "ManifestApplyFailed")}
        assert "conflict" in manifest(work, 0).conditions[0].message
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["annotations"]["shared"] == "theirs"

    run(w, scenario)


def test_a6_an_object_of_one_work_is_never_taken_by_another(w):
    async def scenario(fleet):
        strategy = {"allowCoOwnership": True}
        await fleet.place("a-work", space(), config_map(), applyStrategy=strategy)
        await fleet.settled("a-work")
        await fleet.place("b-work", space(), config_map(), applyStrategy=strategy)
        work = await fleet.settled("b-work")
        for ordinal in (0, 1):
            assert of_manifest(work, ordinal) == {"Applied": ("False", "FailedToTakeOver")}
            assert (
                "already owned by another Fleet AppliedWork" in manifest(work, ordinal).conditions[0].message
            )
        first = await fleet.work("a-work")
        assert said(first.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        for what in ((NAMESPACES, "app"), (CONFIG_MAPS, "app-cm", "app")):
            (owner,) = await owners(fleet, *what)
            assert (owner["name"], owner["blockOwnerDeletion"]) == ("a-work", True)

    run(w, scenario)


def test_a_work_takes_over_what_a_deleted_work_left_behind(w):
    async def scenario(fleet):
        await fleet.place("a-work", config_map(space="default"))
        await fleet.settled("a-work")
        # The record stays on the member, its Work is gone: as after a member left and joined again.
        await fleet.stop_agent("m1")
        await fleet.hub.patch(WORKS, "a-work", SPACE, {"metadata": {"finalizers": None}})
        await fleet.hub.delete(WORKS, "a-work", SPACE)
        await fleet.start_agent("m1")
        await fleet.place("b-work", config_map(space="default"))
        work = await fleet.settled("b-work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        (owner,) = await owners(fleet, CONFIG_MAPS, "app-cm", "default")
        assert owner["name"] == "b-work"

    run(w, scenario)


def test_a9_g9_without_take_over_what_was_there_before_stays_untouched(w):
    async def scenario(fleet):
        await fleet.person().create(NAMESPACES, space())
        never = {"whenToTakeOver": "Never", "whenToApply": "IfNotDrifted"}
        await fleet.place("work", space(), deployment(), applyStrategy=never)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"Applied": ("False", "NotTakenOver")}
        assert manifest(work, 0).conditions[0].observed_generation == 0
        assert of_manifest(work, 1)["Applied"] == ("True", "Applied")
        assert await owners(fleet, NAMESPACES, "app") == []
        held = (await fleet.applied("work")).status.applied_resources
        assert [one.kind for one in held] == ["Deployment"]
        await fleet.hub.delete(WORKS, "work", SPACE)
        await fleet.world.settle()
        await fleet.member().get(NAMESPACES, "app")
        with pytest.raises(NotFound):
            await fleet.member().get(DEPLOYMENTS, "web", "app")

    run(w, scenario)


async def pre_existing(fleet):
    await fleet.person().create(NAMESPACES, space(foo="bar"))
    await fleet.person().create(CONFIG_MAPS, config_map(data="foo-value"), "app")


def test_b1_taken_over_always_keeps_what_the_hub_does_not_speak_of(w):
    async def scenario(fleet):
        await pre_existing(fleet)
        await fleet.place("work", space(), config_map())
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        live = await fleet.member().get(NAMESPACES, "app")
        assert live["metadata"]["labels"]["foo"] == "bar"
        assert await fleet.config_maps() == {"app-cm": {"data": "test"}}
        assert all(
            [await owners(fleet, NAMESPACES, "app"), await owners(fleet, CONFIG_MAPS, "app-cm", "app")]
        )

    run(w, scenario)


def test_b2_g10_taken_over_only_without_differences_in_the_fields_of_the_manifest(w):
    async def scenario(fleet):
        await pre_existing(fleet)
        await fleet.place("work", space(), config_map(), applyStrategy=PARTIAL)
        work = await fleet.settled("work")
        assert of_manifest(work, 0)["Applied"] == ("True", "Applied")
        assert (await fleet.member().get(NAMESPACES, "app"))["metadata"]["labels"]["foo"] == "bar"
        assert of_manifest(work, 1) == {"Applied": ("False", "FailedToTakeOver")}
        found = manifest(work, 1).diff_details
        assert details(found) == [("/data/data", "foo-value", "test")]
        assert found.observed_in_member_cluster_generation == 0
        assert manifest(work, 1).drift_details is None
        assert await owners(fleet, CONFIG_MAPS, "app-cm", "app") == []
        assert await fleet.config_maps() == {"app-cm": {"data": "foo-value"}}

    run(w, scenario)


def test_b3_with_full_comparison_any_difference_stops_the_take_over(w):
    async def scenario(fleet):
        await pre_existing(fleet)
        await fleet.place("work", space(), config_map(), applyStrategy=FULL)
        work = await fleet.settled("work")
        assert of_manifest(work, 0) == {"Applied": ("False", "FailedToTakeOver")}
        assert ("/metadata/labels/foo", "bar", None) in details(manifest(work, 0).diff_details)
        assert of_manifest(work, 1) == {"Applied": ("False", "FailedToTakeOver")}
        assert details(manifest(work, 1).diff_details) == [("/data/data", "foo-value", "test")]
        assert await owners(fleet, NAMESPACES, "app") == []

    run(w, scenario)


def test_g11_from_never_to_if_no_diff(w):
    async def scenario(fleet):
        await fleet.person().create(NAMESPACES, space())
        await fleet.person().create(DEPLOYMENTS, deployment(replicas=2), "app")
        await fleet.place("work", space(), deployment(), applyStrategy={"whenToTakeOver": "Never"})
        work = await fleet.settled("work")
        assert of_manifest(work, 1) == {"Applied": ("False", "NotTakenOver")}
        await fleet.place("work", space(), deployment(), applyStrategy=PARTIAL)
        work = await fleet.settled("work")
        assert of_manifest(work, 0)["Applied"] == ("True", "Applied")
        assert of_manifest(work, 1) == {"Applied": ("False", "FailedToTakeOver")}
        assert details(manifest(work, 1).diff_details) == [("/spec/replicas", "2", "1")]

    run(w, scenario)


def test_once_the_difference_is_gone_the_object_is_taken_over_at_once(w):
    async def scenario(fleet):
        await pre_existing(fleet)
        await fleet.place("work", space(), config_map(), applyStrategy=PARTIAL)
        await fleet.settled("work")
        before = w.now()
        await fleet.person().patch(CONFIG_MAPS, "app-cm", "app", {"data": {"data": "test"}})
        work = await fleet.settled("work")
        assert said(work.status.conditions)["Applied"] == ("True", "AllManifestsApplied")
        assert manifest(work, 1).diff_details is None
        assert fleet.was_at_once(before)

    run(w, scenario)


def test_the_record_of_a_work_belongs_to_it_alone(w):
    async def scenario(fleet):
        await fleet.place("work", config_map(space="default"))
        await fleet.settled("work")
        await fleet.person().delete(APPLIED_WORKS, "work", propagation="Background")
        await fleet.world.settle()
        # What it owned went with it, and is placed again.
        assert await fleet.config_maps("default") == {"app-cm": {"data": "test"}}
        (owner,) = await owners(fleet, CONFIG_MAPS, "app-cm", "default")
        assert owner["uid"] == (await fleet.applied("work")).metadata.uid

    run(w, scenario)
