"""Scenarios of execution (contract section D): gates, clusters, stages, and what ends a run under way."""

import pytest
from msgspec import to_builtins

from echelon.api.builtin import EVENTS
from echelon.api.conditions import find_condition, is_true_at
from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS
from echelon.client.errors import NotFound
from echelon.rules.run_phases import RunPhase, StagePhase, stage_phase
from echelon.rules.run_seen import Options
from tests.rollouts import APPROVAL, both, fixture_a, fixture_b, message, picks, play, said, stage, wait
from tests.scenarios.test_runs_initialization import USER, path

CLUSTERS_1 = ["cluster-9", "cluster-7", "cluster-5", "cluster-3", "cluster-1"]


async def override_for_east(r):
    """A cluster override snapshot whose rule matches the eastern clusters."""
    spec = {
        "overrideHash": "aGFzaA==",
        "overrideSpec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "work"}],
            "policy": {
                "overrideRules": [
                    {
                        "clusterSelector": {
                            "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "eastus"}}}]
                        },
                        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}],
                    }
                ]
            },
        },
    }
    body = {
        "apiVersion": CLUSTER_OVERRIDE_SNAPSHOTS.api_version,
        "kind": CLUSTER_OVERRIDE_SNAPSHOTS.kind,
        "metadata": {
            "name": "cro-0",
            "labels": {
                "kubernetes-fleet.io/override-index": "0",
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/parent-resource-override": "cro",
            },
        },
        "spec": spec,
    }
    await r.client.create(CLUSTER_OVERRIDE_SNAPSHOTS, body)


def stage_of(run, index):
    return run.status.stages_status[index]


async def finish(r, cluster):
    r.delivery.silent.discard(cluster)
    r.delivery.again(r.w, cluster)
    await r.w.settle()


async def holds(r, check):
    """Wait until `check(run)` holds; return the run."""

    async def look():
        run = await r.get()
        return run if check(run) else None

    return await r.w.until(look, 60)


