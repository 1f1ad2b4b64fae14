"""A run on paper: the same stages, refusals and manifests as in earnest, and nothing written."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from echelon.api import names
from echelon.api.binding import Binding
from echelon.api.meta import ObjectMeta
from echelon.api.override import OverrideSnapshot
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.api.snapshot import ResourceSnapshot, ResourceSnapshotSpec
from echelon.cli.plan import plan_lines
from echelon.rules.run_phases import RunPhase
from echelon.views.plan import plan_view
from echelon.views.tree import Look
from tests.rules.pictures import NOW, OWNER, binding, member, planned, seen_of, stage

SCOPES = pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED], ids=lambda scope: scope.name)
KEY = b"k"
LOOK = Look(width=80, is_unicode=True, has_colour=False)


def web(image, replicas=2):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "web"},
        "spec": {"replicas": replicas, "image": image},
    }


def version(index, *manifests, latest=False):
    labels = {names.LABEL_RESOURCE_INDEX: str(index), names.LABEL_PARENT_CRP: "web"}
    if latest:
        labels[names.LABEL_IS_LATEST_SNAPSHOT] = "true"
    meta = ObjectMeta(
        name=f"web-{index}-snapshot",
        labels=labels,
        owner_references=(OWNER,),
        annotations={names.ANNOTATION_RESOURCE_HASH: "h", names.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "1"},
    )
    return ResourceSnapshot(metadata=meta, spec=ResourceSnapshotSpec(selected_resources=manifests))


def override(name, *rules):
    body = {
        "metadata": {
            "name": f"{name}-0",
            "namespace": "web",
            "labels": {
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/parent-resource-override": name,
            },
        },
        "spec": {
            "overrideSpec": {
                "resourceSelectors": [
                    {"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx"}
                ],
                "policy": {"overrideRules": list(rules)},
            },
            "overrideHash": "eA==",
        },
    }
    return msgspec.convert(body, type=OverrideSnapshot, strict=False)


def rule(stage, **patch):
    term = {"labelSelector": {"matchLabels": {"stage": stage}}}
    return {"clusterSelector": {"clusterSelectorTerms": [term]}, "jsonPatchOverrides": [patch]}


def shop(scope=CLUSTER, **more):
    seen = seen_of(
        [stage("canary", wait="1h"), stage("prod", before=True, at_a_time="50%")],
        {"canary": ["ca"], "prod": ["p1", "p2"]},
        scope=scope,
        state="Initialize",
        **more,
    )
    bindings: list[Binding] = [
        binding(name, scope, snapshot="web-0-snapshot" if name != "p2" else "") for name in ("ca", "p1", "p2")
    ]
    snapshots = (version(0, web("nginx:1")), version(1, web("nginx:2"), latest=True))
    return replace(seen, bindings=tuple(bindings), snapshots=snapshots)


@SCOPES
def test_stages_clusters_and_gates_stand_in_their_order(scope):
    view = plan_view(shop(scope), NOW, KEY)
    assert [(one.name, one.clusters, one.at_a_time) for one in view.stages] == [
        ("canary", ("ca",), 1),
        ("prod", ("p1", "p2"), 1),
    ]
    assert view.stages[0].after == ("wait 1h",)
    assert view.stages[1].before == ("approval",)
    assert (view.snapshot, view.is_new_snapshot, view.approvals) == ("1", False, 1)
    assert view.refusal == ""


def test_clusters_that_get_the_same_are_told_together():
    view = plan_view(shop(), NOW, KEY)
    assert [(one.clusters, [change.verb for change in one.changes]) for one in view.changes] == [
        (("ca", "p1"), ["changed"]),
        (("p2",), ["added"]),
    ]


def test_overrides_show_in_what_a_cluster_gets():
    seen = shop()
    more = override("more", rule("prod", op="replace", path="/spec/replicas", value=5))
    view = plan_view(replace(seen, namespaced_overrides=(more,)), NOW, KEY)
    told = {
        one.clusters: [field.path for change in one.changes for field in change.fields]
        for one in view.changes
    }
    assert told[("ca",)] == ["/spec/image"]
    assert told[("p1",)] == ["/spec/image", "/spec/replicas"]


def test_an_override_that_does_not_fit_is_told_before_anything_happens():
    wrong = override("wrong", rule("canary", op="remove", path="/spec/nothing"))
    view = plan_view(replace(shop(), namespaced_overrides=(wrong,)), NOW, KEY)
    problem = next(one for one in view.changes if one.problem)
    assert problem.clusters == ("ca",)
    assert "wrong-0" in problem.problem


def test_an_object_an_override_leaves_out_is_no_change():
    out = override(
        "out",
        rule("prod", op="add", path="/x", value=1) | {"overrideType": "Delete", "jsonPatchOverrides": []},
    )
    view = plan_view(replace(shop(), namespaced_overrides=(out,)), NOW, KEY)
    told = {one.clusters: [change.verb for change in one.changes] for one in view.changes}
    assert told[("p1",)] == ["removed"]
    assert told[("p2",)] == []


@SCOPES
def test_what_the_engine_would_refuse_is_refused_in_its_words(scope):
    view = plan_view(shop(scope, strategy=False), NOW, KEY)
    assert view.refusal == f"referenced updateStrategy not found: `{'team' if scope.namespaced else ''}/safe`"
    assert view.changes == ()
    assert any(line.startswith("REFUSED: ") for line in plan_lines(view, LOOK))


def test_clusters_in_no_stage_are_named():
    seen = shop()
    lost = replace(seen, clusters={**seen.clusters, "p2": member("p2", stage="nowhere")})
    view = plan_view(lost, NOW, KEY)
    assert "not placed in any stage" in view.refusal
    assert view.unmatched == ("p2",)


def test_a_run_that_is_planned_already_keeps_its_plan():
    seen = planned(shop(), RunPhase.PROGRESSING)
    moved = replace(seen, strategy=None)
    view = plan_view(moved, NOW, KEY)
    assert view.refusal == ""
    assert [one.name for one in view.stages] == ["canary", "prod"]


def test_a_silent_member_and_another_run_are_warned_of():
    seen = shop()
    quiet = {**seen.clusters, "ca": member("ca", beat_age=30, stage="canary")}
    active = planned(shop(), RunPhase.PROGRESSING).run
    other = replace(active, metadata=replace(active.metadata, name="v6"))
    view = plan_view(replace(seen, clusters=quiet, rivals={"v6": other}), NOW, KEY)
    assert [one.cause for one in view.warnings] == ["member-silent", "rival"]
    assert view.warnings[0].clusters == ("ca",)


def test_every_line_fits():
    for seen in (shop(), shop(strategy=False), planned(shop(), RunPhase.PROGRESSING)):
        for width in (60, 80):
            for line in plan_lines(plan_view(seen, NOW, KEY), LOOK._replace(width=width)):
                assert len(line) <= width, line


def test_planning_twice_says_the_same():
    assert plan_view(shop(), NOW, KEY) == plan_view(shop(), NOW, KEY)
