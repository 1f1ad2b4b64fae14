"""Scenarios of validation (contract section C): what makes a plan that was good stop being good."""

import pytest

from echelon.api import names
from echelon.api.own import MEMBER_CLUSTERS
from echelon.rules.run_phases import RunPhase, StagePhase, stage_phase
from tests.rollouts import (
    APPROVAL,
    FIXTURE_A_STAGES,
    both,
    fixture_a,
    message,
    picks,
    play,
    said,
    stage,
)
from tests.scenarios.test_runs_initialization import INVALID, UNEXPECTED, USER, path, relabel

CANNOT = "cannot continue the updateRun: "


async def waiting(r):
    """A run waiting for the before-stage approval of stage1."""
    await fixture_a(r)
    await r.start()
    await r.run()
    return await r.reaches(RunPhase.WAITING)


async def aborted(r, text):
    """The run fails with this text; stage and clusters stay as they were."""
    before = await r.get()
    failed = await r.reaches(RunPhase.FAILED, within_s=5)
    assert said(failed.status.conditions) == {
        "Initialized": "True/UpdateRunInitializedSuccessfully",
        "Progressing": "False/UpdateRunFailed",
        "Succeeded": "False/UpdateRunFailed",
    }
    assert message(failed, "Progressing") == "The stages are aborted due to a non-recoverable error"
    assert message(failed, "Succeeded") == text
    assert [one.clusters for one in failed.status.stages_status] == [
        one.clusters for one in before.status.stages_status
    ]
    assert [stage_phase(one.conditions) for one in failed.status.stages_status] == [
        stage_phase(one.conditions) for one in before.status.stages_status
    ]


async def delete_placement(r):
    await r.client.delete(r.scope.placement, "p", r.namespace)
    return f"{INVALID}{USER}parent placement not found"


async def make_it_rolling(r):
    await r.client.delete(r.scope.placement, "p", r.namespace)
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}
    await r.create(r.scope.placement, "p", {"resourceSelectors": [selector]})
    return (
        f"{INVALID}{USER}parent placement does not have an external rollout strategy, "
        "current strategy: RollingUpdate"
    )


async def edit_apply_strategy(r):
    body = {"spec": {"strategy": {"applyStrategy": {"type": "ReportDiff"}}}}
    await r.client.patch(r.scope.placement, "p", r.namespace, body)
    return (
        f"{CANNOT}{USER}the applyStrategy in the updateRun is outdated, latest: "
        '{"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ReportDiff",'
        '"whenToTakeOver":"Always"}, recorded: {"comparisonOption":"PartialComparison","whenToApply":"Always",'
        '"type":"ClientSideApply","whenToTakeOver":"Always"}'
    )


async def delete_policy_snapshot(r):
    await r.client.delete(r.scope.policy_snapshot, "p-0", r.namespace)
    return f"{INVALID}no latest policy snapshot found for placement {path(r, 'p')}"


async def next_policy_snapshot(r):
    await relabel(r, r.scope.policy_snapshot, "p-0", labels={names.LABEL_IS_LATEST_SNAPSHOT: "false"})
    await r.policy_snapshot(2)
    # between the two writes there is none, afterwards another: both end the run


async def other_count(r):
    await relabel(r, r.scope.policy_snapshot, "p-0", annotations={names.ANNOTATION_NUMBER_OF_CLUSTERS: "11"})
    return f"{CANNOT}the cluster count initialized in the updateRun is outdated, latest: 11, recorded: 10"


async def unschedule(r):
    await r.status(r.scope.policy_snapshot, "p-0", {"conditions": [r.condition("Scheduled", "False")]})
    return f"{INVALID}policy snapshot `p-0` not fully scheduled yet"


async def relabel_cluster(r):
    await relabel(r, MEMBER_CLUSTERS, "cluster-0", labels={"region": "eastus"})
    return f"{CANNOT}the number of clusters in index `0` stage has changed, new: 6, existing: 5"


async def swap_order(r):
    """The order is compared as soon as the first label changes; any difference ends the run."""
    await relabel(r, MEMBER_CLUSTERS, "cluster-3", labels={"index": "9"})
    return f"{CANNOT}the `3` cluster in the `0` stage has changed, new: cluster-1, existing: cluster-3"


async def a_cluster_in_no_stage(r):
    await relabel(r, MEMBER_CLUSTERS, "cluster-4", labels={"group": "lab"})
    return f"{INVALID}{USER}some clusters are not placed in any stage, total 1, showing up to 10: cluster-4"


async def new_leaving_cluster(r):
    await r.binding("unscheduled-cluster-9", state="Unscheduled")
    return f"{CANNOT}{UNEXPECTED}the cluster `unscheduled-cluster-9` to be deleted is not in the delete stage"


async def one_binding_less(r):
    await r.client.delete(r.scope.binding, r.binding_name("cluster-4"), r.namespace)
    return f"{INVALID}{UNEXPECTED}the number of selected bindings 9 is not equal to the observed cluster count 10"


async def delete_strategy(r):
    await r.client.delete(r.scope.strategy, "s", r.namespace)
    return f"{INVALID}referenced updateStrategy not found: `{path(r, 's')}`"


async def break_strategy(r):
    stages = [{**FIXTURE_A_STAGES[0], "afterStageTasks": [APPROVAL, APPROVAL]}, FIXTURE_A_STAGES[1]]
    await r.client.patch(r.scope.strategy, "s", r.namespace, {"spec": {"stages": stages}})
    return (
        f"{INVALID}the after stage tasks are invalid, updateStrategy: `{path(r, 's')}`, stage: stage1, "
        "err: afterStageTasks cannot have two tasks of the same type: Approval"
    )


