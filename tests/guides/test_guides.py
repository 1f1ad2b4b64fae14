"""The troubleshooting guides, replayed: every command typed with the real kubectl, every output looked for, both scopes."""

import json
import re

import pytest

from tests.guides.story import CLUSTER, NAMESPACED, Story, two_stages
from tests.live import live  # noqa: F401 - a fixture

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(240)]
ABORTED = "cannot continue the updateRun: failed to validate the updateRun: "
FAILED = f"{ABORTED}failed to process the request due to a client error: "


@pytest.fixture(autouse=True)
def labelled(live):
    live.kubectl("label", "--overwrite", "membercluster", "member2", "environment=staging")
    live.kubectl("label", "--overwrite", "membercluster", "member1", "member3", "environment=canary")


@pytest.fixture(params=[CLUSTER, NAMESPACED], ids=lambda words: words.scope)
def tell(request, live):
    return lambda name: Story(live, request.param, name)


def flat(text):
    return re.sub(r"\s+", " ", text)


def test_a_placement_without_a_run_says_that_nothing_is_rolled_out(tell):
    story = tell("idle")
    story.prepare()
    said = flat(story.describe(story.words.placement, story.placement))
    kind = story.words.placement_kind
    assert "found all cluster needed as specified by the scheduling policy, found 3 cluster(s)" in said
    assert f"Reason: SchedulingPolicyFulfilled Status: True Type: {kind}Scheduled" in said
    assert (
        "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters. To "
        f"determine rollout status, check the {story.words.run_kind} resources with spec.placementName matching this placement"
    ) in said
    assert f"Reason: RolloutControlledByExternalController Status: Unknown Type: {kind}RolloutStarted" in said
    assert (
        'Successfully scheduled resources for placement in "member1" (affinity score: 0, topology spread score: 0): '
        "picked by scheduling policy"
    ) in said
    assert "In the process of deciding whether to roll out some version of the resources or not" in said
    assert "Reason: RolloutStartedUnknown Status: Unknown Type: RolloutStarted" in said


def test_a_missing_snapshot_index_fails_initialization(tell):
    story = tell("init")
    story.prepare()
    story.start("example-run", index="1")
    story.wait("example-run", "Initialized=False")
    row = story.row("example-run")
    assert (row["PLACEMENT"], row["RESOURCE-SNAPSHOT-INDEX"], row["POLICY-SNAPSHOT-INDEX"]) == (
        story.placement,
        "1",
        "0",
    )
    assert (row["INITIALIZED"], row["PROGRESSING"], row["SUCCEEDED"]) == ("False", "", "")
    path = f"{story.space if story.at else ''}/{story.placement}"
    assert story.message("example-run", "Initialized") == (
        f"{FAILED}no resourceSnapshots with index `1` found for placement `{path}`"
    )
    said = flat(story.describe(story.words.run, story.run("example-run")))
    assert "Stage Name: kubernetes-fleet.io/deleteStage" in said
    assert "Policy Observed Cluster Count: 3" in said
    assert "Reason: UpdateRunInitializedFailed" in said


def test_a_run_without_a_state_is_planned_and_starts_when_told(tell):
    story = tell("states")
    story.prepare()
    story.start("example-run", state=None)
    story.wait("example-run", "Initialized")
    assert story.run_json("example-run")["spec"]["state"] == "Initialize"
    assert story.row("example-run")["PROGRESSING"] == ""
    refused = story.set_state("example-run", "Stop", ok=False)
    assert "invalid state transition: cannot transition from Initialize to Stop" in refused
    story.set_state("example-run", "Run")
    story.wait("example-run", "Succeeded")
    refused = story.set_state("example-run", "Initialize", ok=False)
    assert "invalid state transition: cannot transition from Run to Initialize" in refused
    row = story.row("example-run")
    assert (row["INITIALIZED"], row["PROGRESSING"], row["SUCCEEDED"]) == ("True", "False", "True")


def test_a_run_created_stopped_is_planned_and_stopped(tell):
    story = tell("stopped")
    story.prepare()
    story.start("example-run", state="Stop")
    story.wait_reason("example-run", "Progressing", "UpdateRunStopped")
    assert story.message("example-run", "Progressing") == "The update run has been stopped"
    assert story.message("example-run", "Initialized") == "The UpdateRun initialized successfully"
    story.set_state("example-run", "Run")
    story.wait("example-run", "Succeeded")


def held(story, name="example-run"):
    """A run that waits before its first stage: the moment at which people change things under it."""
    story.prepare(two_stages(beforeStageTasks=[{"type": "Approval"}]))
    story.start(name)
    story.wait_reason(name, "Progressing", "UpdateRunWaiting")


def expect_failure(story, text, name="example-run"):
    story.wait(name, "Succeeded=False")
    row = story.row(name)
    assert (row["INITIALIZED"], row["PROGRESSING"], row["SUCCEEDED"]) == ("True", "False", "False")
    assert story.message(name, "Progressing") == "The stages are aborted due to a non-recoverable error"
    assert story.message(name, "Succeeded").startswith(text)


def test_a_placement_deleted_under_a_run_aborts_it(tell):
    story = tell("noplace")
    held(story)
    story.live.kubectl("delete", story.words.placement, story.placement, *story.at)
    expect_failure(story, f"{FAILED}parent placement not found")


def test_a_strategy_deleted_under_a_run_aborts_it(tell):
    story = tell("nostrat")
    held(story)
    story.live.kubectl("delete", story.words.strategy_kind, story.strategy, *story.at)
    expect_failure(story, f"{ABORTED}referenced updateStrategy not found: `")


