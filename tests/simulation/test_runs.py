"""Staged runs under everything that can go wrong, from seeds.

./dev test tests/simulation                          what CI does: 1,000 lives in memory, 60 whole fleets
ECHELON_SEEDS=5000 ./dev test tests/simulation       more of each
ECHELON_SEED=4711 ./dev test tests/simulation        one seed again
"""

import os

import pytest

from echelon.rules import rollout, run_stage
from echelon.rules.run_phases import RunPhase, run_phase
from tests.rules.run_sim import Life
from tests.rules.run_sim import live as live_in_memory
from tests.simulation.fleet import live as live_as_a_fleet
from tests.simulation.whole import live as live_as_a_whole

CHUNK = 50


def chunks(default, size=CHUNK):
    """Seeds in portions that can run side by side."""
    if "ECHELON_SEED" in os.environ:
        seed = int(os.environ["ECHELON_SEED"])
        return [range(seed, seed + 1)]
    count = int(os.environ.get("ECHELON_SEEDS", default))
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


@pytest.mark.parametrize("seeds", chunks(1000), ids=lambda seeds: f"seeds {seeds.start}-{seeds.stop - 1}")
def test_every_promise_holds_through_whole_lives_of_runs(seeds):
    live_all(seeds)


@pytest.mark.parametrize("seeds", chunks(60, 20), ids=lambda seeds: f"seeds {seeds.start}-{seeds.stop - 1}")
def test_every_run_of_a_fleet_comes_to_its_end_whatever_goes_wrong_around_it(seeds):
    for seed in seeds:
        live_as_a_fleet(seed)


@pytest.mark.parametrize("seeds", chunks(12, 4), ids=lambda seeds: f"seeds {seeds.start}-{seeds.stop - 1}")
def test_every_member_ends_with_what_the_run_made_last_has_brought(seeds):
    for seed in seeds:
        live_as_a_whole(seed)


def test_a_seed_tells_the_same_story_twice():
    def story():
        life = Life(11)
        life.live()
        return life.trace

    assert story() == story()


def test_the_lives_reach_every_phase():
    reached = set()
    for seed in range(60):
        life = Life(seed)
        life.live()
        reached |= {run_phase(run.status.conditions) for run in life.runs() if run.status}
        reached |= {RunPhase.STUCK for line in life.trace if RunPhase.STUCK.value in line}
        reached |= {RunPhase.STOPPED for line in life.trace if f": {RunPhase.STOPPED.value} " in line}
    assert {RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.STUCK, RunPhase.STOPPED} <= reached


def live_all(seeds):
    for seed in seeds:
        live_in_memory(seed)


def one_too_many(value, count):
    return 2 + (value if isinstance(value, int) else count)


def starts_while_stopping(look, index, bindings):
    return run_stage.update_clusters(look, index, bindings)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (run_stage, "max_concurrency", one_too_many),
        (rollout, "finish_clusters", starts_while_stopping),
        (rollout, "_before", lambda look, index: True),
        (rollout, "OVER", ()),
    ],
    ids=["too many at a time", "starts while stopping", "no gate", "goes on when over"],
)
def test_the_lives_notice_a_broken_rule(monkeypatch, module, name, wrong):
    """A simulation that cannot fail proves nothing."""
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError, match="replay"):
        live_all(range(100))
