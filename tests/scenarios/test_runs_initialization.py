"""Scenarios of initialization (contract section B): what a run plans, and what ends it before it began."""

import pytest

from echelon.api import names
from echelon.api.own import MEMBER_CLUSTERS
from echelon.rules.run_phases import RunPhase
from echelon.rules.select import InvalidSelection
from tests.rollouts import (
    APPROVAL,
    FIXTURE_A_STAGES,
    PICK_10,
    both,
    config_map,
    fixture_a,
    fixture_b,
    message,
    picks,
    play,
    said,
    stage,
    wait,
)

INVALID = "cannot continue the updateRun: failed to validate the updateRun: "
USER = "failed to process the request due to a client error: "
UNEXPECTED = "unexpected behavior which cannot be handled by the controller: "
EAST = FIXTURE_A_STAGES[0]


async def fails(r, **run):
    """Create a run, see it fail to initialize and stay so; return it and the error text."""
    await r.start()
    await r.run(**run)
    failed = await r.reaches(RunPhase.INIT_FAILED)
    assert [one.type for one in failed.status.conditions] == ["Initialized"]
    assert said(failed.status.conditions) == {"Initialized": "False/UpdateRunInitializedFailed"}
    return failed, message(failed, "Initialized")


def path(r, name):
    return f"{r.namespace or ''}/{name}"