def test_a_cluster_that_comes_to_match_two_stages_aborts_the_run(tell):
    story = tell("twice")
    overlapping = [
        {
            "name": "staging",
            "labelSelector": {"matchLabels": {"environment": "staging"}},
            "beforeStageTasks": [{"type": "Approval"}],
        },
        {"name": "canary", "labelSelector": {"matchLabels": {"environment": "canary"}}},
        {"name": "extra", "labelSelector": {"matchLabels": {"extra": "true"}}},
    ]
    story.prepare(overlapping)
    story.start("example-run")
    story.wait_reason("example-run", "Progressing", "UpdateRunWaiting")
    story.live.kubectl("label", "membercluster", "member1", "extra=true")
    try:
        expect_failure(story, f"{ABORTED}cluster `member1` appears in more than one stage")
    finally:
        story.live.kubectl("label", "membercluster", "member1", "extra-")


def test_a_run_that_is_preempted_names_the_binding_and_the_binding_names_the_other_run(tell):
    story = tell("preempt")
    story.prepare()
    story.start("example-run")
    story.wait("example-run", "Succeeded")
    story.deploy("nginx:1.28:broken")
    story.start("example-run-0")
    story.wait_reason("example-run-0", "Progressing", "UpdateRunStuck")
    story.deploy("nginx:1.29")
    story.start("example-run-1")
    story.wait("example-run-1", "Succeeded")
    bindings = story.get(story.words.bindings)
    assert bindings.splitlines()[0].split() == ["NAME", "WORKSYNCHRONIZED", "RESOURCESAPPLIED", "AGE"]
    binding = next(line.split()[0] for line in bindings.splitlines() if f"{story.placement}-member2-" in line)
    path = f"{story.space}/{binding}" if story.at else binding
    expect_failure(
        story,
        "cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating "
        f"cluster `member2` in the stage `staging` is not up-to-date with the desired status, please check the status of "
        f"binding `{path}` and see if there is a concurrent updateRun referencing the same placement and updating "
        "the same cluster",
        "example-run-0",
    )
    held = story.json(story.words.bindings, binding)
    started = next(one for one in held["status"]["conditions"] if one["type"] == "RolloutStarted")
    assert started["message"].endswith(f"updateRun: {story.run('example-run-1')}")
    assert held["spec"]["resourceSnapshotName"] == f"{story.placement}-2-snapshot"


def test_a_bad_image_makes_the_run_stuck_and_the_cause_is_found_as_the_guide_says(tell):
    story = tell("stuck")
    story.prepare()
    story.start("first")
    story.wait("first", "Succeeded")
    story.deploy("nginx:1.28:broken")
    story.start("example-run")
    story.wait_reason("example-run", "Progressing", "UpdateRunStuck")
    assert story.message("example-run", "Progressing") == (
        "The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement "
        "status for potential errors"
    )
    row = story.row("example-run")
    assert (row["INITIALIZED"], row["PROGRESSING"], row["SUCCEEDED"]) == ("True", "False", "")
    said = flat(story.describe(story.words.placement, story.placement))
    assert "All of the works are synchronized to the latest" in said
    assert "All corresponding work objects are applied" in said
    assert "is not yet available Observed Generation: 1 Reason: NotAllWorkAreAvailable" in said
    assert "Manifest is not yet available; Fleet will check again later" in said
    assert "Reason: ManifestNotAvailableYet" in said
    assert "Group: apps Kind: Deployment Name: nginx-deployment" in said
    pods = story.pods("member2")
    assert "InvalidImageName" in pods
    assert "0/1" in pods
    deployment = story.live.kubectl("get", "deployment", "-n", story.space, context="member2").splitlines()
    assert deployment[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert "InvalidImageName" not in story.pods("member1"), "the next stage is untouched"
    story.deploy("nginx:1.28")
    story.start("fixed")
    story.wait("fixed", "Succeeded")
    story.live.kubectl("delete", story.words.run, story.run("example-run"), *story.at)
    assert "InvalidImageName" not in story.pods("member2")


def test_an_approval_at_the_wrong_generation_says_why_it_does_not_count(tell):
    story = tell("approve")
    story.prepare(two_stages(afterStageTasks=[{"type": "Approval"}]))
    story.start("example-run")
    story.wait_reason("example-run", "Progressing", "UpdateRunWaiting")
    assert story.message("example-run", "Progressing") == (
        "The updateRun is waiting for after-stage tasks in stage staging to complete"
    )
    request = f"{story.run('example-run')}-after-staging"
    labels = story.json(story.words.approvals, request)["metadata"]["labels"]
    assert labels["kubernetes-fleet.io/targetUpdateRun"] == story.run("example-run")
    assert labels["kubernetes-fleet.io/taskType"] == "afterStage"
    story.approve(request, generation=0)
    what = f"{story.words.approvals}/{request}"
    story.live.wait(what, "ApprovalNotCounted", *story.at)
    conditions = story.json(story.words.approvals, request)["status"]["conditions"]
    assert not any(one["type"] == "ApprovalAccepted" for one in conditions)
    head, line = story.get(story.words.approvals, request).splitlines()
    assert head.split() == ["NAME", "UPDATE-RUN", "STAGE", "APPROVED", "AGE"]
    assert line.split()[:4] == [request, story.run("example-run"), "staging", "True"]
    story.approve(request, generation=1)
    story.live.wait(what, "ApprovalAccepted", *story.at)
    story.wait("example-run", "Succeeded")
    run = json.dumps(story.run_json("example-run"))
    assert "All stages are completed successfully" in run
