"""What is placed and in which version, end to end on a whole fleet (contract scenarios 50 to 66, 92, 93)."""

import asyncio

import pytest

from echelon.api.builtin import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SECRETS,
)
from echelon.api.own import PLACEMENT_STATUSES
from echelon.api.resource import Resource
from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES
from echelon.client.errors import NotFound
from tests.rules.fleet_b import pick_fixed
from tests.scenarios.placing import CONFIG_MAP, NAMESPACE, SUMMED, WAIT_30_S, Place
from tests.world import namespace, world

ALL = ("member1", "member2", "member3")
INVALID = {"Scheduled": ("False", "InvalidResourceSelectors")}


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def place(request):
    with world(22) as w:
        yield Place(w, request.param)


@pytest.fixture
def wide():
    with world(22) as w:
        yield Place(w, CLUSTER)


def play(place, scenario, **begin):
    async def whole():
        await place.begin(**begin)
        await scenario()
        await place.w.stop()

    place.w.run(whole())


def test_what_starts_and_stops_matching_comes_and_goes_50(wide):
    async def scenario():
        by_label = {k: v for k, v in NAMESPACE.items() if k != "name"}
        by_label["labelSelector"] = {"matchLabels": {"pick": "me"}}
        await wide.place(resourceSelectors=[by_label])
        assert await wide.summed() == SUMMED
        assert (await wide.resources(), await wide.index(), await wide.where()) == ([], "0", set())
        await wide.hub.patch(NAMESPACES, "work", None, {"metadata": {"labels": {"pick": "me"}}})
        await wide.rest()
        await wide.done(*ALL, index="1")
        await wide.hub.patch(NAMESPACES, "work", None, {"metadata": {"labels": {"pick": None}}})
        await wide.rest()
        assert (await wide.resources(), await wide.where()) == ([], set())
        assert await wide.index() == "2"

    play(wide, scenario)


def test_every_edit_makes_a_version_and_reaches_the_members_51(place):
    async def scenario():
        await place.place()
        await place.config("app", v="1")
        await place.rest()
        await place.done(*ALL, index="1")
        assert await place.has("member2") == {"v": "1"}
        await place.hub.patch(CONFIG_MAPS, "app", "work", {"metadata": {"labels": {"a": "b"}}})
        await place.rest()
        await place.done(*ALL, index="2")

    play(place, scenario)


def test_a_whole_namespace_follows_what_is_created_and_deleted_in_it_52_65(wide):
    async def scenario():
        await wide.place()
        await wide.config("more", v="1")
        await wide.rest()
        await wide.done(*ALL, index="1")
        assert await wide.where("more") == set(ALL)
        await wide.hub.delete(CONFIG_MAPS, "more", "work")
        await wide.rest()
        await wide.done(*ALL, index="2")
        assert await wide.where("more") == set()

    play(wide, scenario)


def test_objects_that_are_not_selected_wake_nobody(place):
    async def scenario():
        await place.hub.create(NAMESPACES, namespace("other"))
        selector = {**CONFIG_MAP} if place.namespace else NAMESPACE
        await place.place(resourceSelectors=[selector])
        before = (await place.get()).metadata.resource_version
        decisions = place.fleet.manager.telemetry.decisions.labels(f"placement-{place.scope.name.lower()}")
        count = decisions._value.get()
        await place.config("app", "other", v="1")
        if place.namespace:
            await place.config("unselected", v="1")
        await place.rest()
        assert decisions._value.get() == count
        assert (await place.get()).metadata.resource_version == before

    play(place, scenario)


def test_a_reserved_namespace_is_refused_53(wide):
    async def scenario():
        await wide.place(resourceSelectors=[{**NAMESPACE, "name": "fleet-system"}])
        assert await wide.summed() == INVALID
        assert (await wide.message("Scheduled")) == (
            "The resource selectors are invalid: failed to process the request due to a client error: "
            "invalid clusterRresourcePlacement p: namespace fleet-system is not allowed to propagate"
        )
        assert await wide.index() == ""
        await wide.hub.delete(CLUSTER.placement, "p")
        await wide.rest()
        with pytest.raises(NotFound):
            await wide.get()

    play(wide, scenario)


