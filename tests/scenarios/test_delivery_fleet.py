"""Envelopes, evictions, reporting back and leaving, end to end on a whole fleet (contract E, H, and the guides)."""

from __future__ import annotations

from typing import Any

import pytest
from tools.bench.delivery import Requests

from echelon.api import builtin
from echelon.api.own import APPLIED_WORKS, CLUSTER_ENVELOPES, ENVELOPES, EVICTIONS, MEMBER_CLUSTERS, WORKS
from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES
from echelon.client.errors import NotFound
from tests.stories import (
    FINE,
    MEMBERS,
    PENDING,
    SPACE,
    WHOLE_FINE,
    Story,
    config_map,
    first,
)
from tests.world import world

NOT_APPLIED = {**first(FINE, "Applied", ("False", "NotAllWorkHaveBeenApplied"))}
NOT_AVAILABLE = {**first(FINE, "Available", ("False", "NotAllWorkAreAvailable"))}


def obj(api_version: str, kind: str, name: str, space: str | None = SPACE, **body: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": space} if space else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **body}


def workload(kind: str, name: str, image: str = "nginx:1.27", **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return obj(
        "apps/v1", kind, name, spec={"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    )


QUOTA = obj("v1", "ResourceQuota", "quota", spec={"hard": {"pods": "10"}})
KEY = obj("v1", "Secret", "key", type="example.com/key", data={"k": "dg=="})  # its type can never change
ROLE = obj(
    "rbac.authorization.k8s.io/v1",
    "ClusterRole",
    "reader",
    None,
    rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
)


@pytest.fixture
def wide():
    with world(13) as w:
        yield Story(w, CLUSTER)


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request):
    with world(13) as w:
        yield Story(w, request.param)


def play(story, scenario, **begin):
    async def whole():
        await story.begin(**begin)
        await scenario()
        await story.w.stop()

    story.w.run(whole())


async def wrap(story, *manifests: dict[str, Any], name: str = "wrap") -> None:
    kind, space = (
        (ENVELOPES, SPACE) if manifests[0]["metadata"].get("namespace") else (CLUSTER_ENVELOPES, None)
    )
    data = {f"{m['kind']}-{m['metadata'].get('name', index)}": m for index, m in enumerate(manifests)}
    await story.hub.create(kind, obj(kind.api_version, kind.kind, name, space, data=data), space)


NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": SPACE}
WIDE_ENVELOPE = {
    "group": "placement.kubernetes-fleet.io",
    "version": "v1beta1",
    "kind": "ClusterResourceEnvelope",
    "name": "wide",
}


def test_e1_e2_envelopes_are_listed_and_their_content_is_placed(wide):
    async def scenario():
        await wrap(wide, QUOTA, KEY, workload("Deployment", "web"))
        await wrap(wide, ROLE, name="wide")
        await wide.place(NAMESPACE, WIDE_ENVELOPE)
        await wide.holds(wide.is_ok)
        _, status = await wide.status()
        selected = [(it.kind, it.name) for it in status.selected_resources]
        assert sorted(selected) == [
            ("ClusterResourceEnvelope", "wide"),
            ("ConfigMap", "app-cm"),
            ("Namespace", SPACE),
            ("ResourceEnvelope", "wrap"),
        ]
        for member in MEMBERS:
            assert await wide.on(member, builtin.RESOURCE_QUOTAS, "quota")
            assert await wide.on(member, builtin.DEPLOYMENTS, "web")
            assert await wide.on(member, builtin.CLUSTER_ROLES, "reader")
        with pytest.raises(NotFound):  # members do not even serve the kind
            await wide.w.client(cluster="member1").get(ENVELOPES, "wrap", SPACE)

        changed = {**KEY, "type": "example.com/other"}
        await wide.hub.patch(ENVELOPES, "wrap", SPACE, {"data": {"Secret-key": changed}})

        async def is_stuck():
            states = list((await wide.clusters()).values())
            return states.count(NOT_APPLIED) == 1 and states.count(PENDING) == 2

        await wide.holds(is_stuck)
        (member,) = [name for name, state in (await wide.clusters()).items() if state == NOT_APPLIED]
        (failed,) = (await wide.entry(member)).failed_placements
        assert (failed.version, failed.kind, failed.name) == ("v1", "Secret", "key")
        assert (failed.envelope.name, failed.envelope.namespace, failed.envelope.type) == (
            "wrap",
            SPACE,
            "ResourceEnvelope",
        )
        assert failed.condition.reason == "ManifestApplyFailed"
        assert "field is immutable" in failed.condition.message
        await wide.hub.patch(ENVELOPES, "wrap", SPACE, {"data": {"Secret-key": KEY}})
        await wide.holds(wide.is_ok)
        await wide.becomes(observed_index(wide), "2")

    play(wide, scenario)


def observed_index(story):
    async def look():
        return (await story.status())[1].observed_resource_index

    return look


def test_e3_what_is_not_available_inside_an_envelope_is_listed_with_it(wide):
    async def scenario():
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "no-such-class",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        stateful = workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=[claim])
        await wrap(wide, workload("Deployment", "web"), workload("DaemonSet", "agent"), stateful)
        await wide.place()
        await wide.becomes(wide.whole, first(WHOLE_FINE, "Available", ("False", "ResourceNotAvailableYet")))
        for member in MEMBERS:

            async def failed(member=member):
                entries = (await wide.entry(member)).failed_placements
                return [(e.kind, e.name, e.envelope and e.envelope.name, e.condition.reason) for e in entries]

            await wide.becomes(failed, [("StatefulSet", "db", "wrap", "ManifestNotAvailableYet")])
            assert (await wide.clusters())[member] == NOT_AVAILABLE
            assert (await wide.entry(member)).failed_placements[0].condition.observed_generation == 1

    play(wide, scenario)


def test_e4_a_cluster_scoped_object_in_a_namespaced_envelope_places_nothing(wide):
    async def scenario():
        data = {"role": ROLE}
        await wide.hub.create(ENVELOPES, obj(ENVELOPES.api_version, ENVELOPES.kind, "wrap", data=data), SPACE)
        await wide.place()
        await wide.becomes(
            wide.whole, first(WHOLE_FINE, "WorkSynchronized", ("False", "WorkNotSynchronizedYet"))
        )
        assert (
            first(FINE, "WorkSynchronized", ("False", "SyncWorkFailed")) in (await wide.clusters()).values()
        )
        for member in MEMBERS:
            assert await wide.on(member, builtin.NAMESPACES, SPACE) is None

    play(wide, scenario)


def test_e5_an_object_without_a_name_of_its_own_is_refused_and_the_rest_is_applied(wide):
    async def scenario():
        nameless = config_map()
        nameless["metadata"] = {"generateName": "some-", "namespace": SPACE}
        await wrap(wide, nameless)
        await wide.place()
        await wide.becomes(wide.whole, first(WHOLE_FINE, "Applied", ("False", "ApplyFailed")))
        (failed,) = (await wide.entry("member1")).failed_placements
        assert (failed.version, failed.kind, failed.name, failed.envelope.name) == (
            "v1",
            "ConfigMap",
            "",
            "wrap",
        )
        assert (failed.condition.reason, failed.condition.observed_generation) == ("FoundGenerateName", 0)
        assert await wide.on("member1", builtin.NAMESPACES, SPACE)

    play(wide, scenario)


def test_e6_a_namespaced_placement_places_an_envelopes_content_alone():
    with world(13) as w:
        story = Story(w, NAMESPACED)

        async def scenario():
            await wrap(story, QUOTA)
            selector = {
                "group": "placement.kubernetes-fleet.io",
                "version": "v1beta1",
                "kind": "ResourceEnvelope",
                "name": "wrap",
            }
            await story.place(selector)
            await story.holds(story.is_ok)
            for member in MEMBERS:
                assert await story.on(member, builtin.RESOURCE_QUOTAS, "quota")
                assert await story.on(member) is None
            await story.unplace()
            await w.settle()
            for member in MEMBERS:
                assert await story.on(member, builtin.RESOURCE_QUOTAS, "quota") is None
                assert await story.on(member, builtin.NAMESPACES, SPACE)

        play(story, scenario)


# --- leaving ------------------------------------------------------------------------------------------------------------
def test_a_deleted_placement_leaves_members_and_hub_clean(story):
    async def scenario():
        await story.place()
        await story.holds(story.is_ok)
        await story.unplace()
        await story.w.settle()
        for member in MEMBERS:
            assert await story.on(member) is None
        left = [work.name for work in (await story.hub.list(WORKS)).items]
        assert left == (["ns-only-work"] * 3 if story.namespace else [])
        assert (await story.hub.list(story.scope.binding)).items == []
        assert await story.hub.get(builtin.CONFIG_MAPS, "app-cm", SPACE), "the hub's own stays"

    play(story, scenario)


ABANDON = {"deleteStrategy": {"propagationPolicy": "Abandon"}}


def test_an_abandoning_placement_leaves_its_resources_on_the_members(story):
    async def scenario():
        await story.place(strategy=ABANDON)
        await story.holds(story.is_ok)
        before = {member: (await story.on(member))["metadata"]["uid"] for member in MEMBERS}
        await story.unplace()
        await story.w.settle()
        assert (await story.hub.list(story.scope.binding)).items == []
        left = [work.name for work in (await story.hub.list(WORKS)).items]
        assert left == (["ns-only-work"] * 3 if story.namespace else [])
        for member in MEMBERS:
            held = await story.on(member)
            assert held["metadata"]["uid"] == before[member]
            assert not held["metadata"].get("ownerReferences")
            applied = (await story.w.client(cluster=member).list(APPLIED_WORKS)).items
            assert [work.name for work in applied] == (["ns-only-work"] if story.namespace else [])

    play(story, scenario)


def test_a_placement_that_changes_its_mind_about_abandoning_is_heard(story):
    async def scenario():
        await story.place(strategy=ABANDON)
        await story.holds(story.is_ok)
        body = {"spec": {"strategy": {"deleteStrategy": {"propagationPolicy": "Delete"}}}}
        await story.hub.patch(story.scope.placement, story.name, story.namespace, body)
        await story.w.settle()
        await story.unplace()
        await story.w.settle()
        for member in MEMBERS:
            assert await story.on(member) is None

    play(story, scenario)


def test_what_an_abandoning_placement_gives_up_itself_is_removed(wide):
    async def scenario():
        await wrap(wide, QUOTA)
        await wide.place(strategy=ABANDON)
        await wide.holds(wide.is_ok)
        await wide.hub.delete(ENVELOPES, "wrap", SPACE)  # its Work goes while the placement stays
        await wide.becomes(lambda: wide.on("member2", builtin.RESOURCE_QUOTAS, "quota"), None)
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        await wide.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})
        await evict(wide, "member1")
        await wide.becomes(lambda: wide.on("member1", builtin.NAMESPACES, SPACE), None)
        assert await wide.data("member2") == {"data": "test"}

    play(wide, scenario)


