"""Work generation (contract scenarios F1 to F16), for both scopes."""

import asyncio

import pytest

from echelon.api import names as n
from echelon.api.conditions import find_condition
from echelon.api.own import WORKS
from echelon.api.scope import CLUSTER, SCOPES
from tests.deliveries import EMPTY_LIST_HASH, Desk, config_map, diff, drift, manifest_condition
from tests.world import world

APPLIED = {
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": ("True", "AllWorkSynced"),
}
CM = config_map(data="test")


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def desk(request):
    with world(6) as w:
        yield Desk(w, request.param)


def play(desk, scenario):
    async def whole():
        await scenario()
        await desk.w.stop()

    desk.w.run(whole())


def test_f1_nothing_is_delivered_before_the_hand_over(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind(state="Scheduled", stamp=False)
        await desk.settle()
        assert await desk.works() == {}
        await desk.move(name, state="Bound", stamp=False)
        await desk.settle()
        assert await desk.works() == {}
        assert (await desk.binding(name)).metadata.finalizers == ()
        await desk.hand_over(name)
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name()}
        assert (await desk.binding(name)).metadata.finalizers == (n.FINALIZER_WORK_CLEANUP,)

    play(desk, scenario)


def test_f1_a_false_stamp_hands_over_too_and_an_older_one_does_not(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        await desk.snapshot(1, CM)
        name = await desk.bind(stamp=False)
        await desk.hand_over(name, "False")
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name()}
        await desk.move(name, 1, stamp=False)
        await desk.settle()
        work = (await desk.works())[desk.work_name()]
        assert work.metadata.labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX] == "0"

    play(desk, scenario)


def test_f2_a_cluster_that_is_no_member_gets_nothing_until_it_is_one(desk):
    async def scenario():
        await desk.start()
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        seen = await desk.binding(name)
        assert seen.metadata.finalizers == ()
        assert [c.type for c in seen.status.conditions] == ["RolloutStarted"]
        await desk.add_member("m1")
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name()}

    play(desk, scenario)


def test_f3_a_version_is_delivered_whole_or_not_at_all(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM, parts=2)
        name = await desk.bind()
        await desk.settle()
        assert await desk.works() == {}
        assert (await desk.conditions(name))["Overridden"] == ("False", "OverriddenFailed")
        key = f"{desk.namespace}/{desk.placement}" if desk.namespace else desk.placement
        master = f"{desk.namespace}/web-0-snapshot" if desk.namespace else "web-0-snapshot"
        assert await desk.said(name, "Overridden") == (
            "Failed to apply the override rules on the resources: not all resource snapshot in the same index group "
            "are created: resource snapshots are still being created for the masterResourceSnapshot "
            f"{master}, total snapshot in the index group = 2, num Of existing snapshot in the group= 1, "
            f"placement = {key}"
        )
        await desk.snapshot(0, config_map("more"), subindex=1)
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name(), desk.work_name(1)}

    play(desk, scenario)


def test_f4_a_version_becomes_a_work_and_its_reports_become_conditions(desk):
    async def scenario():
        await desk.start("m1")
        manifests = [config_map("b"), config_map("a"), config_map("c")]
        await desk.snapshot(1, *manifests)
        name = await desk.bind(version=1, applyStrategy={"type": "ServerSideApply"})
        await desk.settle()
        work = (await desk.works())[desk.work_name()]
        labels = {
            n.LABEL_PARENT_CRP: "web",
            n.LABEL_PARENT_RESOURCE_BINDING: name,
            n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX: "1",
        }
        if desk.namespace:
            labels[n.LABEL_PARENT_PLACEMENT_NAMESPACE] = desk.namespace
        assert work.metadata.labels == labels
        notes = work.metadata.annotations.items()
        assert {key: note for key, note in notes if not key.startswith("echelon.dev/")} == {
            n.ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME: "web-1-snapshot",
            n.ANNOTATION_PARENT_OVERRIDE_HASH: EMPTY_LIST_HASH,
            n.ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH: EMPTY_LIST_HASH,
        }
        assert list(work.spec.manifests) == manifests
        assert work.spec.apply_strategy.type == "ServerSideApply"
        assert work.spec.report_back_strategy is None
        assert await desk.conditions(name) == {**APPLIED, "Applied": ("False", "ApplyInProgress")}
        await desk.report(Applied="True", Available=None)
        await desk.settle()
        assert await desk.conditions(name) == {
            **APPLIED,
            "Applied": ("True", "AllWorkHaveBeenApplied"),
            "Available": ("False", "NotAllWorkAreAvailable"),
        }
        await desk.report()
        await desk.settle()
        assert await desk.conditions(name) == {
            **APPLIED,
            "Applied": ("True", "AllWorkHaveBeenApplied"),
            "Available": ("True", "AllWorkAreAvailable"),
        }
        types = [c.type for c in (await desk.binding(name)).status.conditions]
        assert types == ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]

    play(desk, scenario)


