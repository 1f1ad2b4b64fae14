"""Staged runs end to end on a whole fleet (contract section G): the real engine, agents and members, both scopes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from echelon.api.builtin import CONFIG_MAPS
from echelon.api.conditions import find_condition
from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.scope import SCOPES
from echelon.client.errors import NotFound
from echelon.rules.run_phases import RunPhase, StagePhase, run_phase, stage_phase
from tests.rollouts import APPROVAL, picks, stage, wait
from tests.rules.test_override import rule
from tests.stories import FINE, SPACE, WHOLE_FINE, Story
from tests.world import world

STAGES = [
    stage("canary", picks(env="canary"), afterStageTasks=[APPROVAL, wait("5s")]),
    stage("prod", picks(env="prod"), beforeStageTasks=[APPROVAL]),
]
SCHEDULED = {"Scheduled": ("True", "Scheduled"), "RolloutStarted": ("Unknown", "RolloutStartedUnknown")}
WAITING = {
    "Scheduled": ("True", "SchedulingPolicyFulfilled"),
    "RolloutStarted": ("Unknown", "RolloutControlledByExternalController"),
}


class Play:
    """A story with a placement whose rollout is left to runs."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.scope = story.scope
        self.hub = story.hub

    async def begin(self, *, apply: dict[str, Any] | None = None, **spec: Any) -> None:
        await self.story.begin()
        await self.place(apply=apply, **spec)
        await self.strategy("s", STAGES)

    async def place(self, *, apply: dict[str, Any] | None = None, **spec: Any) -> None:
        strategy: dict[str, Any] = {"type": "External", **({"applyStrategy": apply} if apply else {})}
        await self.story.make(
            self.scope.placement,
            self.story.name,
            {"resourceSelectors": [self.selector()], "strategy": strategy, **spec},
            self.story.namespace,
        )
        await self.story.w.settle()

    def selector(self) -> dict[str, Any]:
        if self.scope.namespaced:
            return {"group": "", "version": "v1", "kind": "ConfigMap", "name": "app-cm"}
        return {"group": "", "version": "v1", "kind": "Namespace", "name": SPACE}

    async def strategy(self, name: str, stages: list[dict[str, Any]]) -> None:
        await self.story.make(self.scope.strategy, name, {"stages": stages}, self.story.namespace)

    async def run(self, name: str, index: str | None = None, state: str = "Run", strategy: str = "s") -> None:
        spec = {"placementName": self.story.name, "stagedRolloutStrategyName": strategy, "state": state}
        if index is not None:
            spec["resourceSnapshotIndex"] = index
        await self.story.make(self.scope.run, name, spec, self.story.namespace)

    async def get(self, name: str) -> Any:
        return await self.hub.get(self.scope.run, name, self.story.namespace)

    async def reaches(self, name: str, phase: RunPhase, within_s: float = 30) -> Any:
        async def now() -> RunPhase:
            run = await self.get(name)
            return run_phase(run.status.conditions if run.status else ())

        await self.story.becomes(now, phase, within_s)
        return await self.get(name)

    async def set_state(self, name: str, state: str) -> None:
        await self.hub.patch(self.scope.run, name, self.story.namespace, {"spec": {"state": state}})

    async def approve(self, request: str) -> None:
        async def is_there() -> bool:
            try:
                await self.hub.get(self.scope.approval, request, self.story.namespace)
            except NotFound:
                return False
            return True

        await self.story.holds(is_there)
        held = await self.hub.get(self.scope.approval, request, self.story.namespace)
        said = {
            "type": "Approved",
            "status": "True",
            "reason": "lgtm",
            "message": "",
            "observedGeneration": held.metadata.generation,
            "lastTransitionTime": self.story.w.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"status": {"conditions": [said]}}
        await self.hub.patch(self.scope.approval, request, self.story.namespace, body, subresource="status")

    async def through(self, name: str, *, canary: bool = True) -> Any:
        """Approve a run's gates and see it succeed."""
        if canary:
            await self.approve(f"{name}-after-canary")
        await self.approve(f"{name}-before-prod")
        return await self.reaches(name, RunPhase.SUCCEEDED)

    async def edit(self, value: str) -> None:
        await self.hub.patch(CONFIG_MAPS, "app-cm", SPACE, {"data": {"data": value}})
        await self.story.w.settle()

    async def policy(self, **policy: Any) -> None:
        body = {"spec": {"policy": policy}}
        await self.hub.patch(self.scope.placement, self.story.name, self.story.namespace, body)
        await self.story.w.settle()

    # what is to be seen

    async def data(self) -> list[str | None]:
        """The content on member1, 2 and 3."""
        held = [await self.story.data(f"member{n}") for n in (1, 2, 3)]
        return [one and one["data"] for one in held]

    async def indexes(self) -> dict[str, str]:
        _, status = await self.story.status()
        return {one.cluster_name: one.observed_resource_index for one in status.placement_statuses}

    async def overall(self) -> tuple[str, int]:
        """The placement's observed index and how many resources it lists."""
        _, status = await self.story.status()
        return status.observed_resource_index, len(status.selected_resources)

    async def snapshots(self) -> list[str]:
        found = (await self.hub.list(self.scope.resource_snapshot)).items
        return sorted(one.name for one in found if one.name.startswith(f"{self.story.name}-"))

    async def is_complete(self, index: str) -> None:
        await self.story.becomes(self.story.whole, WHOLE_FINE)
        assert (await self.overall())[0] == index


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name.lower())
def play(request):
    with world(21) as w:
        yield Play(Story(w, request.param))


