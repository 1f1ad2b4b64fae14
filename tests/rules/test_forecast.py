"""How much longer a run takes: learnt from finished clusters, never invented."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from echelon.rules.forecast import (
    basis_of,
    estimate,
    limit_of,
    open_approvals,
    quantile,
    remaining,
    span_text,
)
from echelon.rules.run_phases import ClusterPhase, RunPhase, StagePhase
from tests.rules.pictures import NOW, cluster, in_stage, minutes, planned, seen_of, stage, web_v7


def moving(done: int, total: int, at_a_time: int | str = 1, took: float = 2):
    names = [f"c{number:03}" for number in range(total)]
    seen = in_stage(
        planned(seen_of([stage("all", at_a_time=at_a_time)], {"all": names}), RunPhase.PROGRESSING),
        0,
        StagePhase.STARTED,
    )
    for name in names[:done]:
        seen = cluster(seen, name, ClusterPhase.DONE, age=took, took=took)
    return seen


def estimated(seen, earlier=()):
    return estimate(seen.run, seen.status, earlier, NOW)


def test_five_finished_clusters_of_the_run_are_enough_and_four_are_not():
    assert estimated(moving(4, 10)) is None
    assert estimated(moving(5, 10)).basis == "5 clusters of this run"


def test_the_rest_takes_as_many_rounds_as_the_slots_ask_for():
    found = estimated(moving(6, 10, at_a_time=2))
    assert (found.earliest, found.latest) == (NOW + minutes(4), NOW + minutes(4))


def test_clusters_under_way_need_only_what_is_left_of_their_time():
    seen = cluster(moving(5, 6), "c005", ClusterPhase.UPDATING, age=1.5)
    assert estimated(seen).earliest == NOW + minutes(0.5)
    late = cluster(moving(5, 6), "c005", ClusterPhase.UPDATING, age=60)
    assert estimated(late).earliest == NOW, "a late cluster is due now, never in the past"


def test_without_clusters_of_its_own_the_last_run_that_succeeded_tells():
    old = planned(moving(7, 7, took=3), None)
    earlier = replace(old.run, metadata=replace(old.run.metadata, name="v6"))
    ended = planned(seen_of([stage("all")], {"all": ["a"]}), RunPhase.SUCCEEDED)
    assert ended.status.conditions[-1].status == "True"
    finished = replace(moving(7, 7, took=3).run, metadata=earlier.metadata)
    finished = replace(finished, status=replace(finished.status, conditions=ended.status.conditions))
    found = estimated(moving(0, 2), [finished])
    assert found.basis == "run v6"
    assert found.earliest == NOW + minutes(6)


@pytest.mark.parametrize("phase", [RunPhase.STUCK, RunPhase.STOPPED, RunPhase.FAILED, RunPhase.SUCCEEDED])
def test_a_run_that_does_not_move_has_no_estimate(phase):
    seen = moving(6, 10)
    told = planned(seen_of([stage("all")], {"all": ["a"]}), phase, clusters="a", stage="all", error="x")
    status = replace(seen.status, conditions=told.status.conditions)
    assert estimate(seen.run, status, (), NOW) is None


def test_timed_waits_and_approvals_of_stages_to_come_count():
    rows = {"canary": [f"c{n}" for n in range(5)], "prod": ["p"]}
    seen = planned(
        seen_of([stage("canary", at_a_time=5, wait="1h", approval=True), stage("prod", before=True)], rows),
        RunPhase.WAITING,
        tasks="after-stage",
        stage="canary",
    )
    seen = in_stage(seen, 0, StagePhase.WAITING_AFTER, age=20)
    for name in rows["canary"]:
        seen = cluster(seen, name, ClusterPhase.DONE, age=30, took=2)
    found = estimated(seen)
    assert found.approvals == 2
    assert found.earliest == NOW + minutes(40 + 2)


def test_finished_and_empty_stages_ask_for_nothing():
    seen = planned(seen_of([stage("none", before=True), stage("all")], {"all": ["a"]}), RunPhase.PROGRESSING)
    assert open_approvals(seen.status) == 0
    assert open_approvals(web_v7().status) == 1


@settings(deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.lists(st.integers(0, 3600), min_size=5, max_size=30),
)
def test_more_slots_never_take_longer_and_the_range_is_a_range(total, slots, seconds):
    spans = sorted(timedelta(seconds=one) for one in seconds)
    low, high = quantile(spans, 0.5), quantile(spans, 0.9)
    few = planned(
        seen_of([stage("all", at_a_time=slots)], {"all": [f"c{n}" for n in range(total)]}),
        RunPhase.PROGRESSING,
    )
    many = planned(
        seen_of([stage("all", at_a_time=slots + 1)], {"all": [f"c{n}" for n in range(total)]}),
        RunPhase.PROGRESSING,
    )
    assert remaining(few.status, low, NOW) <= remaining(few.status, high, NOW)
    assert remaining(many.status, high, NOW) <= remaining(few.status, high, NOW)
    assert remaining(few.status, low, NOW) == low * -(-total // slots)


@settings(deadline=None)
@given(st.integers(0, 10**7))
def test_spans_are_written_shortly(seconds):
    text = span_text(timedelta(seconds=seconds))
    assert 2 <= len(text) <= 7
    assert text[-1] in "smhd"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (7800, "2h10m"),
        (86400, "1d"),
        (90000, "1d1h"),
    ],
)
def test_the_edges_of_spans(seconds, text):
    assert span_text(timedelta(seconds=seconds)) == text


def test_a_percentage_that_cannot_be_read_is_one_slot():
    assert limit_of(stage("x", at_a_time="oops"), 10) == 1
    assert limit_of(stage("x", at_a_time="25%"), 10) == 2


def test_a_run_without_any_basis_has_none():
    seen = moving(0, 3)
    assert basis_of(seen.status, seen.run, ()) is None
