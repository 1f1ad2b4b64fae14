"""Whole lives of staged runs on a store in memory, from one seed: people, delivery, conflicts, crashes, time.

No loop, no hub: every action is one call, so a thousand lives take less than a minute. After every action all promises
of `rollout.py` are checked; at the end everybody behaves and every run must come to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from echelon.api import names, own
from echelon.api.binding import Binding
from echelon.api.conditions import is_true_at
from echelon.api.scope import SCOPES
from echelon.api.staged import Run, StageStatus
from echelon.rules.hand_over import conditions_of, is_on_target
from echelon.rules.plan import Create, Delete, Patch, Plan
from echelon.rules.policy_snapshots import owned_by
from echelon.rules.rollout import is_failing, step
from echelon.rules.run_cluster import is_finished, started_by, target_of
from echelon.rules.run_phases import MOVES, RunPhase, has_status, run_phase, stage_phase
from echelon.rules.run_seen import Options, Planned, Seen
from echelon.rules.run_validation import max_concurrency
from tests.rules.pretend import (
    NOW,
    Conflict,
    Store,
    a_cluster,
    a_condition,
    a_placement,
    iso,
    meta_for,
    namespace_of,
)

ALLOWED = {(move.source, move.target) for move in MOVES}
VERSIONS = 3
OVER = (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.INIT_FAILED)


class Crash(Exception):
    """The process ended between two writes."""


class Broken(AssertionError):
    """A promise was broken."""


class Life:
    """One fleet and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.scope = SCOPES[seed % 2]
        self.namespace = namespace_of(self.scope)
        self.store = Store()
        self.finished: dict[str, Any] = {}  # status of runs that are over
        self.last: dict[str, Run] = {}
        self.made = 0
        self.blocked: set[str] = set()
        self.planned: dict[str, Planned] = {}
        self.fleets: dict[object, int] = {}  # a number for each labelling of the members there ever was
        self.trace: list[str] = []
        self._build()

    # the fleet

    def _build(self) -> None:
        rng, put = self.rng, self.store.put
        groups = ["a", "b", "c"][: rng.randint(1, 3)]
        count = rng.randint(1, 7)
        self.clusters = {f"m{i}": rng.choice(groups) for i in range(count)}
        self.leaving = [f"old{i}" for i in range(rng.choice((0, 0, 1, 2)))]
        for name, group in self.clusters.items():
            put(own.MEMBER_CLUSTERS, a_cluster(name, {"g": group, "n": str(rng.randint(0, 3))}))
        put(self.scope.placement, a_placement(self.scope, strategy={"type": "External"}))
        labels = {
            names.LABEL_PARENT_CRP: "p",
            names.LABEL_POLICY_INDEX: "0",
            names.LABEL_IS_LATEST_SNAPSHOT: "true",
        }
        put(
            self.scope.policy_snapshot,
            {
                "metadata": meta_for(self.scope, "p-0", labels=labels, ownerReferences=[self._owner()]),
                "spec": {"policyHash": ""},
                "status": {
                    "observedCRPGeneration": 1,
                    "conditions": [a_condition("Scheduled", observedGeneration=1)],
                },
            },
        )
        for name in (*self.clusters, *self.leaving):
            self._put_binding(name)
        for index in range(VERSIONS):
            self._put_snapshot(index)
        for index in range(2):
            stages = [self._stage(group, index) for group in groups]
            rng.shuffle(stages)
            if rng.random() < 0.2:
                stages.insert(rng.randint(0, len(stages)), {"name": "nobody", "maxConcurrency": 1})
            put(
                self.scope.strategy,
                {"metadata": meta_for(self.scope, f"s{index}"), "spec": {"stages": stages}},
            )

    def _stage(self, group: str, index: int) -> dict[str, Any]:
        rng = self.rng
        stage: dict[str, Any] = {
            "name": f"stage{group}",
            "labelSelector": {"matchLabels": {"g": group}},
            "maxConcurrency": rng.choice((1, 1, 2, 3, "50%", "100%")),
        }
        if rng.random() < 0.3:
            stage["beforeStageTasks"] = [{"type": "Approval"}]
        after = []
        if rng.random() < 0.3:
            after.append({"type": "Approval"})
        if rng.random() < 0.3:
            after.append({"type": "TimedWait", "waitTime": "1m"})
        if after:
            stage["afterStageTasks"] = after
        if rng.random() < 0.3:
            stage["sortingLabelKey"] = "n"
        return stage

    def _put_binding(self, cluster: str) -> None:
        spec = {
            "state": "Unscheduled" if cluster in self.leaving else "Scheduled",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": "p-0",
            "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": ""},
        }
        meta = meta_for(self.scope, f"b-{cluster}", labels={names.LABEL_PARENT_CRP: "p"})
        if self.rng.random() < 0.5:
            meta["finalizers"] = ["hold"]
        self.store.put(self.scope.binding, {"metadata": meta, "spec": spec})

    def _owner(self) -> dict[str, Any]:
        placement = self.store.get(self.scope.placement, "p", self.namespace)
        return owned_by(self.scope, placement)

    def _put_snapshot(self, index: int) -> None:
        labels = {
            names.LABEL_PARENT_CRP: "p",
            names.LABEL_RESOURCE_INDEX: str(index),
            names.LABEL_IS_LATEST_SNAPSHOT: "true" if index == VERSIONS - 1 else "false",
        }
        meta = meta_for(self.scope, f"p-{index}-snapshot", labels=labels, ownerReferences=[self._owner()])
        meta["annotations"] = {
            names.ANNOTATION_RESOURCE_HASH: f"h{index}",
            names.ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: "1",
        }
        self.store.put(self.scope.resource_snapshot, {"metadata": meta, "spec": {"selectedResources": []}})

    # reading

    def all(self, resource: Any) -> list[Any]:
        """Return the objects of a kind."""
        return self.store.all(resource)

    def runs(self) -> list[Run]:
        return self.all(self.scope.run)

    def run(self, name: str) -> Run | None:
        return next((run for run in self.runs() if run.name == name), None)

    def binding(self, cluster: str) -> Binding | None:
        return next((one for one in self.all(self.scope.binding) if one.spec.target_cluster == cluster), None)

    def seen(self, run: Run) -> Seen:
        scope = self.scope
        strategies = {one.name: one for one in self.all(scope.strategy)}
        return Seen(
            scope=scope,
            run=run,
            placement=next(iter(self.all(scope.placement)), None),
            policy_snapshots=self.all(scope.policy_snapshot),
            bindings=self.all(scope.binding),
            strategy=strategies.get(run.spec.strategy_name),
            clusters={one.name: one for one in self.all(own.MEMBER_CLUSTERS)},
            approvals={one.name: one for one in self.all(scope.approval)},
            snapshots=self.all(scope.resource_snapshot),
            resources=(),
            rivals={other.name: other for other in self.runs() if other.name != run.name},
            options=Options(stuck_after=timedelta(minutes=5)),
        )

    # acting

    def look(self, name: str, faults: float = 0.0, stale: Seen | None = None) -> bool:
        """One look of the engine at a run; returns whether it wanted to write anything."""
        run = self.run(name)
        if run is None:
            return False
        seen = stale or self.seen(run)
        plan = step(seen, self.store.now)
        planned = self.planned.setdefault(run.metadata.uid, Planned())
        fleet = self.fleets.setdefault(_labels_of(seen), len(self.fleets))
        remembering = step(replace(seen, planned=planned, fleet=fleet), self.store.now)
        assert plan == remembering, "what is remembered only saves time"
        if stale is not None and is_failing(plan):
            seen = self.seen(run)
            plan = step(seen, self.store.now)
        self._check_plan(seen, plan)
        self.trace.append(f"look {name}: {plan.why} {len(plan.steps)}{'s' if plan.status else ''}")
        try:
            self._perform(plan, faults)
        except (Crash, Conflict) as error:
            self.trace.append(f"  {error!r}")
        return bool(plan.steps or plan.status)

    def _perform(self, plan: Plan, faults: float) -> None:
        """Carry a plan out, write by write; between any two the process may end."""
        for actions in plan.steps:
            for action in actions:
                if self.rng.random() < faults:
                    raise Crash("before a write")
                if isinstance(action, Patch) and action.body and action.status is not None:
                    # two writes: the process can end between them
                    self.store.perform(Plan(steps=((_without_status(action),),)))
                    if self.rng.random() < faults:
                        raise Crash("between spec and status")
                    current = self.store.get(action.ref.resource, action.ref.name, action.ref.namespace)
                    ref = _at(action.ref, current.metadata.resource_version)
                    self.store.perform(Plan(steps=((Patch(ref=ref, body={}, status=action.status),),)))
                else:
                    self.store.perform(Plan(steps=((action,),)))
        if plan.status is not None:
            if self.rng.random() < faults:
                raise Crash("before the status")
            self.store.perform(Plan(status=plan.status))

    def create_run(self) -> None:
        self.made += 1
        spec: dict[str, Any] = {
            "placementName": "p",
            "stagedRolloutStrategyName": f"s{self.rng.randint(0, 1)}",
            "state": self.rng.choice(("Run", "Run", "Run", "Initialize", "Stop")),
            "resourceSnapshotIndex": str(self.rng.randint(0, VERSIONS - 1)),
        }
        self.trace.append(f"create r{self.made} {spec}")
        self.store.put(self.scope.run, {"metadata": meta_for(self.scope, f"r{self.made}"), "spec": spec})

    def set_state(self, run: Run, state: str) -> None:
        self.trace.append(f"{run.name} {state}")
        self.store.edit(self.scope.run, run.name, {"spec": {"state": state}}, self.namespace)

    def deliver(self, cluster: str) -> None:
        """Say that a handed-over binding is available."""
        binding = self.binding(cluster)
        if binding is None or cluster in self.blocked:
            return
        generation = binding.metadata.generation
        said = conditions_of(binding)
        if not is_true_at(said, "RolloutStarted", generation) or binding.spec.state != "Bound":
            return
        self.trace.append(f"deliver {cluster}")
        told = [to_builtins(one) for one in said if one.type == "RolloutStarted"]
        told.append(a_condition("Available", observedGeneration=generation, at=self.store.now))
        body = {"status": {"conditions": told}}
        self.store.edit(self.scope.binding, binding.name, body, self.namespace, status=True)

    def approve(self, generation: int | None = None) -> None:
        for request in self.all(self.scope.approval):
            if generation is not None or self.rng.random() < 0.5:
                at = request.metadata.generation if self.rng.random() < 0.8 or generation is not None else 0
                held = [to_builtins(one) for one in (request.status.conditions if request.status else ())]
                kept = [one for one in held if one["type"] != "Approved"]
                said = a_condition("Approved", observedGeneration=at)
                body = {"status": {"conditions": [*kept, said]}}
                self.store.edit(self.scope.approval, request.name, body, self.namespace, status=True)

    def let_go(self) -> None:
        """Let terminating bindings go."""
        for one in self.all(self.scope.binding):
            if one.metadata.is_deleting:
                body = {"metadata": {"finalizers": []}}
                self.store.edit(self.scope.binding, one.name, body, self.namespace)

    def act(self) -> None:
        """Do one random thing."""
        rng, runs = self.rng, self.runs()
        choice = rng.random()
        if not runs or (choice < 0.03 and self.made < 3):
            self.create_run()
        elif choice < 0.50:
            faults = 0.1 if rng.random() < 0.3 else 0.0
            self.look(rng.choice(runs).name, faults)
        elif choice < 0.55:
            self._stale_look(rng.choice(runs))
        elif choice < 0.75:
            self.deliver(rng.choice(list(self.clusters)))
        elif choice < 0.80:
            self.approve()
        elif choice < 0.84:
            self._toggle(rng.choice(runs))
        elif choice < 0.86:
            self.let_go()
        elif choice < 0.88:
            self.blocked ^= {rng.choice(list(self.clusters))}
        elif choice < 0.89:
            self._delete_request()
        elif choice < 0.895:
            self._meddle()
        elif choice < 0.90 and rng.random() < 0.3:
            self.trace.append("delete a run")
            self.store.delete(self.scope.run, rng.choice(runs).name, self.namespace)
        else:
            self.store.now += timedelta(seconds=rng.choice((0.2, 1, 5, 61, 301)))
        self.check()

    def _stale_look(self, run: Run) -> None:
        """Look at what was there a moment ago, as a copy that lags behind would show it."""
        seen = self.seen(run)
        for cluster in self.clusters:
            if self.rng.random() < 0.5:
                self.deliver(cluster)
        self.look(self.rng.choice(self.runs()).name)
        self.check()
        self.look(run.name, stale=seen)

    def _toggle(self, run: Run) -> None:
        state = run.spec.state
        if run.metadata.is_deleting:
            return
        self.set_state(run, "Run" if state != "Run" else "Stop")

    def _delete_request(self) -> None:
        requests = self.all(self.scope.approval)
        if requests:
            self.store.delete(self.scope.approval, self.rng.choice(requests).name, self.namespace)

    def _meddle(self) -> None:
        """Somebody puts a binding back by hand."""
        binding = self.binding(self.rng.choice(list(self.clusters)))
        if binding is not None:
            self.trace.append(f"meddle {binding.name}")
            self.store.edit(
                self.scope.binding, binding.name, {"spec": {"state": "Scheduled"}}, self.namespace
            )

    # promises

    def _check_plan(self, seen: Seen, plan: Plan) -> None:
        run = seen.run
        touched = [
            action
            for actions in plan.steps
            for action in actions
            if isinstance(action, (Patch, Delete)) and action.ref.resource == self.scope.binding
        ]
        if touched and run.spec.state != "Run":
            raise Broken(f"{run.name} moves bindings in state {run.spec.state}")
        if (
            run_phase(seen.status.conditions) in OVER
            and not run.metadata.is_deleting
            and (plan.steps or plan.status)
        ):
            # a finalizer may still be missing when a run is over; nothing else is written
            raise Broken(f"{run.name} is over and writes")
        if any(
            isinstance(action, Create) and action.resource != self.scope.approval
            for a in plan.steps
            for action in a
        ):
            raise Broken("creates something else than approvals")

    def check(self) -> None:
        """Check every promise."""
        for run in self.runs():
            status = run.status
            if status is None:
                continue
            phase = run_phase(status.conditions)
            if run.name in self.finished and self.finished[run.name] != status:
                raise Broken(f"{run.name} was over and has changed")
            if phase in OVER:
                self.finished[run.name] = status
            self._check_moves(run)
            if phase is RunPhase.INIT_FAILED:
                continue
            self._check_places(run)
            self._check_flight(run)
            self._check_gates(run)
            self.last[run.name] = run

    def _check_moves(self, run: Run) -> None:
        before = self.last.get(run.name)
        if before is None or before.status is None or run.status is None:
            return
        pairs = [(run_phase(before.status.conditions), run_phase(run.status.conditions))]
        old = (*before.status.stages_status, before.status.deletion_stage_status)
        new = (*run.status.stages_status, run.status.deletion_stage_status)
        pairs += [
            (stage_phase(a.conditions), stage_phase(b.conditions))
            for a, b in zip(old, new, strict=False)
            if a and b
        ]
        for move in pairs:
            if move[0] is not move[1] and move not in ALLOWED:
                raise Broken(f"{run.name}: no such move: {move}")

    def _check_places(self, run: Run) -> None:
        assert run.status is not None
        placed = [entry.cluster_name for stage in run.status.stages_status for entry in stage.clusters]
        if sorted(placed) != sorted(self.clusters):
            raise Broken(f"{run.name}: clusters in no or two places: {placed}")

    def _in_flight(self, run: Run, stage: StageStatus) -> Iterator[str]:
        assert run.status is not None
        for entry in stage.clusters:
            binding = self.binding(entry.cluster_name)
            if binding is None or started_by(binding, run) is None:
                continue
            if is_on_target(binding, target_of(run, run.status, entry)) and not is_finished(binding):
                yield entry.cluster_name

    def _check_flight(self, run: Run) -> None:
        """Never more than maxConcurrency, never two stages."""
        assert run.status is not None
        strategy = run.status.staged_update_strategy_snapshot
        assert strategy is not None
        busy = []
        for spec, stage in zip(strategy.stages, run.status.stages_status, strict=True):
            moving = list(self._in_flight(run, stage))
            limit = max_concurrency(spec.max_concurrency, len(stage.clusters))
            if len(moving) > limit:
                raise Broken(f"{run.name}: {moving} in {stage.stage_name}, allowed {limit}")
            recorded = [
                e for e in stage.clusters if len(e.conditions) == 1 and e.conditions[0].type == "Started"
            ]
            if len(recorded) > limit:
                raise Broken(f"{run.name}: {len(recorded)} on record in {stage.stage_name}, allowed {limit}")
            if moving:
                busy.append(stage.stage_name)
        if len(busy) > 1:
            raise Broken(f"{run.name}: two stages at a time: {busy}")

    def _check_gates(self, run: Run) -> None:
        """Nothing in a stage moves before its before-task is approved and the stages before are through."""
        assert run.status is not None
        is_open = True
        for stage in run.status.stages_status:
            begun = [
                entry for entry in stage.clusters if any(one.type == "Started" for one in entry.conditions)
            ]
            tasks = stage.before_stage_task_status
            approved = all(has_status(task.conditions, "ApprovalRequestApproved", "True") for task in tasks)
            if begun and not (is_open and approved):
                raise Broken(f"{run.name}: {stage.stage_name} began before its turn")
            is_open = is_open and has_status(stage.conditions, "Succeeded", "True")

    # the end

    def settle(self) -> None:
        """Everybody behaves from now on; every run comes to its end."""
        self.blocked.clear()
        for round_ in range(400):
            self.store.now += timedelta(seconds=1 if round_ % 5 else 62)
            for run in self.runs():
                if run.spec.state != "Run" and not run.metadata.is_deleting:
                    self.set_state(run, "Run")
            self.approve(generation=1)
            self.let_go()
            wanted = [self.look(run.name) for run in self.runs()]
            self.check()
            for cluster in self.clusters:
                self.deliver(cluster)
            self.check()
            if not any(wanted) and all(
                run_phase(run.status.conditions if run.status else ()) in OVER for run in self.runs()
            ):
                return
        phases = {run.name: run_phase(run.status.conditions if run.status else ()) for run in self.runs()}
        raise Broken(f"no end: {phases}")

    def live(self, actions: int = 60) -> None:
        """A whole life."""
        self.create_run()
        for _ in range(actions):
            self.act()
        self.settle()
        self._check_end()

    def _check_end(self) -> None:
        """A run that succeeded last has brought every cluster to its version, and what was leaving is gone."""
        won = [
            run
            for run in self.runs()
            if run.status and run_phase(run.status.conditions) is RunPhase.SUCCEEDED
        ]
        for run in won:
            assert run.status is not None
            if any(other.status and other is not run for other in self.runs()):
                continue  # others have been there too
            for stage in run.status.stages_status:
                for entry in stage.clusters:
                    if (
                        not all(one.status == "True" for one in entry.conditions)
                        or len(entry.conditions) != 2
                    ):
                        raise Broken(f"{run.name} succeeded without {entry.cluster_name}")
            left = [name for name in self.leaving if self.binding(name)]
            if left:
                raise Broken(f"{run.name} succeeded and left {left}")


def _without_status(action: Patch) -> Patch:
    return Patch(ref=action.ref, body=action.body, gone_ok=action.gone_ok)


def _at(ref: Any, version: str) -> Any:
    from msgspec.structs import replace

    return replace(ref, resource_version=version)


def live(seed: int, actions: int = 60) -> None:
    """Live one life; a broken promise says how to see it again."""
    life = Life(seed)
    try:
        life.live(actions)
    except Exception as error:
        tail = "\n".join(life.trace[-30:])
        raise AssertionError(f"seed {seed}: {error!r}\n{tail}\nreplay: ECHELON_SEED={seed}") from error


__all__ = ["NOW", "Life", "iso", "live"]


def _labels_of(seen: Seen) -> object:
    return tuple((name, tuple(sorted(one.metadata.labels.items()))) for name, one in seen.clusters.items())