def acts(play, scenario):
    async def whole():
        await scenario()
        await play.story.w.stop()

    play.story.w.run(whole())


def members(stage_status):
    return [one.cluster_name for one in stage_status.clusters]


def test_80_without_a_run_nothing_reaches_the_members(play):
    async def scenario():
        await play.begin()
        assert await play.snapshots() == []
        assert await play.data() == [None] * 3
        await play.story.becomes(play.story.whole, WAITING)
        assert await play.story.clusters() == {f"member{n}": SCHEDULED for n in (1, 2, 3)}
        assert await play.overall() == ("", 0)

    acts(play, scenario)


def test_81_to_83_a_first_run_an_update_and_going_back(play):
    async def scenario():
        await play.begin()

        # 81: the first version
        await play.run("first")
        await play.reaches("first", RunPhase.WAITING)
        await play.story.becomes(play.data, [None, "test", None])
        await play.story.becomes(play.indexes, {"member1": "", "member2": "0", "member3": ""})
        assert await play.story.whole() == WAITING
        assert await play.snapshots() == [f"{play.story.name}-0-snapshot"]
        run = await play.through("first")
        assert run.status.policy_observed_cluster_count == 3
        assert [members(one) for one in run.status.stages_status] == [["member2"], ["member1", "member3"]]
        assert await play.data() == ["test"] * 3
        await play.is_complete("0")

        # 82: a change reaches nobody without a run, then the canary first
        await play.edit("changed")
        assert await play.data() == ["test"] * 3
        assert await play.snapshots() == [f"{play.story.name}-0-snapshot"]
        await play.is_complete("0")
        await play.run("second")
        run = await play.reaches("second", RunPhase.WAITING)
        assert run.status.resource_snapshot_index_used == "1"
        await play.story.becomes(play.data, ["test", "changed", "test"])
        await play.story.becomes(play.indexes, {"member1": "0", "member2": "1", "member3": "0"})
        assert await play.story.whole() == WAITING
        assert (await play.overall())[0] == ""
        assert await play.story.clusters() == dict.fromkeys(("member1", "member2", "member3"), FINE)
        await play.through("second")
        assert await play.data() == ["changed"] * 3
        await play.is_complete("1")

        # 83: back to the first version
        await play.run("back", index="0")
        await play.reaches("back", RunPhase.WAITING)
        await play.story.becomes(play.data, ["changed", "test", "changed"])
        run = await play.through("back")
        assert run.status.resource_snapshot_index_used == "0"
        assert await play.data() == ["test"] * 3
        await play.is_complete("0")

    acts(play, scenario)


