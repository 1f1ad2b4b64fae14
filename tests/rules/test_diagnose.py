"""Every cause of the catalogue, recognised from a state written down by hand; told in whole sentences, once."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from echelon.api.meta import ObjectMeta
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.api.work import BackReportedStatus, ManifestCondition, Work, WorkResourceIdentifier, WorkStatus
from echelon.rules.diagnose import diagnose, one_line
from echelon.rules.diagnose_causes import BLAME, CAUSES, GROUPS
from echelon.rules.diagnose_cluster import innermost
from echelon.rules.diagnose_parts import Depth, OnMember, fill, listed
from echelon.rules.run_phases import ClusterPhase, Moment, RunPhase, StagePhase, mark
from tests.rules.pictures import (
    NOW,
    approval,
    cluster,
    condition,
    failed,
    in_stage,
    member,
    minutes,
    planned,
    seen_of,
    stage,
    web_v7,
    with_status,
)

VF = "cannot continue the updateRun: failed to validate the updateRun: "
UE = "failed to process the request due to a client error: "
UB = "unexpected behavior which cannot be handled by the controller: "
OK = tuple(condition(type_, "True") for type_ in ("Overridden", "WorkSynchronized", "Applied"))
NOT_AVAILABLE = condition(
    "Available", "False", "NotAllWorkAreAvailable", "Work object web-work is not yet available"
)
NOT_APPLIED = condition(
    "Applied", "False", "NotAllWorkHaveBeenApplied", "Work object web-work has failed to apply"
)
LATE = failed(condition("Available", "False", "ManifestNotAvailableYet", "Manifest is not yet available"))


def two_stages(scope=CLUSTER, **more):
    stages = [stage("canary"), stage("prod", before=True, at_a_time=2)]
    return seen_of(stages, {"canary": ["ca"], "prod": ["p1", "p2", "p3"]}, scope=scope, **more)


def causes(seen, **more):
    return [finding.cause for finding in diagnose(seen, NOW, **more)]


def only(seen, **more):
    findings = diagnose(seen, NOW, **more)
    assert len(findings) == 1, [finding.sentence for finding in findings]
    check(findings[0])
    return findings[0]


def check(finding):
    texts = (finding.sentence, finding.fix, finding.recovers, *finding.next)
    for text in texts:
        assert text, finding
        assert not re.search(r"\{[a-z_]+\}", text), text
    assert finding.sentence.endswith(".")
    assert finding.next


def failing(message, scope=CLUSTER):
    return with_status(two_stages(scope), planned(two_stages(scope), RunPhase.FAILED, error=message).status)


def stuck_on(*conditions, age=7.0, cause_failed=(), depth=None, clusters=("ca",), **spec):
    seen = planned(two_stages(), RunPhase.STUCK, clusters=", ".join(clusters), stage="canary")
    seen = in_stage(seen, 0, StagePhase.STARTED)
    for name in clusters:
        seen = cluster(seen, name, ClusterPhase.UPDATING, *conditions, age=age, failed=cause_failed, **spec)
    return seen


# --- the catalogue itself ---------------------------------------------------------------------------------------
def test_every_cause_has_a_sentence_an_answer_and_a_next_command():
    for cause in CAUSES.values():
        assert cause.sentence.endswith(".")
        assert all((cause.title, cause.fix, cause.recovers, cause.next)), cause.id
    assert len(CAUSES) == sum(len(group.causes) for group in GROUPS), "an id stands for one cause"


# what the sandbox cannot make happen (yet) is held by examples of this file alone
BY_EXAMPLE_ONLY = {
    "binding-gone",  # a run ends earlier, by its plan no longer holding
    "engine-behind",  # lasts milliseconds while an engine runs
    "member-unhealthy",  # simulated API servers are not ill
    "config-missing",
    "pods-refused",
    "unschedulable",
}


def test_every_cause_is_provoked_for_real_or_known_not_to_be():
    folder = Path(__file__).parents[1] / "scenarios"
    text = "".join(path.read_text() for path in sorted(folder.glob("test_diagnosis*.py")))
    # two causes are checked by their whole sentence instead of their id
    by_sentence = {
        "placement-missing": "because its placement nope does not exist",
        "snapshot-missing": "has no resource snapshot with index 1",
        "not-started": "because its state is Initialize",
        "stopped": "was stopped; 1 of 3",
        "no-run": "no run rolls it out",
    }
    told = {id_ for id_ in CAUSES if f'"{id_}"' in text} | {
        id_ for id_, words in by_sentence.items() if words in text
    }
    assert set(CAUSES) - told == BY_EXAMPLE_ONLY


def test_commands_with_json_are_filled_without_escapes():
    assert fill('x {run} -p \'{"spec":{"a":1}}\'', {"run": "v7"}) == 'x v7 -p \'{"spec":{"a":1}}\''


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["b", "a"], "a and b"),
        (["c", "b", "a"], "a, b and c"),
        (["d", "c", "b", "a", "a"], "4 clusters (a, b, c and 1 more)"),
    ],
)
def test_names_are_listed_until_there_are_many(names, text):
    assert listed(names) == text


# --- runs that failed -------------------------------------------------------------------------------------------
FAILURES = {
    "placement-missing": f"{VF}{UE}parent placement not found",
    "placement-not-external": f"{VF}{UE}parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
    "not-scheduled": f"{VF}policy snapshot `web-0` not fully scheduled yet",
    "no-clusters": f"{VF}no scheduled or to-be-deleted bindings found for the latest policy snapshot /web-0",
    "strategy-missing": f"{VF}{UE}referenced updateStrategy not found: `/safe`",
    "tasks-invalid": f"{VF}{UE}the after stage tasks are invalid, updateStrategy: `/safe`, stage: prod, err: afterStageTasks cannot have two tasks of the same type: Approval",
    "selector-invalid": f"{VF}{UE}the stage label selector is invalid, updateStrategy: `/safe`, stage: prod, err: bad",
    "cluster-in-two-stages": f"{VF}{UE}cluster `p1` appears in more than one stages",
    "cluster-in-no-stage": f"{VF}{UE}some clusters are not placed in any stage, total 2, showing up to 10: x, y",
    "sorting-label-invalid": f'{VF}{UE}the sorting label `order:x` on cluster `p1` is not valid: strconv.Atoi: parsing "x": invalid syntax',
    "snapshot-missing": f"{VF}{UE}no resourceSnapshots with index `4` found for placement `/web`",
    "snapshot-index-invalid": f"{VF}{UE}invalid resource snapshot index `x` provided, expected an integer >= 0",
    "clusters-changed": "cannot continue the updateRun: the number of clusters in index `0` stage has changed, new: 2, existing: 1",
    "policy-changed": "cannot continue the updateRun: the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0",
    "apply-strategy-changed": f"cannot continue the updateRun: {UE}the applyStrategy in the updateRun is outdated, latest: a, recorded: b",
    "taken-over": f"cannot continue the updateRun: {UE}the binding of the updating cluster `p1` in the stage `prod` is not up-to-date with the desired status, please check the status of binding `web-p1-0a1b2c3d` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster",
    "binding-gone": f"cannot continue the updateRun: {UB}the binding for cluster `p1` in stage `prod` is not found in the toBeUpdatedBindings map",
    "approval-foreign": f"cannot continue the updateRun: {UB}the approval request task `/v7-before-prod` is targeting update run `/other` and stage `prod`, want target update run `/v7 and stage `prod` ",
    "failed": "cannot continue the updateRun: something nobody has seen before",
}


@pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED], ids=lambda scope: scope.name)
@pytest.mark.parametrize(("cause", "message"), FAILURES.items())
def test_a_failed_run_is_explained_by_its_message(cause, message, scope):
    found = only(failing(message, scope))
    assert found.cause == cause
    assert found.evidence[0].says.startswith("Succeeded=False UpdateRunFailed")
    assert ("-n team" in " ".join(found.next)) or scope is CLUSTER or not re.search(r" \w+/", found.next[0])


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "cannot continue the StagedUpdateRun: failed to initialize the stagedUpdateRun: failed to process the request due to a client error: parent resourcePlacement not found",
            "placement-missing",
        ),
        (
            "cannot continue the updateRun: failed to validate the updateRun: cluster `member-1` appears in more than one stage",
            "cluster-in-two-stages",
        ),
        (
            "cannot continue the updateRun: failed to validate the updateRun: the before stage tasks are invalid, updateStrategy: `/s`, stage: a, err: x",
            "tasks-invalid",
        ),
    ],
)
def test_wordings_of_older_guides_are_known(message, cause):
    assert only(failing(message)).cause == cause


def test_who_took_a_cluster_over_is_named():
    seen = failing(FAILURES["taken-over"] + ": it was moved by updateRun `v8`")
    assert "run v8 moved p1" in only(seen).sentence


def test_a_run_that_could_not_be_planned_is_told_as_such():
    seen = planned(two_stages(placement=False))
    assert only(seen).sentence == "Run v7 could not be planned because its placement web does not exist."


# --- waiting ----------------------------------------------------------------------------------------------------
def test_an_open_approval_is_told_with_its_stage_and_age():
    seen = planned(two_stages(), RunPhase.WAITING, tasks="before-stage", stage="prod")
    seen = in_stage(in_stage(seen, 0, StagePhase.SUCCEEDED), 1, StagePhase.WAITING_BEFORE, age=14)
    found = only(approval(seen, "v7-before-prod", "prod"))
    assert found.cause == "approval-open"
    assert found.sentence == "Run v7 has been waiting for 14m for an approval before stage prod."
    assert found.next == ('echelon approve v7/prod -m "why"',)


def waiting():
    seen = planned(two_stages(), RunPhase.WAITING, tasks="before-stage", stage="prod")
    return in_stage(in_stage(seen, 0, StagePhase.SUCCEEDED), 1, StagePhase.WAITING_BEFORE, age=14)


def test_an_approval_of_another_generation_does_not_count_and_is_told_so():
    seen = approval(waiting(), "v7-before-prod", "prod", condition("Approved", "True", gen=0))
    found = only(seen)
    assert found.cause == "approval-not-counted"
    assert "generation 0" in found.sentence
    assert "generation 1" in found.sentence


def test_an_approval_that_counts_is_no_finding():
    assert causes(approval(waiting(), "v7-before-prod", "prod", condition("Approved", "True", gen=1))) == []


def test_a_refusal_is_told_with_its_words():
    seen = approval(
        waiting(), "v7-before-prod", "prod", condition("Approved", "False", message="ana: not before Monday")
    )
    found = only(seen)
    assert found.cause == "approval-refused"
    assert "not before Monday" in found.sentence


def test_a_timed_wait_says_until_when():
    seen = seen_of([stage("canary", wait="1h")], {"canary": ["ca"]})
    seen = planned(seen, RunPhase.WAITING, tasks="after-stage", stage="canary")
    found = only(in_stage(seen, 0, StagePhase.WAITING_AFTER, age=10))
    assert found.cause == "timed-wait"
    assert "12:50:00" in found.sentence


def test_a_planned_run_says_that_it_was_not_told_to_start():
    assert only(planned(two_stages(state="Initialize"))).cause == "not-started"


def test_a_stopping_run_names_what_it_waits_for():
    seen = in_stage(planned(two_stages(state="Stop"), RunPhase.STOPPING), 0, StagePhase.STOPPING)
    found = diagnose(cluster(seen, "ca", ClusterPhase.UPDATING, *OK, NOT_AVAILABLE, age=1), NOW)
    assert [one.cause for one in found] == ["stopping"]
    assert "1 cluster(s) that it had begun: ca" in found[0].sentence


def test_a_run_that_is_stuck_while_stopping_says_both():
    seen = stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,))
    seen = replace(seen, run=replace(seen.run, spec=replace(seen.run.spec, state="Stop")))
    assert causes(seen) == ["not-available", "stopping"]


def test_a_stopped_run_says_how_far_it_came_and_who_stopped_it():
    seen = in_stage(planned(two_stages(state="Stop"), RunPhase.STOPPED), 0, StagePhase.STOPPED)
    meta = replace(seen.run.metadata, annotations={"echelon.dev/state-reason": "ana: lunch"})
    found = only(replace(seen, run=replace(seen.run, metadata=meta)))
    assert found.sentence == "Run v7 was stopped by ana: lunch; 0 of 4 clusters are done."


def test_a_run_nobody_looked_at_says_so_after_a_while():
    fresh = two_stages()
    found = only(fresh)
    assert found.cause == "engine-silent"
    young = replace(
        fresh.run, metadata=replace(fresh.run.metadata, creation_timestamp=NOW - timedelta(seconds=5))
    )
    assert diagnose(replace(fresh, run=young), NOW) == ()


def test_a_scheduler_at_work_is_told_apart_from_a_silent_engine():
    seen = two_stages()
    old = replace(
        seen.bindings[0], spec=replace(seen.bindings[0].spec, scheduling_policy_snapshot_name="web-9")
    )
    assert only(replace(seen, bindings=(old, *seen.bindings[1:]))).cause == "scheduler-busy"


# --- notices ----------------------------------------------------------------------------------------------------
def test_a_plan_that_no_longer_holds_is_told_before_it_hurts():
    seen = planned(two_stages(state="Initialize"))
    moved = {**seen.clusters, "p1": member("p1", stage="canary")}
    assert causes(replace(seen, clusters=moved)) == ["not-started", "plan-outdated"]


def test_another_active_run_is_told():
    seen = in_stage(planned(two_stages(), RunPhase.PROGRESSING), 0, StagePhase.STARTED)
    other = replace(seen.run, metadata=replace(seen.run.metadata, name="v8"))
    found = only(replace(seen, rivals={"v8": other}))
    assert found.cause == "rival"
    assert "Run v8 is active" in found.sentence


def test_a_percentage_that_rounds_down_to_one_is_told():
    seen = seen_of([stage("canary", at_a_time="30%")], {"canary": ["a", "b", "c"]})
    found = only(planned(seen, RunPhase.PROGRESSING))
    assert found.cause == "concurrency-one"
    assert "30% of 3 clusters" in found.sentence


def test_a_delete_stage_that_waits_is_told():
    seen = planned(two_stages(), RunPhase.PROGRESSING)
    status = seen.status
    started = mark((), ClusterPhase.UPDATING, Moment(NOW - minutes(9), 1))
    delete = replace(
        status.deletion_stage_status,
        clusters=(replace(status.stages_status[0].clusters[0], cluster_name="old", conditions=started),),
        conditions=mark((), StagePhase.STARTED, Moment(NOW - minutes(9), 1)),
    )
    done = tuple(
        replace(one, conditions=mark((), StagePhase.SUCCEEDED, Moment(NOW, 1)))
        for one in status.stages_status
    )
    found = only(with_status(seen, replace(status, deletion_stage_status=delete, stages_status=done)))
    assert found.cause == "deletion-blocked"
    assert "old" in found.sentence


# --- members ----------------------------------------------------------------------------------------------------
def test_a_silent_member_is_blamed_before_what_it_does_not_do():
    seen = stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,))
    found = only(replace(seen, clusters={**seen.clusters, "ca": member("ca", beat_age=20, stage="canary")}))
    assert found.cause == "member-silent"
    assert "No heartbeat has come from ca for 20m" in found.sentence


def test_a_member_that_left_is_blamed():
    seen = stuck_on(*OK, NOT_AVAILABLE)
    gone = {name: one for name, one in seen.clusters.items() if name != "ca"}
    assert only(replace(seen, clusters=gone)).cause == "member-left"


def test_who_may_not_see_the_members_is_told_nothing_about_them():
    assert (
        only(replace(stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,)), clusters={})).cause
        == "not-available"
    )
    assert causes(replace(planned(two_stages(state="Initialize")), clusters={})) == ["not-started"]


def test_a_member_with_a_sick_api_server_is_blamed():
    seen = stuck_on(*OK, NOT_AVAILABLE)
    sick = member("ca", stage="canary")
    ill = condition("Healthy", "False", "MemberClusterAPIServerUnhealthy", "readyz says 500")
    sick = replace(sick, status=replace(sick.status, conditions=(ill,)))
    found = only(replace(seen, clusters={**seen.clusters, "ca": sick}))
    assert found.cause == "member-unhealthy"
    assert "readyz says 500" in found.sentence


# --- delivery ---------------------------------------------------------------------------------------------------
def refused(reason, message):
    return failed(condition("Applied", "False", reason, message))


APPLY = [
    (
        "DecodingErred",
        "Failed to apply the manifest (error: failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches)",
        "kind-unknown",
    ),
    (
        "NotTakenOver",
        "Failed to apply the manifest (error: no ownership of the object in the member cluster; takeover is needed)",
        "not-taken-over",
    ),
    (
        "FoundDrifts",
        "Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)",
        "drift-blocks",
    ),
    (
        "FailedToTakeOver",
        "Failed to apply the manifest (error: cannot take over object: configuration differences are found between the manifest object and the corresponding object in the member cluster)",
        "diff-blocks",
    ),
    (
        "FailedToTakeOver",
        "Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: []))",
        "owned-by-other",
    ),
    (
        "ManifestApplyFailed",
        'Failed to apply the manifest (error: failed to apply the manifest: failed to create manifest object: error returned by the API server: namespaces "web" not found)',
        "namespace-missing",
    ),
    (
        "ManifestApplyFailed",
        "Failed to apply the manifest (error: failed to apply the manifest: failed to patch the manifest object: error returned by the API server: field is immutable)",
        "apply-refused",
    ),
]


@pytest.mark.parametrize(("reason", "message", "cause"), APPLY)
def test_what_is_not_applied_is_told_apart(reason, message, cause):
    found = only(stuck_on(*OK[:2], NOT_APPLIED, cause_failed=(refused(reason, message),)))
    assert found.cause == cause
    assert "Deployment web/nginx" in found.sentence
    assert found.clusters == ("ca",)


def test_an_error_that_will_not_pass_is_told_before_the_cluster_is_stuck():
    reason, message, cause = APPLY[0]
    seen = in_stage(planned(two_stages(), RunPhase.PROGRESSING), 0, StagePhase.STARTED)
    seen = cluster(
        seen, "ca", ClusterPhase.UPDATING, *OK[:2], NOT_APPLIED, age=0.5, failed=(refused(reason, message),)
    )
    assert causes(seen) == [cause]


def test_a_cluster_that_is_merely_being_updated_is_no_finding_unless_asked_for():
    seen = in_stage(planned(two_stages(), RunPhase.PROGRESSING), 0, StagePhase.STARTED)
    seen = cluster(seen, "ca", ClusterPhase.UPDATING, *OK, NOT_AVAILABLE, age=0.5, failed=(LATE,))
    assert causes(seen) == []
    assert causes(seen, cluster="ca") == ["not-available"]


@pytest.mark.parametrize(
    ("conditions", "cause", "words"),
    [
        (
            (
                condition(
                    "Overridden",
                    "False",
                    "OverriddenFailed",
                    "Failed to apply the override rules on the resources: add operation does not apply",
                ),
            ),
            "override-failed",
            "add operation does not apply",
        ),
        (
            (
                OK[0],
                condition(
                    "WorkSynchronized",
                    "False",
                    "SyncWorkFailed",
                    "Failed to synchronize the work to the latest: the master resource snapshot is not found",
                ),
            ),
            "sync-failed",
            "the master resource snapshot is not found",
        ),
        (
            (
                *OK[:2],
                condition(
                    "DiffReported",
                    "False",
                    "NotAllWorkHaveDiffReported",
                    "Work object w has failed to report diff",
                ),
            ),
            "diff-failed",
            "failed to report diff",
        ),
        (
            (
                *OK[:2],
                condition(
                    "Applied",
                    "False",
                    "NotAllWorkHaveBeenApplied",
                    "Work object w has not yet completed the apply op",
                ),
            ),
            "agent-busy",
            "ca",
        ),
        ((OK[0],), "engine-behind", "WorkSynchronized"),
        ((), "engine-behind", "Overridden"),
    ],
)
def test_the_first_broken_link_of_delivery_is_told(conditions, cause, words):
    found = only(stuck_on(*conditions))
    assert found.cause == cause
    assert words in found.sentence


def test_conditions_of_an_older_generation_do_not_count():
    old = condition("Overridden", "False", "OverriddenFailed", "old", gen=0)
    assert only(stuck_on(old)).cause == "engine-behind"


def test_wrappers_are_peeled_off_an_error():
    assert innermost(APPLY[5][1]) == 'namespaces "web" not found'
    assert len(innermost("x" * 5000)) == 300


# --- workloads --------------------------------------------------------------------------------------------------
def pod(reason="", message="", **status):
    waiting = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    container = {"name": "nginx", "image": "nginx:bad", "state": waiting}
    return {
        "kind": "Pod",
        "metadata": {"name": "nginx-1", "namespace": "web"},
        "status": {"phase": "Pending", "containerStatuses": [container], **status},
    }


def not_true(type_, message):
    return {
        "phase": "Running",
        "conditions": [{"type": type_, "status": "False", "reason": "X", "message": message}],
    }


WORKLOADS = [
    (
        pod("InvalidImageName", "couldn't parse"),
        "image-name-invalid",
        '"nginx:bad" is not a valid image name',
    ),
    (pod("ErrImagePull", "not found"), "image-pull", "ImagePullBackOff"),
    (pod("ImagePullBackOff", "back-off"), "image-pull", "ImagePullBackOff"),
    (pod("CrashLoopBackOff", "back-off"), "crash-loop", "container nginx keeps crashing"),
    (pod("CreateContainerConfigError", 'secret "x" not found'), "config-missing", 'secret "x" not found'),
    (pod(**not_true("PodScheduled", "0/2 nodes are available")), "unschedulable", "0/2 nodes are available"),
    (pod(**not_true("Ready", "containers with unready status")), "pods-not-ready", "run but are not ready"),
]


@pytest.mark.parametrize(("one", "cause", "words"), WORKLOADS)
def test_pods_tell_why_a_workload_does_not_come_up(one, cause, words):
    seen = stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,))
    depth = Depth(members={"ca": {("Deployment", "web", "nginx"): OnMember(object={}, pods=(one,))}})
    found = only(seen, depth=depth)
    assert found.cause == cause
    assert words in found.sentence
    assert any(piece.object.startswith("Pod web/nginx-1") for piece in found.evidence)


def test_a_workload_whose_pods_are_refused_is_told():
    said = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    depth = Depth(
        members={"ca": {("Deployment", "web", "nginx"): OnMember(object={"status": {"conditions": [said]}})}}
    )
    found = only(stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,)), depth=depth)
    assert found.cause == "pods-refused"
    assert "exceeded quota" in found.sentence


def test_a_status_reported_back_tells_where_the_member_cannot_be_reached():
    said = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    reported = BackReportedStatus(observed_status={"status": {"conditions": [said]}}, observation_time=NOW)
    name = WorkResourceIdentifier(ordinal=0, kind="Deployment", namespace="web", name="nginx")
    entry = ManifestCondition(identifier=name, back_reported_status=reported)
    work = Work(metadata=ObjectMeta(name="web-work"), status=WorkStatus(manifest_conditions=(entry,)))
    depth = Depth(works={"web-ca-0a1b2c3d": (work,)})
    assert only(stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,)), depth=depth).cause == "pods-refused"


def test_a_pod_that_is_going_away_is_no_witness():
    gone = pod("CrashLoopBackOff")
    gone["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    depth = Depth(members={"ca": {("Deployment", "web", "nginx"): OnMember(object={}, pods=(gone,))}})
    assert only(stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,)), depth=depth).cause == "not-available"


# --- many -------------------------------------------------------------------------------------------------------
def test_what_many_clusters_share_is_told_once():
    names = [f"c{number:02}" for number in range(41)]
    seen = planned(
        seen_of([stage("all", at_a_time=41)], {"all": names}),
        RunPhase.STUCK,
        clusters="c00, c01, c02...",
        stage="all",
    )
    seen = in_stage(seen, 0, StagePhase.STARTED)
    for name in names:
        seen = cluster(seen, name, ClusterPhase.UPDATING, *OK, NOT_AVAILABLE, age=7, failed=(LATE,))
    found = only(seen)
    assert found.clusters == tuple(names)
    assert "on 41 clusters (c00, c01, c02 and 38 more)" in found.sentence
    assert len(found.evidence) <= 6


def test_causes_stand_in_the_order_of_blame():
    seen = stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,))
    other = replace(seen.run, metadata=replace(seen.run.metadata, name="v8"))
    found = causes(replace(seen, rivals={"v8": other}))
    assert found == sorted(found, key=BLAME.__getitem__)
    assert found == ["not-available", "rival"]


def test_the_engine_may_lose_patience_sooner_than_we_do():
    """Its words name a cluster as stuck after one minute; five are the default."""
    seen = stuck_on(*OK, NOT_AVAILABLE, cause_failed=(LATE,), age=1)
    assert causes(seen) == ["not-available"]


def test_one_line_is_the_worst_cause_and_nothing_when_nothing_is_wrong():
    assert one_line(failing(FAILURES["placement-missing"]), NOW).startswith(
        "Run v7 was aborted because its placement"
    )
    assert one_line(planned(two_stages(), RunPhase.SUCCEEDED), NOW) == ""


def test_a_finished_run_of_a_thousand_clusters_has_only_what_waits():
    assert causes(web_v7()) == ["approval-open"]
