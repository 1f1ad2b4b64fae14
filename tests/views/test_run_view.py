"""The read model: one document for text, JSON and the web; and the tree drawn from it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.rules.run_phases import ClusterPhase, RunPhase, StagePhase
from echelon.views.run import view
from echelon.views.run_shapes import STATES, VERSION, RunView
from echelon.views.tree import PLAIN, Look, changes, paint, render, tree, wrapped
from tests.rules.pictures import (
    NOW,
    approved_by,
    cluster,
    condition,
    failed,
    in_stage,
    minutes,
    planned,
    seen_of,
    stage,
    web_v7,
)

SCOPES = pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED], ids=lambda scope: scope.name)
ASCII = Look(width=80, is_unicode=False, has_colour=False)
LATE = failed(condition("Available", "False", "ManifestNotAvailableYet"))
OK = tuple(condition(type_, "True") for type_ in ("Overridden", "WorkSynchronized", "Applied"))
LATE_SAYS = condition("Available", "False", "NotAllWorkAreAvailable", "Work object w is not yet available")


def viewed(seen) -> RunView:
    return view(seen.run, seen, NOW)


def stuck(count: int, scope=CLUSTER):
    names = [f"eu-{number:03}" for number in range(count)]
    seen = seen_of([stage("europe", at_a_time=count)], {"europe": names}, scope=scope)
    seen = in_stage(planned(seen, RunPhase.STUCK, clusters="eu-000", stage="europe"), 0, StagePhase.STARTED)
    for name in names:
        seen = cluster(seen, name, ClusterPhase.UPDATING, *OK, LATE_SAYS, age=7, failed=(LATE,))
    return seen


@SCOPES
def test_the_tree_of_the_documentation(scope):
    lines = render(viewed(web_v7(scope)), PLAIN)
    option = " -n team" if scope.namespaced else ""
    where = "sur, team" if scope.namespaced else "csur"
    assert lines[0] == f'web-v7 ({where}) ⏸ waiting 14m: approval before "world"'
    assert lines[1].startswith("snapshot 0→1 · 230/1000 done · ETA ")
    assert lines[1].endswith(" plus 1 approval")
    assert lines[2:] == [
        "├─ ✓ canary   30/30  ████████████████ 12m  after: ✓ wait 1h",
        "├─ ✓ europe 200/200  ████████████████ 12m",
        "└─ ⏸ world    0/770  ░░░░░░░░░░░░░░░░      77 at a time",
        f'   └─ ⏸ before: approval → echelon approve web-v7/world{option} -m "why"',
    ]


def test_plain_terminals_get_ascii():
    text = "\n".join(render(viewed(web_v7()), ASCII))
    assert text.isascii()
    assert "[################]" in text
    assert "WAIT" in text


def test_a_document_of_a_thousand_clusters_is_small_and_survives_the_wire():
    shown = viewed(web_v7())
    data = msgspec.json.encode(shown)
    assert len(data) < 20_000
    assert msgspec.json.decode(data, type=RunView) == shown
    assert shown.version == VERSION
    assert [len(one.letters) for one in shown.stages] == [30, 200, 770]


def test_names_of_clusters_and_letters_go_together():
    seen = seen_of([stage("a", at_a_time=5)], {"a": ["c1", "c2", "c3", "c4", "c5"]})
    seen = in_stage(planned(seen, RunPhase.PROGRESSING), 0, StagePhase.STARTED)
    seen = cluster(seen, "c1", ClusterPhase.DONE)
    seen = cluster(seen, "c2", ClusterPhase.UPDATING, *OK, LATE_SAYS, age=1)
    seen = cluster(seen, "c3", ClusterPhase.UPDATING, *OK, LATE_SAYS, age=9)
    seen = cluster(seen, "c4", ClusterPhase.PREEMPTED)
    found = viewed(seen).stages[0]
    assert (found.clusters, found.letters) == (("c1", "c2", "c3", "c4", "c5"), "DUSFP")
    assert [one.name for one in found.shown] == ["c4", "c3", "c2"], "the worst first"


def test_a_stuck_run_shows_ten_clusters_and_counts_the_rest():
    lines = render(viewed(stuck(77)), PLAIN)
    assert sum("not available yet" in line and "eu-" in line for line in lines[2:-4]) == 10
    assert any("… 67 more stuck" in line for line in lines)
    assert len(lines) <= 24, "one screen"


def test_the_run_says_since_when_it_is_stuck_and_which_clusters():
    assert viewed(stuck(2)).headline == "stuck 7m: eu-000, eu-001"


HEADLINES = [
    (RunPhase.PROGRESSING, "progressing"),
    (RunPhase.STOPPING, "stopping"),
    (RunPhase.STOPPED, "stopped 0s ago"),
    (RunPhase.SUCCEEDED, "succeeded"),
]


@pytest.mark.parametrize(("phase", "headline"), HEADLINES)
def test_every_phase_has_its_words(phase, headline):
    seen = planned(seen_of([stage("a")], {"a": ["c"]}), phase)
    assert viewed(seen).headline == headline


def test_a_failure_says_its_cause_in_the_headline():
    shown = viewed(planned(seen_of([stage("a")], {"a": ["c"]}, placement=False)))
    assert shown.state == "failed"
    assert shown.headline.endswith("the placement does not exist")


@SCOPES
@pytest.mark.parametrize(
    "who", ["ann", "system:serviceaccount:team-with-a-long-name:releases-of-the-whole-fleet"]
)
def test_who_approved_is_shown_as_the_server_noted_it(who, scope):
    shown = viewed(approved_by(web_v7(scope), 2, who))
    assert shown.approvers == (who,)
    line = next(one for one in render(shown, Look(width=160, has_colour=False)) if "world" in one)
    assert line.endswith(f"before: ✓ approval by {who}")
    assert all(len(line) <= PLAIN.width for line in render(shown, PLAIN))


@SCOPES
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(
    "look", [PLAIN, ASCII, Look(width=40, has_colour=False)], ids=["utf8", "ascii", "narrow"]
)
def test_every_line_fits_the_terminal(look, count, scope):
    for seen in (stuck(count, scope), web_v7(scope)):
        for line in render(viewed(seen), look):
            assert len(line) <= look.width, line


def test_colours_add_nothing_but_colours():
    import re

    shown = viewed(stuck(3))
    coloured = render(shown, Look(has_colour=True))
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == render(shown, PLAIN)


def test_a_picture_that_is_out_of_date_says_so():
    lines = render(replace(viewed(web_v7()), stale="connection refused"), PLAIN)
    assert lines[-1] == "out of date, the hub does not answer: connection refused"


def test_the_finding_names_the_command_for_more():
    lines = render(viewed(stuck(1)), PLAIN)
    assert lines[-1].endswith("echelon diagnose v7")
    assert any("Deployment web/nginx is not available yet on eu-000." in line for line in lines)


# --- no terminal --------------------------------------------------------------------------------------------------
def test_without_an_earlier_look_one_line_says_where_the_run_is():
    assert [line[9:] for line in changes(None, viewed(web_v7()), NOW)] == [
        'web-v7 waiting 14m: approval before "world" (230/1000 done)'
    ]


def test_nothing_is_said_twice():
    shown = viewed(web_v7())
    assert changes(shown, replace(shown, headline='waiting 15m: approval before "world"'), NOW) == []


def test_each_cluster_of_a_small_stage_is_a_line():
    seen = seen_of([stage("a", at_a_time=2)], {"a": ["c1", "c2"]})
    seen = in_stage(planned(seen, RunPhase.PROGRESSING), 0, StagePhase.STARTED)
    both = cluster(cluster(seen, "c1", ClusterPhase.DONE), "c2", ClusterPhase.DONE)
    told = [line[9:] for line in changes(viewed(seen), viewed(both), NOW)]
    assert told == ["v7 c1 done (1/2 of stage a done)", "v7 c2 done (2/2 of stage a done)"]
    later = cluster(
        cluster(seen, "c1", ClusterPhase.DONE), "c2", ClusterPhase.UPDATING, *OK, LATE_SAYS, age=1
    )
    said = [line[9:] for line in changes(viewed(seen), viewed(later), NOW)]
    assert said == ["v7 c1 done (1/2 of stage a done)", "v7 c2 updating (1/2 of stage a done)"]


def test_a_large_stage_is_told_by_tenths_and_by_trouble():
    before, after = viewed(stuck(40)), viewed(stuck(40))
    calm = replace(before.stages[0], letters="U" * 40, shown=(), done=0)
    worse = replace(after.stages[0], letters="D" * 10 + "S" * 30, done=10)
    said = [
        line[9:] for line in changes(replace(before, stages=(calm,)), replace(after, stages=(worse,)), NOW)
    ]
    assert sum("stuck" in line for line in said) == 40
    assert "v7 stage europe 10/40 done" in said


# --- text -------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.text(alphabet="abc  ", max_size=200), st.integers(10, 80))
def test_wrapping_keeps_every_word_and_the_width(text, width):
    lines = wrapped(text.strip(), width, "  ")
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line.strip() for line in lines)


@settings(deadline=None)
@given(st.integers(1, 120))
def test_painting_never_exceeds_the_width(width):
    shown = viewed(web_v7())
    for line in tree(shown, PLAIN):
        assert len(paint(line, Look(width=width, has_colour=False))) <= width


def test_every_state_of_a_cluster_has_a_word():
    assert set(STATES) == set("PUSDTFG")
    assert minutes(1)