def test_selecting_the_same_twice_is_refused_until_it_is_put_right_54_61(place):
    async def scenario():
        selector = CONFIG_MAP if place.namespace else NAMESPACE
        await place.place(resourceSelectors=[selector, selector])
        assert await place.summed() == INVALID
        await place.edit(resourceSelectors=[selector])
        await place.done(*ALL)

    play(place, scenario)


def test_a_cluster_role_by_name_55(wide):
    async def scenario():
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        }
        await wide.hub.create(CLUSTER_ROLES, role)
        selector = {
            "group": "rbac.authorization.k8s.io",
            "version": "v1",
            "kind": "ClusterRole",
            "name": "reader",
        }
        await wide.place(resourceSelectors=[selector])
        assert await wide.summed() == SUMMED
        assert await wide.resources() == [("ClusterRole", "reader")]
        await wide.w.client(cluster="member1").get(CLUSTER_ROLES, "reader")
        await wide.hub.delete(CLUSTER.placement, "p")
        await wide.rest()
        with pytest.raises(NotFound):
            await wide.w.client(cluster="member1").get(CLUSTER_ROLES, "reader")

    play(wide, scenario)


@pytest.mark.parametrize(("limit", "policies", "versions"), [(1, 1, 1), (10, 1, 2)])
def test_history_is_kept_as_long_as_asked_57(place, limit, policies, versions):
    async def scenario():
        await place.config("second", v="1")
        await place.place(
            revisionHistoryLimit=limit, resourceSelectors=[CONFIG_MAP if place.namespace else NAMESPACE]
        )
        await place.config("app", v="1")
        await place.rest()
        await place.done(*ALL, index="1")
        assert len(await place.list(place.scope.policy_snapshot)) == policies
        assert len(await place.list(place.scope.resource_snapshot)) == versions

    play(place, scenario)


def test_more_than_fits_into_one_version_object_58(place):
    async def scenario():
        for number in range(3):
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"s{number}", "labels": {"big": "yes"}},
                "stringData": {"v": "x" * 250 * 1024},
            }
            await place.hub.create(SECRETS, secret, "work")
        secrets = {"group": "", "version": "v1", "kind": "Secret"}
        selectors = [CONFIG_MAP, secrets] if place.namespace else [NAMESPACE]
        await place.place(pick_fixed("member1", "member2"), resourceSelectors=selectors)
        await place.done("member1", "member2")
        parts = {s.name: s.metadata for s in await place.list(place.scope.resource_snapshot)}
        assert set(parts) == {"p-0-snapshot", "p-0-0"}
        assert parts["p-0-snapshot"].annotations["kubernetes-fleet.io/number-of-resource-snapshots"] == "2"
        assert parts["p-0-0"].annotations == {"kubernetes-fleet.io/subindex-of-resource-snapshot": "0"}
        assert "kubernetes-fleet.io/is-latest-snapshot" not in parts["p-0-0"].labels
        base = "work.p" if place.namespace else "p"
        for member in ("member1", "member2"):
            assert {f"{base}-work", f"{base}-0"} <= await place.works(member)

    play(place, scenario)


def test_what_belongs_to_somebody_else_is_not_taken_59(wide):
    async def scenario():
        member = wide.w.client(cluster="member1")
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "somebody-else"},
            "rules": [],
        }
        held = await member.create(CLUSTER_ROLES, role)
        owner = {"apiVersion": role["apiVersion"], "kind": "ClusterRole", "name": "somebody-else"}
        owned = {"name": "work", "ownerReferences": [{**owner, "uid": held["metadata"]["uid"]}]}
        await member.create(NAMESPACES, {**namespace("work"), "metadata": owned})
        await wide.place()
        summed = await wide.summed()
        assert summed["Applied"] == ("False", "ApplyFailed")
        assert [summed[t][0] for t in ("RolloutStarted", "Overridden", "WorkSynchronized")] == ["True"] * 3
        first = next(e for e in (await wide.get()).status.placement_statuses if e.cluster_name == "member1")
        failed = {(row.kind, row.name): row.condition.reason for row in first.failed_placements}
        assert failed["Namespace", "work"] == "FailedToTakeOver"
        entries = await wide.entries()
        assert entries["member1"]["Applied"] == ("False", "NotAllWorkHaveBeenApplied")
        assert entries["member2"]["Available"][0] == entries["member3"]["Available"][0] == "True"
        await wide.hub.delete(CLUSTER.placement, "p")
        await wide.rest()
        assert (await member.get(NAMESPACES, "work"))["metadata"]["name"] == "work"

    play(wide, scenario)


