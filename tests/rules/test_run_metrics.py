"""What is counted about runs: labels, failure types, and every sample exactly once."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from echelon.api.meta import ObjectMeta
from echelon.api.names import RunState, TaskType
from echelon.api.staged import Run, RunSpec, RunStatus, StageStatus, TaskStatus
from echelon.rules.run_metrics import approval_latencies, stage_durations, standing
from echelon.rules.run_phases import Moment, RunPhase, StagePhase, TaskPhase, mark
from echelon.runtime.run_metrics import RunMetrics
from tests.rules.pretend import NOW

USER = "failed to process the request due to a client error: no"
AT = Moment(NOW, 1)


def a_run(*phases, generation=1, stages=(), **words):
    conditions = ()
    for phase in phases:
        conditions = mark(conditions, phase, AT, **words)
    return Run(
        metadata=ObjectMeta(name="r", uid="u", generation=generation),
        spec=RunSpec(placement_name="p", strategy_name="s", state=RunState.RUN),
        status=RunStatus(conditions=conditions, stages_status=stages),
    )


@pytest.mark.parametrize(
    ("phases", "words", "wanted"),
    [
        (
            [RunPhase.INITIALIZED],
            {},
            ("Run", "Initialized", "True", "UpdateRunInitializedSuccessfully", "none"),
        ),
        (
            [RunPhase.INIT_FAILED],
            {"error": USER},
            ("Run", "Initialized", "False", "UpdateRunInitializedFailed", "user_error"),
        ),
        (
            [RunPhase.INIT_FAILED],
            {"error": "boom"},
            ("Run", "Initialized", "False", "UpdateRunInitializedFailed", "internal_error"),
        ),
        (
            [RunPhase.INITIALIZED, RunPhase.WAITING],
            {"tasks": "after-stage", "stage": "s"},
            ("Run", "Progressing", "False", "UpdateRunWaiting", "none"),
        ),
        (
            [RunPhase.INITIALIZED, RunPhase.STUCK],
            {"clusters": "c", "stage": "s"},
            ("Run", "Progressing", "False", "UpdateRunStuck", "internal_error"),
        ),
        (
            [RunPhase.INITIALIZED, RunPhase.STOPPED],
            {},
            ("Run", "Progressing", "False", "UpdateRunStopped", "none"),
        ),
        (
            [RunPhase.INITIALIZED, RunPhase.FAILED],
            {"error": USER},
            ("Run", "Succeeded", "False", "UpdateRunFailed", "user_error"),
        ),
        (
            [RunPhase.INITIALIZED, RunPhase.SUCCEEDED],
            {},
            ("Run", "Succeeded", "True", "UpdateRunSucceeded", "none"),
        ),
    ],
)
def test_where_a_run_stands_and_whose_failure_it_is(phases, words, wanted):
    assert standing(a_run(*phases, **words)) == wanted


def test_what_is_said_about_an_older_generation_does_not_count():
    assert standing(a_run(RunPhase.INITIALIZED, generation=2)) is None


def asked(answered_after_s=None):
    task = TaskStatus(type=TaskType.APPROVAL, conditions=mark((), TaskPhase.CREATED, AT))
    if answered_after_s is None:
        return task
    at = Moment(NOW + timedelta(seconds=answered_after_s), 1)
    return replace(task, conditions=mark(task.conditions, TaskPhase.APPROVED, at))


def test_an_approval_is_timed_once():
    before = a_run(stages=(StageStatus(stage_name="s", before_stage_task_status=(asked(),)),))
    after = a_run(stages=(StageStatus(stage_name="s", before_stage_task_status=(asked(90),)),))
    assert list(approval_latencies(before, after)) == [("beforeStage", 90.0)]
    assert list(approval_latencies(after, after)) == []
    assert list(approval_latencies(None, after)) == []  # a restart sees it for the first time


def a_stage(*phases):
    conditions = ()
    for second, phase in phases:
        conditions = mark(conditions, phase, Moment(NOW + timedelta(seconds=second), 1))
    return StageStatus(stage_name="s", start_time=NOW, conditions=conditions)


STARTED = (0, StagePhase.STARTED)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([STARTED], [STARTED, (40, StagePhase.WAITING_AFTER)], [40.0]),
        ([STARTED], [STARTED, (40, StagePhase.SUCCEEDED)], [40.0]),
        ([STARTED, (40, StagePhase.WAITING_AFTER)], [STARTED, (40, StagePhase.WAITING_AFTER), (50, StagePhase.SUCCEEDED)], []),
        ([STARTED, (5, StagePhase.STOPPED)], [STARTED, (5, StagePhase.STOPPED), (40, StagePhase.WAITING_AFTER)], []),
        ([], [(0, StagePhase.SKIPPED)], []),
        ([STARTED], [STARTED, (9, StagePhase.STOPPING)], []),
    ],
)  # fmt: skip
def test_a_stage_is_timed_when_its_last_cluster_is_done_and_only_then(before, after, told):
    old, new = a_run(stages=(a_stage(*before),)), a_run(stages=(a_stage(*after),))
    assert list(stage_durations(old, new)) == told


class Clock:
    def now(self):
        return NOW


def test_series_live_as_long_as_their_run():
    registry = CollectorRegistry()
    metrics = RunMetrics(registry, Clock())
    waiting = a_run(RunPhase.INITIALIZED, RunPhase.WAITING, tasks="before-stage", stage="s")
    stuck = a_run(RunPhase.INITIALIZED, RunPhase.STUCK, clusters="c", stage="s")
    done = replace(stuck, status=replace(stuck.status, stages_status=(a_stage(STARTED),)))
    over = replace(
        stuck, status=replace(stuck.status, stages_status=(a_stage(STARTED, (3, StagePhase.SUCCEEDED)),))
    )
    metrics.sees(None, waiting)
    metrics.sees(waiting, stuck)
    metrics.sees(done, over)
    name = "fleet_workload_update_run_status_last_timestamp_seconds"
    samples = [one for metric in registry.collect() if metric.name == name for one in metric.samples]
    assert [one.labels["reason"] for one in samples] == ["UpdateRunWaiting", "UpdateRunStuck"]
    assert {one.value for one in samples} == {NOW.timestamp()}
    stage = "fleet_workload_update_run_stage_cluster_updating_duration_seconds"
    labels = {"namespace": "", "name": "r"}
    assert registry.get_sample_value(f"{stage}_count", labels) == 1
    metrics.sees(over, None)
    assert [one for metric in registry.collect() for one in metric.samples] == []