def test_a_restarted_engine_writes_nothing_when_nothing_changed(story):
    async def scenario():
        await story.override(
            "ro",
            {
                "clusterSelector": {"clusterSelectorTerms": []},
                "overrideType": "JSONPatch",
                "jsonPatchOverrides": [{"op": "add", "path": "/data/x", "value": "y"}],
            },
        )
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        await story.w.settle()
        await story.fleet.stop_engine()
        await story.fleet.restart_engine()
        await story.w.settle()
        assert story.fleet.manager.performer.write_count == 0

    play(story, scenario)


def test_a_change_costs_each_cluster_no_more_requests_than_it_must(story):
    async def scenario():
        at_once = {"maxUnavailable": "100%", "unavailablePeriodSeconds": 2}  # nobody is told to wait
        await story.place(strategy={"rollingUpdate": at_once})
        await story.holds(story.is_ok)
        await story.w.settle()
        requests = Requests(story.w.hub)
        await story.hub.patch(builtin.CONFIG_MAPS, "app-cm", SPACE, {"data": {"data": "new"}})
        await story.becomes(observed_index(story), "1")
        await story.holds(story.is_ok)
        await story.w.settle()
        bindings = story.scope.binding.plural
        per_cluster = {
            what: count / len(MEMBERS)
            for what, count in requests.counted.items()
            if what.split()[-1].split("/")[0] in {bindings, "works", "configmaps", "appliedworks"}
        }
        assert per_cluster.pop("bench PATCH configmaps") == 1 / len(MEMBERS)
        assert per_cluster.pop("bench GET configmaps", 0) >= 0
        assert per_cluster == {
            f"engine PATCH {bindings}": 1,
            f"engine PATCH {bindings}/status": 2,  # the stamp, and how it went
            "engine PATCH works": 1,
            "agent on hub PATCH works/status": 1,
            "agent on member PATCH configmaps": 1,
        }

    play(story, scenario)


