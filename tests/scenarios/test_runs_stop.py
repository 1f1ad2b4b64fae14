"""Scenarios of stopping and resuming (contract section E), and of runs that meet a later one on their way."""

import pytest

from echelon.api.conditions import find_condition
from echelon.api.own import MEMBER_CLUSTERS
from echelon.client.errors import Invalid
from echelon.rules.run_phases import RunPhase, StagePhase, stage_phase
from tests.rollouts import APPROVAL, both, fixture_b, message, play, said, stage, wait
from tests.scenarios.test_runs_execution import SHORT, finish, free, hold_bindings, preempted, stage_of

STOPPING = "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process"
GATES = {"beforeStageTasks": [APPROVAL], "afterStageTasks": [APPROVAL, wait("20s")]}


async def begun(r):
    """Fixture B with gates and three leaving clusters, one of which cannot go."""
    await fixture_b(r, leaving=3, **GATES)
    await hold_bindings(r, "unscheduled-cluster-1")
    await r.start()
    await r.run()
    await r.reaches(RunPhase.WAITING)
    await r.w.settle()


async def both_are(r, run_phase, stage_phase_, index=0):
    run = await r.reaches(run_phase, within_s=2)
    held = [*run.status.stages_status, run.status.deletion_stage_status][index]
    assert stage_phase(held.conditions) is stage_phase_
    generation = run.metadata.generation
    assert {one.observed_generation for one in (*run.status.conditions, *held.conditions)} == {generation}
    return run


@both
def test_stop_and_resume_at_every_point_of_a_run(scope):
    """Scenarios 69 to 75, one after the other."""

    async def scenario(r):
        await begun(r)
        r.delivery.silent.update({"cluster-0", "cluster-1", "cluster-2"})

        # 69: stopped at the before-stage gate
        await r.set_state("Stop")
        run = await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        assert message(run, "Progressing") == "The update run has been stopped"
        assert message(stage_of(run, 0), "Progressing") == (
            "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
        )

        # 70: an approval is kept, not consumed
        await r.approve("r-before-stage1")
        await r.w.settle()
        await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        assert "ApprovalAccepted" not in said((await r.request("r-before-stage1")).status.conditions)
        await r.set_state("Run")
        run = await both_are(r, RunPhase.PROGRESSING, StagePhase.STARTED)
        assert "ApprovalAccepted" in said((await r.request("r-before-stage1")).status.conditions)
        assert said(stage_of(run, 0).clusters[0].conditions) == {"Started": "True/ClusterUpdatingStarted"}

        # 71: what is under way finishes, nothing else begins
        await finish(r, "cluster-0")
        await r.set_state("Stop")
        run = await both_are(r, RunPhase.STOPPING, StagePhase.STOPPING)
        assert said(run.status.conditions)["Progressing"] == "Unknown/UpdateRunStopping"
        assert message(run, "Progressing") == STOPPING
        await r.w.settle()
        await both_are(r, RunPhase.STOPPING, StagePhase.STOPPING)
        await finish(r, "cluster-1")
        run = await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        assert [len(one.conditions) for one in stage_of(run, 0).clusters] == [2, 2, 0]
        assert (await r.get_binding("cluster-2")).spec.state == "Scheduled"

        # 72: resumed
        await r.set_state("Run")
        run = await both_are(r, RunPhase.PROGRESSING, StagePhase.STARTED)
        await r.w.settle()
        assert len(stage_of(await r.get(), 0).clusters[2].conditions) == 1
        await finish(r, "cluster-2")
        await both_are(r, RunPhase.WAITING, StagePhase.WAITING_AFTER)

        # 73: stopped at the after-stage gate
        await r.set_state("Stop")
        await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        await r.approve("r-after-stage1")
        await r.w.settle()
        run = await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        assert run.status.deletion_stage_status.conditions == ()
        since = find_condition(stage_of(run, 0).conditions, "Progressing").last_transition_time
        await r.set_state("Run")
        await r.w.until(lambda: (r.w.now() - since).total_seconds() >= 20.5)
        run = await both_are(r, RunPhase.PROGRESSING, StagePhase.STARTED, 1)
        assert stage_phase(stage_of(run, 0).conditions) is StagePhase.SUCCEEDED
        await r.w.settle()
        entries = (await r.get()).status.deletion_stage_status.clusters
        assert [len(one.conditions) for one in entries] == [2, 1, 2]

        # 74: stopped while a binding is going
        await r.set_state("Stop")
        await both_are(r, RunPhase.STOPPING, StagePhase.STOPPING, 1)
        await free(r, "unscheduled-cluster-1")
        run = await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED, 1)
        assert [len(one.conditions) for one in run.status.deletion_stage_status.clusters] == [2, 2, 2]

        # 75: resumed to the end
        await r.set_state("Run")
        await both_are(r, RunPhase.SUCCEEDED, StagePhase.SUCCEEDED, 1)

    play(scope, scenario)


