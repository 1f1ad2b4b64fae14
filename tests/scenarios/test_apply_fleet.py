"""Apply strategies, drifts and differences as a placement shows them, end to end on a fleet (contract A and B)."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import builtin
from echelon.api.own import APPLIED_WORKS
from echelon.api.scope import CLUSTER, SCOPES
from tests.scenarios.test_delivery_fleet import workload
from tests.stories import FINE, PENDING, SPACE, WHOLE_FINE, Story, config_map, first
from tests.world import world

NOT_APPLIED = first(FINE, "Applied", ("False", "NotAllWorkHaveBeenApplied"))
DIFF = {
    **first(FINE, "WorkSynchronized", ("True", "AllWorkSynced")),
    "DiffReported": ("True", "AllWorkHaveDiffReported"),
}
WHOLE_NOT_APPLIED = first(WHOLE_FINE, "Applied", ("False", "ApplyFailed"))
WHOLE_DIFF = {
    **first(WHOLE_FINE, "WorkSynchronized", ("True", "WorkSynchronized")),
    "DiffReported": ("True", "DiffReportingCompleted"),
}


@pytest.fixture
def wide():
    with world(14) as w:
        yield Story(w, CLUSTER)


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request):
    with world(14) as w:
        yield Story(w, request.param)


def play(story, scenario, **begin):
    async def whole():
        await story.begin(**begin)
        await scenario()
        await story.w.stop()

    story.w.run(whole())


def member(story, name="member1"):
    return story.w.client(cluster=name)


async def there_before(story, *, labels=None, owners=None, notes=None, data=None, name="member1") -> None:
    """Make the namespace (and a ConfigMap) on a member before anything is placed."""
    meta = {"name": SPACE, "labels": labels or {}, "annotations": notes or {}}
    if owners:
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "owner"},
        }
        held = await member(story, name).create(builtin.CLUSTER_ROLES, role)
        meta["ownerReferences"] = [
            {
                "apiVersion": role["apiVersion"],
                "kind": "ClusterRole",
                "name": "owner",
                "uid": held["metadata"]["uid"],
            }
        ]
    await member(story, name).create(
        builtin.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    )
    if data:
        await member(story, name).create(builtin.CONFIG_MAPS, config_map(**data), SPACE)


async def failed(story, name="member1"):
    return [(e.kind, e.name, e.condition.reason) for e in (await story.entry(name)).failed_placements]


def _details(entries, field) -> list[Any]:
    return [
        (e.kind, e.name, [(d.path, d.value_in_member, d.value_in_hub) for d in getattr(e, field)])
        for e in entries
    ]


async def drifted(story, name="member1"):
    return _details((await story.entry(name)).drifted_placements, "observed_drifts")


async def diffed(story, name="member1"):
    return _details((await story.entry(name)).diffed_placements, "observed_diffs")


async def is_owned(story, kind=builtin.NAMESPACES, name=SPACE, on="member1") -> bool:
    held = await story.on(on, kind, name)
    return any(o["kind"] == APPLIED_WORKS.kind for o in held["metadata"].get("ownerReferences") or ())


async def edit(story, kind, name, body, on="member1"):
    await member(story, on).patch(kind, name, SPACE if kind.namespaced else None, body)


CM = ("ConfigMap", "app-cm")
NS = ("Namespace", SPACE)
LABEL = ("/metadata/labels/foo", "bar", None)
WHOLE = [("/", None, "(the whole object)")]


# --- A ----------------------------------------------------------------------------------------------------------------
def test_a1_a_shared_namespace_outlives_the_placement(wide):
    async def scenario():
        await there_before(wide, owners=True, notes={"mine": "kept"})
        await wide.place(strategy={"applyStrategy": {"allowCoOwnership": True}})
        await wide.holds(wide.is_ok)
        held = await wide.on("member1", builtin.NAMESPACES, SPACE)
        assert held["metadata"]["annotations"]["mine"] == "kept"
        await wide.unplace()
        for name in ("member2", "member3"):
            await wide.becomes(lambda name=name: wide.on(name, builtin.NAMESPACES, SPACE), None)
        held = await wide.on("member1", builtin.NAMESPACES, SPACE)
        ours = [o for o in held["metadata"]["ownerReferences"] if o["kind"] == APPLIED_WORKS.kind]
        assert all(o["blockOwnerDeletion"] is False for o in ours)

    play(wide, scenario)


@pytest.mark.parametrize("type_", ["ClientSideApply", "ServerSideApply"])
def test_a2_a3_what_nobody_owns_is_taken_over_and_goes_with_the_placement(wide, type_):
    async def scenario():
        await there_before(wide, notes={"mine": "kept"})
        await wide.place(strategy={"applyStrategy": {"type": type_}})
        await wide.holds(wide.is_ok)
        held = await wide.on("member1", builtin.NAMESPACES, SPACE)
        assert held["metadata"]["annotations"]["mine"] == "kept"
        await wide.unplace()
        await wide.becomes(lambda: wide.on("member1", builtin.NAMESPACES, SPACE), None)

    play(wide, scenario)


def test_a4_an_owned_namespace_is_refused_and_what_is_in_it_is_placed(wide):
    async def scenario():
        await there_before(wide, owners=True)
        await wide.place(strategy={"applyStrategy": {"type": "ServerSideApply"}})
        await wide.becomes(wide.whole, WHOLE_NOT_APPLIED)
        await wide.becomes(wide.clusters, {"member1": NOT_APPLIED, "member2": FINE, "member3": FINE})
        assert await failed(wide) == [(*NS, "FailedToTakeOver")]
        assert await wide.data("member1") == {"data": "test"}

    play(wide, scenario)


def test_a6_two_placements_never_share_an_object(story):
    async def scenario():
        both = {"applyStrategy": {"allowCoOwnership": True}}
        fixed = {"placementType": "PickFixed", "clusterNames": ["member1"]}
        await story.place(strategy=both, policy=fixed)
        await story.becomes(story.clusters, {"member1": FINE})
        second = Story(story.w, story.scope, "second")
        await second.place(strategy=both, policy=fixed)
        await second.becomes(second.clusters, {"member1": NOT_APPLIED})
        wanted = (
            [(*CM, "FailedToTakeOver")]
            if story.namespace
            else [(*NS, "FailedToTakeOver"), (*CM, "FailedToTakeOver")]
        )
        assert await failed(second) == wanted
        assert await story.clusters() == {"member1": FINE}
        (owner,) = (await story.on("member1"))["metadata"]["ownerReferences"]
        expected = f"{SPACE}.rp-work" if story.namespace else "crp-work"
        assert (owner["name"], owner["blockOwnerDeletion"]) == (expected, True)

    play(story, scenario)


def test_a9_a10_never_taking_over_fails_and_reporting_differences_goes_past_the_stuck_rollout(wide):
    async def scenario():
        await there_before(wide)
        never = {"whenToApply": "IfNotDrifted", "whenToTakeOver": "Never"}
        one = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "unavailablePeriodSeconds": 2}}
        fixed = {"placementType": "PickFixed", "clusterNames": ["member1", "member2"]}
        await wide.place(strategy={**one, "applyStrategy": never}, policy=fixed)
        await wide.becomes(wide.clusters, {"member1": NOT_APPLIED, "member2": FINE})
        assert await failed(wide) == [(*NS, "NotTakenOver")]
        await wide.hub.patch(builtin.CONFIG_MAPS, "app-cm", SPACE, {"data": {"data": "bar"}})
        await wide.becomes(wide.clusters, {"member1": NOT_APPLIED, "member2": PENDING})
        entry = await wide.entry("member1")
        assert entry.observed_resource_index == "1"

        report = {"type": "ReportDiff", "whenToTakeOver": "Never", "comparisonOption": "PartialComparison"}
        body = {"spec": {"strategy": {"applyStrategy": {**report, "whenToApply": None}}}}
        await wide.hub.patch(CLUSTER.placement, "crp", None, body)
        await wide.becomes(wide.whole, WHOLE_DIFF)
        await wide.becomes(wide.clusters, {"member1": DIFF, "member2": DIFF})
        assert await diffed(wide, "member1") == []
        assert await diffed(wide, "member2") == [(*CM, [("/data/data", "test", "bar")])]

    play(wide, scenario)


def test_a11_b7_reporting_differences_touches_nothing_and_ends_in_applying(wide):
    async def scenario():
        await there_before(wide, labels={"foo": "bar"})
        report = {"type": "ReportDiff", "comparisonOption": "FullComparison", "whenToTakeOver": "Never"}
        await wide.place(strategy={"applyStrategy": report})
        await wide.becomes(wide.whole, WHOLE_DIFF)
        await wide.becomes(wide.clusters, dict.fromkeys(("member1", "member2", "member3"), DIFF))
        assert await diffed(wide, "member1") == [(*NS, [LABEL]), (*CM, WHOLE)]
        assert await diffed(wide, "member2") == [(*NS, WHOLE), (*CM, WHOLE)]
        (entry, missing) = (await wide.entry("member1")).diffed_placements
        assert (entry.target_cluster_observed_generation, missing.target_cluster_observed_generation) == (
            0,
            None,
        )
        assert await wide.on("member2", builtin.NAMESPACES, SPACE) is None
        assert not await is_owned(wide)
        await wide.hub.patch(builtin.NAMESPACES, SPACE, None, {"metadata": {"labels": {"foo": "bar"}}})
        await wide.becomes(lambda: diffed(wide, "member1"), [(*CM, WHOLE)])
        force = {
            "type": "ServerSideApply",
            "serverSideApplyConfig": {"force": True},
            "whenToTakeOver": "Always",
            "comparisonOption": "PartialComparison",
        }
        await wide.hub.patch(CLUSTER.placement, "crp", None, {"spec": {"strategy": {"applyStrategy": force}}})
        await wide.holds(wide.is_ok)

    play(wide, scenario)


# --- B ----------------------------------------------------------------------------------------------------------------
def test_b1_always_taking_over_overwrites_what_the_hub_speaks_of(wide):
    async def scenario():
        await there_before(wide, labels={"foo": "bar"}, data={"data": "foo-value"})
        await wide.place()
        await wide.holds(wide.is_ok)
        assert await wide.data("member1") == {"data": "test"}
        held = await wide.on("member1", builtin.NAMESPACES, SPACE)
        assert held["metadata"]["labels"]["foo"] == "bar"
        assert await is_owned(wide)
        assert await is_owned(wide, builtin.CONFIG_MAPS, "app-cm")

    play(wide, scenario)


@pytest.mark.parametrize(
    ("comparison", "entries", "owned"),
    [
        ("PartialComparison", [(*CM, [("/data/data", "foo-value", "test")])], True),
        ("FullComparison", [(*NS, [LABEL]), (*CM, [("/data/data", "foo-value", "test")])], False),
    ],
)
def test_b2_b3_taking_over_without_differences_only(wide, comparison, entries, owned):
    async def scenario():
        await there_before(wide, labels={"foo": "bar"}, data={"data": "foo-value"})
        strategy = {"whenToTakeOver": "IfNoDiff", "comparisonOption": comparison}
        await wide.place(strategy={"applyStrategy": strategy})
        await wide.becomes(wide.whole, WHOLE_NOT_APPLIED)
        assert await failed(wide) == [(kind, name, "FailedToTakeOver") for kind, name, _ in entries]
        assert await diffed(wide) == entries
        assert await drifted(wide) == []
        assert await is_owned(wide) is owned
        assert not await is_owned(wide, builtin.CONFIG_MAPS, "app-cm")
        assert await wide.data("member1") == {"data": "foo-value"}
        assert (await wide.clusters())["member2"] == FINE

    play(wide, scenario)


@pytest.mark.parametrize(
    ("when", "comparison", "failures", "drifts", "kept"),
    [
        ("Always", "FullComparison", [], [(*NS, [LABEL])], {"data": "test"}),
        (
            "IfNotDrifted",
            "PartialComparison",
            [(*CM, "FoundDrifts")],
            [(*CM, [("/data/data", "by hand", "test")])],
            {"data": "by hand"},
        ),
        (
            "IfNotDrifted",
            "FullComparison",
            [(*NS, "FoundDrifts"), (*CM, "FoundDrifts")],
            [(*NS, [LABEL]), (*CM, [("/data/data", "by hand", "test")])],
            {"data": "by hand"},
        ),
    ],
)
def test_b4_b5_b6_drifts_show_on_the_placement_at_once(wide, when, comparison, failures, drifts, kept):
    async def scenario():
        strategy = {"whenToApply": when, "comparisonOption": comparison}
        await wide.place(strategy={"applyStrategy": strategy})
        await wide.holds(wide.is_ok)
        await edit(wide, builtin.NAMESPACES, SPACE, {"metadata": {"labels": {"foo": "bar"}}})
        await edit(wide, builtin.CONFIG_MAPS, "app-cm", {"data": {"data": "by hand"}})
        await wide.becomes(lambda: drifted(wide), drifts, within_s=2)
        await wide.becomes(lambda: failed(wide), failures, within_s=2)
        await wide.becomes(wide.whole, WHOLE_NOT_APPLIED if failures else WHOLE_FINE)
        assert (await wide.clusters())["member1"] == (NOT_APPLIED if failures else FINE)
        assert await wide.data("member1") == kept
        assert (await wide.clusters())["member2"] == FINE

    play(wide, scenario)


def test_b5_in_both_scopes(story):
    async def scenario():
        await story.place(strategy={"applyStrategy": {"whenToApply": "IfNotDrifted"}})
        await story.holds(story.is_ok)
        await edit(story, builtin.CONFIG_MAPS, "app-cm", {"data": {"data": "by hand"}})
        await story.becomes(lambda: failed(story), [(*CM, "FoundDrifts")])
        assert await drifted(story) == [(*CM, [("/data/data", "by hand", "test")])]
        await edit(story, builtin.CONFIG_MAPS, "app-cm", {"data": {"data": "test"}})
        await story.holds(story.is_ok)
        assert await drifted(story) == []

    play(story, scenario)


def test_b7_b8_in_both_scopes(story):
    async def scenario():
        if not story.namespace:
            await there_before(story, data={"data": "other"})
        else:
            await member(story).create(builtin.CONFIG_MAPS, config_map(data="other"), SPACE)
        report = {"type": "ReportDiff", "comparisonOption": "FullComparison", "whenToTakeOver": "Never"}
        await story.place(strategy={"applyStrategy": report})
        await story.becomes(story.whole, WHOLE_DIFF)
        await story.becomes(lambda: diffed(story), [(*CM, [("/data/data", "other", "test")])])
        assert (*CM, WHOLE) in await diffed(story, "member2")
        assert await failed(story) == []
        await edit(story, builtin.CONFIG_MAPS, "app-cm", {"data": {"data": "test"}})
        await story.becomes(lambda: diffed(story), [])
        assert (await story.clusters())["member1"] == DIFF
        assert not await is_owned(story, builtin.CONFIG_MAPS, "app-cm")

    play(story, scenario)


def test_b9_differences_and_drifts_of_a_workload_on_three_members(wide):
    async def scenario():
        deployment = workload("Deployment", "web", replicas=1)
        deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
        await wide.hub.create(builtin.DEPLOYMENTS, deployment, SPACE)
        await there_before(wide)
        other = workload("Deployment", "web", replicas=2)
        other["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
        await member(wide).create(builtin.DEPLOYMENTS, other, SPACE)
        strategy = {
            "type": "ServerSideApply",
            "serverSideApplyConfig": {"force": True},
            "whenToApply": "IfNotDrifted",
            "whenToTakeOver": "IfNoDiff",
        }
        await wide.place(strategy={"applyStrategy": strategy})
        await wide.becomes(lambda: failed(wide), [("Deployment", "web", "FailedToTakeOver")])
        assert await diffed(wide) == [("Deployment", "web", [("/spec/replicas", "2", "1")])]
        grace = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}}}

        async def is_fine():
            return (await wide.clusters()).get("member2") == FINE

        await wide.holds(is_fine)
        await edit(wide, builtin.DEPLOYMENTS, "web", grace, "member2")
        await wide.becomes(lambda: failed(wide, "member2"), [("Deployment", "web", "FoundDrifts")])
        path = "/spec/template/spec/terminationGracePeriodSeconds"
        assert await drifted(wide, "member2") == [("Deployment", "web", [(path, "30", "60")])]
        await wide.hub.patch(builtin.DEPLOYMENTS, "web", SPACE, {"metadata": {"labels": {"new": "content"}}})

        async def is_overwritten():
            held = await wide.on("member2", builtin.DEPLOYMENTS, "web")
            return held["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 60

        await wide.holds(is_overwritten)

    play(wide, scenario)
