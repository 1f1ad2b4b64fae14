"""What a run will do, before it does it: the run's own rules carried out on paper.

`plan_view` asks `plan_run` (or reads the plan a run has recorded), renders what each cluster has and would get with
the delivery's own overrides, and estimates how long it takes. Nothing is written, and nothing is decided differently
from the engine: where the engine would refuse, so does the plan, in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from echelon.api.binding import Binding
from echelon.api.meta import NamespacedName
from echelon.api.names import BindingState, TaskType
from echelon.api.override import OverrideSnapshot
from echelon.api.staged import ClusterStatus, RunStatus, Stage, StageTask
from echelon.rules.diagnose import Finding, diagnose, tell
from echelon.rules.diagnose_cluster import spot_member
from echelon.rules.diagnose_run import plain
from echelon.rules.forecast import (
    HIGH,
    LOW,
    basis_of,
    limit_of,
    open_approvals,
    quantile,
    remaining,
    span_text,
    wait_of,
)
from echelon.rules.override_apply import OverrideFailure, Overrider
from echelon.rules.run_phases import INITIALIZED, Moment, RunPhase, mark, run_phase
from echelon.rules.run_plan import plan_run
from echelon.rules.run_seen import NotYet, Seen
from echelon.rules.snapshot_index import resource_index
from echelon.rules.snapshots import content_of
from echelon.views.changes import ObjectChange, changes_between

VERSION = 1
_WARNINGS = frozenset({"rival", "plan-outdated", "concurrency-one"})


class PlannedStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as it will be carried out."""

    name: str
    clusters: tuple[str, ...]
    at_a_time: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What some clusters get, all of them the same."""

    clusters: tuple[str, ...]
    changes: tuple[ObjectChange, ...]
    problem: str = ""  # why it cannot be rendered


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """A run on paper."""

    version: int = VERSION
    kind: str
    namespace: str | None
    name: str
    placement: str
    strategy: str
    snapshot: str
    is_new_snapshot: bool
    stages: tuple[PlannedStage, ...]
    leaving: tuple[str, ...]
    unmatched: tuple[str, ...]
    changes: tuple[PlannedChange, ...]
    refusal: str
    shortest_s: int | None
    longest_s: int | None
    approvals: int
    basis: str
    warnings: tuple[Finding, ...] = ()
    computed_at: datetime


def plan_view(seen: Seen, now: datetime, key: bytes) -> PlanView:
    """Say what a run will do, given all that planning looks at."""
    is_planned = run_phase(seen.status.conditions) not in {RunPhase.NEW, RunPhase.INIT_FAILED}
    status, refusal, is_new = seen.status, "", False
    if not is_planned:
        try:
            planned = plan_run(seen, now)
        except NotYet as error:
            status, refusal = RunStatus(), error.text
        else:
            status, refusal, is_new = planned.status, planned.error, bool(planned.steps)
    run = seen.run
    basis = basis_of(status, run, seen.rivals.values())
    spans = (
        [remaining(status, quantile(basis.durations, share), now) for share in (LOW, HIGH)] if basis else []
    )
    delete = status.deletion_stage_status
    return PlanView(
        kind=run.kind or seen.scope.run.kind,
        namespace=run.namespace,
        name=run.name,
        placement=run.spec.placement_name,
        strategy=run.spec.strategy_name,
        snapshot=status.resource_snapshot_index_used,
        is_new_snapshot=is_new,
        stages=_stages(status),
        leaving=tuple(entry.cluster_name for entry in delete.clusters) if delete else (),
        unmatched=_unmatched(seen, status) if refusal else (),
        changes=() if refusal else _changes(seen, status, key),
        refusal=plain(refusal) if refusal else "",
        shortest_s=_seconds(spans[0]) if spans and not refusal else None,
        longest_s=_seconds(spans[1]) if spans and not refusal else None,
        approvals=open_approvals(status),
        basis=basis.text if basis else "",
        warnings=_warnings(seen, status, now),
        computed_at=now,
    )


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _warnings(seen: Seen, status: RunStatus, now: datetime) -> tuple[Finding, ...]:
    """Tell what will hurt, beyond what the plan itself refuses."""
    if not any(condition.type == INITIALIZED for condition in status.conditions):
        status = replace(status, conditions=mark((), RunPhase.PROGRESSING, Moment(now, 1)))
    as_if = replace(seen, run=replace(seen.run, status=status))
    quiet = [
        replace(one, cluster=entry.cluster_name, own={**one.own, "cluster": entry.cluster_name})
        for stage in status.stages_status
        for entry in stage.clusters
        for one in spot_member(entry.cluster_name, seen.clusters.get(entry.cluster_name), now)
    ]
    return (*tell(seen, quiet), *(one for one in diagnose(as_if, now) if one.cause in _WARNINGS))


def _stages(status: RunStatus) -> tuple[PlannedStage, ...]:
    strategy = status.staged_update_strategy_snapshot
    by_name = {stage.name: stage for stage in strategy.stages} if strategy else {}
    out = []
    for stage in status.stages_status:
        planned = by_name.get(stage.stage_name, Stage(name=stage.stage_name))
        out.append(
            PlannedStage(
                name=stage.stage_name,
                clusters=tuple(entry.cluster_name for entry in stage.clusters),
                at_a_time=limit_of(planned, len(stage.clusters)),
                before=tuple(_task(task) for task in planned.before_stage_tasks),
                after=tuple(_task(task) for task in planned.after_stage_tasks),
            )
        )
    return tuple(out)


def _task(task: StageTask) -> str:
    return "approval" if task.type == TaskType.APPROVAL else f"wait {span_text(wait_of(task.wait_time))}"


def _unmatched(seen: Seen, status: RunStatus) -> tuple[str, ...]:
    placed = {entry.cluster_name for stage in status.stages_status for entry in stage.clusters}
    picked = {one.spec.target_cluster for one in seen.bindings if one.spec.state != BindingState.UNSCHEDULED}
    return tuple(sorted(picked - placed)) if status.stages_status else ()


# --- what clusters get ------------------------------------------------------------------------------------------
def _changes(seen: Seen, status: RunStatus, key: bytes) -> tuple[PlannedChange, ...]:
    bindings = {one.spec.target_cluster: one for one in seen.bindings}
    renderer = _Renderer(seen, status.resource_snapshot_index_used)
    groups: dict[tuple[tuple[ObjectChange, ...], str], list[str]] = {}
    for stage in status.stages_status:
        for entry in stage.clusters:
            told = renderer.changes(entry, bindings.get(entry.cluster_name), key)
            groups.setdefault(told, []).append(entry.cluster_name)
    return tuple(
        PlannedChange(clusters=tuple(clusters), changes=changes, problem=problem)
        for (changes, problem), clusters in groups.items()
    )


class _Renderer:
    """Renders what clusters have and get; clusters without overrides share the work."""

    def __init__(self, seen: Seen, index: str) -> None:
        self._seen = seen
        self._cluster_scoped = {one.name: one for one in seen.cluster_overrides}
        self._namespaced = {(one.namespace, one.name): one for one in seen.namespaced_overrides}
        number = int(index) if index.isdigit() else -1
        known = {resource_index(one) for one in seen.own_snapshots}
        self._wanted = (
            content_of(seen.own_snapshots, number) if number in known else list(seen.resources or ())
        )
        self._held: dict[str, list[Mapping[str, Any]]] = {}
        self._shared: dict[tuple[object, ...], tuple[tuple[ObjectChange, ...], str]] = {}

    def changes(
        self, entry: ClusterStatus, binding: Binding | None, key: bytes
    ) -> tuple[tuple[ObjectChange, ...], str]:
        """Return what changes on one cluster, or why that cannot be told."""
        had = binding.spec if binding and binding.spec.state == BindingState.BOUND else None
        has_overrides = bool(
            entry.cluster_resource_override_snapshots
            or entry.resource_override_snapshots
            or (had and (had.cluster_resource_override_snapshots or had.resource_override_snapshots))
        )
        shared = (had.resource_snapshot_name if had else "", entry.cluster_name if has_overrides else "")
        if shared not in self._shared:
            self._shared[shared] = self._compare(entry, binding if had else None, key)
        return self._shared[shared]

    def _compare(
        self, entry: ClusterStatus, binding: Binding | None, key: bytes
    ) -> tuple[tuple[ObjectChange, ...], str]:
        try:
            before: list[Mapping[str, Any]] = []
            if binding is not None:
                spec = binding.spec
                before = self._render(
                    self._content(spec.resource_snapshot_name),
                    entry.cluster_name,
                    spec.cluster_resource_override_snapshots,
                    spec.resource_override_snapshots,
                )
            after = self._render(
                self._wanted,
                entry.cluster_name,
                entry.cluster_resource_override_snapshots,
                entry.resource_override_snapshots,
            )
        except OverrideFailure as error:
            return (), str(error)
        return changes_between(before, after, key), ""

    def _content(self, snapshot: str) -> list[Mapping[str, Any]]:
        if snapshot not in self._held:
            master = next((one for one in self._seen.own_snapshots if one.name == snapshot), None)
            self._held[snapshot] = (
                [*content_of(self._seen.own_snapshots, resource_index(master))] if master is not None else []
            )
        return self._held[snapshot]

    def _render(
        self,
        manifests: Sequence[Mapping[str, Any]],
        cluster: str,
        cluster_scoped: Sequence[str],
        namespaced: Sequence[NamespacedName],
    ) -> list[Mapping[str, Any]]:
        member = self._seen.clusters.get(cluster)
        if member is None or not (cluster_scoped or namespaced):
            return list(manifests)
        wide = [self._cluster_scoped[name] for name in cluster_scoped if name in self._cluster_scoped]
        own: list[OverrideSnapshot] = [
            self._namespaced[one.namespace, one.name]
            for one in namespaced
            if (one.namespace, one.name) in self._namespaced
        ]
        overrider = Overrider(member, wide, own)
        rendered = (overrider.apply(dict(manifest)) for manifest in manifests)
        return [one for one in rendered if one is not None]


__all__ = ["PlanView", "plan_view"]