@both
def test_a_whole_run_with_every_kind_of_gate(scope):
    """Scenarios 36 and 48 to 53, one after the other."""

    async def scenario(r):
        await fixture_a(r)
        await override_for_east(r)
        await r.start()
        r.delivery.silent.update(f"cluster-{i}" for i in range(10))
        await r.run()

        # 48: nothing is touched before the approval
        run = await r.reaches(RunPhase.WAITING)
        await r.w.settle()
        assert message(run, "Progressing") == (
            "The updateRun is waiting for before-stage tasks in stage stage1 to complete"
        )
        one = stage_of(run, 0)
        assert (stage_phase(one.conditions), one.start_time) == (StagePhase.WAITING_BEFORE, None)
        assert said(one.before_stage_task_status[0].conditions) == {
            "ApprovalRequestCreated": "True/StageTaskApprovalRequestCreated"
        }
        request = await r.request("r-before-stage1")
        assert request.metadata.labels == {
            "kubernetes-fleet.io/targetUpdatingStage": "stage1",
            "kubernetes-fleet.io/targetUpdateRun": "r",
            "kubernetes-fleet.io/taskType": "beforeStage",
            "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
        }
        assert (request.spec.run_name, request.spec.target_stage) == ("r", "stage1")
        assert {(await r.get_binding(f"cluster-{i}")).spec.state for i in range(10)} == {"Scheduled"}

        # 49: approved
        await r.approve("r-before-stage1")
        run = await holds(r, lambda run: stage_of(run, 0).clusters[0].conditions)
        request = await r.request("r-before-stage1")
        accepted = find_condition(request.status.conditions, "ApprovalAccepted")
        assert (accepted.status, accepted.reason, accepted.observed_generation, accepted.message) == (
            "True",
            "ApprovalRequestApprovalAccepted",
            request.metadata.generation,
            "The approval request has been approved and cannot be reverted",
        )
        one = stage_of(run, 0)
        assert said(one.before_stage_task_status[0].conditions)["ApprovalRequestApproved"] == (
            "True/StageTaskApprovalRequestApproved"
        )
        assert said(run.status.conditions)["Progressing"] == "True/UpdateRunProgressing"
        assert stage_phase(one.conditions) is StagePhase.STARTED
        assert one.start_time is not None
        binding = await r.get_binding("cluster-9")
        overrides = ("cro-0",) if not scope.namespaced else ()
        assert (binding.spec.state, binding.spec.resource_snapshot_name) == ("Bound", "p-0-snapshot")
        assert (
            binding.spec.cluster_resource_override_snapshots
            == one.clusters[0].cluster_resource_override_snapshots
        )
        assert one.clusters[0].cluster_resource_override_snapshots == ("cro-0",) or not overrides
        assert stage_of(run, 1).clusters[0].cluster_resource_override_snapshots == ()
        assert binding.spec.apply_strategy == run.status.applied_strategy
        assert is_true_at(binding.status.conditions, "RolloutStarted", binding.metadata.generation)
        stamp = find_condition(binding.status.conditions, "RolloutStarted")
        assert stamp.message == (
            "Detected the new changes on the resources and started the rollout process, "
            "resourceSnapshotIndex: 0, updateRun: r"
        )

        # 50: strictly one at a time
        for position, name in enumerate(CLUSTERS_1):
            run = await r.get()
            states = [sorted(said(entry.conditions)) for entry in stage_of(run, 0).clusters]
            assert states == [["Started", "Succeeded"]] * position + [["Started"]] + [[]] * (4 - position)
            await finish(r, name)

        # 51: clusters done, tasks open
        run = await r.get()
        one = stage_of(run, 0)
        assert stage_phase(one.conditions) is StagePhase.WAITING_AFTER
        assert message(run, "Progressing") == (
            "The updateRun is waiting for after-stage tasks in stage stage1 to complete"
        )
        assert said(one.after_stage_task_status[0].conditions) == {}
        assert said(one.after_stage_task_status[1].conditions) == {
            "ApprovalRequestCreated": "True/StageTaskApprovalRequestCreated"
        }

        # 52: both tasks done
        await r.approve("r-after-stage1")
        run = await holds(
            r, lambda run: stage_phase(stage_of(run, 1).conditions) is StagePhase.WAITING_BEFORE
        )
        one = stage_of(run, 0)
        assert said(one.conditions) == {
            "Progressing": "False/StageUpdatingSucceeded",
            "Succeeded": "True/StageUpdatingSucceeded",
        }
        assert one.end_time is not None
        elapsed = find_condition(one.after_stage_task_status[0].conditions, "WaitTimeElapsed")
        done_at = find_condition(one.conditions, "Progressing").last_transition_time
        assert (elapsed.last_transition_time - done_at).total_seconds() >= 4
        assert elapsed.reason == "AfterStageTaskWaitTimeElapsed"
        assert await r.phase() is RunPhase.WAITING

        # 53: the second stage, then the delete stage
        await hold_bindings(r)
        await r.approve("r-before-stage2")
        for name in ("cluster-0", "cluster-2", "cluster-4", "cluster-6", "cluster-8"):
            await r.w.settle()
            await finish(r, name)
        await r.approve("r-after-stage2")
        run = await holds(
            r, lambda run: all(entry.conditions for entry in run.status.deletion_stage_status.clusters)
        )
        delete = run.status.deletion_stage_status
        assert stage_phase(delete.conditions) is StagePhase.STARTED
        assert [said(entry.conditions) for entry in delete.clusters] == [
            {"Started": "True/ClusterUpdatingStarted"}
        ] * 3
        assert said(run.status.conditions)["Progressing"] == "True/UpdateRunProgressing"
        for i in range(3):
            await free(r, f"unscheduled-cluster-{i}")
        run = await r.reaches(RunPhase.SUCCEEDED)
        delete = run.status.deletion_stage_status
        assert stage_phase(delete.conditions) is StagePhase.SUCCEEDED
        assert all(len(entry.conditions) == 2 for entry in delete.clusters)
        assert said(run.status.conditions) == {
            "Initialized": "True/UpdateRunInitializedSuccessfully",
            "Progressing": "False/UpdateRunSucceeded",
            "Succeeded": "True/UpdateRunSucceeded",
        }
        assert message(run, "Progressing") == "All stages are completed"
        assert message(run, "Succeeded") == "All stages are completed successfully"
        generation = run.metadata.generation
        assert {one.observed_generation for one in run.status.conditions} == {generation}

    play(scope, scenario)


async def hold_bindings(r, *clusters):
    for name in clusters or [f"unscheduled-cluster-{i}" for i in range(3)]:
        body = {"metadata": {"finalizers": ["test/hold"]}}
        await r.client.patch(r.scope.binding, r.binding_name(name), r.namespace, body)


