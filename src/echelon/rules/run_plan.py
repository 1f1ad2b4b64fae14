"""Makes the plan of a run: its clusters by stage, the version they get, and the overrides of each.

Theory. A plan is made once. Each step fills a part of the status; the first that fails ends initialization for good,
and what was filled so far stays visible beside the error. The version comes last: the one an index names, or the
resources as they are now, for which a snapshot is made if the latest one holds something else. A stale snapshot is
never used.

Never looks at how far the run is; never picks clusters itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from echelon.api.names import ANNOTATION_RESOURCE_HASH, LABEL_RESOURCE_INDEX, resource_snapshot_name
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.staged import ClusterStatus, RunStatus, StageStatus, StrategySpec
from echelon.rules.override import InvalidOverride, Manifest, find_overrides, select_for_cluster
from echelon.rules.plan import Action
from echelon.rules.run_phases import is_over
from echelon.rules.run_seen import CLIENT_ERROR, INVALID, UNEXPECTED, Abort, NotYet, Seen
from echelon.rules.snapshot_index import resource_index
from echelon.rules.snapshots import content_of, plan_snapshot
from echelon.rules.stages import (
    INTEGER,
    Misplaced,
    Scheduled,
    give_scheduler_time,
    plan_delete_stage,
    plan_stages,
    read_bindings,
    read_placement,
    read_policy,
    require_scheduled,
    stored_strategy,
)


class Planned(NamedTuple):
    """A plan: the status without conditions, what ended it ("" when it is whole), what must be made first."""

    status: RunStatus
    error: str = ""
    steps: tuple[tuple[Action, ...], ...] = ()


class Version(NamedTuple):
    """The version a run delivers."""

    label: str  # the index as the snapshot carries it
    resources: Sequence[Manifest]
    steps: tuple[tuple[Action, ...], ...] = ()


# --- the version ------------------------------------------------------------------------------------------------
def choose_snapshot(seen: Seen) -> ResourceSnapshot | None:
    """R-INIT-6: the snapshot an index names; None when the run takes the resources as they are now."""
    index = seen.run.spec.resource_snapshot_index
    if not index:
        return None
    if not INTEGER.fullmatch(index) or int(index) < 0:
        raise Abort(
            f"{INVALID}{CLIENT_ERROR}invalid resource snapshot index `{index}` provided, "
            "expected an integer >= 0"
        )
    placement = seen.path(seen.run.spec.placement_name)
    found = [
        snapshot
        for snapshot in seen.own_snapshots
        if snapshot.metadata.labels.get(LABEL_RESOURCE_INDEX) == index
    ]
    if not found:
        raise Abort(
            f"{INVALID}{CLIENT_ERROR}no resourceSnapshots with index `{int(index)}` found for placement `{placement}`"
        )
    for snapshot in found:
        if snapshot.metadata.annotations.get(ANNOTATION_RESOURCE_HASH):
            return snapshot
    raise Abort(f"{INVALID}{UNEXPECTED}no master resourceSnapshot found for placement {placement}")


def _version(seen: Seen, now: datetime) -> Version:
    """R-INIT-7: without an index, the resources as they are now; a stale snapshot is never used."""
    chosen = choose_snapshot(seen)
    if chosen is not None:
        index = chosen.metadata.labels[LABEL_RESOURCE_INDEX]
        return Version(index, content_of(seen.own_snapshots, resource_index(chosen)))
    if seen.selection_problem:
        raise Abort(f"{INVALID}{seen.selection_problem}")
    if seen.resources is None or seen.placement is None:
        raise NotYet("what the placement selects is not known yet")
    made = plan_snapshot(
        seen.scope, seen.placement, seen.snapshots, seen.resources, now, in_use=_in_use(seen)
    )
    return Version(str(made.index), made.resources, made.steps)


def _in_use(seen: Seen) -> set[str]:
    """R-INIT-13: a version that another run is delivering, or is to deliver, is not deleted to make room."""
    found = set()
    for rival in seen.rivals.values():
        if not is_over(rival):
            used = rival.status.resource_snapshot_index_used if rival.status else ""
            index = used or rival.spec.resource_snapshot_index
            found.add(resource_snapshot_name(rival.spec.placement_name, index or ""))
    return found


def _with_overrides(
    stages: Sequence[StageStatus], seen: Seen, resources: Sequence[Manifest]
) -> tuple[StageStatus, ...]:
    """R-INIT-8: overrides are computed once and recorded per cluster."""
    key = seen.scope.key(seen.run.spec.placement_name, seen.run.namespace)
    candidates = find_overrides(seen.cluster_overrides, seen.namespaced_overrides, resources, key)
    if not candidates.cluster and not candidates.namespaced:
        return tuple(stages)

    def with_own(entry: ClusterStatus) -> ClusterStatus:
        own = select_for_cluster(candidates, seen.clusters[entry.cluster_name])
        return replace(
            entry,
            resource_override_snapshots=own.namespaced,
            cluster_resource_override_snapshots=own.cluster,
        )

    return tuple(
        replace(stage, clusters=tuple(with_own(entry) for entry in stage.clusters)) for stage in stages
    )


# --- the whole --------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Draft:
    """A status being filled; what is filled stays, also when a later step fails."""

    scheduled: Scheduled = field(default_factory=Scheduled)
    strategy: StrategySpec | None = None
    stages: list[StageStatus] = field(default_factory=list)
    delete_stage: StageStatus | None = None
    version: str = ""

    def status(self) -> RunStatus:
        """Return what is filled."""
        return RunStatus(
            policy_snapshot_index_used=self.scheduled.policy_index,
            policy_observed_cluster_count=self.scheduled.cluster_count,
            resource_snapshot_index_used=self.version,
            applied_strategy=self.scheduled.applied,
            staged_update_strategy_snapshot=self.strategy,
            stages_status=tuple(self.stages),
            deletion_stage_status=self.delete_stage,
        )


def plan_run(seen: Seen, now: datetime) -> Planned:
    """R-INIT-10: make the plan. Raises NotYet while something is missing that comes by itself."""
    draft = _Draft()
    give_scheduler_time(seen, now)
    try:
        _fill_stages(seen, draft)
        version = _version(seen, now)
        draft.version = version.label
        try:
            draft.stages = list(_with_overrides(draft.stages, seen, version.resources))
        except InvalidOverride as error:
            raise Abort(f"{INVALID}{error}") from error
    except Abort as error:
        return Planned(draft.status(), error.text)
    return Planned(draft.status(), steps=version.steps)


def _fill_stages(seen: Seen, draft: _Draft) -> None:
    scheduled = draft.scheduled
    read_placement(seen, scheduled)
    policy = read_policy(seen, scheduled)
    require_scheduled(policy)
    read_bindings(seen, policy, scheduled)
    strategy_path = seen.path(seen.run.spec.strategy_name)
    if seen.strategy is None:
        raise Abort(f"{INVALID}{CLIENT_ERROR}referenced updateStrategy not found: `{strategy_path}`")
    draft.strategy = stored_strategy(seen.strategy.spec)
    try:
        plan_stages(seen.strategy.spec, strategy_path, seen, scheduled, draft.stages)
    except Misplaced as error:
        raise Abort(f"{INVALID}{CLIENT_ERROR}{error}") from error
    draft.delete_stage = plan_delete_stage(scheduled)
