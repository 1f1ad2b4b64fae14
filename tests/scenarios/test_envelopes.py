"""Envelopes (contract scenarios E) from a snapshot to Works, for both scopes."""

from __future__ import annotations

import pytest

from echelon.api import names as n
from echelon.api.builtin import EVENTS
from echelon.api.own import WORKS
from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES
from echelon.rules.work_generation_seen import Options
from tests.deliveries import Desk, config_map, envelope, manifest_condition, override
from tests.rules.test_override import ON_CM, ON_ROLE, ROLE, rule, spec
from tests.world import world

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "quota", "namespace": "app"},
    "spec": {"hard": {"pods": "1"}},
}
ROLE_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "me-admin", "namespace": "app"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
}
NS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def desk(request):
    with world(9) as w:
        yield Desk(w, request.param)


@pytest.fixture
def wide():
    with world(9) as w:
        yield Desk(w, CLUSTER)


def play(desk, scenario):
    async def whole():
        await scenario()
        await desk.w.stop()

    desk.w.run(whole())


def of_envelope(works):
    return [work for work in works.values() if n.LABEL_ENVELOPE_WORK in work.metadata.labels]


def named(work):
    return [manifest["metadata"]["name"] for manifest in work.spec.manifests]


def test_e1_e7_an_envelope_has_a_work_of_its_own_that_lives_as_long_as_it(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(1, config_map(), envelope("wrap", QUOTA), config_map("last"))
        name = await desk.bind(version=1)
        await desk.settle()
        works = await desk.works()
        assert named(works[desk.work_name()]) == ["cm", "last"], "the envelope itself stays on the hub"
        (work,) = of_envelope(works)
        assert work.name == n.envelope_work_name(desk.work_name(), "ResourceEnvelope", "app", "wrap")
        labels = work.metadata.labels
        assert labels[n.LABEL_ENVELOPE_WORK] == "ResourceEnvelope"
        assert labels[n.LABEL_ENVELOPE_NAME] == "wrap"
        assert labels[n.LABEL_ENVELOPE_NAMESPACE] == "app"
        assert labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX] == "1"
        assert list(work.spec.manifests) == [QUOTA]

        changed = {**QUOTA, "spec": {"hard": {"pods": "2"}}}
        await desk.snapshot(2, config_map(), envelope("wrap", changed))
        await desk.move(name, 2)
        await desk.settle()
        (after,) = of_envelope(await desk.works())
        assert (after.name, list(after.spec.manifests)) == (work.name, [changed])
        assert after.metadata.labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX] == "2"

        await desk.snapshot(3, config_map())
        await desk.move(name, 3)
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name()}

    play(desk, scenario)


def test_e1_a_cluster_scoped_envelope_has_no_namespace_label(wide):
    async def scenario():
        await wide.start("m1")
        await wide.snapshot(0, envelope("example", ROLE, space=None))
        await wide.bind()
        await wide.settle()
        works = await wide.works()
        assert named(works["web-work"]) == []
        work = works["web-work-envelope-9c1fb9c51f3ced07"]
        assert n.LABEL_ENVELOPE_NAMESPACE not in work.metadata.labels
        assert list(work.spec.manifests) == [ROLE]

    play(wide, scenario)