@both
@pytest.mark.parametrize(
    "change",
    [
        delete_placement,
        make_it_rolling,
        edit_apply_strategy,
        delete_policy_snapshot,
        other_count,
        unschedule,
        relabel_cluster,
        swap_order,
        a_cluster_in_no_stage,
        new_leaving_cluster,
        one_binding_less,
        delete_strategy,
        break_strategy,
    ],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("state", ["Run", "Stop"])
def test_a_plan_that_no_longer_holds_ends_the_run(scope, change, state):
    async def scenario(r):
        await waiting(r)
        if state == "Stop":
            await r.set_state("Stop")
            await r.reaches(RunPhase.STOPPED)
        await aborted(r, await change(r))

    play(scope, scenario)


@both
def test_a_new_policy_snapshot_ends_the_run(scope):
    async def scenario(r):
        await waiting(r)
        await next_policy_snapshot(r)
        failed = await r.reaches(RunPhase.FAILED, within_s=5)
        assert message(failed, "Succeeded") in (
            f"{CANNOT}the policy snapshot index used in the updateRun is outdated, latest: 2, recorded: 0",
            f"{INVALID}no latest policy snapshot found for placement {path(r, 'p')}",
        )

    play(scope, scenario)


@both
def test_the_count_is_not_compared_when_the_policy_picks_all(scope):
    async def scenario(r):
        await r.begin({"c": {}}, [stage("all", beforeStageTasks=[APPROVAL])])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await relabel(
            r, r.scope.policy_snapshot, "p-0", annotations={names.ANNOTATION_NUMBER_OF_CLUSTERS: "11"}
        )
        await r.w.settle()
        assert await r.phase() is RunPhase.WAITING

    play(scope, scenario)


@both
def test_a_cluster_that_joins_while_all_are_picked_ends_the_run(scope):
    async def scenario(r):
        await r.begin({"c": {}}, [stage("all", beforeStageTasks=[APPROVAL])])
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await r.client.create(MEMBER_CLUSTERS, {**_member("d")})
        await r.binding("d")
        await aborted(
            r, f"{CANNOT}the number of clusters in index `0` stage has changed, new: 2, existing: 1"
        )

    play(scope, scenario)


def _member(name):
    return {
        "apiVersion": MEMBER_CLUSTERS.api_version,
        "kind": MEMBER_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"identity": {"kind": "User", "name": name}},
    }


@both
def test_a_cluster_relabelled_into_two_stages_ends_the_run_in_the_guides_words(scope):
    async def scenario(r):
        stages = [
            stage("one", picks(env="a"), beforeStageTasks=[APPROVAL]),
            stage("two", picks(tier="b")),
        ]
        await r.begin({"member-1": {"env": "a"}, "member-2": {"tier": "b"}}, stages)
        await r.start()
        await r.run()
        await r.reaches(RunPhase.WAITING)
        await relabel(r, MEMBER_CLUSTERS, "member-1", labels={"tier": "b"})
        await aborted(r, f"{INVALID}cluster `member-1` appears in more than one stage")

    play(scope, scenario)


@both
@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (
            "stagedUpdateStrategySnapshot",
            None,
            f"{CANNOT}{UNEXPECTED}the updateRun has nil updateStrategySnapshot",
        ),
        ("stagesStatus", None, f"{CANNOT}{UNEXPECTED}the updateRun has nil stagesStatus"),
        ("deletionStageStatus", None, f"{CANNOT}{UNEXPECTED}the updateRun has nil deletionStageStatus"),
        (
            "stagedUpdateStrategySnapshot",
            {"stages": [*FIXTURE_A_STAGES, stage("stage3", picks(no="body"))]},
            f"{CANNOT}the number of stages in the updateRun has changed, new: 3, existing: 2",
        ),
        (
            "stagedUpdateStrategySnapshot",
            {"stages": [{**FIXTURE_A_STAGES[0], "name": "renamed"}, FIXTURE_A_STAGES[1]]},
            f"{CANNOT}index `0` stage name in the updateRun has changed, new: renamed, existing: stage1",
        ),
    ],
    ids=["no strategy", "no stages", "no delete stage", "third stage", "renamed stage"],
)
def test_a_status_somebody_has_edited_ends_the_run(scope, field, value, text):
    async def scenario(r):
        await waiting(r)
        await r.status(r.scope.run, "r", {field: value})
        failed = await r.reaches(RunPhase.FAILED, within_s=5)
        assert message(failed, "Succeeded") == text

    play(scope, scenario)


@both
def test_a_valid_edit_of_the_strategy_does_not_touch_a_run_under_way(scope):
    async def scenario(r):
        await waiting(r)
        await r.client.patch(r.scope.strategy, "s", r.namespace, {"spec": {"stages": [stage("other")]}})
        await r.w.settle()
        run = await r.get()
        assert await r.phase() is RunPhase.WAITING
        assert stage_phase(run.status.stages_status[0].conditions) is StagePhase.WAITING_BEFORE

    play(scope, scenario)


@both
def test_a_heartbeat_of_a_member_is_no_reason_to_look_at_a_run(scope):
    async def scenario(r):
        await waiting(r)
        await r.w.settle()
        looks = _looks(r)
        await r.client.patch(
            MEMBER_CLUSTERS, "cluster-1", None, {"status": {"properties": {}}}, subresource="status"
        )
        await r.client.patch(MEMBER_CLUSTERS, "cluster-1", None, {"metadata": {"annotations": {"a": "b"}}})
        await r.w.settle()
        assert _looks(r) == looks

    play(scope, scenario)


def _looks(r):
    loop = r.w.managers[0].loops[0]
    return loop._decisions._value.get()