async def free(r, cluster):
    body = {"metadata": {"finalizers": []}}
    await r.client.patch(r.scope.binding, r.binding_name(cluster), r.namespace, body)


@both
def test_without_gates_a_run_goes_through_and_nothing_is_left_to_delete(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run()
        run = await r.reaches(RunPhase.SUCCEEDED, within_s=1)
        assert stage_phase(stage_of(run, 0).conditions) is StagePhase.SUCCEEDED
        delete = run.status.deletion_stage_status
        assert (stage_phase(delete.conditions), delete.clusters) == (StagePhase.SUCCEEDED, ())
        assert delete.start_time is not None
        assert delete.end_time is not None
        assert await r.requests() == []

    play(scope, scenario)


@both
@pytest.mark.parametrize(
    ("tasks", "gate"),
    [
        ({"beforeStageTasks": [APPROVAL]}, "r-before-stage1"),
        ({"afterStageTasks": [APPROVAL]}, "r-after-stage1"),
        ({"afterStageTasks": [wait("30s")]}, None),
    ],
    ids=["before", "after", "wait"],
)
def test_a_run_waits_exactly_at_its_gate(scope, tasks, gate):
    async def scenario(r):
        await fixture_b(r, **tasks)
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING, within_s=1)
        await r.w.settle()
        assert await r.requests() == ([gate] if gate else [])
        if gate:
            await r.approve(gate)
        await r.reaches(RunPhase.SUCCEEDED, within_s=1 if gate else 31)
        assert gate or (r.w.now() - r.w.sim._start).total_seconds() >= 30

    play(scope, scenario)


SHORT = Options(stuck_after=Options().stuck_after / 300)  # one second


@both
def test_a_cluster_that_takes_too_long_makes_the_run_stuck_never_failed(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start(SHORT)
        r.delivery.broken.add("cluster-0")
        await r.run()
        run = await r.reaches(RunPhase.STUCK, within_s=3)
        assert message(run, "Progressing") == (
            "The updateRun is stuck waiting for cluster-0 cluster(s) in stage stage1 to finish updating, "
            "please check placement status for potential errors"
        )
        assert said(run.status.conditions)["Progressing"] == "False/UpdateRunStuck"
        assert stage_phase(stage_of(run, 0).conditions) is StagePhase.STARTED
        assert said(stage_of(run, 0).clusters[0].conditions) == {"Started": "True/ClusterUpdatingStarted"}
        assert find_condition(run.status.conditions, "Succeeded") is None
        version = run.metadata.resource_version
        await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 900, 1000)
        assert (await r.get()).metadata.resource_version == version  # stuck and silent

        # it frees itself
        r.delivery.broken.clear()
        r.delivery.again(r.w)
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)

    play(scope, scenario)


@both
def test_a_cluster_taken_away_from_a_stuck_run_ends_it(scope):
    """Scenario 57: the binding goes back to Scheduled."""

    async def scenario(r):
        await fixture_b(r)
        await r.start(SHORT)
        r.delivery.broken.add("cluster-0")
        await r.run()
        await r.reaches(RunPhase.STUCK, within_s=3)
        body = {"spec": {"state": "Scheduled"}}
        await r.client.patch(r.scope.binding, r.binding_name("cluster-0"), r.namespace, body)
        run = await r.reaches(RunPhase.FAILED, within_s=1)
        preempted(r, run, "cluster-0")

    play(scope, scenario)


def preempted(r, run, cluster, rival="", stage_name="stage1"):
    """Cluster, stage and run say that somebody took the cluster."""
    binding = r.binding_name(cluster)
    text = (
        f"{USER}the binding of the updating cluster `{cluster}` in the stage `{stage_name}` is not up-to-date with "
        "the desired status, please check the status of binding "
        f"`{r.namespace + '/' if r.namespace else ''}{binding}` and see if there is a concurrent updateRun "
        "referencing the same placement and updating the same cluster"
    ) + (f": it was moved by updateRun `{rival}`" if rival else "")
    assert said(run.status.conditions) == {
        "Initialized": "True/UpdateRunInitializedSuccessfully",
        "Progressing": "False/UpdateRunFailed",
        "Succeeded": "False/UpdateRunFailed",
    }
    assert message(run, "Progressing") == "The stages are aborted due to a non-recoverable error"
    assert message(run, "Succeeded") == f"cannot continue the updateRun: {text}"
    failed = next(one for one in run.status.stages_status if stage_phase(one.conditions) is StagePhase.FAILED)
    assert message(failed, "Succeeded") == f"cannot continue the updateRun: {text}"
    assert message(failed, "Progressing") == "Stage update aborted due to a non-recoverable error"
    assert failed.end_time is not None
    return text


