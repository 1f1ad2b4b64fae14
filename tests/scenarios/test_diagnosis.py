"""Every failure of the guides provoked for real on a fleet, and the sentence that explains it.

Hub, engine, member agents and simulated workloads run on virtual time; the causes are looked up the way the command
does it, with the objects and pods of the members.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest

from echelon.api.builtin import DEPLOYMENTS, EVENTS, NAMESPACES
from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.scope import CLUSTER, NAMESPACED, Scope
from echelon.cli.follow import in_trouble
from echelon.cli.lookup import Lists, depth_of, seen_of
from echelon.controllers.all import EngineOptions
from echelon.rules import run_seen
from echelon.rules.diagnose import diagnose
from echelon.rules.diagnose_placement import diagnose_placement
from echelon.sandbox.fleet import LINK, FleetOptions
from echelon.views.run import view
from tests.world import namespace, world

STUCK_AFTER = timedelta(seconds=20)
OPTIONS = FleetOptions(engine=EngineOptions(runs=run_seen.Options(stuck_after=STUCK_AFTER)))
SCOPES = pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED], ids=lambda scope: scope.name)


@pytest.fixture
def w():
    with world(5) as made:
        yield made


class Reached:
    """The hub as commands see it, reached in process."""

    def __init__(self, w):
        self.client = w.client()
        self._w = w

    def member(self, name):
        return self._w.client(cluster=name) if name in self._w.hub.clusters else None


class Story:
    """A fleet of three members with an application, a placement and a strategy."""

    def __init__(self, w, scope: Scope = CLUSTER):
        self.w, self.scope = w, scope
        self.hub = w.client()
        self.namespace = "web" if scope.namespaced else None

    async def begin(self, *, image="nginx:1", stages=None, placement=None, settle=True):
        self.fleet = await self.w.fleet(3, OPTIONS, number="{}")
        await self.hub.create(NAMESPACES, namespace("web"))
        for member in ("member1", "member2", "member3"):
            if self.scope.namespaced:
                await self.w.client(cluster=member).create(NAMESPACES, namespace("web"))
        await self.hub.create(DEPLOYMENTS, deployment(image), "web")
        await self.create(self.scope.placement, "web", self.placement_spec(**(placement or {})))
        await self.create(self.scope.strategy, "safe", {"stages": stages or [one_stage("all")]})
        if settle:
            await self.w.settle()

    def placement_spec(self, **more):
        selector = (
            {"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx"}
            if self.scope.namespaced
            else {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
        )
        return {"resourceSelectors": [selector], "strategy": {"type": "External"}} | more

    async def create(self, resource, name, spec, **meta):
        metadata = {"name": name, **meta} | ({"namespace": self.namespace} if resource.namespaced else {})
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        return await self.hub.create(resource, body, self.namespace if resource.namespaced else None)

    async def run(self, name="v1", state="Run", **spec):
        wanted = {"placementName": "web", "stagedRolloutStrategyName": "safe", "state": state} | spec
        await self.create(self.scope.run, name, wanted)
        await self.w.settle()

    async def patch(self, resource, name, body, **more):
        await self.hub.patch(resource, name, self.namespace if resource.namespaced else None, body, **more)
        await self.w.settle()

    async def image(self, image):
        body = {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": image}]}}}}
        await self.hub.patch(DEPLOYMENTS, "nginx", "web", body)
        await self.w.settle()

    async def findings(self, name="v1", cluster="", *, deep=True):
        run = await self.hub.get(self.scope.run, name, self.namespace)
        seen = await seen_of(Lists(self.hub), run, self.scope)
        shown = view(run, seen, self.w.now())
        depth = await depth_of(Reached(self.w), seen, [cluster] if cluster else in_trouble(shown))
        if not deep:
            return diagnose(seen, self.w.now(), cluster=cluster)
        return diagnose(seen, self.w.now(), depth, cluster)

    async def worst(self, name="v1", cluster="", *, deep=True):
        found = await self.findings(name, cluster, deep=deep)
        assert found, "nothing found"
        assert not re.search(r"\{[a-z_]+\}", found[0].sentence)
        assert found[0].next
        return found[0]

    async def stuck(self):
        """Let a run come to be stuck."""
        await asyncio.sleep(STUCK_AFTER.total_seconds() + 10)


def deployment(image):
    pod = {
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {"containers": [{"name": "nginx", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "nginx"}}, "template": pod},
    }


def one_stage(name, number="", **more):
    selector = {"matchLabels": {"number": number}} if number else {}
    return {"name": name, "labelSelector": selector, "maxConcurrency": 3} | more


def told(w, story, steps):
    async def scenario():
        await steps(story)
        await w.stop()

    w.run(scenario())


# --- the run could not be planned -------------------------------------------------------------------------------
@SCOPES
def test_a_placement_that_is_not_there(w, scope):
    async def steps(story):
        await story.begin()
        await story.run(placementName="nope")
        found = await story.worst()
        assert found.sentence == "Run v1 could not be planned because its placement nope does not exist."
        assert found.recovery == "no"

    told(w, Story(w, scope), steps)


@SCOPES
def test_a_placement_that_rolls_out_by_itself(w, scope):
    async def steps(story):
        await story.begin(placement={"strategy": {"type": "RollingUpdate"}})
        await story.run()
        found = await story.worst()
        assert found.cause == "placement-not-external"
        assert "RollingUpdate" in found.sentence

    told(w, Story(w, scope), steps)


@SCOPES
def test_a_strategy_that_is_not_there(w, scope):
    async def steps(story):
        await story.begin()
        await story.run(stagedRolloutStrategyName="nope")
        assert (await story.worst()).cause == "strategy-missing"

    told(w, Story(w, scope), steps)


def test_a_snapshot_that_is_not_there(w):
    async def steps(story):
        await story.begin()
        await story.run(resourceSnapshotIndex="1")
        found = await story.worst()
        assert found.sentence == (
            "Run v1 could not be planned because placement web has no resource snapshot with index 1."
        )

    told(w, Story(w), steps)


def test_a_snapshot_index_that_is_no_number(w):
    async def steps(story):
        await story.begin()
        await story.run(resourceSnapshotIndex="one")
        assert (await story.worst()).cause == "snapshot-index-invalid"

    told(w, Story(w), steps)


def test_a_cluster_in_two_stages(w):
    async def steps(story):
        await story.begin(stages=[one_stage("first", "1"), one_stage("all")])
        await story.run()
        found = await story.worst()
        assert found.sentence == (
            "Run v1 could not be planned because two stages of its strategy pick the cluster member1."
        )

    told(w, Story(w), steps)


def test_clusters_in_no_stage(w):
    async def steps(story):
        await story.begin(stages=[one_stage("first", "1")])
        await story.run()
        found = await story.worst()
        assert found.cause == "cluster-in-no-stage"
        assert "member2, member3" in found.sentence

    told(w, Story(w), steps)


def test_a_sorting_label_that_is_no_number(w):
    async def steps(story):
        await story.begin(stages=[one_stage("all", sortingLabelKey="order")])
        await story.run()
        assert (await story.worst()).cause == "sorting-label-invalid"

    told(w, Story(w), steps)


def test_two_tasks_of_one_type(w):
    async def steps(story):
        tasks = [{"type": "Approval"}, {"type": "Approval"}]
        await story.begin(stages=[one_stage("all", afterStageTasks=tasks)])
        await story.run()
        found = await story.worst()
        assert found.cause == "tasks-invalid"
        assert "the after stage tasks of stage all" in found.sentence

    told(w, Story(w), steps)


def test_a_selector_that_cannot_be_read(w):
    async def steps(story):
        bad = {"matchExpressions": [{"key": "number", "operator": "Like", "values": ["1"]}]}
        await story.begin(stages=[{"name": "all", "labelSelector": bad}])
        await story.run()
        assert (await story.worst()).cause == "selector-invalid"

    told(w, Story(w), steps)


def test_a_placement_that_picks_nobody(w):
    async def steps(story):
        term = {"labelSelector": {"matchLabels": {"number": "99"}}}
        affinity = {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}
            }
        }
        await story.begin(placement={"policy": {"placementType": "PickAll", "affinity": affinity}})
        await story.run()
        assert (await story.worst()).cause == "no-clusters"

    told(w, Story(w), steps)


def test_a_placement_for_which_clusters_are_missing(w):
    async def steps(story):
        await story.begin(placement={"policy": {"placementType": "PickN", "numberOfClusters": 7}})
        await story.run()
        assert (await story.worst()).cause == "not-scheduled"

    told(w, Story(w), steps)


# --- the run was aborted ----------------------------------------------------------------------------------------
def waiting_stages():
    return [one_stage("first", "1", afterStageTasks=[{"type": "Approval"}]), rest()]


def rest(**more):
    expression = {"key": "number", "operator": "NotIn", "values": ["1"]}
    return {"name": "rest", "labelSelector": {"matchExpressions": [expression]}, "maxConcurrency": 2} | more


@SCOPES
def test_a_placement_deleted_during_the_run(w, scope):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await asyncio.sleep(10)
        await story.hub.delete(scope.placement, "web", story.namespace)
        await asyncio.sleep(10)
        found = await story.worst()
        assert found.sentence == "Run v1 was aborted because its placement web does not exist."

    told(w, Story(w, scope), steps)


@SCOPES
def test_a_strategy_deleted_during_the_run(w, scope):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await story.hub.delete(scope.strategy, "safe", story.namespace)
        await w.settle()
        found = await story.worst()
        assert found.cause == "strategy-missing"
        assert "was aborted" in found.sentence

    told(w, Story(w, scope), steps)


def test_a_strategy_made_invalid_during_the_run(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        wrong = [one_stage("all", afterStageTasks=[{"type": "Approval"}, {"type": "Approval"}])]
        await story.patch(story.scope.strategy, "safe", {"spec": {"stages": wrong}})
        assert (await story.worst()).cause == "tasks-invalid"

    told(w, Story(w), steps)


def test_a_cluster_relabelled_during_the_run(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await story.patch(MEMBER_CLUSTERS, "member2", {"metadata": {"labels": {"number": "1"}}})
        found = await story.worst()
        assert found.cause == "clusters-changed"

    told(w, Story(w), steps)


def test_a_cluster_relabelled_into_two_stages_during_the_run(w):
    async def steps(story):
        stages = waiting_stages()
        stages[1]["labelSelector"] = {"matchLabels": {"late": "yes"}}
        story.fleet = None
        await story.begin(stages=stages, settle=False)
        for name in ("member2", "member3"):
            await story.patch(MEMBER_CLUSTERS, name, {"metadata": {"labels": {"late": "yes"}}})
        await story.run()
        await story.patch(MEMBER_CLUSTERS, "member1", {"metadata": {"labels": {"late": "yes"}}})
        found = await story.worst()
        assert found.cause == "cluster-in-two-stages"
        assert "was aborted because two stages of its strategy pick the cluster member1" in found.sentence

    told(w, Story(w), steps)


def test_a_policy_changed_during_the_run(w):
    async def steps(story):
        await story.begin(
            stages=waiting_stages(), placement={"policy": {"placementType": "PickN", "numberOfClusters": 3}}
        )
        await story.run()
        body = {"spec": {"policy": {"numberOfClusters": 2}}}
        await story.patch(story.scope.placement, "web", body)
        assert (await story.worst()).cause == "policy-changed"

    told(w, Story(w), steps)


def test_an_apply_strategy_changed_during_the_run(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        body = {"spec": {"strategy": {"applyStrategy": {"whenToApply": "IfNotDrifted"}}}}
        await story.patch(story.scope.placement, "web", body)
        assert (await story.worst()).cause == "apply-strategy-changed"

    told(w, Story(w), steps)


@SCOPES
def test_a_cluster_taken_over_by_a_later_run(w, scope):
    async def steps(story):
        await story.begin(image="nginx:crash")
        await story.run("v1")
        await asyncio.sleep(5)
        await story.image("nginx:2")
        await story.run("v2")
        await asyncio.sleep(5)
        found = await story.worst("v1")
        assert found.cause == "taken-over"
        assert "because run v2 moved member" in found.sentence

    told(w, Story(w, scope), steps)


def test_an_approval_request_of_somebody_else(w):
    async def steps(story):
        await story.begin(stages=[one_stage("all", beforeStageTasks=[{"type": "Approval"}])])
        await story.create(
            story.scope.approval, "v1-before-all", {"parentStageRollout": "other", "targetStage": "all"}
        )
        await story.run()
        assert (await story.worst()).cause == "approval-foreign"

    told(w, Story(w), steps)


def test_an_error_no_row_knows_is_told_in_its_own_words(w):
    async def steps(story):
        await story.begin()
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
        twice = {"spec": {"resourceSelectors": [selector, selector]}}
        await story.patch(story.scope.placement, "web", twice)
        await story.run()
        found = await story.worst()
        assert found.cause == "failed"
        assert "found duplicate resource" in found.sentence

    told(w, Story(w), steps)


# --- the run waits ----------------------------------------------------------------------------------------------
@SCOPES
def test_a_run_that_was_not_started(w, scope):
    async def steps(story):
        await story.begin()
        await story.run(state="Initialize")
        found = await story.worst()
        assert found.sentence == "Run v1 is planned but not started, because its state is Initialize."

    told(w, Story(w, scope), steps)


@SCOPES
def test_a_stage_that_waits_for_approval(w, scope):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await asyncio.sleep(70)
        found = await story.worst()
        assert found.cause == "approval-open"
        assert "for an approval after stage first" in found.sentence
        option = " -n web" if scope.namespaced else ""
        assert found.next[0] == f'echelon approve v1/first{option} -m "why"'

    told(w, Story(w, scope), steps)


def approved(generation, status="True"):
    said = {
        "type": "Approved",
        "status": status,
        "reason": "approved",
        "message": "approved",
        "lastTransitionTime": "2026-01-09T02:33:15Z",
        "observedGeneration": generation,
    }
    return {"status": {"conditions": [said]}}


@SCOPES
def test_an_approval_with_the_wrong_generation(w, scope):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await asyncio.sleep(5)
        await story.patch(scope.approval, "v1-after-first", approved(0), subresource="status")
        found = await story.worst()
        assert found.cause == "approval-not-counted"
        assert found.sentence == (
            "The approval v1-after-first does not count: it was written for generation 0, "
            "and the request is at generation 1."
        )
        await story.patch(scope.approval, "v1-after-first", approved(1), subresource="status")
        await asyncio.sleep(10)
        assert await story.findings() == (), "the right generation lets it go on"

    told(w, Story(w, scope), steps)


def test_an_approval_that_was_refused(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await asyncio.sleep(5)
        await story.patch(story.scope.approval, "v1-after-first", approved(1, "False"), subresource="status")
        assert (await story.worst()).cause == "approval-refused"

    told(w, Story(w), steps)


def test_a_stage_that_waits_for_time(w):
    async def steps(story):
        task = {"type": "TimedWait", "waitTime": "1h"}
        await story.begin(stages=[one_stage("first", "1", afterStageTasks=[task]), rest()])
        await story.run()
        await asyncio.sleep(60)
        found = await story.worst()
        assert found.cause == "timed-wait"
        assert found.recovery == "yes"

    told(w, Story(w), steps)


def test_a_run_that_stops_and_then_is_stopped(w):
    async def steps(story):
        await story.begin(image="nginx:slow-start")
        await story.run()
        await asyncio.sleep(2)
        await story.patch(story.scope.run, "v1", {"spec": {"state": "Stop"}})
        found = await story.findings()
        assert [one.cause for one in found] == ["stopping"]
        assert "3 cluster(s) that it had begun: member1, member2 and member3" in found[0].sentence
        await story.image("nginx:1")

    told(w, Story(w), steps)


def test_a_stopped_run(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run()
        await asyncio.sleep(10)
        await story.patch(story.scope.run, "v1", {"spec": {"state": "Stop"}})
        found = await story.worst()
        assert found.sentence == "Run v1 was stopped; 1 of 3 clusters are done."

    told(w, Story(w), steps)


def test_an_engine_that_does_not_run(w):
    async def steps(story):
        await story.begin()
        await story.fleet.stop_engine()
        await story.run()
        await asyncio.sleep(60)
        found = await story.worst()
        assert found.cause == "engine-silent"
        await story.fleet.restart_engine()
        await asyncio.sleep(10)
        assert await story.findings() == ()

    told(w, Story(w), steps)


# --- members ----------------------------------------------------------------------------------------------------
async def cut(story, name, how="cut"):
    await story.patch(MEMBER_CLUSTERS, name, {"metadata": {"annotations": {LINK: how}}})


def test_a_member_that_is_cut_off(w):
    async def steps(story):
        await story.begin()
        await cut(story, "member2")
        await story.run()
        await asyncio.sleep(600)
        found = await story.worst()
        assert found.cause == "member-silent"
        assert found.clusters == ("member2",)
        assert found.recovery == "yes"
        await cut(story, "member2", None)
        await asyncio.sleep(120)
        assert await story.findings() == (), "it goes on by itself"

    told(w, Story(w), steps)


def test_a_member_that_has_not_applied_yet(w):
    async def steps(story):
        await story.begin()
        await cut(story, "member3")
        await story.run()
        await story.stuck()
        found = await story.worst()
        assert found.cause == "agent-busy"
        assert found.evidence[-1].object == "Work fleet-member-member3/web-work"
        assert found.sentence == "The agent of member3 has not applied the resources yet."

    told(w, Story(w), steps)


def test_a_member_that_leaves(w):
    async def steps(story):
        await story.begin()
        await cut(story, "member1")
        await story.run()
        await story.stuck()
        await story.fleet.stop_engine()
        await story.hub.delete(MEMBER_CLUSTERS, "member1")
        found = await story.worst()
        assert found.cause == "member-left"

    told(w, Story(w), steps)


# --- workloads --------------------------------------------------------------------------------------------------
IMAGES = [
    ("nginx:bad:tag", "image-name-invalid", '"nginx:bad:tag" is not a valid image name (InvalidImageName)'),
    ("nginx:missing", "image-pull", 'the image "nginx:missing" cannot be pulled (ImagePullBackOff)'),
    ("nginx:crash", "crash-loop", "container nginx keeps crashing (CrashLoopBackOff)"),
    ("nginx:unready", "pods-not-ready", "its pods run but are not ready"),
]


@SCOPES
@pytest.mark.parametrize(("image", "cause", "words"), IMAGES, ids=[row[1] for row in IMAGES])
def test_an_image_that_does_not_work(w, image, cause, words, scope):
    async def steps(story):
        await story.begin(image=image)
        await story.run()
        await story.stuck()
        found = await story.worst()
        assert found.cause == cause
        assert words in found.sentence
        assert found.clusters == ("member1", "member2", "member3"), "one cause, told once"
        assert any(piece.object.startswith("Pod web/nginx-") for piece in found.evidence)

    told(w, Story(w, scope), steps)


@SCOPES
def test_the_event_of_a_stuck_run_says_why(w, scope):
    async def steps(story):
        await story.begin(image="nginx:missing")
        await story.run()
        await story.stuck()
        said = [
            one["message"]
            for one in (await story.hub.list(EVENTS)).items
            if one["reason"] == "UpdateRunStuck"
        ]
        assert said
        assert said[-1].endswith("Deployment web/nginx is not available yet on member1, member2 and member3.")

    told(w, Story(w, scope), steps)


def test_a_workload_seen_from_the_hub_alone(w):
    async def steps(story):
        await story.begin(image="nginx:missing")
        await story.run()
        await story.stuck()
        found = await story.worst(deep=False)
        assert found.cause == "not-available"
        assert found.sentence == "Deployment web/nginx is not available yet on member1, member2 and member3."

    told(w, Story(w), steps)


def test_a_run_of_a_placement_that_cannot_be_scheduled(w):
    async def steps(story):
        await story.begin()
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
        await story.create(
            story.scope.placement, "twice", story.placement_spec(resourceSelectors=[selector] * 2)
        )
        await story.run(placementName="twice")
        found = await story.worst()
        assert found.cause == "scheduler-busy"
        assert found.next == ("kubectl describe crp twice",)
        await asyncio.sleep(40)
        assert (await story.worst()).cause == "not-scheduled"

    told(w, Story(w), steps)


def test_a_cluster_that_is_fine_so_far(w):
    async def steps(story):
        await story.begin(image="nginx:slow-start")
        await story.run()
        await asyncio.sleep(3)
        assert await story.findings() == ()
        found = await story.worst(cluster="member1")
        assert found.cause in {"pods-not-ready", "in-progress", "not-available"}

    told(w, Story(w), steps)


# --- what will hurt later -----------------------------------------------------------------------------------------
def test_a_plan_that_no_longer_holds(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run(state="Initialize")
        await story.patch(MEMBER_CLUSTERS, "member2", {"metadata": {"labels": {"number": "1"}}})
        found = await story.findings()
        assert {one.cause for one in found} >= {"plan-outdated"} or found[0].cause == "clusters-changed"

    told(w, Story(w), steps)


def test_two_runs_at_once(w):
    async def steps(story):
        await story.begin(stages=waiting_stages())
        await story.run("v1")
        await asyncio.sleep(5)
        await story.run("v2")
        await asyncio.sleep(5)
        assert "rival" in [one.cause for one in await story.findings("v2")]

    told(w, Story(w), steps)


def test_a_percentage_that_rounds_down(w):
    async def steps(story):
        tasks = [{"type": "Approval"}]
        await story.begin(stages=[one_stage("all", maxConcurrency="50%", beforeStageTasks=tasks)])
        await story.run()
        assert "concurrency-one" in [one.cause for one in await story.findings()]

    told(w, Story(w), steps)


@SCOPES
def test_a_placement_that_nothing_rolls_out(w, scope):
    async def steps(story):
        await story.begin()
        placement = await story.hub.get(scope.placement, "web", story.namespace)
        found = diagnose_placement(scope, placement, [])
        assert found[0].sentence == (
            "Placement web is scheduled on 3 cluster(s), but its strategy is External and no run rolls it out."
        )
        await story.run()
        runs = (await story.hub.list(scope.run, story.namespace)).items
        assert diagnose_placement(scope, placement, runs) == ()

    told(w, Story(w, scope), steps)


def test_resources_that_are_not_removed(w):
    async def steps(story):
        await story.begin(placement={"policy": {"placementType": "PickN", "numberOfClusters": 3}})
        await story.run("v1")
        await asyncio.sleep(20)
        bindings = (await story.hub.list(story.scope.binding)).items
        for one in bindings:
            held = {"metadata": {"finalizers": [*one.metadata.finalizers, "example.com/hold"]}}
            await story.patch(story.scope.binding, one.name, held)
        await story.patch(story.scope.placement, "web", {"spec": {"policy": {"numberOfClusters": 2}}})
        await story.run("v2")
        await asyncio.sleep(60)
        assert "deletion-blocked" in [one.cause for one in await story.findings("v2")]

    told(w, Story(w), steps)