def test_a_namespace_with_selectors_64(wide):
    async def scenario():
        await wide.config("other", v="1")
        narrow = {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}
        await wide.place(resourceSelectors=[narrow, CONFIG_MAP])
        await wide.done(*ALL)
        assert await wide.resources() == [("Namespace", "work"), ("ConfigMap", "app")]
        await wide.config("app", v="9")
        await wide.rest()
        assert await wide.has("member1") == {"v": "9"}
        await wide.edit(resourceSelectors=[{**narrow, "name": "none"}])
        assert await wide.message("Scheduled") == (
            "The resource selectors are invalid: failed to process the request due to a client error: "
            "invalid clusterResourcePlacement p: NamespaceWithResourceSelectors mode requires exactly one "
            "namespace, but no namespaces were selected"
        )

    play(wide, scenario)


WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


def widget_definition(*, namespaced=True):
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


def a_widget(size):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "work"},
        "spec": {"size": size},
    }


def test_a_kind_that_comes_later_is_found_at_once_65(place):
    async def scenario():
        widget = {"group": "example.com", "version": "v1", "kind": "Widget"}
        selectors = [CONFIG_MAP, widget] if place.namespace else [NAMESPACE]
        await place.place(resourceSelectors=selectors)
        if place.namespace:
            assert await place.summed() == INVALID
            assert (await place.message("Scheduled")).endswith(
                'failed to get GVR of the selector: no matches for kind "Widget" in version "example.com/v1"'
            )
        for cluster in ("hub", *ALL):
            await place.w.client(cluster=cluster).create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await place.rest()
        await place.hub.create(WIDGETS, a_widget(1), "work")
        await place.rest(5)
        assert ("Widget", "w") in await place.resources()
        await place.rest(200)  # one member at a time: availability of an unknown kind is a matter of waiting
        held = await place.w.client(cluster="member2").get(WIDGETS, "w", "work")
        assert held["spec"] == {"size": 1}
        await place.hub.patch(WIDGETS, "w", "work", {"spec": {"size": 2}})
        await place.rest(200)
        held = await place.w.client(cluster="member2").get(WIDGETS, "w", "work")
        assert held["spec"] == {"size": 2}

    play(place, scenario)


def test_a_kind_that_goes_takes_its_objects_with_it(wide):
    async def scenario():
        for cluster in ("hub", *ALL):
            await wide.w.client(cluster=cluster).create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await wide.hub.create(WIDGETS, a_widget(1), "work")
        await wide.place()
        assert ("Widget", "w") in await wide.resources()
        await wide.hub.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        await wide.rest(5)
        assert await wide.resources() == [("Namespace", "work"), ("ConfigMap", "app")]

    play(wide, scenario)


def test_changes_are_collected_before_a_version_is_made_66(place):
    async def scenario():
        await place.place()
        await place.done(*ALL)
        await place.config("app", v="1")
        await place.rest(10)
        await place.done(*ALL, index="0")
        await place.config("app", v="2")
        await place.rest(13)
        await place.done(*ALL, index="0")
        await place.rest(10)
        await place.done(*ALL, index="1")
        assert await place.has("member1") == {"v": "2"}
        first, second = (
            s.metadata.creation_timestamp for s in await place.list(place.scope.resource_snapshot)
        )
        assert (second - first).total_seconds() >= 30

    play(place, scenario, delays=WAIT_30_S)


def test_what_the_api_server_refuses_is_said_in_the_status(place):
    async def scenario():
        name = "n" * 64  # more than a label can hold
        selector = CONFIG_MAP if place.namespace else NAMESPACE
        kind = place.scope.placement
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        await place.hub.create(kind, {**body, "spec": {"resourceSelectors": [selector]}}, place.namespace)
        await place.rest()
        said = (await place.hub.get(kind, name, place.namespace)).status.conditions
        assert [(c.status, c.reason) for c in said] == [("Unknown", "SchedulePending")]
        assert "the API server refused what is needed for it" in said[0].message
        assert "must be no more than 63" in said[0].message
        version = (await place.hub.get(kind, name, place.namespace)).metadata.resource_version
        await place.rest(100)
        assert (await place.hub.get(kind, name, place.namespace)).metadata.resource_version == version
        await place.place()
        await place.done(*ALL)

    play(place, scenario)