@both
def test_a_started_cluster_on_another_version_ends_the_run(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        r.delivery.silent.add("cluster-1")
        await r.run()
        await r.w.settle()
        body = {"spec": {"resourceSnapshotName": "p-8-snapshot"}}
        await r.client.patch(r.scope.binding, r.binding_name("cluster-1"), r.namespace, body)
        run = await r.reaches(RunPhase.FAILED, within_s=1)
        text = preempted(r, run, "cluster-1")
        entries = stage_of(run, 0).clusters
        assert said(entries[0].conditions)["Succeeded"] == "True/ClusterUpdatingSucceeded"
        assert said(entries[1].conditions)["Succeeded"] == "False/ClusterUpdatingFailed"
        assert message(entries[1], "Succeeded") == text
        assert entries[2].conditions == ()
        await r.w.settle()
        events = (await r.client.list(EVENTS)).items
        told = next(one for one in events if one["reason"] == "UpdateRunFailed")
        assert told["type"] == "Warning"
        assert told["message"].startswith(
            f"cannot continue the updateRun: {text}"
        )  # then the cause, for people

    play(scope, scenario)


@both
def test_a_stage_without_clusters_is_skipped_with_its_tasks(scope):
    """Scenario 59."""

    async def scenario(r):
        empty = {
            "name": "stage2",
            "beforeStageTasks": [APPROVAL],
            "afterStageTasks": [wait("10s"), APPROVAL],
        }
        await r.begin({"c": {}}, [stage("stage1", afterStageTasks=[APPROVAL]), empty])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await r.w.settle()
        await r.approve("r-after-stage1")
        run = await r.reaches(RunPhase.SUCCEEDED, within_s=1)
        two = stage_of(run, 1)
        assert said(two.conditions) == {
            "Progressing": "False/StageUpdatingSkippedNoClusters",
            "Succeeded": "True/StageUpdatingSkippedNoClusters",
        }
        assert message(two, "Succeeded") == "Stage skipped because it has no clusters"
        assert two.start_time is not None
        assert two.end_time is not None
        assert [
            task.conditions for task in (*two.before_stage_task_status, *two.after_stage_task_status)
        ] == [()] * 3
        assert await r.requests() == ["r-after-stage1"]

    play(scope, scenario)


@both
def test_reporting_differences_counts_as_done_failing_to_does_not(scope):
    """Scenarios 60 and 61."""

    async def scenario(r):
        await r.begin({"c": {}}, [stage("stage1")], apply={"type": "ReportDiff"})
        await r.start(SHORT)
        r.delivery.last = ("DiffReported", "AllWorkHaveDiffReported")
        await r.run()
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)
        r.delivery.broken.add("c")
        await r.snapshot(1)
        await r.run("second", index="1")
        await r.reaches(RunPhase.STUCK, "second", within_s=3)

    play(scope, scenario)


@both
def test_an_unaccepted_request_comes_back_an_accepted_one_does_not(scope):
    """Scenario 62."""

    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL], afterStageTasks=[APPROVAL, wait("90s")])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        first = await r.request("r-before-stage1")
        await r.client.delete(r.scope.approval, "r-before-stage1", r.namespace)
        await r.w.settle()
        again = await r.request("r-before-stage1")
        assert again.metadata.uid != first.metadata.uid
        assert (again.spec, again.metadata.labels) == (first.spec, first.metadata.labels)
        await r.approve("r-before-stage1")
        await holds(r, lambda run: stage_phase(stage_of(run, 0).conditions) is StagePhase.WAITING_AFTER)
        await r.client.delete(r.scope.approval, "r-before-stage1", r.namespace)
        await r.approve("r-after-stage1")
        await r.w.settle()
        await r.client.delete(r.scope.approval, "r-after-stage1", r.namespace)
        await r.w.settle()
        assert await r.requests() == []
        run = await r.get()
        approval, timed = stage_of(run, 0).after_stage_task_status
        assert "ApprovalRequestApproved" in said(approval.conditions)
        assert timed.conditions == ()
        await r.reaches(RunPhase.SUCCEEDED, within_s=91)
        assert await r.requests() == []

    play(scope, scenario)


