"""The state machine of runs, by example and by property: what the scenarios cannot reach from outside."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from echelon.api import names, own
from echelon.api.conditions import find_condition
from echelon.api.meta import Condition
from echelon.api.staged import StageStatus
from echelon.rules.plan import Delete, Patch
from echelon.rules.rollout import listed, step
from echelon.rules.run_cluster import classify_cluster, delivery_error, is_news, target_of
from echelon.rules.run_look import MIN_PACED_CLUSTERS, PACE_PER_CLUSTER, is_progress_only, pace
from echelon.rules.run_phases import (
    MOVES,
    PHASES,
    ClusterPhase,
    Moment,
    RunPhase,
    StagePhase,
    mark,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Abort
from echelon.rules.run_validation import check_plan, find_stage, max_concurrency
from tests.rules.pretend import NOW, SCOPES, a_cluster, a_condition, a_placement, meta_for
from tests.rules.run_sim import Life

both = pytest.mark.parametrize("scope", [0, 1], ids=lambda index: SCOPES[index].name.lower())


def life(scope, *, clusters=3, concurrency=1, leaving=0, seed=0):
    """A fleet of one stage without gates and one run that was looked at until it moves clusters."""
    made = Life(seed * 2 + scope)
    made.store.objects.clear()
    made.clusters = {}
    made.leaving = []
    build(made, clusters, concurrency, leaving)
    return made


def build(made, clusters, concurrency, leaving):
    scope, put = made.scope, made.store.put
    made.clusters = {f"m{i}": "a" for i in range(clusters)}
    made.leaving = [f"old{i}" for i in range(leaving)]
    for name in made.clusters:
        put(own.MEMBER_CLUSTERS, a_cluster(name, {"g": "a"}))
    put(scope.placement, a_placement(scope, strategy={"type": "External"}))
    labels = {
        names.LABEL_PARENT_CRP: "p",
        names.LABEL_POLICY_INDEX: "0",
        names.LABEL_IS_LATEST_SNAPSHOT: "true",
    }
    status = {"observedCRPGeneration": 1, "conditions": [a_condition("Scheduled", observedGeneration=1)]}
    meta = meta_for(scope, "p-0", labels=labels, ownerReferences=[made._owner()])
    body = {"metadata": meta, "spec": {"policyHash": ""}, "status": status}
    put(scope.policy_snapshot, body)
    for name in (*made.clusters, *made.leaving):
        made._put_binding(name)
    for index in range(3):
        made._put_snapshot(index)
    stages = [{"name": "one", "labelSelector": {}, "maxConcurrency": concurrency}]
    for name in ("s0", "s1"):
        put(scope.strategy, {"metadata": meta_for(scope, name), "spec": {"stages": stages}})


def a_run(made, name="r1", **spec):
    body = {
        "placementName": "p",
        "stagedRolloutStrategyName": "s0",
        "state": "Run",
        "resourceSnapshotIndex": "0",
        **spec,
    }
    made.store.put(made.scope.run, {"metadata": meta_for(made.scope, name), "spec": body})


def look_until_still(made, name="r1"):
    for _ in range(50):
        if not made.look(name):
            return made.run(name)
    raise AssertionError("does not come to rest")


def status_with(run, **fields):
    return replace(run, status=replace(run.status, **fields))


# --- phases ---------------------------------------------------------------------------------------------------
def test_every_phase_can_be_read_back_from_its_conditions():
    at = Moment(NOW, 1)
    words = {
        "error": "e",
        "tasks": "before-stage",
        "stage": "s",
        "clusters": "c",
        "observed": 0,
        "generation": 1,
    }
    for phase in RunPhase:
        if phase in PHASES:
            assert run_phase(mark((), phase, at, **words)) is phase
    for phase in StagePhase:
        if phase in PHASES:
            assert stage_phase(mark((), phase, at, **words)) is phase
    assert run_phase(()) is RunPhase.NEW
    assert stage_phase(()) is StagePhase.NEW


def test_every_phase_can_be_reached_and_ends_are_ends():
    for kind, ends in (
        (RunPhase, {RunPhase.INIT_FAILED, RunPhase.SUCCEEDED, RunPhase.FAILED}),
        (StagePhase, {StagePhase.SUCCEEDED, StagePhase.SKIPPED, StagePhase.FAILED}),
    ):
        targets = {move.target for move in MOVES if isinstance(move.target, kind)}
        sources = {move.source for move in MOVES if isinstance(move.source, kind)}
        assert targets | {kind.NEW} == set(kind)
        assert set(kind) - sources == ends


@given(st.text(max_size=40))
def test_an_error_text_is_told_as_it_is(text):
    conditions = mark((), RunPhase.FAILED, Moment(NOW, 1), error=text)
    assert conditions[-1].message == text


# --- numbers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "count", "most"),
    [(3, 10, 3), (15, 10, 15), ("50%", 10, 5), ("10%", 1, 1), ("33%", 10, 3), ("25%", 7, 1), ("100%", 10, 10),
     (3, 0, 3), ("50%", 0, 1)],
)  # fmt: skip
def test_max_concurrency_is_a_number_or_a_share_rounded_down_but_at_least_one(value, count, most):
    assert max_concurrency(value, count) == most


def test_a_number_as_text_is_no_max_concurrency():
    with pytest.raises(Abort, match=r"cannot continue the updateRun: invalid value for IntOrString"):
        max_concurrency("50", 10)


@pytest.mark.parametrize(("count", "text"), [(1, "c1"), (3, "c1, c2, c3"), (5, "c1, c2, c3...")])
def test_at_most_three_stuck_clusters_are_named(count, text):
    assert listed(tuple(f"c{i + 1}" for i in range(count))) == text


# --- clusters ---------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize(
    ("type_", "reason", "is_error"),
    [
        ("Available", "ResourceNotAvailableYet", False),
        ("WorkSynchronized", "WorkNotSynchronizedYet", False),
        ("Overridden", "OverriddenPending", False),
        ("Applied", "ApplyPending", False),
        ("Overridden", "OverriddenFailed", True),
        ("WorkSynchronized", "SyncWorkFailed", True),
        ("Applied", "NotAllWorkHaveBeenApplied", True),
        ("DiffReported", "DiffReportedFalse", True),
    ],
)
def test_what_delivery_reports_as_broken_never_fails_a_cluster(scope, type_, reason, is_error):
    made = life(scope)
    a_run(made)
    look_until_still(made)
    binding = made.binding("m0")
    said = Condition(
        type=type_, status="False", reason=reason, message="", observed_generation=binding.metadata.generation,
        last_transition_time=NOW,
    )  # fmt: skip
    told = replace(binding, status=replace(binding.status, conditions=(*binding.status.conditions, said)))
    run = made.run("r1")
    entry = run.status.stages_status[0].clusters[0]
    target = target_of(run, run.status, entry)
    assert (delivery_error(told) is not None) is is_error
    assert classify_cluster(entry, told, target, NOW, timedelta(minutes=5)) is ClusterPhase.UPDATING
    late = NOW + timedelta(minutes=5, seconds=1)
    assert classify_cluster(entry, told, target, late, timedelta(minutes=5)) is ClusterPhase.STUCK
    at_the_edge = NOW + timedelta(minutes=5)
    assert classify_cluster(entry, told, target, at_the_edge, timedelta(minutes=5)) is ClusterPhase.UPDATING


@both
def test_delivery_in_progress_is_no_news_for_a_run(scope):
    made = life(scope)
    a_run(made)
    look_until_still(made)
    binding = made.binding("m0")
    stamp = find_condition(binding.status.conditions, "RolloutStarted")
    applied = replace(
        binding,
        status=replace(
            binding.status,
            conditions=(stamp, Condition(type="Applied", status="False", reason="x", message="",
                                         observed_generation=1, last_transition_time=NOW)),
        ),
    )  # fmt: skip
    assert not is_news(binding, applied)
    made.deliver("m0")
    assert is_news(binding, made.binding("m0"))
    assert is_news(None, binding)
    assert is_news(binding, None)


# --- records that make no sense -----------------------------------------------------------------------------------
def stages_of(run, *phases):
    """The status of a run whose stages are in these phases."""
    at = Moment(NOW, 1)
    stages = []
    for number, phase in enumerate(phases):
        conditions = () if phase is StagePhase.NEW else mark((), phase, at, error="boom")
        done = phase is StagePhase.SUCCEEDED
        clusters = tuple(
            replace(
                entry,
                conditions=mark(mark((), ClusterPhase.UPDATING, at), ClusterPhase.DONE, at) if done else (),
            )
            for entry in run.status.stages_status[0].clusters
        )
        stages.append(StageStatus(stage_name=f"s{number}", clusters=clusters, conditions=conditions))
    spec = run.status.staged_update_strategy_snapshot
    return replace(
        run.status,
        stages_status=tuple(stages),
        staged_update_strategy_snapshot=replace(spec, stages=spec.stages * len(phases)),
    )


DONE, UPDATING, NEW, BAD = StagePhase.SUCCEEDED, StagePhase.STARTED, StagePhase.NEW, StagePhase.FAILED
UB = "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: "
CC = "cannot continue the updateRun: "


@both
@pytest.mark.parametrize(
    ("phases", "text"),
    [
        ((UPDATING, DONE), f"{UB}the finished stage `1` is after the updating stage `0`"),
        (
            (NEW, DONE),
            f"{UB}the finished stage `s1` is not right after the last finished stage with index `-1`",
        ),
        ((BAD,), f"{CC}the stage `s0` has failed, err: boom"),
        (
            (UPDATING, UPDATING),
            f"{UB}the stage `s1` is updating, but there is already a stage with index `0` updating",
        ),
        (
            (NEW, UPDATING),
            f"{UB}the updating stage `s1` is not right after the last finished stage with index `-1`",
        ),
    ],
)
def test_a_record_that_makes_no_sense_ends_the_run(scope, phases, text):
    made = life(scope)
    a_run(made)
    run = look_until_still(made)
    scheduled = check_plan(made.seen(run), run.status)
    with pytest.raises(Abort) as caught:
        find_stage(stages_of(run, *phases), scheduled)
    assert caught.value.text == text


@both
def test_a_finished_stage_with_an_unfinished_cluster_ends_the_run(scope):
    made = life(scope)
    a_run(made)
    run = look_until_still(made)
    scheduled = check_plan(made.seen(run), run.status)
    status = stages_of(run, DONE)
    stage = status.stages_status[0]
    entries = (replace(stage.clusters[0], conditions=()), *stage.clusters[1:])
    status = replace(status, stages_status=(replace(stage, clusters=entries),))
    with pytest.raises(Abort, match="cluster `m0` in the finished stage `s0` has not succeeded"):
        find_stage(status, scheduled)


@both
def test_more_clusters_on_record_than_allowed_end_the_run(scope):
    made = life(scope)
    a_run(made)
    run = look_until_still(made)
    scheduled = check_plan(made.seen(run), run.status)
    status = stages_of(run, UPDATING)
    stage = status.stages_status[0]
    entries = tuple(
        replace(entry, conditions=mark((), ClusterPhase.UPDATING, Moment(NOW, 1))) for entry in stage.clusters
    )
    status = replace(status, stages_status=(replace(stage, clusters=entries),))
    with pytest.raises(Abort) as caught:
        find_stage(status, scheduled)
    assert caught.value.text == (
        f"{UB}the number of updating clusters `3` in the updating stage `s0` exceeds maxConcurrency `1`"
    )


@both
def test_a_delete_stage_ahead_of_its_turn_ends_the_run(scope):
    made = life(scope)
    a_run(made)
    run = look_until_still(made)
    scheduled = check_plan(made.seen(run), run.status)
    delete = replace(
        run.status.deletion_stage_status, conditions=mark((), StagePhase.STARTED, Moment(NOW, 1))
    )
    with pytest.raises(Abort) as caught:
        find_stage(replace(run.status, deletion_stage_status=delete), scheduled)
    assert caught.value.text == (
        f"{UB}the delete stage is active, but there are still stages updating, updatingStageIndex: 0, "
        "lastFinishedStageIndex: -1"
    )


@both
def test_fewer_leaving_bindings_than_recorded_are_fine(scope):
    made = life(scope, leaving=2)
    a_run(made, state="Initialize")
    run = look_until_still(made)
    made.store.objects = {key: obj for key, obj in made.store.objects.items() if key[2] != "b-old0"}
    assert not step(made.seen(run), NOW).status


# --- the delete stage -----------------------------------------------------------------------------------------------
def through(made):
    """Bring all clusters to the end of the last stage."""
    run = look_until_still(made)
    for _ in range(10):
        for cluster in made.clusters:
            made.deliver(cluster)
        run = made.run("r1")
        if stage_phase(run.status.stages_status[-1].conditions) is StagePhase.SUCCEEDED:
            return run
        made.look("r1")
    raise AssertionError("not through")


@both
def test_a_stop_before_any_deletion_stops_the_run_as_well_as_the_stage(scope):
    """Scenario 76; KubeFleet's run goes on saying Stopping until it is resumed."""
    made = life(scope, clusters=1, leaving=1)
    a_run(made)
    run = through(made)
    assert run.status.deletion_stage_status.conditions == ()
    made.set_state(run, "Stop")
    run = look_until_still(made)
    assert run_phase(run.status.conditions) is RunPhase.STOPPED
    assert stage_phase(run.status.deletion_stage_status.conditions) is StagePhase.STOPPED
    assert made.binding("old0") is not None
    made.set_state(run, "Run")
    for _ in range(5):
        made.look("r1")
        made.let_go()
    assert run_phase(made.run("r1").status.conditions) is RunPhase.SUCCEEDED


