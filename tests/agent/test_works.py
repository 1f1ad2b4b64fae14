"""Works on a member: applied, owned, reported (contract scenarios G)."""

from collections.abc import Iterator

import pytest

from echelon.api.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from echelon.api.own import APPLIED_WORKS, WORKS
from tests.agent.fleet import (
    SPACE,
    config_map,
    deployment,
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
        names = [cm["metadata"]["name"] for cm in (await fleet.member().list(CONFIG_MAPS, "default")).items]
        assert "app-cm" not in names

    run(w, scenario)
