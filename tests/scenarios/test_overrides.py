"""Overrides from snapshot to Work (contract scenarios C, F9, F10) and their snapshots (D), for both scopes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echelon.api import names as n
from echelon.api.builtin import EVENTS
from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES
from echelon.controllers.overrides import Overrides
from echelon.rules.gojson import sha256_hex
from tests.deliveries import Desk, config_map, override
from tests.rules.test_override import ON_CM, ON_NS, rule, spec, where
from tests.world import namespace, world

CM = config_map(data="test")
RO = {"resourceOverrideSnapshots": [{"name": "ro-0", "namespace": "app"}]}
CRO = {"clusterResourceOverrideSnapshots": ["cro-0"]}


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def desk(request):
    with world(7) as w:
        yield Desk(w, request.param)


def play(desk, scenario):
    async def whole():
        await scenario()
        await desk.w.stop()

    desk.w.run(whole())


async def make(desk, name, selector, *rules, index=0):
    """Make an override snapshot: cluster-scoped when it selects the Namespace, else namespaced."""
    space = "app" if selector is ON_CM else None
    kind = (NAMESPACED if space else CLUSTER).override_snapshot
    await desk.client.create(kind, override(name, index, spec(selector, *rules), space=space), space)


async def delivered(desk, *overrides, cluster="m1", **refs) -> tuple[str, Any]:
    """Bind with overrides and return the binding's name and its Work."""
    for args in overrides:
        await make(desk, *args)
    await desk.snapshot(0, CM)
    name = await desk.bind(cluster, **refs)
    await desk.settle()
    return name, (await desk.works(cluster)).get(desk.work_name())


def test_f9_overrides_change_the_manifest_and_their_hashes_are_on_the_work(desk):
    async def scenario():
        await desk.start("m1", region="east")
        cro = ("cro", ON_NS, rule(("add", "/metadata/annotations", {"by": "cro"})))
        ro = (
            "ro",
            ON_CM,
            rule(("replace", "/data/data", "${MEMBER-CLUSTER-NAME}"), ("add", "/data/new", "1")),
        )
        name, work = await delivered(desk, cro, ro, **CRO, **RO)
        assert work.metadata.annotations[n.ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH] == sha256_hex(["cro-0"])
        assert work.metadata.annotations[n.ANNOTATION_PARENT_OVERRIDE_HASH] == sha256_hex(
            [{"name": "ro-0", "namespace": "app"}]
        )
        wanted = config_map(data="m1", new="1")
        wanted["metadata"]["annotations"] = {"by": "cro"}
        assert list(work.spec.manifests) == [wanted]
        assert (await desk.conditions(name))["Overridden"] == ("True", "OverriddenSucceeded")

    play(desk, scenario)


def test_c2_c4_other_overrides_rewrite_the_work_of_the_same_version(desk):
    async def scenario():
        await desk.start("m1")
        name, _ = await delivered(desk, ("ro", ON_CM, rule(("add", "/data/k", "v1"))), **RO)
        await make(desk, "ro", ON_CM, rule(("add", "/data/k", "v2")), index=1)
        await desk.move(name, resourceOverrideSnapshots=[{"name": "ro-1", "namespace": "app"}])
        await desk.settle()
        work = (await desk.works())[desk.work_name()]
        assert work.spec.manifests[0]["data"] == {"data": "test", "k": "v2"}
        await desk.report()
        await desk.move(name, resourceOverrideSnapshots=None)
        await desk.settle()
        work = (await desk.works())[desk.work_name()]
        assert work.spec.manifests[0] == CM
        assert (await desk.conditions(name))["Overridden"] == ("True", "NoOverrideSpecified")

    play(desk, scenario)


def test_c3_an_override_that_changes_nothing_gives_the_member_nothing_to_do(desk):
    async def scenario():
        await desk.start("m1", region="east")
        name, work = await delivered(desk)
        await desk.report()
        await desk.settle()
        await make(desk, "ro", ON_CM, rule(clusters=where(region="west"), delete=True))
        await desk.move(name, **RO)
        await desk.settle()
        after = (await desk.works())[desk.work_name()]
        assert after.metadata.generation == work.metadata.generation
        assert (await desk.conditions(name))["Available"] == ("True", "AllWorkAreAvailable")
        assert (await desk.conditions(name))["Overridden"] == ("True", "OverriddenSucceeded")

    play(desk, scenario)


