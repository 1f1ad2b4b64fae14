"""Staged runs of one scope: watches everything a run depends on, loads it, and decides nothing.

A run is looked at when it, its approvals, its placement, strategy or policy snapshots change, when one of the
placement's bindings moves or finishes, or when a member's labels change. A run that would fail is loaded again from
the API itself first: that verdict is final, so it is never given on a copy that lags behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec.structs import replace

from echelon.api.cluster import MemberCluster
from echelon.api.names import LABEL_PARENT_CRP, LABEL_TARGET_UPDATE_RUN, MAX_LABEL
from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS, MEMBER_CLUSTERS, OVERRIDE_SNAPSHOTS
from echelon.api.placement import Placement
from echelon.api.resource import Resource
from echelon.api.scope import Key, Scope
from echelon.api.staged import Approval, Run
from echelon.client.cache import Cache, Store
from echelon.client.errors import NotFound
from echelon.rules.plan import Plan
from echelon.rules.rollout import is_failing, step
from echelon.rules.run_cluster import is_news
from echelon.rules.run_phases import RunPhase, is_over, run_phase
from echelon.rules.run_seen import Options, Planned, Seen
from echelon.rules.select import InvalidSelection, Selected
from echelon.runtime.controller import Watch, each
from echelon.runtime.run_metrics import RunMetrics
from echelon.runtime.writes import LastWrites

# other controllers file the same objects in their own ways: names of indexes say whose they are
PLACEMENT, ALIVE, STRATEGY = "runs: placement", "runs: alive", "runs: strategy"
CLUSTER, RUN = "runs: cluster", "runs: run"
Place = tuple[str | None, str]  # namespace and name


class Selects(Protocol):
    """Knows what placements select now."""

    async def select_now(self, scope: Scope, placement: Placement) -> Selected:
        """Return it, no older than this call; raises InvalidSelection for the author's errors."""
        ...