@both
@pytest.mark.parametrize("state", ["Run", "Stop"])
def test_a_cluster_on_record_as_deleting_whose_binding_is_not_ends_the_run(scope, state):
    made = life(scope, clusters=1, leaving=1)
    a_run(made)
    run = through(made)
    made.set_state(run, state) if state == "Stop" else None
    run = made.run("r1")
    delete = run.status.deletion_stage_status
    entry = replace(
        delete.clusters[0], conditions=mark((), ClusterPhase.UPDATING, Moment(NOW, run.metadata.generation))
    )
    run = status_with(run, deletion_stage_status=replace(delete, clusters=(entry,)))
    plan = step(made.seen(run), NOW)
    told = find_condition(plan.status.new.conditions, "Succeeded").message
    during = " during stopping" if state == "Stop" else ""
    assert told == (
        f"{UB}the cluster `old0` in the deleting stage is marked as deleting but its corresponding binding is "
        f"not deleting{during}"
    )
    assert stage_phase(plan.status.new.deletion_stage_status.conditions) is StagePhase.FAILED


@both
def test_a_deleted_cluster_whose_binding_is_back_ends_the_run(scope):
    made = life(scope, clusters=1, leaving=1)
    a_run(made)
    run = through(made)
    delete = run.status.deletion_stage_status
    at = Moment(NOW, run.metadata.generation)
    entry = replace(
        delete.clusters[0], conditions=mark(mark((), ClusterPhase.UPDATING, at), ClusterPhase.DONE, at)
    )
    run = status_with(run, deletion_stage_status=replace(delete, clusters=(entry,)))
    told = find_condition(step(made.seen(run), NOW).status.new.conditions, "Succeeded").message
    assert told == f"{UB}the deleted cluster `old0` in the deleting stage still has a binding"