@both
def test_a_new_run_is_held_by_the_finalizer(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.start()
        await r.run(index=None, state="Initialize")
        run = await r.reaches(RunPhase.INITIALIZED)
        assert run.metadata.finalizers == ("kubernetes-fleet.io/stagedupdaterun-finalizer",)
        assert run.spec.resource_snapshot_index == ""  # from here on it is fixed

    play(scope, scenario)


@both
def test_without_a_placement_a_run_cannot_be_planned(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.client.delete(r.scope.placement, "p", r.namespace)
        _, text = await fails(r)
        assert text == f"{INVALID}{USER}parent placement not found"

    play(scope, scenario)


@both
def test_only_external_placements_can_be_run(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.client.delete(r.scope.placement, "p", r.namespace)
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}
        await r.create(r.scope.placement, "p", {"resourceSelectors": [selector]})
        _, text = await fails(r)
        assert text == (
            f"{INVALID}{USER}parent placement does not have an external rollout strategy, "
            "current strategy: RollingUpdate"
        )

    play(scope, scenario)


@both
def test_the_apply_strategy_is_recorded_with_its_defaults_also_when_a_later_step_fails(scope):
    async def scenario(r):
        await r.begin({}, [stage("all")], apply={"type": "ServerSideApply"})
        await r.client.delete(r.scope.policy_snapshot, "p-0", r.namespace)
        failed, text = await fails(r)
        applied = failed.status.applied_strategy
        assert applied.type == "ServerSideApply"
        assert applied.server_side_apply_config.force is False
        assert (applied.when_to_apply, applied.when_to_take_over) == ("Always", "Always")
        assert text == f"{INVALID}no latest policy snapshot found for placement {path(r, 'p')}"

    play(scope, scenario)


@both
def test_two_latest_policy_snapshots_are_one_too_many(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.policy_snapshot(1)
        _, text = await fails(r)
        assert text == (
            f"{INVALID}{UNEXPECTED}multiple active policy snapshots found for placement {path(r, 'p')}: "
            "got 2, want 1"
        )

    play(scope, scenario)


async def relabel(r, resource, name, **meta):
    await r.client.patch(resource, name, r.namespace, {"metadata": meta})


@both
@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (
            {"labels": {names.LABEL_POLICY_INDEX: None}},
            INVALID + UNEXPECTED + "policy snapshot `{p0}` does not have a policy index label",
        ),
        (
            {"annotations": {names.ANNOTATION_NUMBER_OF_CLUSTERS: None}},
            "cannot continue the updateRun: failed to validate the updateRun, "
            + UNEXPECTED
            + "cannot find annotation kubernetes-fleet.io/number-of-clusters: the policy snapshot `{p0}` "
            "doesn't have valid cluster count annotation",
        ),
    ],
)
def test_a_policy_snapshot_without_its_index_or_count_is_refused(scope, meta, text):
    async def scenario(r):
        await fixture_a(r)
        await relabel(r, r.scope.policy_snapshot, "p-0", **meta)
        _, told = await fails(r)
        assert told == text.format(p0=path(r, "p-0"))

    play(scope, scenario)


@both
def test_an_unsatisfied_policy_ends_the_run_and_is_not_tried_again(scope):
    async def scenario(r):
        await fixture_b(r)
        status = {"observedCRPGeneration": 1, "conditions": [r.condition("Scheduled", "False")]}
        await r.status(r.scope.policy_snapshot, "p-0", status)
        _, text = await fails(r)
        assert text == f"{INVALID}policy snapshot `p-0` not fully scheduled yet"
        await r.status(r.scope.policy_snapshot, "p-0", {"conditions": [r.condition("Scheduled")]})
        await r.w.settle()
        assert await r.phase() is RunPhase.INIT_FAILED

    play(scope, scenario)


@both
@pytest.mark.parametrize(
    ("policy", "clusters", "count"),
    [
        ({"placementType": "PickN", "numberOfClusters": 2}, 2, 2),
        ({"placementType": "PickFixed", "clusterNames": ["cluster-0", "cluster-1"]}, 2, 2),
        ({"placementType": "PickAll"}, 1, 1),
        (None, 3, 3),
    ],
)
def test_the_observed_cluster_count_comes_from_the_policy(scope, policy, clusters, count):
    async def scenario(r):
        await r.begin({f"cluster-{i}": {} for i in range(clusters)}, [stage("all")], policy=policy)
        await r.start()
        await r.run(state="Initialize")
        run = await r.reaches(RunPhase.INITIALIZED)
        assert run.status.policy_observed_cluster_count == count

    play(scope, scenario)


@both
@pytest.mark.parametrize(("policy", "count"), [(None, -1), (PICK_10, 10)])
def test_a_plan_without_any_binding_is_no_plan(scope, policy, count):
    async def scenario(r):
        await r.begin({}, [stage("all")], policy=policy)
        failed, text = await fails(r)
        assert failed.status.policy_observed_cluster_count == count
        assert text == (
            f"{INVALID}no scheduled or to-be-deleted bindings found for the latest policy snapshot "
            f"{path(r, 'p-0')}"
        )

    play(scope, scenario)


@both
@pytest.mark.parametrize(("leaving", "selected"), [([], 1), (["cluster-0"], 0)])
def test_fewer_bindings_than_the_policy_wants_is_refused(scope, leaving, selected):
    async def scenario(r):
        await r.begin({"cluster-0": {}}, [stage("all")], policy=PICK_10, leaving=leaving)
        _, text = await fails(r)
        assert text == (
            f"{INVALID}{UNEXPECTED}the number of selected bindings {selected} is not equal to the observed "
            "cluster count 10"
        )

    play(scope, scenario)


@both
def test_a_scheduler_still_at_work_is_waited_for(scope):
    async def scenario(r):
        await fixture_b(r)
        name = r.binding_name("cluster-1")
        body = {"spec": {"schedulingPolicySnapshotName": "p-old"}}
        await r.client.patch(r.scope.binding, name, r.namespace, body)
        await r.start()
        await r.run(state="Initialize")
        await r.w.settle()
        assert await r.phase() is RunPhase.NEW
        body = {"spec": {"schedulingPolicySnapshotName": "p-0"}}
        await r.client.patch(r.scope.binding, name, r.namespace, body)
        await r.reaches(RunPhase.INITIALIZED, within_s=1)

    play(scope, scenario)


@both
def test_leaving_clusters_alone_are_enough_for_a_plan(scope):
    async def scenario(r):
        await r.begin({"c": {}}, [stage("all")], leaving=["c"])
        await r.client.delete(r.scope.strategy, "s", r.namespace)
        _, text = await fails(r)
        assert text == f"{INVALID}{USER}referenced updateStrategy not found: `{path(r, 's')}`"

    play(scope, scenario)


# What a strategy can be wrong in, and what the run says; `{s}` is the strategy's path.
AFTER = "the after stage tasks are invalid, updateStrategy: `{s}`, stage: stage1, err: "
STRATEGIES = [
    (
        [stage("stage1", afterStageTasks=[wait("1s"), wait("2s")])],
        AFTER + "afterStageTasks cannot have two tasks of the same type: TimedWait",
    ),
    (
        [stage("stage1", afterStageTasks=[APPROVAL, APPROVAL])],
        AFTER + "afterStageTasks cannot have two tasks of the same type: Approval",
    ),
    (
        [stage("stage1", afterStageTasks=[wait("0s")])],
        AFTER + "task 0 of type TimedWait has wait duration <= 0",
    ),
    (
        [stage("stage1", sortingLabelKey="not-exist-label")],
        (
            "the sorting label `not-exist-label:` on cluster `cluster-0` is not valid: "
            'strconv.Atoi: parsing "": invalid syntax'
        ),
    ),
    (
        [stage("stage1"), stage("stage2", picks(group="prod"))],
        "cluster `cluster-0` appears in more than one stages",
    ),
    (
        [EAST],
        (
            "some clusters are not placed in any stage, total 5, showing up to 10: "
            "cluster-0, cluster-2, cluster-4, cluster-6, cluster-8"
        ),
    ),
    (
        [stage("stage1", {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]})],
        "the stage label selector is invalid, updateStrategy: `{s}`, stage: stage1, err: ",
    ),
]


