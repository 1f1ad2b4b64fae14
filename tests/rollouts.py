"""What staged runs need around them, made by hand on the in-process hub: members, a placement, the scheduler's
decision, snapshots, a strategy; and a delivery that only says what it would have done.

    stage = Rollout(world, scope)
    await stage.begin(clusters={"m1": {"env": "canary"}}, stages=[{"name": "canary", "labelSelector": {}}])
    await stage.run("r1")
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest
from msgspec import to_builtins

from echelon.api import names
from echelon.api.builtin import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.conditions import find_condition, is_true_at
from echelon.api.crds import crds
from echelon.api.meta import timestamp
from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS, MEMBER_CLUSTERS, OVERRIDE_SNAPSHOTS
from echelon.api.scope import SCOPES, Key, Scope
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.controllers.staged import StagedRuns
from echelon.rules.binding_life import without_finalizer
from echelon.rules.hand_over import conditions_of
from echelon.rules.plan import NOTHING, Patch, Plan, ref_of
from echelon.rules.policy_snapshots import owned_by
from echelon.rules.run_phases import RunPhase, run_phase
from echelon.rules.run_seen import Options
from echelon.rules.select import Selected
from echelon.runtime.controller import each, own_key
from tests.world import World, member_cluster, namespace, world

NAMESPACE = "work"
POLICY_HASH = "aGFzaA=="
STEPS = (
    ("Overridden", "NoOverrideSpecified"),
    ("WorkSynchronized", "AllWorkSynced"),
    ("Applied", "AllWorkHaveBeenApplied"),
    ("Available", "AllWorkAreAvailable"),
)


@cache
def definitions() -> tuple[dict[str, Any], ...]:
    """Our kinds, written down once."""
    return tuple(crds())


class PretendSelection:
    """Selects what the test says."""

    def __init__(self) -> None:
        self.manifests: list[dict[str, Any]] = [config_map("v1")]
        self.problem: Exception | None = None

    async def select_now(self, scope: Scope, placement: Any) -> Selected:
        if self.problem:
            raise self.problem
        return Selected(manifests=tuple(self.manifests))


def config_map(content: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "data": {"v": content},
    }


class PretendDelivery:
    """Says about a handed-over binding what delivery would say, at once or after a while, or never."""

    workers = 2

    def __init__(self, cache: Cache, scope: Scope) -> None:
        self.name = f"pretend delivery {scope.name}"
        self.scope = scope
        self.broken: set[str] = set()  # clusters where applying fails
        self.silent: set[str] = set()  # clusters that never answer
        self.delays_s: dict[str, float] = {}
        self.last = ("Available", "AllWorkAreAvailable")
        self._bindings = cache.store(scope.binding)

    @property
    def watches(self) -> Sequence[Any]:
        return (each(self.scope.binding),)

    async def load(self, key: Key) -> Any | None:
        return self._bindings.get(key.name, key.namespace)

    def decide(self, binding: Any, now: datetime) -> Plan:
        cluster, generation = binding.spec.target_cluster, binding.metadata.generation
        conditions = conditions_of(binding)
        if binding.metadata.is_deleting and names.FINALIZER_WORK_CLEANUP in binding.metadata.finalizers:
            free = without_finalizer(self.scope.binding, binding, names.FINALIZER_WORK_CLEANUP)
            return Plan(steps=((free,),))
        if binding.spec.state != names.BindingState.BOUND or cluster in self.silent:
            return NOTHING
        if not is_true_at(conditions, "RolloutStarted", generation):
            return NOTHING
        steps = (
            [*STEPS[:2], ("Applied", "ApplyFailed")] if cluster in self.broken else [*STEPS[:3], self.last]
        )
        kind, reason = steps[-1]
        said = find_condition(conditions, kind)
        if said is not None and (said.reason, said.observed_generation) == (reason, generation):
            return NOTHING
        started = find_condition(conditions, "RolloutStarted")
        assert started is not None
        due = started.last_transition_time + timedelta(seconds=self.delays_s.get(cluster, 0.0))
        if now < due:
            return Plan(wake_at=due)
        told = [to_builtins(started)]
        for type_, why in steps:
            status = "False" if why == "ApplyFailed" else "True"
            told.append(
                {
                    "type": type_,
                    "status": status,
                    "reason": why,
                    "message": "",
                    "observedGeneration": generation,
                    "lastTransitionTime": to_builtins(timestamp(now)),
                }
            )
        patch = Patch(ref=ref_of(self.scope.binding, binding), body={}, status={"conditions": told})
        return Plan(steps=((patch,),))

    def again(self, w: World, *clusters: str) -> None:
        """Look at clusters again after the test has changed its mind about them."""
        for manager in w.managers:
            for loop in manager.loops:
                if loop.controller is self:
                    for binding in self._bindings.all():
                        if not clusters or binding.spec.target_cluster in clusters:
                            loop.queue.add(own_key(binding))


class Rollout:
    """One placement and its surroundings."""

    def __init__(self, w: World, scope: Scope, placement: str = "p") -> None:
        self.w = w
        self.scope = scope
        self.placement = placement
        self.selection = PretendSelection()
        self.delivery: PretendDelivery | None = None
        self.client: Client = w.client()
        self.namespace = NAMESPACE if scope.namespaced else None

    # making

    def meta(self, name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, **({"namespace": self.namespace} if self.namespace else {}), **more}

    def body(self, resource: Any, name: str, spec: Mapping[str, Any], **meta: Any) -> dict[str, Any]:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": self.meta(name, **meta),
            "spec": dict(spec),
        }

    async def create(self, resource: Any, name: str, spec: Mapping[str, Any], **meta: Any) -> Any:
        return await self.client.create(resource, self.body(resource, name, spec, **meta), self.namespace)

    async def status(self, resource: Any, name: str, status: Mapping[str, Any]) -> Any:
        return await self.client.patch(
            resource, name, self.namespace, {"status": dict(status)}, subresource="status"
        )

    async def begin(
        self,
        clusters: Mapping[str, Mapping[str, str]],
        stages: Sequence[Mapping[str, Any]],
        *,
        install: bool = True,
        policy: Mapping[str, Any] | None = None,
        leaving: Iterable[str] = (),
        apply: Mapping[str, Any] | None = None,
        snapshots: int = 1,
    ) -> None:
        """Make everything but the run."""
        if install:
            await self.install()
        leaving = list(leaving)
        for name, labels in clusters.items():
            if not await self._exists(name):
                await self.client.create(MEMBER_CLUSTERS, member_cluster(name, **labels))
        strategy: dict[str, Any] = {"type": "External"}
        if apply:
            strategy["applyStrategy"] = dict(apply)
        selector = {"group": "", "version": "v1", "kind": "ConfigMap"}
        if not self.scope.namespaced:
            selector = {"group": "", "version": "v1", "kind": "Namespace", "name": NAMESPACE}
        spec: dict[str, Any] = {"resourceSelectors": [selector], "strategy": strategy}
        if policy:
            spec["policy"] = dict(policy)
        await self.create(self.scope.placement, self.placement, spec)
        await self.policy_snapshot(0, policy)
        for name in clusters:
            await self.binding(name, state="Unscheduled" if name in leaving else "Scheduled")
        for index in range(snapshots):
            await self.snapshot(index, latest=index == snapshots - 1)
        await self.strategy("s", stages)

    async def install(self) -> None:
        """Install the kinds a run of this scope has to do with, and no others: a test spends most of its time here."""
        scope = self.scope
        kinds = (scope.run, scope.strategy, scope.approval, scope.placement, scope.policy_snapshot)
        kinds += (scope.resource_snapshot, scope.binding, MEMBER_CLUSTERS)
        kinds += (CLUSTER_OVERRIDE_SNAPSHOTS, OVERRIDE_SNAPSHOTS)
        for crd in definitions():
            if crd["spec"]["names"]["plural"] in {kind.plural for kind in kinds}:
                await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        await self.client.create(NAMESPACES, namespace(NAMESPACE))

    async def _exists(self, cluster: str) -> bool:
        return any(item.name == cluster for item in (await self.client.list(MEMBER_CLUSTERS)).items)

    async def policy_snapshot(
        self,
        index: int,
        policy: Mapping[str, Any] | None = None,
        *,
        latest: bool = True,
        scheduled: str = "True",
    ) -> None:
        name = names.policy_snapshot_name(self.placement, index)
        annotations = {names.ANNOTATION_CRP_GENERATION: "1"}
        if policy and policy.get("placementType") == "PickN":
            annotations[names.ANNOTATION_NUMBER_OF_CLUSTERS] = str(policy["numberOfClusters"])
        spec: dict[str, Any] = {"policyHash": POLICY_HASH}
        if policy:
            spec["policy"] = {key: value for key, value in policy.items() if key != "numberOfClusters"}
            if policy.get("placementType") == "PickN":
                spec["policy"]["numberOfClusters"] = policy["numberOfClusters"]
        labels = {
            names.LABEL_PARENT_CRP: self.placement,
            names.LABEL_POLICY_INDEX: str(index),
            names.LABEL_IS_LATEST_SNAPSHOT: "true" if latest else "false",
        }
        await self.create(
            self.scope.policy_snapshot,
            name,
            spec,
            labels=labels,
            annotations=annotations,
            **await self.owner(),
        )
        await self.status(
            self.scope.policy_snapshot,
            name,
            {"observedCRPGeneration": 1, "conditions": [self.condition("Scheduled", scheduled)]},
        )

    def condition(self, type_: str, status: str = "True", generation: int = 1, **more: Any) -> dict[str, Any]:
        return {
            "type": type_,
            "status": status,
            "reason": more.pop("reason", type_),
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": to_builtins(timestamp(self.w.now())),
            **more,
        }

    async def binding(self, cluster: str, state: str = "Scheduled", policy: int = 0, **meta: Any) -> None:
        spec = {
            "state": state,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": names.policy_snapshot_name(self.placement, policy),
            "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        }
        labels = {names.LABEL_PARENT_CRP: self.placement}
        await self.create(self.scope.binding, self.binding_name(cluster), spec, labels=labels, **meta)

    def binding_name(self, cluster: str) -> str:
        return names.binding_name(self.placement, cluster, "00000000")

    async def snapshot(self, index: int, *, latest: bool = True, **annotations: str) -> None:
        labels = {
            names.LABEL_PARENT_CRP: self.placement,
            names.LABEL_RESOURCE_INDEX: str(index),
            names.LABEL_IS_LATEST_SNAPSHOT: "true" if latest else "false",
        }
        notes = {
            names.ANNOTATION_RESOURCE_HASH: f"hash-{index}",
            names.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "1",
            names.ANNOTATION_NUMBER_OF_ENVELOPED_OBJECT: "0",
            **annotations,
        }
        name = names.resource_snapshot_name(self.placement, index)
        spec = {"selectedResources": [config_map(f"v{index}")]}
        await self.create(
            self.scope.resource_snapshot, name, spec, labels=labels, annotations=notes, **await self.owner()
        )

    async def owner(self) -> dict[str, Any]:
        """Return the owner references of what is made for the placement, if there is one."""
        found = (await self.client.list(self.scope.placement, self.namespace)).items
        placement = next((one for one in found if one.name == self.placement), None)
        if placement is None:
            return {}
        return {"ownerReferences": [owned_by(self.scope, placement)]}

    async def strategy(self, name: str, stages: Sequence[Mapping[str, Any]]) -> None:
        await self.create(self.scope.strategy, name, {"stages": list(stages)})

    async def run(
        self, name: str = "r", *, index: str | None = "0", state: str = "Run", strategy: str = "s"
    ) -> None:
        spec = {"placementName": self.placement, "stagedRolloutStrategyName": strategy, "state": state}
        if index is not None:
            spec["resourceSnapshotIndex"] = index
        await self.create(self.scope.run, name, spec)

    # acting as people do

    async def set_state(self, state: str, name: str = "r") -> None:
        await self.client.patch(self.scope.run, name, self.namespace, {"spec": {"state": state}})

    async def approve(self, name: str, status: str = "True", generation: int | None = None) -> None:
        request = await self.client.get(self.scope.approval, name, self.namespace)
        generation = request.metadata.generation if generation is None else generation
        held = [
            to_builtins(said)
            for said in (request.status.conditions if request.status else ())
            if said.type != "Approved"
        ]
        said = self.condition("Approved", status, generation, reason="lgtm")
        await self.status(self.scope.approval, name, {"conditions": [*held, said]})

    # looking

    async def start(self, options: Options | None = None, client: Client | None = None) -> None:
        """Start the controllers."""

        def controllers(manager: Any) -> list[Any]:
            self.delivery = self.delivery or PretendDelivery(manager.cache, self.scope)
            return [self.runs(manager, options), self.delivery]

        await self.w.start(controllers, client)

    def runs(self, manager: Any, options: Options | None = None) -> StagedRuns:
        return StagedRuns(manager.cache, self.scope, options, selection=self.selection)

    async def get(self, name: str = "r") -> Any:
        return await self.client.get(self.scope.run, name, self.namespace)

    async def phase(self, name: str = "r") -> RunPhase:
        run = await self.get(name)
        return run_phase(run.status.conditions if run.status else ())

    async def reaches(self, phase: RunPhase, name: str = "r", within_s: float = 600.0) -> Any:
        async def is_there() -> bool:
            return await self.phase(name) is phase

        await self.w.until(is_there, within_s)
        return await self.get(name)

    async def get_binding(self, cluster: str) -> Any:
        return await self.client.get(self.scope.binding, self.binding_name(cluster), self.namespace)

    async def version_of(self, cluster: str) -> str:
        return str((await self.get_binding(cluster)).spec.resource_snapshot_name)

    async def request(self, name: str) -> Any:
        return await self.client.get(self.scope.approval, name, self.namespace)

    async def requests(self) -> list[str]:
        return sorted(item.name for item in (await self.client.list(self.scope.approval)).items)


# --- fixtures of the contract's scenarios -------------------------------------------------------------------------
both = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name.lower())
Scenario = Callable[[Rollout], Coroutine[Any, Any, None]]

APPROVAL = {"type": "Approval"}


def wait(text: str) -> dict[str, str]:
    return {"type": "TimedWait", "waitTime": text}


def picks(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def stage(name: str, selector: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A stage; without a selector it picks everything."""
    return {"name": name, "labelSelector": {} if selector is None else dict(selector), **more}