@both
def test_bindings_are_deleted_all_at_once_and_never_twice(scope):
    made = life(scope, clusters=1, leaving=3)
    for name in made.leaving:
        made.store.edit(
            made.scope.binding, f"b-{name}", {"metadata": {"finalizers": ["hold"]}}, made.namespace
        )
    a_run(made)
    run = through(made)
    plan = step(made.seen(run), NOW)
    assert sum(isinstance(action, Delete) for actions in plan.steps for action in actions) == 3
    made.look("r1")
    run = made.run("r1")
    plan = step(made.seen(run), NOW)
    assert not any(isinstance(action, Delete) for actions in plan.steps for action in actions)


# --- pace -------------------------------------------------------------------------------------------------------
@both
def test_the_record_of_a_big_run_waits_while_its_clusters_do_not(scope):
    made = life(scope, clusters=MIN_PACED_CLUSTERS, concurrency=2)
    a_run(made)
    look_until_still(made)
    made.deliver("m0")
    run = made.run("r1")
    seen = replace(made.seen(run), written_at=NOW)
    plan = step(seen, NOW)
    assert plan.status is None
    assert [type(action) for actions in plan.steps for action in actions] == [
        Patch
    ]  # the next cluster begins
    due = NOW + MIN_PACED_CLUSTERS * PACE_PER_CLUSTER
    assert plan.wake_at == due
    assert step(seen, due).status is not None


