"""Delivery under any order of rollouts, answers, crashes and interference: what must never happen, and where it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from echelon.api import names as n
from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS, MEMBER_CLUSTERS, WORKS
from echelon.api.scope import CLUSTER, NAMESPACED, Key
from echelon.rules.plan import Plan
from echelon.rules.work_generation import PATIENCE, step
from echelon.rules.work_generation_content import binding_of_work
from echelon.rules.work_generation_seen import Seen
from tests.rules.pretend import NOW, Store, a_cluster, a_condition, meta_for, namespace_of

MEMBER, SPACE, BINDING = "m1", "fleet-member-m1", "web-m1"
VERSIONS = {0: 1, 1: 2, 2: 3, 3: 1}  # index: number of parts
STRANGER = "somebody else's"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "work"},
        "data": data,
    }


def content(index: int, part: int, override: int | None) -> dict[str, Any]:
    """What a part of a version looks like on the member."""
    data = {"version": str(index)} | ({"by": str(override)} if override is not None else {})
    return config_map(f"part-{part}", **data)


class Delivering(RuleBasedStateMachine):
    """One binding, its Works, a rollout, a member, and everybody else."""

    @initialize(scope=st.sampled_from([CLUSTER, NAMESPACED]))
    def begin(self, scope):
        self.scope, self.now = scope, NOW
        self.store = Store()
        self.store.put(MEMBER_CLUSTERS, a_cluster(MEMBER))
        for index, parts in VERSIONS.items():
            for part in range(parts):
                self._put_snapshot(index, part, parts)
        for index in range(2):
            self._put_override(index)
        self.handed_over: tuple[int, int | None] | None = None
        self._put_binding()

    def _put_snapshot(self, index: int, part: int, parts: int) -> None:
        labels = {n.LABEL_PARENT_CRP: "web", n.LABEL_RESOURCE_INDEX: str(index)}
        notes = (
            {n.ANNOTATION_SUBINDEX: str(part)}
            if part
            else {n.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: str(parts)}
        )
        name = n.resource_snapshot_name("web", index, part or None)
        meta = meta_for(self.scope, name, labels=labels, annotations=notes)
        body = {"metadata": meta, "spec": {"selectedResources": [content(index, part, None)]}}
        self.store.put(self.scope.resource_snapshot, body)

    def _put_override(self, index: int) -> None:
        patch = {"op": "add", "path": "/data/by", "value": str(index)}
        everywhere = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]}
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
        spec = {"clusterResourceSelectors": [selector], "policy": {"overrideRules": [everywhere]}}
        body = {"metadata": {"name": f"cro-{index}"}, "spec": {"overrideSpec": spec, "overrideHash": "eA=="}}
        self.store.put(CLUSTER_OVERRIDE_SNAPSHOTS, body)

    def _put_binding(self) -> None:
        decision = {"clusterName": MEMBER, "selected": True, "reason": ""}
        spec = {
            "state": "Bound",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": "",
            "targetCluster": MEMBER,
            "clusterDecision": decision,
        }
        meta = meta_for(self.scope, BINDING, labels={n.LABEL_PARENT_CRP: "web"})
        self.store.put(self.scope.binding, {"metadata": meta, "spec": spec})
        self.pending = (None, None)

    # the rollout

    @rule(index=st.sampled_from(list(VERSIONS)), override=st.sampled_from([None, 0, 1]), stamp=st.booleans())
    def roll(self, index, override, stamp):
        if self._is_deleting():
            return
        overrides = [f"cro-{override}"] if override is not None else None
        spec = {
            "resourceSnapshotName": n.resource_snapshot_name("web", index),
            "clusterResourceOverrideSnapshots": overrides,
        }
        self.store.edit(self.scope.binding, BINDING, {"spec": spec}, namespace_of(self.scope))
        self.pending = (index, override)
        if stamp:
            self.hand_over()

    @rule()
    def hand_over(self):
        binding = self._binding()
        if self.pending[0] is None or binding is None or self._is_deleting():
            return
        kept = [
            msgspec.to_builtins(c)
            for c in (binding.status.conditions if binding.status else ())
            if c.type != "RolloutStarted"
        ]
        stamp = a_condition("RolloutStarted", observedGeneration=binding.metadata.generation)
        body = {"status": {"conditions": [stamp, *kept]}}
        self.store.edit(self.scope.binding, BINDING, body, namespace_of(self.scope), status=True)
        self.handed_over = self.pending

    # the member

    @rule(
        which=st.integers(0, 3),
        applied=st.sampled_from(["True", "False"]),
        available=st.sampled_from(["True", "False"]),
    )
    def answer(self, which, applied, available):
        works = self._works()
        if not works:
            return
        work = works[which % len(works)]
        generation = work.metadata.generation
        conditions = [a_condition("Applied", applied, observedGeneration=generation)]
        if applied == "True":
            conditions.append(a_condition("Available", available, observedGeneration=generation))
        body = {"status": {"conditions": conditions}}
        self.store.edit(WORKS, work.name, body, SPACE, status=True)

    @rule()
    def time_passes(self):
        self.now += PATIENCE + timedelta(seconds=1)

    # delivery, and its accidents

    def _seen(self) -> Seen | None:
        binding = self._binding()
        if binding is None:
            return None
        spec, space = binding.spec, namespace_of(self.scope)
        master = self.store.get(self.scope.resource_snapshot, spec.resource_snapshot_name, space)
        index = master.metadata.labels[n.LABEL_RESOURCE_INDEX] if master else ""
        group = [
            s
            for s in self.store.resource_snapshots(self.scope)
            if s.metadata.labels[n.LABEL_RESOURCE_INDEX] == index
        ]
        return Seen(
            scope=self.scope,
            binding=binding,
            cluster=self.store.get(MEMBER_CLUSTERS, MEMBER),
            works=self._works(),
            find_work=lambda name: self.store.get(WORKS, name, SPACE),
            master=master,
            group=group,
            cluster_overrides={
                name: found
                for name in spec.cluster_resource_override_snapshots
                if (found := self.store.get(CLUSTER_OVERRIDE_SNAPSHOTS, name)) is not None
            },
        )

    def _decide(self) -> Plan | None:
        seen = self._seen()
        return step(seen, self.now) if seen else None

    def _perform(self, plan: Plan) -> None:
        self.store.now = self.now
        self.store._own = set()
        self.store.perform(plan)

    @rule()
    def look(self):
        plan = self._decide()
        if plan:
            self._perform(plan)

    @rule(actions=st.integers(0, 4))
    def crash(self, actions):
        """A look that dies after a few of its writes."""
        plan = self._decide()
        if plan is None:
            return
        done = [action for group in plan.steps for action in group][:actions]
        self._perform(Plan(steps=tuple((action,) for action in done)))

    @rule(which=st.integers(0, 3))
    def somebody_deletes_a_work(self, which):
        works = self._works()
        if works:
            self.store.delete(WORKS, works[which % len(works)].name, SPACE)

    @precondition(lambda self: self.store.get(WORKS, self._name(0), SPACE) is None)
    @rule()
    def another_tenant_takes_our_name(self):
        labels = {n.LABEL_PARENT_CRP: "other", n.LABEL_PARENT_RESOURCE_BINDING: STRANGER}
        meta = {"name": self._name(0), "namespace": SPACE, "labels": labels}
        self.store.put(WORKS, {"metadata": meta, "spec": {"workload": {"manifests": []}}})

    @rule()
    def the_binding_is_deleted(self):
        self.store.delete(self.scope.binding, BINDING, namespace_of(self.scope))

    # helpers

    def _name(self, part: int) -> str:
        return n.work_name("web", namespace_of(self.scope), part or None)

    def _binding(self) -> Any:
        return self.store.get(self.scope.binding, BINDING, namespace_of(self.scope))

    def _is_deleting(self) -> bool:
        binding = self._binding()
        return binding is None or binding.metadata.is_deleting

    def _works(self) -> list[Any]:
        key = Key(namespace_of(self.scope), BINDING)
        return [work for work in self.store.all(WORKS) if binding_of_work(work) == key]

    # what must always hold

    @invariant()
    def others_are_left_alone(self):
        for work in self.store.all(WORKS) if hasattr(self, "store") else ():
            if work.metadata.labels.get(n.LABEL_PARENT_RESOURCE_BINDING) == STRANGER:
                assert work.spec.manifests == ()
                assert work.metadata.generation == 1

    @invariant()
    def a_work_holds_exactly_what_it_says(self):
        for work in self._works() if hasattr(self, "store") else ():
            index = int(work.metadata.labels[n.LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX])
            (manifest,) = work.spec.manifests
            part = int(manifest["metadata"]["name"].removeprefix("part-"))
            by = manifest["data"].get("by")
            assert manifest == content(index, part, None if by is None else int(by))

    @invariant()
    def nothing_is_there_before_the_first_hand_over(self):
        if hasattr(self, "store") and self.handed_over is None:
            assert self._works() == []

    @invariant()
    def it_comes_to_rest_where_it_should(self):
        """From any state, looking again and again ends: with the version handed over, or with nothing left."""
        if not hasattr(self, "store"):
            return
        kept = msgspec.msgpack.encode(list(self.store.objects.items())), self.now
        for _ in range(8):
            plan = self._decide()
            if plan is None or (not plan.steps and plan.status is None and plan.wake_at is None):
                break
            self._perform(plan)
            if plan.wake_at:
                self.now = max(self.now, plan.wake_at)
        else:
            raise AssertionError("it never comes to rest")
        if self._is_deleting():
            assert self._works() == [] or self._binding() is not None
        elif self.handed_over and self.handed_over == self.pending and self._is_stamped():
            index, override = self.handed_over
            found = sorted(work.spec.manifests[0]["metadata"]["name"] for work in self._works())
            assert found == [f"part-{part}" for part in range(VERSIONS[index])]
            for work in self._works():
                part = int(work.spec.manifests[0]["metadata"]["name"].removeprefix("part-"))
                assert work.spec.manifests == (content(index, part, override),)
        objects, self.now = kept
        self.store.objects = {tuple(key): value for key, value in msgspec.msgpack.decode(objects)}

    def _is_stamped(self) -> bool:
        binding = self._binding()
        return any(
            c.type == "RolloutStarted" and c.observed_generation == binding.metadata.generation
            for c in (binding.status.conditions if binding.status else ())
        )


Delivering.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDelivering = Delivering.TestCase