def test_e2_e3_what_fails_inside_an_envelope_is_listed_with_the_envelope(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, config_map(), envelope("wrap", QUOTA))
        name = await desk.bind()
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        await desk.report()
        failed = manifest_condition(QUOTA, Applied=("False", "ManifestApplyFailed"))
        await desk.report(work.name, Applied="False", Available=None, manifests=[failed])
        await desk.settle()
        assert (await desk.conditions(name))["Applied"] == ("False", "NotAllWorkHaveBeenApplied")
        (entry,) = (await desk.binding(name)).status.failed_placements
        assert (entry.version, entry.kind, entry.name, entry.namespace) == (
            "v1",
            "ResourceQuota",
            "quota",
            "app",
        )
        found = entry.envelope
        assert (found.name, found.namespace, found.type) == ("wrap", "app", "ResourceEnvelope")
        slow = manifest_condition(
            QUOTA, generation=1, Applied=("True", "Applied"), Available=("False", "ManifestNotAvailableYet")
        )
        await desk.report(work.name, Applied="True", Available="False", manifests=[slow])
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("False", "NotAllWorkAreAvailable")
        (entry,) = (await desk.binding(name)).status.failed_placements
        assert (entry.condition.reason, entry.condition.observed_generation) == ("ManifestNotAvailableYet", 1)

    play(desk, scenario)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            ROLE,
            "a cluster scope object m0.yaml (clusterrole-name) has been wrapped in a resource envelope app/wrap",
        ),
        (
            config_map(space="elsewhere"),
            (
                "a namespaced object m0.yaml (elsewhere/cm) in has been wrapped in a resource envelope from another "
                "namespace (app/wrap)"
            ),
        ),
        (
            ROLE_BINDING,
            (
                "a RoleBinding m0.yaml (app/me-admin) has been wrapped in a resource envelope app/wrap; kinds of "
                "rbac.authorization.k8s.io are not delivered from a ResourceEnvelope: place the object itself, or put it "
                "into a ClusterResourceEnvelope"
            ),
        ),
        (
            {"a": "b"},
            (
                "failed to parse the wrapped manifest data to a Kubernetes runtime object "
                "(manifestKey=m0.yaml,envelopeObjRef=app/wrap): Object 'Kind' is missing in '{\"a\":\"b\"}'"
            ),
        ),
    ],
)
def test_e4_what_may_not_be_in_an_envelope_keeps_the_whole_version_back(desk, content, said):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, config_map(), envelope("wrap", content))
        name = await desk.bind()
        await desk.settle()
        assert await desk.works() == {}
        found = await desk.conditions(name)
        assert found["Overridden"] == ("True", "NoOverrideSpecified")
        assert found["WorkSynchronized"] == ("False", "SyncWorkFailed")
        assert "Applied" not in found
        assert (
            await desk.said(name, "WorkSynchronized")
            == f"Failed to synchronize the work to the latest: {said}"
        )

    play(desk, scenario)


def test_e4_a_namespaced_object_in_a_cluster_scoped_envelope_is_refused(wide):
    async def scenario():
        await wide.start("m1")
        await wide.snapshot(0, envelope("wrap", config_map(), space=None))
        name = await wide.bind()
        await wide.settle()
        assert (await wide.said(name, "WorkSynchronized")).endswith(
            "a namespaced object m0.yaml (app/cm) has been wrapped in a cluster resource envelope wrap"
        )

    play(wide, scenario)


def test_the_operator_may_allow_roles_in_envelopes(desk):
    async def scenario():
        await desk.start("m1", options=Options(allow_powerful_in_envelopes=True))
        await desk.snapshot(0, envelope("wrap", ROLE_BINDING))
        await desk.bind()
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert list(work.spec.manifests) == [ROLE_BINDING]

    play(desk, scenario)


def test_a_namespaced_placement_delivers_nothing_from_outside_its_namespace():
    with world(9) as w:
        desk = Desk(w, NAMESPACED)

        async def scenario():
            await desk.start("m1")
            for index, forged in enumerate((ROLE, config_map(space="kube-system"))):
                await desk.snapshot(index, forged)
            name = await desk.bind()
            await w.settle()
            assert (await desk.said(name, "WorkSynchronized")).endswith(
                'ClusterRole "clusterrole-name" is not in namespace app, the only one that this placement may place'
            )
            await desk.move(name, 1)
            await w.settle()
            assert "is not in namespace app" in await desk.said(name, "WorkSynchronized")
            assert await desk.works() == {}

        play(desk, scenario)


def test_e8_overrides_reach_into_envelopes_and_leave_siblings_alone(desk):
    async def scenario():
        await desk.start("m1")
        made = override("ro", 0, spec(ON_CM, rule(("add", "/data/patched", "true"))), space="app")
        await desk.client.create(NAMESPACED.override_snapshot, made, "app")
        sibling = config_map("sibling")
        await desk.snapshot(0, envelope("wrap", config_map(), sibling))
        await desk.bind(resourceOverrideSnapshots=[{"name": "ro-0", "namespace": "app"}])
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert list(work.spec.manifests) == [sibling, config_map(patched="true")]

    play(desk, scenario)


def test_e8_a_cluster_scoped_override_reaches_into_a_cluster_scoped_envelope(wide):
    async def scenario():
        await wide.start("m1")
        made = override("cro", 0, spec(ON_ROLE, rule(("add", "/metadata/labels/patched", "true"))))
        await wide.client.create(CLUSTER.override_snapshot, made)
        await wide.snapshot(0, envelope("wrap", ROLE, space=None))
        await wide.bind(clusterResourceOverrideSnapshots=["cro-0"])
        await wide.settle()
        (work,) = of_envelope(await wide.works())
        assert work.spec.manifests[0]["metadata"]["labels"] == {"a": "1", "patched": "true"}

    play(wide, scenario)


