"""Scenarios of admission (contract section A): what the API server lets in, and in which words it refuses."""

import pytest

from echelon.api.names import RunState
from echelon.client.errors import Invalid
from tests.rollouts import APPROVAL, both, play, stage, wait

SPEC = {"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0"}


def admits(scope, scenario):
    async def prepared(r):
        await r.install()
        await scenario(r)

    play(scope, prepared)


@both
@pytest.mark.parametrize("spec", [{}, {"state": ""}])
def test_a_run_without_a_state_is_only_initialized(scope, spec):
    async def scenario(r):
        if spec:  # an empty string is not one of the values; a typed client leaves it out
            with pytest.raises(Invalid):
                await r.create(r.scope.run, "r", {**SPEC, **spec})
            return
        made = await r.create(r.scope.run, "r", SPEC)
        assert made.spec.state is RunState.INITIALIZE

    admits(scope, scenario)


@both
def test_a_run_has_a_name_of_at_most_63_characters(scope):
    async def scenario(r):
        await r.create(r.scope.run, "r" * 63, SPEC)
        with pytest.raises(Invalid, match=r"metadata.name max length is 63"):
            await r.create(r.scope.run, "r" * 64, SPEC)

    admits(scope, scenario)


@both
@pytest.mark.parametrize("field", ["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"])
def test_what_a_run_is_about_cannot_be_changed(scope, field):
    async def scenario(r):
        await r.create(r.scope.run, "r", SPEC)
        with pytest.raises(Invalid, match=f"{field} is immutable"):
            await r.client.patch(r.scope.run, "r", r.namespace, {"spec": {field: "1"}})
        await r.set_state("Run")

    admits(scope, scenario)


@both
def test_a_run_can_be_stopped_and_resumed_and_be_made_stopped(scope):
    async def scenario(r):
        await r.create(r.scope.run, "r", {**SPEC, "state": "Stop"})
        for state in ("Run", "Stop", "Run"):
            await r.set_state(state)

    admits(scope, scenario)


@both
def test_a_state_that_does_not_exist_is_refused_with_those_that_do(scope):
    async def scenario(r):
        with pytest.raises(Invalid, match='supported values: "Initialize", "Run", "Stop"'):
            await r.create(r.scope.run, "r", {**SPEC, "state": "InvalidState"})

    admits(scope, scenario)


REFUSED = [
    ([stage(f"s{i}") for i in range(32)], r"spec.stages: Too many: 32: must have at most 31 items"),
    ([stage("s" * 64)], "Too long"),
    ([stage("not-ok")], r"spec.stages\[0\].name in body should match"),
    (
        [stage("s", afterStageTasks=[APPROVAL, wait("1s"), wait("2s")])],
        "Too many: 3: must have at most 2 items",
    ),
    ([stage("s", beforeStageTasks=[APPROVAL, APPROVAL])], "Too many: 2: must have at most 1 item"),
    (
        [stage("s", afterStageTasks=[{"type": "Approval", "waitTime": "1s"}])],
        "AfterStageTaskType is Approval, waitTime is not allowed",
    ),
    (
        [stage("s", afterStageTasks=[{"type": "TimedWait"}])],
        "AfterStageTaskType is TimedWait, waitTime is required",
    ),
    ([stage("s", beforeStageTasks=[wait("1s")])], "BeforeStageTaskType cannot be TimedWait"),
    *(([stage("s", maxConcurrency=value)], "maxConcurrency must be at least 1") for value in (0, -1)),
    *(
        ([stage("s", maxConcurrency=value)], r"spec.stages\[0\].maxConcurrency in body should match")
        for value in ("0", "50", "0%", "101%")
    ),
    *(
        ([stage("s", afterStageTasks=[wait(value)])], "waitTime in body should match")
        for value in ("0abc", "1", "1d", "01h")
    ),
]


@both
@pytest.mark.parametrize(("stages", "text"), REFUSED, ids=range(len(REFUSED)))
def test_a_strategy_is_refused_in_the_words_of_the_contract(scope, stages, text):
    async def scenario(r):
        with pytest.raises(Invalid, match=text):
            await r.strategy("s", stages)

    admits(scope, scenario)


@both
@pytest.mark.parametrize(
    "stages",
    [
        [stage(f"s{i}") for i in range(31)],
        [stage("s" * 63)],
        *([stage("s", maxConcurrency=value)] for value in (1, 50, 101, "1%", "100%")),
        *([stage("s", afterStageTasks=[wait(value), APPROVAL])] for value in ("0s", "1h30m")),
    ],
    ids=range(9),
)
def test_a_strategy_within_its_limits_is_let_in(scope, stages):
    async def scenario(r):
        await r.strategy("s", stages)

    admits(scope, scenario)


@both
def test_a_question_cannot_be_changed_after_it_was_asked(scope):
    async def scenario(r):
        await r.create(r.scope.approval, "a", {"parentStageRollout": "r", "targetStage": "s"})
        with pytest.raises(Invalid, match="The spec field is immutable"):
            await r.client.patch(r.scope.approval, "a", r.namespace, {"spec": {"targetStage": "t"}})

    admits(scope, scenario)


@both
def test_a_placement_stays_external(scope):
    async def scenario(r):
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}
        spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
        await r.create(r.scope.placement, "p", spec)
        body = {"spec": {"strategy": {"type": "RollingUpdate"}}}
        text = "cannot change rollout strategy type from 'External' to other types"
        with pytest.raises(Invalid, match=text):
            await r.client.patch(r.scope.placement, "p", r.namespace, body)

    admits(scope, scenario)