@both
def test_anything_but_progress_is_on_record_at_once(scope):
    made = life(scope, clusters=MIN_PACED_CLUSTERS, concurrency=2)
    a_run(made)
    run = look_until_still(made)
    made.set_state(run, "Stop")
    seen = replace(made.seen(made.run("r1")), written_at=NOW)
    plan = step(seen, NOW)
    assert run_phase(plan.status.new.conditions) is RunPhase.STOPPING
    assert not is_progress_only(seen.status, plan.status.new)


@both
def test_the_record_of_a_small_run_never_waits(scope):
    made = life(scope, clusters=MIN_PACED_CLUSTERS - 1)
    a_run(made)
    run = look_until_still(made)
    assert pace(replace(made.seen(run), written_at=NOW)) is None


# --- twice is once ------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize("seed", range(20))
def test_to_look_twice_is_to_look_once(scope, seed):
    """At rest, a second look wants nothing; and a plan carried out a second time changes nothing."""
    made = Life(seed * 2 + scope)
    made.create_run()
    for _ in range(15):
        for name in [run.name for run in made.runs()]:
            look_until_still(made, name)
            before = {key: obj["metadata"]["resourceVersion"] for key, obj in made.store.objects.items()}
            assert not made.look(name)
            after = {key: obj["metadata"]["resourceVersion"] for key, obj in made.store.objects.items()}
            assert before == after
        for _ in range(3):
            made.act()