@both
@pytest.mark.parametrize(("stages", "text"), STRATEGIES, ids=range(len(STRATEGIES)))
def test_a_strategy_that_makes_no_sense_is_the_authors_error(scope, stages, text):
    async def scenario(r):
        await fixture_a(r, stages)
        _, told = await fails(r)
        wanted = INVALID + USER + text.format(s=path(r, "s"))
        assert told.startswith(wanted) if text.endswith("err: ") else told == wanted

    play(scope, scenario)


@both
def test_what_was_planned_is_shown_beside_a_bad_snapshot_index(scope):
    async def scenario(r):
        await fixture_a(r, [stage("stage1"), {"name": "stage2"}])
        failed, text = await fails(r, index="7")
        assert (
            text == f"{INVALID}{USER}no resourceSnapshots with index `7` found for placement `{path(r, 'p')}`"
        )
        assert [len(one.clusters) for one in failed.status.stages_status] == [10, 0]

    play(scope, scenario)


@both
def test_stages_hold_their_clusters_in_order_and_tasks_are_listed(scope):
    async def scenario(r):
        await fixture_a(r)
        await r.start()
        await r.run(state="Initialize")
        run = await r.reaches(RunPhase.INITIALIZED)
        one, two = run.status.stages_status
        assert [entry.cluster_name for entry in one.clusters] == [f"cluster-{i}" for i in (9, 7, 5, 3, 1)]
        assert [entry.cluster_name for entry in two.clusters] == [f"cluster-{i}" for i in (0, 2, 4, 6, 8)]
        delete = run.status.deletion_stage_status
        assert delete.stage_name == "kubernetes-fleet.io/deleteStage"
        assert [entry.cluster_name for entry in delete.clusters] == [
            f"unscheduled-cluster-{i}" for i in range(3)
        ]
        tasks = [
            (task.type, task.approval_request_name)
            for each in (one, two)
            for task in (*each.before_stage_task_status, *each.after_stage_task_status)
        ]
        assert tasks == [
            ("Approval", "r-before-stage1"),
            ("TimedWait", ""),
            ("Approval", "r-after-stage1"),
            ("Approval", "r-before-stage2"),
            ("Approval", "r-after-stage2"),
            ("TimedWait", ""),
        ]
        assert message(run, "Initialized") == "The UpdateRun initialized successfully"

    play(scope, scenario)


@both
@pytest.mark.parametrize(
    ("index", "text"),
    [
        (
            "invalid-index",
            "invalid resource snapshot index `invalid-index` provided, expected an integer >= 0",
        ),
        ("-1", "invalid resource snapshot index `-1` provided, expected an integer >= 0"),
        ("01", "no resourceSnapshots with index `1` found for placement `{p}`"),
        ("5", "no resourceSnapshots with index `5` found for placement `{p}`"),
    ],
)
def test_an_index_must_name_a_snapshot_of_the_placement(scope, index, text):
    async def scenario(r):
        await fixture_b(r)
        r.placement = "other"
        await r.snapshot(5)  # somebody else's
        r.placement = "p"
        _, told = await fails(r, index=index)
        assert told == INVALID + USER + text.format(p=path(r, "p"))

    play(scope, scenario)


@both
def test_an_index_whose_snapshots_have_no_master_is_refused(scope):
    async def scenario(r):
        await fixture_b(r)
        await relabel(
            r, r.scope.resource_snapshot, "p-0-snapshot", annotations={names.ANNOTATION_RESOURCE_HASH: None}
        )
        _, text = await fails(r)
        assert text == f"{INVALID}{UNEXPECTED}no master resourceSnapshot found for placement {path(r, 'p')}"

    play(scope, scenario)


@both
def test_a_version_that_another_run_is_to_deliver_is_not_deleted_to_make_room(scope):
    async def scenario(r):
        await r.begin({"cluster-0": {}}, [stage("all")], snapshots=3)
        await r.client.patch(r.scope.placement, "p", r.namespace, {"spec": {"revisionHistoryLimit": 1}})
        await r.start()
        await r.run("waiting", index="1", state="Initialize")
        await r.reaches(RunPhase.INITIALIZED, "waiting")
        await r.run("now", index=None, state="Initialize")
        await r.reaches(RunPhase.INITIALIZED, "now")
        kept = {one.name for one in (await r.client.list(r.scope.resource_snapshot)).items}
        assert kept == {"p-1-snapshot", "p-3-snapshot"}
        await r.set_state("Run", "waiting")
        run = await r.reaches(RunPhase.SUCCEEDED, "waiting")
        assert run.status.resource_snapshot_index_used == "1"

    play(scope, scenario)