# --- evictions ------------------------------------------------------------------------------------------------------------
async def evict(story, member: str) -> None:
    await story.make(EVICTIONS, f"evict-{member}", {"placementName": story.name, "clusterName": member})


async def answer(story, member: str) -> list[tuple[str, str]]:
    status = (await story.hub.get(EVICTIONS, f"evict-{member}")).status
    return [(c.status, c.message) for c in status.conditions] if status else []


ALLOWED = [
    ("True", "Eviction is valid"),
    ("True", "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"),
]


def test_eviction_e1_from_a_tainted_cluster_the_resources_go_for_good(wide):
    async def scenario():
        await wide.place()
        await wide.holds(wide.is_ok)
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        await wide.hub.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})
        await evict(wide, "member1")
        await wide.becomes(lambda: answer(wide, "member1"), ALLOWED)
        await wide.becomes(lambda: wide.on("member1", builtin.NAMESPACES, SPACE), None)
        await wide.becomes(wide.clusters, {"member2": FINE, "member3": FINE})
        assert await wide.data("member2") == await wide.data("member3") == {"data": "test"}

    play(wide, scenario)


def test_eviction_e2_an_untainted_cluster_is_picked_again(wide):
    async def scenario():
        await wide.place()
        await wide.holds(wide.is_ok)
        before = (await wide.on("member1"))["metadata"]["uid"]
        await evict(wide, "member1")
        await wide.becomes(lambda: answer(wide, "member1"), ALLOWED)

        async def is_new():
            held = await wide.on("member1")
            return held is not None and held["metadata"]["uid"] != before

        await wide.holds(is_new)
        await wide.holds(wide.is_ok)

    play(wide, scenario)