def changed_at(binding, type_):
    return find_condition(binding.status.conditions, type_).last_transition_time


def test_a_member_that_answers_at_once_is_reported_on_once(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        await desk.snapshot(1, config_map(data="new"))
        name = await desk.bind()
        await desk.w.settle()
        await desk.report()
        await desk.settle()
        first = changed_at(await desk.binding(name), "Available")
        await asyncio.sleep(60)
        await desk.move(name, 1)
        before = desk.writes()
        await desk.w.settle()
        assert set(await desk.conditions(name)) == {"RolloutStarted"}, "nothing is said too early"
        await desk.report()
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("True", "AllWorkAreAvailable")
        assert desk.writes() - before <= 2, "the Work and the binding's status"
        assert (changed_at(await desk.binding(name), "Available") - first).total_seconds() >= 60, (
            "what is available now is something else than before"
        )

    play(desk, scenario)


@pytest.mark.parametrize("noted", ["2999-01-01T00:00:00+00:00", "yesterday", ""])
def test_a_work_written_by_a_clock_that_was_wrong_is_waited_for_no_longer(desk, noted):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.w.settle()
        note = {"metadata": {"annotations": {n.ANNOTATION_WRITTEN_AT: noted}}}
        await desk.client.patch(WORKS, desk.work_name(), "fleet-member-m1", note)
        await desk.restart()
        await desk.w.settle()
        assert (await desk.conditions(name))["Applied"] == ("False", "ApplyInProgress")

    play(desk, scenario)


def test_a_transition_time_stays_when_only_the_generation_changes(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.report()
        await desk.settle()
        first = await desk.binding(name)
        await asyncio.sleep(60)
        await desk.move(name, schedulingPolicySnapshotName="web-1")
        await desk.settle()
        later = await desk.binding(name)
        assert (await desk.conditions(name))["Available"] == ("True", "AllWorkAreAvailable")
        for type_ in ("Overridden", "WorkSynchronized", "Applied", "Available"):
            assert changed_at(later, type_) == changed_at(first, type_)

    play(desk, scenario)


def test_f5_a_binding_given_up_keeps_its_works_and_goes_on_reporting(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        before = await desk.works()
        await desk.move(name, state="Unscheduled", stamp=False)
        await desk.settle()
        assert await desk.works() == before
        assert (await desk.conditions(name))["Applied"] == ("False", "NotAllWorkHaveBeenApplied")
        assert await desk.said(name, "Applied") == (
            f"Work object {desk.work_name()} has not yet completed the apply op"
        )
        await desk.report()
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("True", "AllWorkAreAvailable")

    play(desk, scenario)


def test_f6_works_follow_the_number_of_parts(desk):
    async def scenario():
        await desk.start("m1")
        for index, parts in ((2, 2), (3, 3), (4, 1)):
            await desk.snapshot(index, config_map(f"v{index}"), parts=parts)
            for part in range(1, parts):
                await desk.snapshot(index, config_map(f"v{index}-{part}"), subindex=part)
        name = await desk.bind(version=2)
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name(), desk.work_name(1)}
        await desk.move(name, 3)
        await desk.settle()
        works = await desk.works()
        assert set(works) == {desk.work_name(), desk.work_name(1), desk.work_name(2)}
        assert {w.metadata.labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX] for w in works.values()} == {"3"}
        assert works[desk.work_name(1)].spec.manifests[0]["metadata"]["name"] == "v3-1"
        await desk.move(name, 4)
        await desk.settle()
        assert set(await desk.works()) == {desk.work_name()}

    play(desk, scenario)


def test_f7_a_deleted_binding_goes_when_its_works_are_gone(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.hold(desk.work_name())
        await desk.client.delete(desk.scope.binding, name, desk.namespace)
        await desk.settle()
        assert (await desk.works())[desk.work_name()].metadata.is_deleting
        assert not await desk.is_gone(name), "the member has not removed the resources yet"
        await desk.release(desk.work_name())
        await desk.settle()
        assert await desk.works() == {}
        assert await desk.is_gone(name)

    play(desk, scenario)


def test_f7_a_silent_member_holds_a_deleted_binding_for_half_a_minute_only(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.hold(desk.work_name())
        await desk.client.delete(desk.scope.binding, name, desk.namespace)
        await asyncio.sleep(25)
        assert not await desk.is_gone(name)
        await asyncio.sleep(10)
        assert await desk.is_gone(name)
        assert set(await desk.works()) == {desk.work_name()}

    play(desk, scenario)


def test_f8_reports_go_on_when_the_version_is_gone_and_a_missing_one_is_named(desk):
    async def scenario():
        await desk.start("m1")
        version = await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.client.delete(desk.scope.resource_snapshot, version, desk.namespace)
        await desk.report()
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("True", "AllWorkAreAvailable")
        forget = {"metadata": {"annotations": {n.ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME: None}}}
        await desk.client.patch(WORKS, desk.work_name(), "fleet-member-m1", forget)
        await desk.report(Applied="True", Available="False")
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("False", "NotAllWorkAreAvailable")
        await desk.move(name, "next")
        await desk.settle()
        assert await desk.conditions(name) == {
            "RolloutStarted": ("True", "RolloutStarted"),
            "Overridden": ("False", "OverriddenFailed"),
        }
        assert (await desk.said(name, "Overridden")).endswith("the master resource snapshot is not found")
        assert set(await desk.works()) == {desk.work_name()}

    play(desk, scenario)


def test_f11_the_stamp_is_never_touched(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        before = (await desk.plain(name))["status"]["conditions"][0]
        await desk.settle()
        await desk.report()
        await desk.settle()
        assert (await desk.plain(name))["status"]["conditions"][0] == before

    play(desk, scenario)


@pytest.mark.parametrize("has_version", [True, False])
def test_f12_a_new_apply_strategy_reaches_works_whose_content_stays(desk, has_version):
    async def scenario():
        await desk.start("m1")
        version = await desk.snapshot(0, CM)
        config = {"force": True}
        name = await desk.bind(applyStrategy={"type": "ServerSideApply", "serverSideApplyConfig": config})
        await desk.settle()
        await desk.report()
        await desk.settle()
        before = (await desk.works())[desk.work_name()]
        if not has_version:
            await desk.client.delete(desk.scope.resource_snapshot, version, desk.namespace)
        changed = {"type": "ReportDiff", "serverSideApplyConfig": None}
        await desk.move(name, applyStrategy=changed)
        await desk.settle()
        after = (await desk.works())[desk.work_name()]
        assert after.spec.apply_strategy == (await desk.binding(name)).spec.apply_strategy
        assert after.spec.apply_strategy.server_side_apply_config is None
        assert after.spec.workload == before.spec.workload
        assert await desk.conditions(name) == {**APPLIED, "DiffReported": ("False", "DiffReportInProgress")}
        await desk.move(name, applyStrategy=None)
        await desk.settle()
        assert (await desk.works())[desk.work_name()].spec.apply_strategy is None
        assert await desk.conditions(name) == {**APPLIED, "Applied": ("False", "ApplyInProgress")}

    play(desk, scenario)


async def two_works(desk, strategy):
    await desk.start("m1")
    await desk.snapshot(0, CM, parts=2)
    await desk.snapshot(0, config_map("more"), subindex=1)
    name = await desk.bind(applyStrategy={"type": strategy})
    await desk.settle()
    return name, desk.work_name(), desk.work_name(1)


def lists(binding):
    status = binding.status
    return [
        [(entry.kind, entry.name) for entry in entries]
        for entries in (status.failed_placements, status.drifted_placements, status.diffed_placements)
    ]


def test_f13_diffs_are_shown_when_every_work_has_reported_them(desk):
    async def scenario():
        name, first, second = await two_works(desk, "ReportDiff")
        found = {**manifest_condition(CM, DiffReported=("True", "FoundDiff")), "diffDetails": diff()}
        await desk.report(first, DiffReported="True", manifests=[found])
        await desk.settle()
        assert (await desk.conditions(name))["DiffReported"] == ("False", "NotAllWorkHaveDiffReported")
        assert lists(await desk.binding(name)) == [[], [], []]
        await desk.report(second, DiffReported="False")
        await desk.settle()
        assert (await desk.conditions(name))["DiffReported"] == ("False", "NotAllWorkHaveDiffReported")
        assert await desk.said(name, "DiffReported") == f"Work object {second} has failed to report diff"
        assert lists(await desk.binding(name)) == [[], [], []]
        await desk.report(second, DiffReported="True")
        await desk.settle()
        assert await desk.conditions(name) == {**APPLIED, "DiffReported": ("True", "AllWorkHaveDiffReported")}
        assert lists(await desk.binding(name)) == [[], [], [("ConfigMap", "cm")]]

    play(desk, scenario)


def test_f14_failed_drifted_and_diffed_objects_are_listed_by_how_far_delivery_is(desk):
    async def scenario():
        name, first, second = await two_works(desk, "ServerSideApply")
        failed = {
            **manifest_condition(CM, Applied=("False", "FailedToTakeOver")),
            "driftDetails": drift(),
            "diffDetails": diff(),
        }
        await desk.report(first, Applied="False", Available=None, manifests=[failed])
        await desk.settle()
        assert (await desk.conditions(name))["Applied"] == ("False", "NotAllWorkHaveBeenApplied")
        assert lists(await desk.binding(name)) == [[], [], []]
        other = manifest_condition(config_map("more"), Applied=("False", "ManifestApplyFailed"))
        await desk.report(second, Applied="False", Available=None, manifests=[other])
        await desk.settle()
        cm, more = ("ConfigMap", "cm"), ("ConfigMap", "more")
        # in the order of the Works' names: web-1 before web-work
        assert lists(await desk.binding(name)) == [[more, cm], [cm], [cm]]
        binding = await desk.binding(name)
        assert binding.status.failed_placements[1].condition.reason == "FailedToTakeOver"
        assert await desk.said(name, "Applied") == f"Work object {second} has failed to apply"

        fine = {
            **manifest_condition(CM, Applied=("True", "Applied")),
            "driftDetails": drift(),
            "diffDetails": diff(),
        }
        slow = manifest_condition(
            config_map("more"), Applied=("True", "Applied"), Available=("False", "ManifestNotAvailableYet")
        )
        await desk.report(first, Applied="True", Available=("True", "WorkNotTrackable"), manifests=[fine])
        await desk.report(second, Applied="True", Available="False", manifests=[slow])
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("False", "NotAllWorkAreAvailable")
        assert lists(await desk.binding(name)) == [[more], [cm], []]
        await desk.report(second)
        await desk.settle()
        assert (await desk.conditions(name))["Available"] == ("True", "NotAllWorkAreAvailabilityTrackable")
        assert (
            await desk.said(name, "Available") == f"The availability of work object {first} is not trackable"
        )
        assert lists(await desk.binding(name)) == [[], [cm], []]

    play(desk, scenario)


def test_f15_the_other_scopes_bindings_are_left_alone(desk):
    async def scenario():
        await desk.start("m1")
        other = Desk(desk.w, next(scope for scope in SCOPES if scope is not desk.scope))
        await other.snapshot(0, CM)
        await other.bind()
        await desk.settle()
        assert await desk.works() == {}

    play(desk, scenario)


def test_f16_a_work_that_holds_the_version_is_not_written_and_one_that_lost_a_mark_is(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        await desk.bind()
        await desk.settle()
        await desk.report()
        await desk.settle()
        before = desk.writes()
        tampered = {"metadata": {"labels": {"somebody": "was-here"}}}
        await desk.client.patch(WORKS, desk.work_name(), "fleet-member-m1", tampered)
        await desk.settle()
        assert desk.writes() == before
        for lost in (
            {"annotations": {n.ANNOTATION_PARENT_OVERRIDE_HASH: None}},
            {"annotations": {n.ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH: None}},
            {"labels": {n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX: None}},
        ):
            await desk.client.patch(WORKS, desk.work_name(), "fleet-member-m1", {"metadata": lost})
            await desk.settle()
            work = (await desk.works())[desk.work_name()]
            assert work.metadata.annotations[n.ANNOTATION_PARENT_OVERRIDE_HASH] == EMPTY_LIST_HASH
            assert work.metadata.annotations[n.ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH] == EMPTY_LIST_HASH
            assert work.metadata.labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX] == "0"
            assert work.metadata.generation == 1, "the member has nothing new to do"

    play(desk, scenario)


def test_a_work_deleted_by_hand_is_made_again_once_it_is_gone(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.hold(desk.work_name())
        await desk.client.delete(WORKS, desk.work_name(), "fleet-member-m1")
        await desk.settle()
        assert (await desk.conditions(name))["WorkSynchronized"] == ("False", "SyncWorkFailed")
        assert await desk.said(name, "WorkSynchronized") == (
            f"Failed to synchronize the work to the latest: work {desk.work_name()} is still being deleted on cluster m1"
        )
        await desk.release(desk.work_name())
        await desk.settle()
        assert not (await desk.works())[desk.work_name()].metadata.is_deleting
        assert (await desk.conditions(name))["Applied"] == ("False", "ApplyInProgress")

    play(desk, scenario)


def test_a_successor_takes_the_name_over_when_its_predecessor_is_gone(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        first = await desk.bind(name="first")
        await desk.settle()
        await desk.hold(desk.work_name())
        await desk.client.delete(desk.scope.binding, first, desk.namespace)
        second = await desk.bind(name="second")
        await desk.settle()
        assert (await desk.conditions(second))["WorkSynchronized"] == ("False", "SyncWorkFailed")
        await desk.release(desk.work_name())
        await desk.settle()
        work = (await desk.works())[desk.work_name()]
        assert work.metadata.labels[n.LABEL_PARENT_RESOURCE_BINDING] == "second"
        assert await desk.is_gone(first)

    play(desk, scenario)


def test_works_go_even_with_a_binding_that_was_removed_by_force(desk):
    async def scenario():
        await desk.start("m1")
        await desk.snapshot(0, CM)
        name = await desk.bind()
        await desk.settle()
        await desk.manager.stop()
        desk.w.managers.clear()
        force = {"metadata": {"finalizers": None}}
        await desk.client.patch(desk.scope.binding, name, desk.namespace, force)
        await desk.client.delete(desk.scope.binding, name, desk.namespace)
        stranger = {
            "apiVersion": WORKS.api_version,
            "kind": "Work",
            "metadata": {"name": "by-hand"},
            "spec": {"workload": {"manifests": []}},
        }
        await desk.client.create(WORKS, stranger, "fleet-member-m1")
        await desk.deliver()
        await desk.settle()
        assert set(await desk.works()) == {"by-hand"}
        successor = await desk.bind(name="successor")
        await desk.settle()
        assert (await desk.conditions(successor))["WorkSynchronized"] == ("True", "AllWorkSynced")

    play(desk, scenario)


def test_a_restart_writes_nothing_when_nothing_changed(desk):
    async def scenario():
        await desk.start("m1", "m2")
        await desk.snapshot(0, CM, parts=2)
        await desk.snapshot(0, config_map("more"), subindex=1)
        for cluster in ("m1", "m2"):
            await desk.bind(cluster)
        await desk.settle()
        await desk.report(cluster="m1")
        await desk.report(desk.work_name(1), cluster="m1")
        await desk.settle()
        await desk.restart()
        await desk.settle()
        assert desk.writes() == 0

    play(desk, scenario)


def test_a_cluster_scoped_team_dot_a_and_a_in_team_never_share_a_work():
    with world(6) as w:
        wide = Desk(w, CLUSTER, "app.web")
        narrow = Desk(w, SCOPES[1], "web")

        async def scenario():
            await wide.start("m1")
            await narrow.deliver()
            await wide.snapshot(0, config_map("wide"))
            await narrow.snapshot(0, config_map("narrow"))
            assert wide.work_name() == narrow.work_name()
            first = await wide.bind(name="wide")
            await w.settle()
            second = await narrow.bind(name="narrow")
            await w.settle()
            works = await wide.works()
            holders = {w_.metadata.labels[n.LABEL_PARENT_RESOURCE_BINDING]: w_ for w_ in works.values()}
            assert holders[first].name == "app.web-work"
            assert holders[second].name.startswith("app.web-work-")
            assert holders[first].spec.manifests[0]["metadata"]["name"] == "wide"
            assert holders[second].spec.manifests[0]["metadata"]["name"] == "narrow"
            for work in works:
                await wide.report(work)
            await w.settle()
            assert (await wide.conditions(first))["Available"] == ("True", "AllWorkAreAvailable")
            assert (await narrow.conditions(second))["Available"] == ("True", "AllWorkAreAvailable")
            await wide.client.delete(wide.scope.binding, first)
            await w.settle()
            assert set(await wide.works()) == {holders[second].name}
            await w.stop()

        w.run(scenario())
