"""Overrides end to end on a whole fleet (contract scenarios C1 to C20), where they exist for both scopes."""

from __future__ import annotations

import pytest

from echelon.api.builtin import CONFIG_MAPS, NAMESPACES
from echelon.api.own import CLUSTER_OVERRIDES
from echelon.api.scope import CLUSTER, SCOPES
from tests.rules.test_override import rule, where
from tests.stories import (
    FINE,
    MEMBERS,
    OVERRIDDEN,
    PENDING,
    SPACE,
    WHOLE_FINE,
    WHOLE_OVERRIDDEN,
    Story,
    first,
)
from tests.world import world

NOTE = ("add", "/metadata/annotations", {"k": "v"})
NAME, LABEL = "${MEMBER-CLUSTER-NAME}", "${MEMBER-CLUSTER-LABEL-KEY-%s}"


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request):
    with world(12) as w:
        yield Story(w, request.param)


@pytest.fixture
def wide():
    with world(12) as w:
        yield Story(w, CLUSTER)


def play(story, scenario, **begin):
    async def whole():
        await story.begin(**begin)
        await scenario()
        await story.w.stop()

    story.w.run(whole())


async def listed(story, member="member1"):
    entry = await story.entry(member)
    return entry.applicable_cluster_resource_overrides, tuple(
        ref.name for ref in entry.applicable_resource_overrides
    )


def test_c1_to_c4_an_override_of_a_namespace_comes_changes_and_goes(wide):
    async def scenario():
        await wide.override("cro", rule(NOTE))
        await wide.w.settle()
        await wide.place()
        await wide.holds(wide.is_overridden)
        assert await listed(wide) == (("cro-0",), ())
        for member in MEMBERS:
            assert await wide.annotations(member) == {"k": "v"}
            assert await wide.annotations(member, NAMESPACES, SPACE) == {"k": "v"}

        await wide.rewrite("cro", rule(("add", "/metadata/annotations", {"k": "w"})))
        await wide.becomes(lambda: listed(wide, "member3"), (("cro-1",), ()))
        await wide.holds(wide.is_overridden)
        assert [await wide.annotations(member) for member in MEMBERS] == [{"k": "w"}] * 3
        assert (await wide.entry("member1")).observed_resource_index == "0"

        await wide.rewrite(
            "cro",
            rule(("add", "/metadata/annotations", {"k": "w"})),
            rule(clusters=where(region="x"), delete=True),
        )
        await wide.becomes(lambda: listed(wide, "member3"), (("cro-2",), ()))
        await wide.holds(wide.is_overridden)
        assert [await wide.annotations(member) for member in MEMBERS] == [{"k": "w"}] * 3

        await wide.hub.delete(CLUSTER_OVERRIDES, "cro")
        await wide.holds(wide.is_ok)
        await wide.becomes(lambda: listed(wide, "member3"), ((), ()))
        await wide.w.settle()
        assert [await wide.annotations(member) for member in MEMBERS] == [{}] * 3

    play(wide, scenario)


def test_c5_several_patches_of_one_rule_are_all_applied(story):
    async def scenario():
        await story.override(
            "ro", rule(NOTE, ("add", "/metadata/annotations/l", "m"), ("add", "/data/x", "y"))
        )
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        for member in MEMBERS:
            assert await story.annotations(member) == {"k": "v", "l": "m"}
            assert await story.data(member) == {"data": "test", "x": "y"}

    play(story, scenario)


def test_c6_each_cluster_gets_its_own_rules(story):
    async def scenario():
        rules = [
            rule(("add", "/metadata/annotations", dict(labels)), clusters=where(**labels))
            for labels in MEMBERS.values()
        ]
        await story.override("ro", *rules)
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        for member, labels in MEMBERS.items():
            assert await story.annotations(member) == labels

    play(story, scenario)