@both
def test_a_request_that_asks_for_something_else_ends_the_run(scope):
    """Scenario 65."""

    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL])
        spec = {"parentStageRollout": "other", "targetStage": "elsewhere"}
        await r.create(r.scope.approval, "r-before-stage1", spec)
        await r.start()
        await r.run()
        run = await r.reaches(RunPhase.FAILED, within_s=1)
        assert message(run, "Succeeded") == (
            "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the "
            f"approval request task `{path(r, 'r-before-stage1')}` is targeting update run `{path(r, 'other')}` and "
            f"stage `elsewhere`, want target update run `{path(r, 'r')} and stage `stage1`"
        )
        assert stage_phase(stage_of(run, 0).conditions) is StagePhase.FAILED

    play(scope, scenario)


@both
def test_an_approval_for_another_generation_does_not_count_and_says_why(scope):
    """Scenario 95; KubeFleet ignores it without a word."""

    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await r.w.settle()
        await r.approve("r-before-stage1", generation=0)
        await r.w.settle()
        assert await r.phase() is RunPhase.WAITING
        request = await r.request("r-before-stage1")
        told = said(request.status.conditions)
        assert "ApprovalAccepted" not in told
        assert told["ApprovalNotCounted"] == "True/ObservedGenerationMismatch"
        text = (
            "The Approved condition has observedGeneration 0, but the request is at generation 1, so it does not "
            "count: approve again with observedGeneration 1"
        )
        assert message(request, "ApprovalNotCounted") == text
        events = [one for one in (await r.client.list(EVENTS)).items if one["reason"] == "ApprovalNotCounted"]
        assert [(one["type"], one["message"]) for one in events] == [("Warning", text)]
        await r.approve("r-before-stage1")
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)
        assert "ApprovalNotCounted" not in said((await r.request("r-before-stage1")).status.conditions)

    play(scope, scenario)


@both
def test_an_approval_taken_back_after_it_was_accepted_still_holds(scope):
    """Scenario 97."""

    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL], afterStageTasks=[wait("1m")])
        await r.start()
        r.delivery.silent.add("cluster-1")
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await r.w.settle()
        await r.approve("r-before-stage1")
        await r.reaches(RunPhase.PROGRESSING)
        await r.approve("r-before-stage1", status="False")
        await r.w.settle()
        await finish(r, "cluster-1")
        await r.reaches(RunPhase.SUCCEEDED, within_s=62)

    play(scope, scenario)


@both
def test_two_runs_with_other_versions_the_later_one_wins(scope):
    """Scenario 98."""

    async def scenario(r):
        await fixture_b(r)
        await r.snapshot(1)
        await r.start()
        r.delivery.silent.add("cluster-1")
        await r.run("first")
        await r.w.settle()
        await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 2)
        r.delivery.silent.clear()
        r.delivery.silent.add("cluster-2")
        await r.run("second", index="1")
        run = await r.reaches(RunPhase.FAILED, "first", within_s=1)
        preempted(r, run, "cluster-0", "second")  # done by the first, moved by the second: met first
        await finish(r, "cluster-2")
        await r.reaches(RunPhase.SUCCEEDED, "second", within_s=2)
        assert {await r.version_of(f"cluster-{i}") for i in range(3)} == {"p-1-snapshot"}

    play(scope, scenario)


@both
def test_a_run_without_an_index_says_none_on_the_binding(scope):
    """Scenario 99."""

    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run(index=None)
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)
        binding = await r.get_binding("cluster-0")
        stamp = find_condition(binding.status.conditions, "RolloutStarted")
        assert stamp.message.endswith("resourceSnapshotIndex: , updateRun: r")
        assert binding.spec.resource_snapshot_name == "p-1-snapshot"

    play(scope, scenario)