@both
def test_a_snapshot_that_its_placement_does_not_own_is_no_version(scope):
    async def scenario(r):
        await fixture_b(r)
        forged = r.scope.resource_snapshot
        await r.client.patch(forged, "p-0-snapshot", r.namespace, {"metadata": {"ownerReferences": None}})
        _, text = await fails(r)
        assert "no resourceSnapshots with index `0` found for placement" in text

    play(scope, scenario)


@both
@pytest.mark.parametrize(("existing", "used"), [(0, "0"), (1, "1"), (3, "3")])
def test_without_an_index_the_resources_as_they_are_now_become_the_next_snapshot(scope, existing, used):
    async def scenario(r):
        await fixture_b(r) if existing == 1 else await r.begin(
            {"cluster-0": {}}, [stage("all")], snapshots=existing
        )
        await r.start()
        await r.run(index=None, state="Initialize")
        run = await r.reaches(RunPhase.INITIALIZED)
        assert run.status.resource_snapshot_index_used == used
        made = await r.client.get(r.scope.resource_snapshot, f"p-{used}-snapshot", r.namespace)
        assert made.spec.selected_resources == (config_map("v1"),)
        assert made.metadata.labels[names.LABEL_IS_LATEST_SNAPSHOT] == "true"
        await r.run("again", index=None, state="Initialize")
        again = await r.reaches(RunPhase.INITIALIZED, "again")
        assert again.status.resource_snapshot_index_used == used  # the same content is not stored twice
        assert len((await r.client.list(r.scope.resource_snapshot)).items) == max(existing, 0) + 1

    play(scope, scenario)


@both
def test_resources_that_cannot_be_selected_are_the_authors_error(scope):
    async def scenario(r):
        await fixture_b(r)
        r.selection.problem = InvalidSelection("no such kind")
        _, text = await fails(r, index=None)
        assert text == f"{INVALID}{USER}no such kind"

    play(scope, scenario)


@both
def test_a_run_is_never_failed_on_a_copy_that_lags_behind(scope):
    """The engine's watches are down while placement and bindings are made; the run still sees them."""

    async def scenario(r):
        await fixture_b(r)
        w = r.w
        await r.client.delete(r.scope.strategy, "s", r.namespace)
        client = w.client(link="engine")
        await r.start(client=client)
        w.links["engine"].drop_watch = 1.0
        w.links["engine"].break_streams()
        await r.strategy("s", [stage("all")])
        store = w.managers[0].cache.store(r.scope.run)
        await r.run(state="Initialize")
        store.observe(await r.get())  # the run alone is known
        w.managers[0].loops[0].queue.add(r.scope.key("r", r.namespace))
        await r.reaches(RunPhase.INITIALIZED, within_s=2)

    play(scope, scenario)


@both
def test_a_plan_is_only_a_plan_until_the_state_is_run(scope):
    async def scenario(r):
        await fixture_a(r, [{**EAST, "beforeStageTasks": []}, FIXTURE_A_STAGES[1]])
        await r.start()
        await r.run(state="Initialize")
        run = await r.reaches(RunPhase.INITIALIZED)
        await r.w.settle()
        assert [one.type for one in (await r.get()).status.conditions] == ["Initialized"]
        binding = await r.get_binding("cluster-9")
        assert (binding.spec.state, binding.spec.resource_snapshot_name, binding.status) == (
            "Scheduled",
            "",
            None,
        )
        r.delivery.silent.update(f"cluster-{i}" for i in range(10))
        await r.set_state("Run")
        run = await r.reaches(RunPhase.PROGRESSING)
        assert said(run.status.conditions)["Progressing"] == "True/UpdateRunProgressing"
        one = run.status.stages_status[0]
        assert said(one.conditions) == {"Progressing": "True/StageUpdatingStarted"}
        assert said(one.clusters[0].conditions) == {"Started": "True/ClusterUpdatingStarted"}
        assert one.clusters[1].conditions == ()

    play(scope, scenario)


@both
def test_a_failed_initialization_stays_failed_even_when_its_cause_is_fixed(scope):
    async def scenario(r):
        await fixture_b(r)
        await fails(r, index="3", state="Initialize")
        await r.snapshot(3)
        await r.set_state("Run")
        await r.w.settle()
        assert await r.phase() is RunPhase.INIT_FAILED
        assert (await r.get_binding("cluster-0")).spec.state == "Scheduled"

    play(scope, scenario)


@both
def test_a_cluster_without_labels_known_to_the_strategy_is_reported_by_name(scope):
    async def scenario(r):
        await fixture_b(r)
        await r.client.delete(MEMBER_CLUSTERS, "cluster-1")
        _, text = await fails(r)
        assert text.endswith(
            "some clusters are not placed in any stage, total 1, showing up to 10: cluster-1"
        )

    play(scope, scenario)