@pytest.mark.parametrize("kind", ["cro", "ro"])
def test_c7_c13_a_patch_that_does_not_apply_places_nothing(wide, kind):
    async def scenario():
        await wide.override(kind, rule(("add", "/metadata/annotations/k", "v")))
        await wide.w.settle()
        await wide.place()
        failed = ("False", "OverriddenFailed")
        await wide.becomes(wide.whole, first(WHOLE_FINE, "Overridden", failed))
        states = (await wide.clusters()).values()
        assert first(FINE, "Overridden", failed) in states
        assert all(state in (first(FINE, "Overridden", failed), PENDING) for state in states)
        for member in MEMBERS:
            assert await wide.on(member, NAMESPACES, SPACE) is None

    play(wide, scenario)


def test_c8_a_work_that_is_refused_places_nothing(wide):
    async def scenario():
        await wide.override("cro", rule(("add", "/metadata/annotations", "plain")))
        await wide.w.settle()
        await wide.place()
        await wide.becomes(
            wide.whole, first(WHOLE_OVERRIDDEN, "WorkSynchronized", ("False", "WorkNotSynchronizedYet"))
        )
        failed = first(OVERRIDDEN, "WorkSynchronized", ("False", "SyncWorkFailed"))
        assert failed in (await wide.clusters()).values()
        for member in MEMBERS:
            assert await wide.on(member, NAMESPACES, SPACE) is None

    play(wide, scenario)


def test_c14_members_keep_what_they_have_when_a_later_override_is_refused(story):
    async def scenario():
        await story.place()
        await story.holds(story.is_ok)
        await story.override("ro", rule(("add", "/metadata/annotations", "plain")))
        failed = first(OVERRIDDEN, "WorkSynchronized", ("False", "SyncWorkFailed"))

        async def has_failed():
            return failed in (await story.clusters()).values()

        await story.holds(has_failed)
        for member in MEMBERS:
            assert await story.data(member) == {"data": "test"}

    play(story, scenario)


def test_c9_c16_a_delete_rule_keeps_the_object_off_its_clusters(wide):
    async def scenario():
        await wide.override(
            "cro", rule(NOTE, clusters=where(region="east")), rule(clusters=where(region="west"), delete=True)
        )
        await wide.w.settle()
        await wide.place()
        await wide.holds(wide.is_overridden)
        assert await wide.annotations("member1") == await wide.annotations("member2") == {"k": "v"}
        assert await wide.on("member3", NAMESPACES, SPACE) is None

    play(wide, scenario)


def test_c16_a_delete_rule_for_one_object(story):
    async def scenario():
        await story.override("ro", rule(clusters=where(region="west"), delete=True))
        await story.w.settle()
        await story.place()
        await story.becomes(story.whole, WHOLE_OVERRIDDEN)
        assert await story.data("member1") == await story.data("member2") == {"data": "test"}
        assert await story.on("member3") is None
        assert await story.on("member3", NAMESPACES, SPACE) is not None

    play(story, scenario)


def test_c10_an_override_for_another_placement_is_not_used(wide):
    async def scenario():
        await wide.override("cro", rule(NOTE), placement={"name": "other"})
        await wide.w.settle()
        await wide.place()
        await wide.holds(wide.is_ok)
        assert await listed(wide) == ((), ())
        assert await wide.annotations("member1") == {}

    play(wide, scenario)


def test_c10_an_override_for_one_cluster_is_used_there_alone(wide):
    async def scenario():
        mine = {"kubernetes-fleet.io/member-name": "member1"}
        await wide.override(
            "cro", rule(NOTE, clusters=where(**mine)), placement={"name": "crp", "scope": "Cluster"}
        )
        await wide.w.settle()
        await wide.place()
        await wide.becomes(wide.whole, WHOLE_OVERRIDDEN)
        assert await listed(wide, "member1") == (("cro-0",), ())
        assert await listed(wide, "member2") == ((), ())
        assert [await wide.annotations(member) for member in MEMBERS] == [{"k": "v"}, {}, {}]

    play(wide, scenario)