@both
@pytest.mark.parametrize(("limit", "most"), [(3, 3), ("70%", 2), ("10%", 1), (10, 3)])
def test_never_more_than_max_concurrency_are_updating(scope, limit, most):
    """Scenario 90, without a poll in between."""

    async def scenario(r):
        await fixture_b(r, maxConcurrency=limit)
        await r.start()
        r.delivery.silent.update(f"cluster-{i}" for i in range(3))
        await r.run()
        for done in range(3):
            await r.w.settle()
            run = await r.get()
            open_ = [entry for entry in stage_of(run, 0).clusters if len(entry.conditions) == 1]
            assert len(open_) == min(most, 3 - done)
            bound = [
                name
                for name in (f"cluster-{i}" for i in range(3))
                if (await r.get_binding(name)).spec.state == "Bound"
            ]
            assert len(bound) == min(done + most, 3)
            await finish(r, f"cluster-{done}")
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)

    play(scope, scenario)


@both
def test_clusters_that_have_the_version_already_are_done_at_once_and_not_touched(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run("first")
        await r.reaches(RunPhase.SUCCEEDED, "first")
        before = [to_builtins(await r.get_binding(f"cluster-{i}")) for i in range(3)]
        await r.run("second")
        await r.reaches(RunPhase.SUCCEEDED, "second", within_s=1)
        assert [to_builtins(await r.get_binding(f"cluster-{i}")) for i in range(3)] == before

    play(scope, scenario)


@both
def test_a_stale_stamp_is_renewed(scope):
    """The scheduler has touched the binding's spec since the last run: delivery waits for a new stamp."""

    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run("first")
        await r.reaches(RunPhase.SUCCEEDED, "first")
        body = {"spec": {"clusterDecision": {"reason": "picked again"}}}
        await r.client.patch(r.scope.binding, r.binding_name("cluster-1"), r.namespace, body)
        await r.run("second")
        await r.reaches(RunPhase.SUCCEEDED, "second", within_s=1)
        binding = await r.get_binding("cluster-1")
        stamp = find_condition(binding.status.conditions, "RolloutStarted")
        assert stamp.observed_generation == binding.metadata.generation
        assert stamp.message.endswith("updateRun: second")
        assert binding.spec.resource_snapshot_name == "p-0-snapshot"

    play(scope, scenario)


@both
def test_going_back_is_a_later_run_with_an_older_index(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.snapshot(1)
        await r.start()
        for name, index in (("up", "1"), ("back", "0")):
            await r.run(name, index=index)
            run = await r.reaches(RunPhase.SUCCEEDED, name, within_s=1)
            assert run.status.resource_snapshot_index_used == index
            assert {await r.version_of(f"cluster-{i}") for i in range(3)} == {f"p-{index}-snapshot"}

    play(scope, scenario)


@both
def test_a_deleted_binding_of_a_started_cluster_ends_the_run(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        r.delivery.silent.add("cluster-0")
        await r.run()
        await r.w.settle()
        await r.client.delete(r.scope.binding, r.binding_name("cluster-0"), r.namespace)
        run = await r.reaches(RunPhase.FAILED, within_s=1)
        assert "the number of selected bindings 2 is not equal" in message(run, "Succeeded")

    play(scope, scenario)


@both
def test_deleting_a_run_takes_its_requests_along_and_nobody_elses(scope):
    """Scenario 77."""

    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL])
        await r.start()
        await r.run("one")
        await r.run("two")
        await r.reaches(RunPhase.WAITING, "one")
        await r.reaches(RunPhase.WAITING, "two")
        await r.run("bad", index="77")
        await r.reaches(RunPhase.INIT_FAILED, "bad")
        await r.w.settle()
        for name in ("one", "bad"):
            await r.client.delete(r.scope.run, name, r.namespace)
        await r.w.settle()
        for name in ("one", "bad"):
            with pytest.raises(NotFound):
                await r.get(name)
        assert await r.requests() == ["two-before-stage1"]

    play(scope, scenario)


@both
def test_a_fresh_run_and_one_under_way_can_be_deleted_and_leave_the_clusters_alone(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        r.delivery.silent.add("cluster-1")
        await r.run("idle", state="Initialize")
        await r.run("busy")
        await r.reaches(RunPhase.PROGRESSING, "busy")
        await r.w.settle()
        for name in ("idle", "busy"):
            await r.client.delete(r.scope.run, name, r.namespace)
        await r.w.settle()
        assert (await r.client.list(r.scope.run)).items == []
        states = [(await r.get_binding(f"cluster-{i}")).spec.state for i in range(3)]
        assert states == ["Bound", "Bound", "Scheduled"]

    play(scope, scenario)


def test_stage_selectors_pick_by_label():
    assert picks(a="b") == {"matchLabels": {"a": "b"}}