def play(scope: Scope, scenario: Scenario, seed: int = 0) -> None:
    """Run a scenario on a fresh hub in virtual time."""
    with world(seed) as w:

        async def main() -> None:
            await scenario(Rollout(w, scope))
            await w.stop()

        w.run(main())


def said(conditions: Any) -> dict[str, str]:
    """Conditions as the scenarios write them: type -> status/reason."""
    return {one.type: f"{one.status}/{one.reason}" for one in conditions}


def message(obj: Any, type_: str) -> str:
    found = find_condition(obj.status.conditions if hasattr(obj, "status") else obj.conditions, type_)
    return found.message if found else ""


FIXTURE_A_CLUSTERS = {
    **{
        f"cluster-{i}": {"group": "prod", "region": "eastus" if i % 2 else "westus", "index": str(9 - i)}
        for i in range(10)
    },
    **{f"unscheduled-cluster-{i}": {"group": "prod", "index": "0"} for i in range(3)},
}
PICK_10 = {"placementType": "PickN", "numberOfClusters": 10}
FIXTURE_A_STAGES = [
    stage(
        "stage1",
        picks(group="prod", region="eastus"),
        sortingLabelKey="index",
        beforeStageTasks=[APPROVAL],
        afterStageTasks=[wait("4s"), APPROVAL],
    ),
    stage(
        "stage2",
        picks(group="prod", region="westus"),
        beforeStageTasks=[APPROVAL],
        afterStageTasks=[APPROVAL, wait("4s")],
    ),
]


async def fixture_a(r: Rollout, stages: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> None:
    leaving = [name for name in FIXTURE_A_CLUSTERS if name.startswith("unscheduled")]
    stages = FIXTURE_A_STAGES if stages is None else stages
    await r.begin(FIXTURE_A_CLUSTERS, stages, policy=PICK_10, leaving=leaving, **more)


async def fixture_b(r: Rollout, *, leaving: int = 0, **tasks: Any) -> None:
    clusters = {f"cluster-{i}": {"env": "test"} for i in range(3)}
    gone = [f"unscheduled-cluster-{i}" for i in range(leaving)]
    await r.begin(
        {**clusters, **{key: {} for key in gone}},
        [stage("stage1", **tasks)],
        policy={"placementType": "PickN", "numberOfClusters": 3},
        leaving=gone,
    )