# --- the copy of the status in the namespace ---------------------------------------------------------------------------
async def copy_of(wide):
    try:
        return await wide.hub.get(PLACEMENT_STATUSES, "p", "work")
    except NotFound:
        return None


def test_a_namespace_accessible_status_92(wide):
    async def scenario():
        await wide.place(pick_fixed("member1", "member2"), statusReportingScope="NamespaceAccessible")
        assert await wide.summed() == {**SUMMED, "StatusSynced": ("True", "StatusSyncSucceeded")}
        copy = await copy_of(wide)
        status = (await wide.get()).status
        assert copy.source_status.placement_statuses == status.placement_statuses
        assert copy.source_status.conditions == status.conditions[:-1]
        await wide.edit(policy={"clusterNames": list(ALL)})
        assert len((await copy_of(wide)).source_status.placement_statuses) == 3
        before = (await wide.get()).metadata.resource_version
        await wide.hub.delete(PLACEMENT_STATUSES, "p", "work")
        await wide.rest()
        assert await copy_of(wide) is not None
        assert (await wide.get()).metadata.resource_version == before
        await wide.hub.delete(NAMESPACES, "work")
        await wide.rest(5)
        assert (await wide.summed())["StatusSynced"] == ("False", "StatusSyncFailed")
        assert await copy_of(wide) is None
        await wide.hub.create(NAMESPACES, namespace("work"))
        await wide.rest(5)
        assert (await wide.summed())["StatusSynced"] == ("True", "StatusSyncSucceeded")
        await wide.hub.delete(CLUSTER.placement, "p")
        await wide.rest(5)
        assert await copy_of(wide) is None

    play(wide, scenario)


def test_the_namespace_of_an_accessible_status_stays_93(wide):
    async def scenario():
        await wide.place(statusReportingScope="NamespaceAccessible")
        before = {c.type: c for c in (await wide.get()).status.conditions}
        await wide.edit(resourceSelectors=[{**NAMESPACE, "name": "other"}])
        after = {c.type: c for c in (await wide.get()).status.conditions}
        changed = [type_ for type_ in after if after[type_] != before[type_]]
        assert changed == ["ClusterResourcePlacementScheduled"]
        assert after[changed[0]].reason == "InvalidResourceSelectors"
        await wide.edit(resourceSelectors=[NAMESPACE])
        assert (await wide.summed())["Scheduled"] == SUMMED["Scheduled"]

    play(wide, scenario)


def test_many_placements_of_one_namespace_all_follow(wide):
    async def scenario():
        await wide.hub.create(NAMESPACES, namespace("shared"))
        for number in range(3):
            body = {
                "apiVersion": CLUSTER.placement.api_version,
                "kind": CLUSTER.placement.kind,
                "metadata": {"name": f"q{number}"},
                "spec": {
                    "resourceSelectors": [{**NAMESPACE, "name": "shared"}],
                    "policy": pick_fixed(f"member{number + 1}"),
                },
            }
            await wide.hub.create(CLUSTER.placement, body)
        await wide.rest()
        await wide.config("late", "shared", v="1")
        await wide.rest()
        for number in range(3):
            held = await wide.w.client(cluster=f"member{number + 1}").get(CONFIG_MAPS, "late", "shared")
            assert held["data"] == {"v": "1"}
        await asyncio.sleep(0)

    play(wide, scenario)


def test_a_namespaced_placement_ignores_other_namespaces():
    with world(22) as w:
        place = Place(w, NAMESPACED)

        async def scenario():
            await place.hub.create(NAMESPACES, namespace("other"))
            await place.config("app", "other", v="no")
            await place.place(resourceSelectors=[{"group": "", "version": "v1", "kind": "ConfigMap"}])
            await place.done(*ALL)
            assert await place.resources() == [("ConfigMap", "app")]

        play(place, scenario)