@both
def test_a_run_made_in_state_stop_is_planned_and_stopped(scope):
    """Scenario 102."""

    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run(state="Stop")
        run = await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)
        assert said(run.status.conditions)["Initialized"] == "True/UpdateRunInitializedSuccessfully"
        await r.set_state("Run")
        await r.reaches(RunPhase.SUCCEEDED, within_s=1)

    play(scope, scenario)


@both
@pytest.mark.parametrize(
    ("before", "after"), [("Initialize", "Stop"), ("Run", "Initialize"), ("Stop", "Initialize")]
)
def test_states_do_not_go_backwards(scope, before, after):
    async def scenario(r):
        await fixture_b(r)
        await r.run(state=before)
        with pytest.raises(Invalid, match=f"cannot transition from {before} to {after}"):
            await r.set_state(after)

    play(scope, scenario)


@both
def test_a_stopping_run_gets_stuck_like_any_other_and_says_so_once(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start(SHORT)
        r.delivery.silent.add("cluster-0")
        await r.run()
        await r.reaches(RunPhase.PROGRESSING)
        await r.set_state("Stop")
        await r.reaches(RunPhase.STUCK, within_s=3)
        version = (await r.get()).metadata.resource_version
        await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 60)
        assert (await r.get()).metadata.resource_version == version
        await finish(r, "cluster-0")
        await both_are(r, RunPhase.STOPPED, StagePhase.STOPPED)

    play(scope, scenario)


@both
def test_a_stop_does_not_overlook_a_preemption(scope):
    """KubeFleet's stop looks only at availability and counts the other run's success as its own."""

    async def scenario(r):
        await fixture_b(r)
        await r.snapshot(1)
        await r.start()
        r.delivery.silent.add("cluster-0")
        await r.run("first")
        await r.reaches(RunPhase.PROGRESSING, "first")
        await r.set_state("Stop", "first")
        await r.reaches(RunPhase.STOPPING, "first")
        await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 2)
        await r.run("second", index="1")
        run = await r.reaches(RunPhase.FAILED, "first", within_s=1)
        preempted(r, run, "cluster-0", "second")
        await finish(r, "cluster-0")
        await r.reaches(RunPhase.SUCCEEDED, "second", within_s=1)

    play(scope, scenario)


async def an_old_run(r, state):
    """A run of version 0 that has updated m1 and waits (or is stopped), or has only a plan."""
    stages = [
        stage("one", {"matchLabels": {"env": "a"}}, afterStageTasks=[APPROVAL]),
        stage("two", {"matchLabels": {"env": "b"}}),
    ]
    await r.begin({"m1": {"env": "a"}, "m2": {"env": "b"}}, stages)
    await r.strategy("all", [stage("all", maxConcurrency=2)])
    await r.snapshot(1)
    await r.start()
    await r.run("old", state="Initialize" if state is RunPhase.INITIALIZED else "Run")
    if state is RunPhase.STOPPED:
        await r.reaches(RunPhase.WAITING, "old")
        await r.set_state("Stop", "old")
    await r.reaches(state, "old")
    await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 2)


async def gave_way(r):
    """The old run has failed, names the new one, and leaves m1 at the new version."""
    run = await r.reaches(RunPhase.FAILED, "old", within_s=2)
    text = message(run, "Succeeded")
    assert "`m1` in the stage `one` is not up-to-date" in text
    assert text.endswith(": it was moved by updateRun `new`")
    assert stage_phase(stage_of(run, 0).conditions) is StagePhase.FAILED
    await r.w.settle()
    assert await r.version_of("m1") == "p-1-snapshot"
    return said(stage_of(run, 0).clusters[0].conditions)["Succeeded"]