class Named(Mapping[str, MemberCluster]):
    """The member clusters of a store by name, without copying them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, name: str) -> MemberCluster:
        found: MemberCluster | None = self._store.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._store.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (cluster.name for cluster in self._store.all())

    def __len__(self) -> int:
        return len(self._store)


class StagedRuns:
    """Loads one run and everything it depends on."""

    workers = 16  # decisions wait for writes; more side by side only queue up in the API server

    def __init__(
        self,
        cache: Cache,
        scope: Scope,
        options: Options | None = None,
        *,
        selection: Selects,
        metrics: RunMetrics | None = None,
    ) -> None:
        self.name = f"{scope.run.kind.lower()}-controller"
        self.scope = scope
        self.options = options or Options()
        self._selection = selection
        self._client = cache.client
        self._runs = cache.store(scope.run)
        self._runs.add_index(PLACEMENT, _placement_of_run)
        self._runs.add_index(ALIVE, _placement_of_alive)
        self._runs.add_index(STRATEGY, _strategy_of_alive)
        if metrics is not None:
            self._runs.subscribe(metrics.sees)
        self._approvals = cache.store(scope.approval)
        self._approvals.add_index(RUN, _run_of_approval)
        self._bindings = cache.store(scope.binding)
        self._bindings.add_index(PLACEMENT, _parent_of)
        self._bindings.add_index(CLUSTER, _cluster_of)
        self._placements = cache.store(scope.placement)
        self._policies = cache.store(scope.policy_snapshot)
        self._policies.add_index(PLACEMENT, _parent_of)
        self._snapshots = cache.store(scope.resource_snapshot)
        self._snapshots.add_index(PLACEMENT, _parent_of)
        self._strategies = cache.store(scope.strategy)
        self._clusters = cache.store(MEMBER_CLUSTERS)
        self._cluster_overrides = cache.store(CLUSTER_OVERRIDE_SNAPSHOTS)
        self._overrides = cache.store(OVERRIDE_SNAPSHOTS)
        self._writes = LastWrites()
        self._planned: dict[Key, Planned] = {}  # saves planning the same again; nothing is lost with it
        self._fleet = 0  # grows whenever a member cluster comes, goes or is relabelled
        self._clusters.subscribe(self._count_fleet)
        self._doubted: set[Key] = set()  # runs to be read from the API itself next time; likewise

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow runs and all they depend on."""
        scope = self.scope
        return (
            each(scope.run),
            Watch(scope.approval, _asking),
            Watch(scope.binding, self._of_binding),
            Watch(scope.placement, self._of_placement),
            Watch(scope.policy_snapshot, self._of_policy),
            Watch(scope.strategy, self._of_strategy),
            Watch(MEMBER_CLUSTERS, self._of_cluster),
            Watch(scope.resource_snapshot, _nobody),
            Watch(CLUSTER_OVERRIDE_SNAPSHOTS, _nobody),
            Watch(OVERRIDE_SNAPSHOTS, _nobody),
        )

    # whom a change concerns

    def _alive(self, index: str, place: Place) -> list[Key]:
        return [Key(run.namespace, run.name) for run in self._runs.by(index, place)]

    def _of_binding(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        if not is_news(old, new):
            return ()
        return [key for place in _parent_of(new or old) for key in self._alive(ALIVE, place)]

    def _of_placement(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation:
            return ()
        one: Any = new or old
        return self._alive(ALIVE, (one.namespace, one.name))

    def _of_policy(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        return [key for place in _parent_of(new or old) for key in self._alive(ALIVE, place)]

    def _of_strategy(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        one: Any = new or old
        return self._alive(STRATEGY, (one.namespace, one.name))

    def _count_fleet(self, old: Any | None, new: Any | None) -> None:
        if _is_relabelled(old, new):
            self._fleet += 1

    def _of_cluster(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        if not _is_relabelled(old, new):
            return ()
        one: Any = new or old
        places = {
            place: None for binding in self._bindings.by(CLUSTER, one.name) for place in _parent_of(binding)
        }
        return [key for place in places for key in self._alive(ALIVE, place)]

    # gathering

    async def load(self, key: Key) -> Seen | None:
        """Gather one run."""
        run: Run | None = self._runs.get(key.name, key.namespace)
        if run is None:
            self._writes.forget(key)
            self._planned.pop(key, None)
            self._doubted.discard(key)
            return None
        seen = self._from_copy(run)
        if key in self._doubted:
            seen = await self._from_api(seen)
        if run.metadata.is_deleting or run_phase(seen.status.conditions) is not RunPhase.NEW:
            return seen
        return await self._with_content(seen)

    def _from_copy(self, run: Run) -> Seen:
        key, place = Key(run.namespace, run.name), (run.namespace, run.spec.placement_name)
        return Seen(
            scope=self.scope,
            run=run,
            placement=self._placements.get(run.spec.placement_name, run.namespace),
            policy_snapshots=self._policies.by(PLACEMENT, place),
            bindings=self._bindings.by(PLACEMENT, place),
            strategy=self._strategies.get(run.spec.strategy_name, run.namespace),
            clusters=Named(self._clusters),
            approvals=self._requests(run),
            snapshots=self._snapshots.by(PLACEMENT, place),
            rivals={other.name: other for other in self._runs.by(PLACEMENT, place) if other.name != run.name},
            options=self.options,
            written_at=self._writes.at(key),
            planned=self._planned.setdefault(key, Planned()),
            fleet=self._fleet,
        )

    def _requests(self, run: Run) -> dict[str, Approval]:
        """Return the requests that ask for this run, and whatever stands under the names of its own."""
        found = {one.name: one for one in self._approvals.by(RUN, (run.namespace, run.name))}
        for stage in run.status.stages_status if run.status else ():
            for task in (*stage.before_stage_task_status, *stage.after_stage_task_status):
                one = task.approval_request_name and self._approvals.get(
                    task.approval_request_name, run.namespace
                )
                if one:
                    found[one.name] = one
        return found

    async def _from_api(self, seen: Seen) -> Seen:
        """Read again, from the API itself, what a plan is made of."""
        run, scope = seen.run, self.scope
        name, namespace = run.spec.placement_name, run.namespace
        if len(name) > MAX_LABEL:
            return seen  # no such placement can have snapshots or bindings
        labels = f"{LABEL_PARENT_CRP}={name}" if name else ""
        list_ = self._client.list
        return replace(
            seen,
            placement=await self._get(scope.placement, name, namespace),
            strategy=await self._get(scope.strategy, run.spec.strategy_name, namespace),
            policy_snapshots=(await list_(scope.policy_snapshot, namespace, labels=labels)).items,
            bindings=(await list_(scope.binding, namespace, labels=labels)).items,
            snapshots=(await list_(scope.resource_snapshot, namespace, labels=labels)).items,
            clusters={cluster.name: cluster for cluster in (await list_(MEMBER_CLUSTERS)).items},
            planned=None,
        )

    async def _get(self, resource: Resource, name: str, namespace: str | None) -> Any | None:
        if not name:
            return None
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None

    async def _with_content(self, seen: Seen) -> Seen:
        """Add what the version is made of."""
        seen = replace(
            seen,
            cluster_overrides=tuple(self._cluster_overrides.all()),
            namespaced_overrides=tuple(self._overrides.all()),
        )
        if seen.run.spec.resource_snapshot_index or seen.placement is None:
            return seen
        try:
            selected = await self._selection.select_now(self.scope, seen.placement)
        except InvalidSelection as error:
            return replace(seen, selection_problem=error.text)
        return replace(seen, resources=selected.manifests)

    def decide(self, seen: Seen, now: datetime) -> Plan:
        """Apply the rule; a verdict that ends the run is given only on what the API itself says."""
        key = Key(seen.run.namespace, seen.run.name)
        plan = step(replace(seen, busy=self._writes.busy(now)), now)
        if is_failing(plan) and key not in self._doubted:
            self._doubted.add(key)
            return Plan(wake_at=now, why="read again before giving up")
        self._doubted.discard(key)
        if plan.status is not None:
            self._writes.note(key, now)
        return plan


def _is_relabelled(old: Any | None, new: Any | None) -> bool:
    """Whether a member cluster came, went or has other labels; heartbeats are no news."""
    return old is None or new is None or old.metadata.labels != new.metadata.labels


def _nobody(_old: Any | None, _new: Any | None) -> Iterable[Key]:
    """Concern nobody: read when a run is planned, but no reason to look at one."""
    return ()


def _asking(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Return the runs a request asks for."""
    return [Key(namespace, name) for namespace, name in _run_of_approval(new or old) if name]


def _placement_of_run(run: Any) -> tuple[Place, ...]:
    return ((run.namespace, run.spec.placement_name),)


def _placement_of_alive(run: Any) -> tuple[Place, ...]:
    """A placement can have a long history of runs; nothing that happens to it concerns those that are over."""
    return () if is_over(run) else ((run.namespace, run.spec.placement_name),)


def _strategy_of_alive(run: Any) -> tuple[Place, ...]:
    return () if is_over(run) else ((run.namespace, run.spec.strategy_name),)


def _run_of_approval(request: Any) -> tuple[Place, ...]:
    labelled = request.metadata.labels.get(LABEL_TARGET_UPDATE_RUN, request.spec.run_name)
    return tuple(dict.fromkeys(((request.namespace, request.spec.run_name), (request.namespace, labelled))))


def _parent_of(obj: Any) -> tuple[Place, ...]:
    parent = obj.metadata.labels.get(LABEL_PARENT_CRP)
    return ((obj.namespace, parent),) if parent else ()


def _cluster_of(binding: Any) -> tuple[str, ...]:
    return (binding.spec.target_cluster,)