def test_84_85_picked_clusters_come_and_go(play):
    async def scenario():
        await play.begin(policy={"placementType": "PickFixed", "clusterNames": ["member1", "member2"]})
        await play.run("two")
        run = await play.through("two")
        assert run.status.policy_observed_cluster_count == 2
        assert await play.data() == ["test", "test", None]

        # 84: one more
        await play.policy(placementType="PickFixed", clusterNames=["member1", "member2", "member3"])
        await play.story.becomes(play.indexes, {"member1": "0", "member2": "0", "member3": ""})
        assert (await play.story.whole())["RolloutStarted"][0] == "Unknown"
        await play.run("three", index="0")
        await play.reaches("three", RunPhase.WAITING)
        assert await play.data() == ["test", "test", None]
        run = await play.through("three")
        assert (run.status.policy_snapshot_index_used, run.status.policy_observed_cluster_count) == ("1", 3)
        assert await play.data() == ["test"] * 3

        # 85: two less
        await play.policy(placementType="PickFixed", clusterNames=["member3"])
        await play.story.becomes(play.indexes, {"member3": "0"})
        assert await play.data() == ["test"] * 3
        await play.run("one", index="0")
        run = await play.through("one", canary=False)
        assert stage_phase(run.status.stages_status[0].conditions) is StagePhase.SKIPPED
        assert members(run.status.deletion_stage_status) == ["member1", "member2"]
        await play.story.becomes(play.data, [None, None, "test"])
        await play.is_complete("0")

    acts(play, scenario)


def test_86_a_number_of_clusters_grows_and_shrinks(play):
    async def scenario():
        await play.begin(policy={"placementType": "PickN", "numberOfClusters": 1})
        chosen = next(iter(await play.indexes()))
        await play.run("one")
        run = await play.reaches("one", RunPhase.WAITING)
        is_canary = chosen == "member2"
        assert [len(one.clusters) for one in run.status.stages_status] == ([1, 0] if is_canary else [0, 1])
        await (play.approve("one-after-canary") if is_canary else play.approve("one-before-prod"))
        await play.reaches("one", RunPhase.SUCCEEDED)
        await play.policy(placementType="PickN", numberOfClusters=3)
        indexes = await play.indexes()
        assert sorted(indexes.values()) == ["", "", "0"]
        await play.run("three", index="0")
        run = await play.through("three")
        assert (run.status.policy_snapshot_index_used, run.status.policy_observed_cluster_count) == ("0", 3)
        await play.policy(placementType="PickN", numberOfClusters=2)
        await play.is_complete("0")
        assert await play.data() == ["test"] * 3  # what is no longer picked stays until a run removes it
        await play.run("two", index="0")
        run = await play.reaches("two", RunPhase.WAITING)
        leaving = members(run.status.deletion_stage_status)
        assert len(leaving) == 1
        if leaving != ["member2"]:
            await play.approve("two-after-canary")
        await play.approve("two-before-prod")
        await play.reaches("two", RunPhase.SUCCEEDED)
        await play.story.becomes(play.data, [None if f"member{n}" in leaving else "test" for n in (1, 2, 3)])

    acts(play, scenario)


def test_87_overrides_are_computed_once_and_shown_per_cluster(play):
    async def scenario():
        await play.begin()
        note = ("add", "/metadata/annotations", {"k": "v"})
        name = "ro" if play.scope.namespaced else "cro"
        where = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "canary"}}}]}
        await play.story.override(name, {**rule(note), "clusterSelector": where})
        await play.story.w.settle()
        await play.run("r")
        run = await play.through("r")
        canary, prod = run.status.stages_status
        entry = canary.clusters[0]
        told = asdict(entry)
        listed = (
            [one.name for one in told["resource_override_snapshots"]]
            if play.scope.namespaced
            else list(told["cluster_resource_override_snapshots"])
        )
        assert listed == [f"{name}-0"]
        for other in prod.clusters:
            assert (other.resource_override_snapshots, other.cluster_resource_override_snapshots) == ((), ())
        if play.scope.namespaced:  # an override of the namespace is seen on the namespace
            assert await play.story.annotations("member2") == {"k": "v"}
            assert await play.story.annotations("member1") == {}

    acts(play, scenario)


def test_88_reporting_differences_changes_nothing_on_the_members(play):
    async def scenario():
        await play.begin(apply={"type": "ReportDiff"})
        await play.run("r")
        await play.through("r")
        assert await play.data() == [None] * 3

        async def reported():
            return (await play.story.whole()).get("DiffReported", ("", ""))[0]

        await play.story.becomes(reported, "True")
        entry = await play.story.entry("member1")
        assert entry.diffed_placements

    acts(play, scenario)