@both
@pytest.mark.parametrize("state", [RunPhase.WAITING, RunPhase.STOPPED, RunPhase.INITIALIZED])
def test_a_run_gives_way_to_a_later_one_wherever_it_stands(scope, state):
    """On KubeFleet a waiting run goes on after the later one and takes its clusters back to the older version."""

    async def scenario(r):
        await an_old_run(r, state)
        await r.run("new", index="1", strategy="all")
        outcome = await gave_way(r)
        if state is RunPhase.INITIALIZED:
            assert outcome == "False/ClusterUpdatingFailed"
        else:  # it had been updated; that stays true
            assert outcome == "True/ClusterUpdatingSucceeded"
        await r.reaches(RunPhase.SUCCEEDED, "new")

    play(scope, scenario)


@both
@pytest.mark.parametrize("state", [RunPhase.WAITING, RunPhase.STOPPED])
def test_a_later_run_that_is_deleted_again_still_counts(scope, state):
    async def scenario(r):
        await an_old_run(r, state)
        await r.w.stop()
        r.w.managers.clear()
        r.delivery = None
        await later_run_that_is_gone(r)
        await r.start()
        assert await gave_way(r) == "True/ClusterUpdatingSucceeded"

    play(scope, scenario)


async def later_run_that_is_gone(r):
    """The traces of a run named `new` that was deleted when it was over."""
    for cluster in ("m1", "m2"):
        name = r.binding_name(cluster)
        body = {"spec": {"state": "Bound", "resourceSnapshotName": "p-1-snapshot"}}
        binding = await r.client.patch(r.scope.binding, name, r.namespace, body)
        stamp = r.condition(
            "RolloutStarted",
            generation=binding.metadata.generation,
            message="Detected the new changes on the resources and started the rollout process, "
            "resourceSnapshotIndex: 1, updateRun: new",
        )
        await r.status(r.scope.binding, name, {"conditions": [stamp]})


@both
def test_an_earlier_runs_clusters_are_simply_moved_on(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.snapshot(1)
        await r.start()
        await r.run("first", index="1")
        await r.reaches(RunPhase.SUCCEEDED, "first")
        await r.w.until(lambda: (r.w.now() - r.w.sim._start).total_seconds() > 2)
        await r.run("second", index="0")
        await r.reaches(RunPhase.SUCCEEDED, "second", within_s=1)

    play(scope, scenario)


@both
def test_runs_of_other_placements_are_no_rivals(scope):
    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        r.placement = "q"
        await r.w.settle()
        clusters = [one.name for one in (await r.client.list(MEMBER_CLUSTERS)).items]
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}
        await r.create(
            r.scope.placement, "q", {"resourceSelectors": [selector], "strategy": {"type": "External"}}
        )
        await r.policy_snapshot(0)
        for name in clusters:
            await r.binding(name)
        await r.snapshot(0)
        await r.strategy("t", [stage("all", maxConcurrency=3)])
        await r.run("other", strategy="t")
        await r.reaches(RunPhase.SUCCEEDED, "other")
        assert await r.phase("r") is RunPhase.WAITING

    play(scope, scenario)


@both
def test_an_engine_that_starts_anew_writes_nothing_when_nothing_has_changed(scope):
    async def scenario(r):
        await fixture_b(r, beforeStageTasks=[APPROVAL])
        await r.start()
        for name, state in (("waiting", "Run"), ("stopped", "Stop"), ("planned", "Initialize")):
            await r.run(name, state=state)
        await r.run("bad", index="9")
        await r.reaches(RunPhase.WAITING, "waiting")
        await r.reaches(RunPhase.INIT_FAILED, "bad")
        await r.w.settle()
        await r.w.stop()
        r.w.managers.clear()
        r.delivery = None
        await r.start()
        await r.w.settle()
        assert [manager.performer.write_count for manager in r.w.managers] == [0]

    play(scope, scenario)


@both
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_of_two_runs_made_in_one_second_the_first_gives_way_whatever_their_names(scope, first, second):
    async def scenario(r):
        await fixture_b(r)
        await r.snapshot(1)
        await r.start()
        r.delivery.silent.update({"cluster-0", "cluster-1", "cluster-2"})
        await r.run(first, index="0")
        await r.w.settle()
        await r.run(second, index="1")
        await r.w.settle()
        r.delivery.silent.clear()
        r.delivery.again(r.w)
        await r.reaches(RunPhase.SUCCEEDED, second, within_s=2)
        await r.reaches(RunPhase.FAILED, first, within_s=2)
        assert {await r.version_of(f"cluster-{i}") for i in range(3)} == {"p-1-snapshot"}

    play(scope, scenario)
