"""What keeps resources from being made or applied, provoked for real, and the sentence that explains it."""

from __future__ import annotations

import asyncio

import pytest

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NAMESPACES
from echelon.api.own import CLUSTER_OVERRIDES, ENVELOPES
from echelon.api.resource import Resource
from echelon.api.scope import NAMESPACED
from tests.scenarios.test_diagnosis import Story, deployment, told
from tests.world import namespace, world

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


@pytest.fixture
def w():
    with world(6) as made:
        yield made


def widget_definition(**size):
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"} | size}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def widget(size):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "big", "namespace": "web"},
        "spec": {"size": size},
    }


def settings(colour="green", **meta):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "web"} | meta,
        "data": {"colour": colour},
    }


async def on_member(story, name, *, owners=()):
    """Put the application's settings on a member before the fleet comes."""
    client = story.w.client(cluster=name)
    await client.create(NAMESPACES, namespace("web"))
    await client.create(CONFIG_MAPS, settings("blue", ownerReferences=list(owners)), "web")


async def apply_with(story, **strategy):
    await story.begin(placement={"strategy": {"type": "External", "applyStrategy": strategy}})
    await story.hub.create(CONFIG_MAPS, settings(), "web")
    await story.w.settle()


def test_an_override_that_does_not_fit(w):
    async def steps(story):
        await story.begin()
        patch = {"op": "remove", "path": "/spec/nothing/here"}
        rule = {
            "clusterSelector": {"clusterSelectorTerms": []},
            "overrideType": "JSONPatch",
            "jsonPatchOverrides": [patch],
        }
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
        spec = {"clusterResourceSelectors": [selector], "policy": {"overrideRules": [rule]}}
        await story.create(CLUSTER_OVERRIDES, "wrong", spec)
        await w.settle()
        await story.run()
        await asyncio.sleep(5)
        found = await story.worst()
        assert found.cause == "override-failed"
        assert "wrong-0" in found.sentence
        assert "/spec/nothing/here" in found.sentence
        assert found.recovery == "no"

    told(w, Story(w), steps)


def test_an_envelope_that_wraps_what_it_may_not(w):
    async def steps(story):
        await story.begin()
        body = {
            "apiVersion": ENVELOPES.api_version,
            "kind": ENVELOPES.kind,
            "metadata": {"name": "wrapped", "namespace": "web"},
            "data": {"ns.yaml": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}},
        }
        await story.hub.create(ENVELOPES, body, "web")
        await w.settle()
        await story.run()
        await asyncio.sleep(5)
        found = await story.worst()
        assert found.cause == "sync-failed"
        assert "has been wrapped in a resource envelope" in found.sentence
        assert len(found.clusters) == 3

    told(w, Story(w), steps)


def test_a_kind_the_member_does_not_know(w):
    async def steps(story):
        await story.begin()
        await story.hub.create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await w.settle()
        await story.hub.create(WIDGETS, widget(1), "web")
        await w.settle()
        await story.run()
        await asyncio.sleep(5)
        found = await story.worst()
        assert found.cause == "kind-unknown"
        assert found.sentence.startswith("Widget web/big cannot be applied on member1, member2 and member3")
        for name in ("member1", "member2", "member3"):
            await w.client(cluster=name).create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await asyncio.sleep(120)
        assert await story.findings() == (), "it goes on by itself"

    told(w, Story(w), steps)


def test_an_object_the_member_refuses(w):
    async def steps(story):
        await story.begin()
        await story.hub.create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        for name in ("member1", "member2", "member3"):
            await w.client(cluster=name).create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition(maximum=5))
        await w.settle()
        await story.hub.create(WIDGETS, widget(9), "web")
        await w.settle()
        await story.run()
        await asyncio.sleep(20)
        found = await story.worst()
        assert found.cause == "apply-refused"
        assert "spec.size" in found.sentence

    told(w, Story(w), steps)


def test_an_object_that_belongs_to_somebody_else(w):
    async def steps(story):
        await apply_with(story)
        owner = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "boss",
            "uid": "11111111-1111-1111-1111-111111111111",
        }
        client = w.client(cluster="member1")
        await client.create(NAMESPACES, namespace("web"))
        boss = await client.create(
            CONFIG_MAPS, settings() | {"metadata": {"name": "boss", "namespace": "web"}}, "web"
        )
        await client.create(
            CONFIG_MAPS, settings("blue", ownerReferences=[owner | {"uid": boss["metadata"]["uid"]}]), "web"
        )
        await story.run()
        await asyncio.sleep(5)
        found = await story.worst()
        assert found.cause == "owned-by-other"
        assert found.sentence == (
            "ConfigMap web/settings cannot be applied on member1 because it already has another owner there."
        )

    told(w, Story(w), steps)


@pytest.mark.parametrize(("take_over", "cause"), [("IfNoDiff", "diff-blocks"), ("Never", "not-taken-over")])
def test_an_object_that_was_there_before(w, take_over, cause):
    async def steps(story):
        await apply_with(story, whenToTakeOver=take_over)
        await on_member(story, "member2")
        await story.run()
        await asyncio.sleep(5)
        found = await story.findings()
        wanted = next(one for one in found if one.cause == cause and "ConfigMap" in one.sentence)
        assert wanted.clusters == ("member2",)
        if cause == "diff-blocks":
            assert "/data/colour: hub green, member blue" in wanted.sentence

    told(w, Story(w), steps)


def test_an_object_somebody_changed_on_the_member(w):
    async def steps(story):
        await apply_with(story, whenToApply="IfNotDrifted")
        await story.run("v1")
        await asyncio.sleep(30)
        await w.client(cluster="member3").patch(CONFIG_MAPS, "settings", "web", {"data": {"colour": "red"}})
        await story.image("nginx:2")
        await story.run("v2")
        await asyncio.sleep(20)
        found = await story.worst("v2")
        assert found.cause == "drift-blocks"
        assert found.sentence == (
            "ConfigMap web/settings was changed on member3 (/data/colour: hub green, member red), "
            "and the placement does not overwrite drift."
        )

    told(w, Story(w), steps)


def test_a_namespace_the_member_does_not_have(w):
    async def steps(story):
        story.fleet = await w.fleet(2, number="{}")
        await story.hub.create(NAMESPACES, namespace("web"))
        await story.hub.create(DEPLOYMENTS, deployment("nginx:1"), "web")
        await story.create(NAMESPACED.placement, "web", story.placement_spec())
        await story.create(NAMESPACED.strategy, "safe", {"stages": [{"name": "all", "labelSelector": {}}]})
        await w.settle()
        await story.run()
        await asyncio.sleep(5)
        found = await story.worst()
        assert found.cause == "namespace-missing"
        await w.client(cluster="member1").create(NAMESPACES, namespace("web"))
        await w.client(cluster="member2").create(NAMESPACES, namespace("web"))
        await asyncio.sleep(120)
        assert await story.findings() == (), "it goes on by itself"

    told(w, Story(w, NAMESPACED), steps)


def test_a_difference_that_cannot_be_computed(w):
    async def steps(story):
        await story.begin(
            placement={"strategy": {"type": "External", "applyStrategy": {"type": "ReportDiff"}}}
        )
        await story.hub.create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await w.settle()
        await story.hub.create(WIDGETS, widget(1), "web")
        await w.settle()
        await story.run()
        await asyncio.sleep(5)
        assert (await story.worst()).cause == "diff-failed"

    told(w, Story(w), steps)