def test_89_a_placement_that_rolled_out_by_itself_is_handed_to_runs(play):
    async def scenario():
        await play.story.begin()
        await play.strategy("s", STAGES)
        await play.story.place()
        await play.story.holds(play.story.is_ok)
        body = {"spec": {"strategy": {"type": "External", "rollingUpdate": None}}}
        await play.hub.patch(play.scope.placement, play.story.name, play.story.namespace, body)
        await play.story.holds(play.story.is_ok)
        await play.edit("changed")
        assert await play.data() == ["test"] * 3
        assert await play.snapshots() == [f"{play.story.name}-0-snapshot"]
        await play.run("r")
        run = await play.reaches("r", RunPhase.WAITING)
        assert run.status.resource_snapshot_index_used == "1"
        await play.story.becomes(play.data, ["test", "changed", "test"])
        await play.through("r")
        assert await play.data() == ["changed"] * 3

    acts(play, scenario)


@pytest.mark.parametrize("limit", [1, 3, "70%"])
def test_90_a_run_takes_what_its_writes_take(play, limit):
    """No polls: three members are through in well under a second of virtual time, whatever the concurrency."""

    async def scenario():
        await play.begin()
        await play.strategy("all", [stage("all", maxConcurrency=limit)])
        await play.run("r", strategy="all")
        await play.reaches("r", RunPhase.SUCCEEDED, within_s=1)
        assert await play.data() == ["test"] * 3

    acts(play, scenario)


def test_91_a_plan_is_reviewed_started_stopped_and_resumed(play):
    async def scenario():
        await play.begin()
        await play.run("r", state="Initialize")
        run = await play.reaches("r", RunPhase.INITIALIZED)
        await play.story.w.settle()
        assert [members(one) for one in run.status.stages_status] == [["member2"], ["member1", "member3"]]
        assert await play.snapshots() == [f"{play.story.name}-0-snapshot"]
        assert await play.data() == [None] * 3
        await play.set_state("r", "Run")
        await play.approve("r-after-canary")

        async def at_the_gate():
            stages = (await play.get("r")).status.stages_status
            return stage_phase(stages[1].conditions) is StagePhase.WAITING_BEFORE

        await play.story.holds(at_the_gate)
        await play.set_state("r", "Stop")
        await play.reaches("r", RunPhase.STOPPED)
        await play.approve("r-before-prod")
        await play.story.w.settle()
        assert await play.data() == [None, "test", None]
        await play.set_state("r", "Run")
        await play.reaches("r", RunPhase.SUCCEEDED)
        assert await play.data() == ["test"] * 3

    acts(play, scenario)


def test_93_94_a_member_leaves_and_comes_back(play):
    async def scenario():
        await play.begin()
        await play.run("first")
        await play.through("first")
        labels = (await play.hub.get(MEMBER_CLUSTERS, "member1")).metadata.labels
        manifest = await play.hub.get(MEMBER_CLUSTERS, "member1")
        spec = {"identity": {"kind": "User", "name": manifest.spec.identity.name}}
        annotations = dict(manifest.metadata.annotations)
        await play.hub.delete(MEMBER_CLUSTERS, "member1")
        await play.story.w.until(lambda: "member1" not in play.story.fleet.members)
        await play.story.w.settle()
        await play.story.becomes(play.indexes, {"member2": "0", "member3": "0"})
        await play.run("without", index="0")
        run = await play.reaches("without", RunPhase.WAITING)
        assert members(run.status.deletion_stage_status) == ["member1"]
        await play.through("without")
        body = {
            "apiVersion": MEMBER_CLUSTERS.api_version,
            "kind": MEMBER_CLUSTERS.kind,
            "metadata": {"name": "member1", "labels": dict(labels), "annotations": annotations},
            "spec": spec,
        }
        await play.hub.create(MEMBER_CLUSTERS, body)
        await play.story.w.settle()
        await play.story.fleet.joined()
        await play.edit("changed")
        await play.story.becomes(play.indexes, {"member1": "", "member2": "0", "member3": "0"})
        await play.run("again")
        run = await play.through("again")
        assert run.status.policy_observed_cluster_count == 3
        await play.story.becomes(play.data, ["changed"] * 3)
        stamp = find_condition((await play.story.entry("member1")).conditions, "RolloutStarted")
        assert stamp.message.endswith("updateRun: again")

    acts(play, scenario)