# --- reporting back ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("destination", ["OriginalResource", "WorkAPI"])
def test_h_the_status_of_the_one_member_comes_back(story, destination):
    async def scenario():
        await story.hub.create(builtin.DEPLOYMENTS, workload("Deployment", "web", replicas=2), SPACE)
        mirror = {"reportBackStrategy": {"type": "Mirror", "destination": destination}}
        selector = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
        policy = {"placementType": "PickFixed", "clusterNames": ["member2"]}
        selectors = [selector] if story.namespace else [NAMESPACE]
        await story.place(*selectors, strategy=mirror, policy=policy)

        async def replicas() -> int:
            if destination == "OriginalResource":
                held = await story.hub.get(builtin.DEPLOYMENTS, "web", SPACE)
                return int((held.get("status") or {}).get("availableReplicas", 0))
            for work in (await story.hub.list(WORKS, "fleet-member-member2")).items:
                for entry in work.status.manifest_conditions if work.status else ():
                    back = entry.back_reported_status
                    if entry.identifier.kind == "Deployment" and back and back.observed_status:
                        return int(back.observed_status["status"].get("availableReplicas", 0))
            return 0

        await story.becomes(replicas, 2)
        await story.hub.patch(builtin.DEPLOYMENTS, "web", SPACE, {"spec": {"replicas": 3}})
        await story.becomes(replicas, 3)
        if destination == "WorkAPI":
            held = await story.hub.get(builtin.DEPLOYMENTS, "web", SPACE)
            assert "availableReplicas" not in (held.get("status") or {})

    play(story, scenario)