def test_e8_a_failing_patch_inside_keeps_everything_back(desk):
    async def scenario():
        await desk.start("m1")
        made = override("ro", 0, spec(ON_CM, rule(("add", "/a/b", "c"))), space="app")
        await desk.client.create(NAMESPACED.override_snapshot, made, "app")
        await desk.snapshot(0, config_map("plain"), envelope("wrap", config_map()))
        name = await desk.bind(resourceOverrideSnapshots=[{"name": "ro-0", "namespace": "app"}])
        await desk.settle()
        assert await desk.works() == {}
        assert (await desk.conditions(name))["Overridden"] == ("False", "OverriddenFailed")
        assert await desk.said(name, "Overridden") == (
            "Failed to apply the override rules on the resources: failed to apply overrides to ConfigMap "
            '"cm" in namespace "app" from envelope app/wrap: ResourceOverrideSnapshot "ro-0" failed to apply on '
            'ConfigMap "cm" in namespace "app": add operation does not apply: doc is missing path: "/a/b": missing value'
        )

    play(desk, scenario)


def test_e8_an_envelope_may_come_out_empty(desk):
    async def scenario():
        await desk.start("m1")
        made = override("ro", 0, spec(ON_CM, rule(delete=True)), space="app")
        await desk.client.create(NAMESPACED.override_snapshot, made, "app")
        await desk.snapshot(0, envelope("wrap", config_map()))
        await desk.bind(resourceOverrideSnapshots=[{"name": "ro-0", "namespace": "app"}])
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert work.spec.manifests == ()

    play(desk, scenario)


def test_e9_two_works_of_one_envelope_are_for_a_person_to_sort_out(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, envelope("wrap", config_map()))
        await desk.snapshot(1, envelope("wrap", config_map("new")))
        name = await desk.bind()
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        twin = {
            "apiVersion": WORKS.api_version,
            "kind": "Work",
            "metadata": {"name": "twin", "labels": dict(work.metadata.labels)},
            "spec": {"workload": {"manifests": []}},
        }
        await desk.client.create(WORKS, twin, "fleet-member-m1")
        await desk.move(name, 1)
        await desk.settle()
        works = {made.name: made for made in of_envelope(await desk.works())}
        assert named(works[work.name]) == ["cm"]
        assert named(works["twin"]) == []
        assert await desk.said(name, "WorkSynchronized") == (
            "Failed to synchronize the work to the latest: 2 work objects found for the same envelope app/wrap, "
            "only one expected"
        )
        events = (await desk.client.list(EVENTS, desk.namespace or "default")).items
        (event,) = [event for event in events if event["reason"] == "DuplicateEnvelopeWorks"]
        assert event["type"] == "Warning"
        assert event["message"] == (
            f"Multiple Work objects ({', '.join(sorted(works))}) found for envelope app/wrap in namespace "
            "fleet-member-m1; delete all but the oldest to recover"
        )
        await desk.client.delete(WORKS, "twin", "fleet-member-m1")
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert named(work) == ["new"]

    play(desk, scenario)


def test_an_envelopes_work_keeps_the_name_it_has(desk):
    async def scenario():
        await desk.start("m1")
        labels = {
            n.LABEL_PARENT_CRP: "web",
            n.LABEL_PARENT_RESOURCE_BINDING: "web-m1-00000000",
            n.LABEL_ENVELOPE_WORK: "ResourceEnvelope",
            n.LABEL_ENVELOPE_NAME: "wrap",
            n.LABEL_ENVELOPE_NAMESPACE: "app",
        }
        if desk.namespace:
            labels[n.LABEL_PARENT_PLACEMENT_NAMESPACE] = desk.namespace
        old = {
            "apiVersion": WORKS.api_version,
            "kind": "Work",
            "metadata": {"name": "web-configmap-random", "labels": labels},
            "spec": {"workload": {"manifests": []}},
        }
        await desk.client.create(WORKS, old, "fleet-member-m1")
        await desk.snapshot(0, envelope("wrap", config_map()))
        await desk.bind()
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert (work.name, named(work)) == ("web-configmap-random", ["cm"])

    play(desk, scenario)


def test_e10_the_objects_of_an_envelope_are_ordered_by_their_text_from_last_to_first(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, envelope("wrap", config_map("test-cm1"), config_map("test-cm2")))
        await desk.bind()
        await desk.settle()
        (work,) = of_envelope(await desk.works())
        assert named(work) == ["test-cm2", "test-cm1"]

    play(desk, scenario)