@pytest.mark.parametrize("kind", ["cro", "ro"])
def test_c7_f10_a_patch_that_does_not_apply_delivers_nothing_and_says_why(desk, kind):
    async def scenario():
        await desk.start("m1")
        selector, refs = (ON_NS, CRO) if kind == "cro" else (ON_CM, RO)
        bad = (kind, selector, rule(("add", "/metadata/annotations/k", "v")))
        name, work = await delivered(desk, bad, **refs)
        assert work is None
        assert await desk.conditions(name) == {
            "RolloutStarted": ("True", "RolloutStarted"),
            "Overridden": ("False", "OverriddenFailed"),
        }
        snapshot = "ClusterResourceOverrideSnapshot" if kind == "cro" else "ResourceOverrideSnapshot"
        assert await desk.said(name, "Overridden") == (
            f'Failed to apply the override rules on the resources: {snapshot} "{kind}-0" failed to apply on ConfigMap '
            '"cm" in namespace "app": add operation does not apply: doc is missing path: '
            '"/metadata/annotations/k": missing value'
        )
        assert len((await desk.binding(name)).metadata.finalizers) == 1

    play(desk, scenario)


@pytest.mark.parametrize(
    ("refs", "said"),
    [
        (CRO, "clusterResourceOverrideSnapshot cro-0 is not found"),
        (RO, "resourceOverrideSnapshot {ro-0 app} is not found"),
    ],
)
def test_f10_an_override_that_is_not_there_is_named_and_waited_for(desk, refs, said):
    async def scenario():
        await desk.start("m1")
        name, work = await delivered(desk, **refs)
        assert work is None
        assert (await desk.said(name, "Overridden")).endswith(said)
        kind, selector = ("cro", ON_NS) if refs is CRO else ("ro", ON_CM)
        await make(desk, kind, selector, rule(("add", "/data/k", "v")))
        await desk.settle()
        assert (await desk.works())[desk.work_name()].spec.manifests[0]["data"]["k"] == "v"

    play(desk, scenario)


def test_c8_c14_a_work_that_the_api_server_refuses_is_explained(desk):
    async def scenario():
        await desk.start("m1")
        name, work = await delivered(desk)
        await desk.report()
        await desk.settle()
        await make(desk, "ro", ON_CM, rule(("add", "/metadata/annotations", "a plain string")))
        await desk.move(name, **RO)
        await desk.w.until(lambda: said_so(desk, name))
        found = await desk.conditions(name)
        assert found["Overridden"] == ("True", "OverriddenSucceeded")
        assert "Applied" not in found
        assert await desk.said(name, "WorkSynchronized") == (
            'Failed to synchronize the work to the latest: Work.placement.kubernetes-fleet.io "'
            f'{desk.work_name()}" is invalid: spec.workload.manifests[0].metadata: Invalid value: (not shown): '
            "json: cannot unmarshal string into Go struct field ObjectMeta.annotations of type map[string]string"
        )
        assert (await desk.works())[desk.work_name()].spec.manifests == work.spec.manifests
        writes = desk.writes()
        await asyncio.sleep(600)
        assert desk.writes() - writes < 25, "it is tried again further and further apart"
        await desk.move(name, resourceOverrideSnapshots=None)
        await desk.w.until(lambda: is_synced(desk, name))

    async def said_so(desk, name):
        return (await desk.conditions(name)).get("WorkSynchronized") == ("False", "SyncWorkFailed")

    async def is_synced(desk, name):
        return (await desk.conditions(name)).get("WorkSynchronized") == ("True", "AllWorkSynced")

    play(desk, scenario)


def test_c9_c16_a_delete_rule_leaves_the_object_out_of_the_clusters_it_is_for(desk):
    async def scenario():
        await desk.start("m1", region="east")
        await desk.add_member("m2", region="west")
        await make(desk, "ro", ON_CM, rule(clusters=where(region="west"), delete=True))
        await desk.snapshot(0, CM, config_map("other"))
        for cluster in ("m1", "m2"):
            await desk.bind(cluster, **RO)
        await desk.settle()
        kept = {
            cluster: [
                m["metadata"]["name"] for m in (await desk.works(cluster))[desk.work_name()].spec.manifests
            ]
            for cluster in ("m1", "m2")
        }
        assert kept == {"m1": ["cm", "other"], "m2": ["other"]}

    play(desk, scenario)


def test_c18_c19_a_missing_label_fails_until_the_cluster_gets_it(desk):
    async def scenario():
        await desk.start("m1")
        variable = rule(("add", "/data/region", "${MEMBER-CLUSTER-LABEL-KEY-region}"))
        name, work = await delivered(desk, ("ro", ON_CM, variable), **RO)
        assert work is None
        assert (await desk.said(name, "Overridden")).endswith("label key region not found on cluster m1")
        from echelon.api.own import MEMBER_CLUSTERS

        await desk.client.patch(MEMBER_CLUSTERS, "m1", None, {"metadata": {"labels": {"region": "east"}}})
        await desk.settle()
        assert (await desk.works())[desk.work_name()].spec.manifests[0]["data"]["region"] == "east"

    play(desk, scenario)


def test_an_override_never_makes_an_object_a_different_one(desk):
    async def scenario():
        await desk.start("m1")
        stray = ("ro", ON_CM, rule(("replace", "/metadata/namespace", "kube-system")))
        name, work = await delivered(desk, stray, **RO)
        assert work is None
        assert "must not change apiVersion, kind, metadata.name or metadata.namespace" in await desk.said(
            name, "Overridden"
        )

    play(desk, scenario)