def test_c10_c20_with_the_namespace_alone_only_it_is_patched_and_overrides_of_its_objects_are_ignored(wide):
    async def scenario():
        await wide.override("cro", rule(NOTE))
        await wide.override("ro", rule(("add", "/data/x", "y")))
        await wide.w.settle()
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": SPACE}
        await wide.place(selector | {"selectionScope": "NamespaceOnly"})
        await wide.holds(wide.is_overridden)
        assert await listed(wide) == (("cro-0",), ())
        for member in MEMBERS:
            assert await wide.annotations(member, NAMESPACES, SPACE) == {"k": "v"}
            assert await wide.on(member) is None

    play(wide, scenario)


def test_c11_a_namespaced_override_is_listed_and_hits_its_object_alone(story):
    async def scenario():
        await story.override("ro", rule(NOTE))
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        assert await listed(story) == ((), ("ro-0",))
        for member in MEMBERS:
            assert await story.annotations(member) == {"k": "v"}
            assert await story.annotations(member, NAMESPACES, SPACE) == {}

    play(story, scenario)


def test_c12_of_two_overrides_the_namespaced_one_wins(wide):
    async def scenario():
        await wide.override("cro", rule(("add", "/metadata/annotations", {"by": "cro"})))
        await wide.override("ro", rule(("replace", "/metadata/annotations", {"by": "ro"})))
        await wide.w.settle()
        await wide.place()
        await wide.holds(wide.is_overridden)
        for member in MEMBERS:
            assert await wide.annotations(member) == {"by": "ro"}
            assert await wide.annotations(member, NAMESPACES, SPACE) == {"by": "cro"}

    play(wide, scenario)


def test_c15_c17_variables_stand_for_each_clusters_name_and_labels(story):
    async def scenario():
        await story.override(
            "ro",
            rule(
                ("replace", "/data/data", NAME),
                ("add", "/data/newField", f"new-{NAME}"),
                ("add", "/data/region", LABEL % "region"),
                ("add", "/data/both", f"{LABEL % 'region'}-{LABEL % 'env'}"),
            ),
        )
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        for member, labels in MEMBERS.items():
            assert await story.data(member) == {
                "data": member,
                "newField": f"new-{member}",
                "region": labels["region"],
                "both": f"{labels['region']}-{labels['env']}",
            }

    play(story, scenario)


def test_c18_a_missing_label_stops_a_rollout_and_leaves_members_as_they_are(story):
    async def scenario():
        await story.override("ro", rule(("add", "/data/region", LABEL % "region")))
        await story.w.settle()
        await story.place()
        await story.holds(story.is_overridden)
        await story.rewrite("ro", rule(("add", "/data/region", LABEL % "nowhere")))
        await story.becomes(
            story.whole,
            {
                "Scheduled": ("True", "SchedulingPolicyFulfilled"),
                "RolloutStarted": ("False", "RolloutNotStartedYet"),
            },
        )
        states = list((await story.clusters()).values())
        assert states.count(first(FINE, "Overridden", ("False", "OverriddenFailed"))) == 1
        assert states.count(PENDING) == 2
        for member, labels in MEMBERS.items():
            assert await story.data(member) == {"data": "test", "region": labels["region"]}

    play(story, scenario)


def test_c19_a_missing_label_from_the_start_places_nothing(story):
    async def scenario():
        await story.override("ro", rule(("add", "/data/region", LABEL % "nowhere")))
        await story.w.settle()
        await story.place()
        await story.becomes(story.whole, first(WHOLE_FINE, "Overridden", ("False", "OverriddenFailed")))
        for member in MEMBERS:
            assert await story.on(member, CONFIG_MAPS) is None

    play(story, scenario)


@pytest.mark.parametrize("target", ["crp", "another"])
def test_c20_an_override_for_a_namespaced_placement_is_not_for_a_cluster_scoped_one(wide, target):
    async def scenario():
        await wide.override("ro", rule(NOTE), placement={"name": target, "scope": "Namespaced"})
        await wide.w.settle()
        await wide.place()
        await wide.holds(wide.is_ok)
        assert await wide.annotations("member1") == {}

    play(wide, scenario)