# --- snapshots of overrides ---------------------------------------------------------------------------------------
SELECTORS = {"Cluster": ON_NS, "Namespaced": ON_CM}


class Author:
    def __init__(self, w, scope):
        self.w, self.scope, self.client = w, scope, w.client()
        self.namespace = "app" if scope.namespaced else None

    async def start(self):
        from echelon.api.builtin import NAMESPACES

        await self.w.install()
        await self.client.create(NAMESPACES, namespace("app"))
        await self.engine()

    async def engine(self):
        self.manager = await self.w.start(lambda m: [Overrides(m.cache, self.scope)])

    def body(self, value="v", **more):
        made = rule(("add", "/metadata/annotations", {"k": value}))
        meta = {"name": "o", **({"namespace": "app"} if self.namespace else {})}
        kind = self.scope.override
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "spec": {**spec(SELECTORS[self.scope.name], made), **more},
        }

    async def write(self, value):
        body = {"spec": self.body(value)["spec"]}
        await self.client.patch(self.scope.override, "o", self.namespace, body)
        await self.w.settle()

    async def snapshots(self):
        page = await self.client.list(self.scope.override_snapshot, self.namespace)
        return {s.name: s for s in page.items}

    async def latest(self):
        return [
            name
            for name, s in (await self.snapshots()).items()
            if s.metadata.labels[n.LABEL_IS_LATEST_SNAPSHOT] == "true"
        ]


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def author(request):
    with world(8) as w:
        yield Author(w, request.param)


def test_d1_d2_d3_each_change_is_a_snapshot_and_all_go_with_the_override(author):
    async def scenario():
        await author.start()
        await author.client.create(author.scope.override, author.body(), author.namespace)
        await author.w.settle()
        made = await author.client.get(author.scope.override, "o", author.namespace)
        assert made.metadata.finalizers == (n.FINALIZER_OVERRIDE_CLEANUP,)
        first = (await author.snapshots())["o-0"]
        assert first.metadata.labels == {
            n.LABEL_PARENT_RESOURCE_OVERRIDE: "o",
            n.LABEL_IS_LATEST_SNAPSHOT: "true",
            n.LABEL_OVERRIDE_INDEX: "0",
        }
        assert first.spec.override_spec == made.spec
        assert len(first.spec.override_hash) == 64
        owner = first.metadata.owner_references[0]
        assert (owner.uid, owner.controller) == (made.metadata.uid, True)
        await author.write("w")
        assert set(await author.snapshots()) == {"o-0", "o-1"}
        assert await author.latest() == ["o-1"]
        await author.client.delete(author.scope.override, "o", author.namespace)
        await author.w.settle()
        assert await author.snapshots() == {}
        assert (await author.client.list(author.scope.override, author.namespace)).items == []
        await author.w.stop()

    author.w.run(scenario())


def test_ten_snapshots_are_kept_and_none_is_dropped_without_a_change(author):
    async def scenario():
        await author.start()
        await author.client.create(author.scope.override, author.body("0"), author.namespace)
        await author.w.settle()
        for index in range(1, 12):
            await author.write(str(index))
        assert set(await author.snapshots()) == {f"o-{index}" for index in range(2, 12)}
        assert await author.latest() == ["o-11"]
        await author.manager.stop()
        author.w.managers.clear()
        await author.engine()
        await author.w.settle()
        assert author.manager.performer.write_count == 0
        assert len(await author.snapshots()) == 10
        await author.w.stop()

    author.w.run(scenario())


def test_the_latest_mark_comes_back_and_is_never_on_two_for_long(author):
    async def scenario():
        await author.start()
        await author.client.create(author.scope.override, author.body(), author.namespace)
        await author.w.settle()
        await author.write("w")
        for name, mark in (("o-0", "true"), ("o-1", "false")):
            body = {"metadata": {"labels": {n.LABEL_IS_LATEST_SNAPSHOT: mark}}}
            await author.client.patch(author.scope.override_snapshot, name, author.namespace, body)
        await author.w.settle()
        assert await author.latest() == ["o-1"]
        await author.w.stop()

    author.w.run(scenario())


def test_an_override_that_makes_no_sense_gets_no_snapshot_but_an_event(author):
    async def scenario():
        await author.start()
        bad = author.body()
        bad["spec"]["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["path"] = "/status/x"
        await author.client.create(author.scope.override, bad, author.namespace)
        await author.w.settle()
        assert await author.snapshots() == {}
        events = (await author.client.list(EVENTS, author.namespace or "default")).items
        assert [(e["reason"], e["type"]) for e in events] == [("InvalidOverride", "Warning")]
        assert events[0]["message"].endswith("cannot override status fields")
        await author.w.stop()

    author.w.run(scenario())
