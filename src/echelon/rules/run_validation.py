"""Tells whether a run's plan still holds, and at which stage the run is.

Theory. The plan is made again from the strategy as recorded and from today's clusters, and compared with the plan
on record, in the order stages, names, clusters. Then the record itself is checked: stages are finished from the
front, at most one is under way, nothing is ahead of its turn. Any difference ends the run for good: a rollout
over clusters nobody reviewed is worse than a rollout that has to be started anew.

Never changes anything, never looks at bindings beyond who is picked. One text per cause, told once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE, IntOrString
from echelon.api.staged import RunStatus, StageStatus, StrategySpec
from echelon.rules.run_phases import PROGRESSING, STARTED, SUCCEEDED, has_status
from echelon.rules.run_seen import CANNOT_CONTINUE, CLIENT_ERROR, INVALID, UNEXPECTED, Abort, Planned, Seen
from echelon.rules.stages import (
    Misplaced,
    Scheduled,
    TwoStages,
    check_tasks,
    plan_stages,
    read_bindings,
    read_placement,
    read_policy,
    require_scheduled,
)

ALL_DONE = -1


def check_plan(seen: Seen, status: RunStatus) -> Scheduled:
    """R-VALID-1: the plan made again is the plan on record. Raises Abort, or NotYet."""
    scheduled = _check_schedule(seen, status)
    strategy = status.staged_update_strategy_snapshot
    if strategy is None:
        raise Abort(f"{CANNOT_CONTINUE}{UNEXPECTED}the updateRun has nil updateStrategySnapshot")
    if not status.stages_status:
        raise Abort(f"{CANNOT_CONTINUE}{UNEXPECTED}the updateRun has nil stagesStatus")
    if status.deletion_stage_status is None:
        raise Abort(f"{CANNOT_CONTINUE}{UNEXPECTED}the updateRun has nil deletionStageStatus")
    _check_strategy(seen)
    _compare_stages(_plan_again(seen, strategy, scheduled), status.stages_status)
    return scheduled


def _check_schedule(seen: Seen, status: RunStatus) -> Scheduled:
    scheduled = Scheduled()
    read_placement(seen, scheduled)
    policy = read_policy(seen, scheduled)
    if scheduled.policy_index != status.policy_snapshot_index_used:
        # told before anything that a newer policy brings along: this is the cause, the rest follows from it
        raise Abort(
            f"{CANNOT_CONTINUE}the policy snapshot index used in the updateRun is outdated, "
            f"latest: {scheduled.policy_index}, recorded: {status.policy_snapshot_index_used}"
        )
    if scheduled.applied != status.applied_strategy:
        raise Abort(
            f"{CANNOT_CONTINUE}{CLIENT_ERROR}the applyStrategy in the updateRun is outdated, "
            f"latest: {_dump(scheduled.applied)}, recorded: {_dump(status.applied_strategy)}"
        )
    recorded = status.policy_observed_cluster_count
    if scheduled.cluster_count not in {-1, recorded}:
        raise Abort(
            f"{CANNOT_CONTINUE}the cluster count initialized in the updateRun is outdated, "
            f"latest: {scheduled.cluster_count}, recorded: {recorded}"
        )
    require_scheduled(policy)
    read_bindings(seen, policy, scheduled)
    return scheduled


def _dump(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _check_strategy(seen: Seen) -> None:
    """R-VALID-2: the strategy object is still there and sound; valid edits do not touch a run under way."""
    path = seen.path(seen.run.spec.strategy_name)
    if seen.strategy is None:
        raise Abort(f"{INVALID}referenced updateStrategy not found: `{path}`")
    try:
        for stage in seen.strategy.spec.stages:
            check_tasks(stage, path)
    except Misplaced as error:
        raise Abort(f"{INVALID}{error}") from error


def _plan_again(seen: Seen, strategy: StrategySpec, scheduled: Scheduled) -> Sequence[StageStatus]:
    planned = seen.planned or Planned()
    basis = (strategy, seen.fleet, list(scheduled.selected))
    if planned.basis == basis:
        return planned.stages
    stages: list[StageStatus] = []
    try:
        plan_stages(strategy, seen.path(seen.run.spec.strategy_name), seen, scheduled, stages)
    except TwoStages as error:
        raise Abort(f"{INVALID}cluster `{error.cluster}` appears in more than one stage") from error
    except Misplaced as error:
        raise Abort(f"{INVALID}{CLIENT_ERROR}{error}") from error
    planned.basis, planned.stages = basis, stages
    return stages


def _compare_stages(planned: Sequence[StageStatus], recorded: tuple[StageStatus, ...]) -> None:
    if len(planned) != len(recorded):
        raise Abort(
            f"{CANNOT_CONTINUE}the number of stages in the updateRun has changed, "
            f"new: {len(planned)}, existing: {len(recorded)}"
        )
    for index, (new, old) in enumerate(zip(planned, recorded, strict=True)):
        if new.stage_name != old.stage_name:
            raise Abort(
                f"{CANNOT_CONTINUE}index `{index}` stage name in the updateRun has changed, "
                f"new: {new.stage_name}, existing: {old.stage_name}"
            )
        if len(new.clusters) != len(old.clusters):
            raise Abort(
                f"{CANNOT_CONTINUE}the number of clusters in index `{index}` stage has changed, "
                f"new: {len(new.clusters)}, existing: {len(old.clusters)}"
            )
        for position, (fresh, held) in enumerate(zip(new.clusters, old.clusters, strict=True)):
            if fresh.cluster_name != held.cluster_name:
                raise Abort(
                    f"{CANNOT_CONTINUE}the `{position}` cluster in the `{index}` stage has changed, "
                    f"new: {fresh.cluster_name}, existing: {held.cluster_name}"
                )


# --- where the run is -----------------------------------------------------------------------------------------
def max_concurrency(value: IntOrString, cluster_count: int) -> int:
    """R-CONC-1: a number as it is; a percentage of the stage's clusters, rounded down, but at least 1."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not digits.isascii() or not digits.isdigit():
        raise Abort(f'{CANNOT_CONTINUE}invalid value for IntOrString: invalid type: string "{value}"')
    return max(1, cluster_count * int(digits) // 100)


def find_stage(status: RunStatus, scheduled: Scheduled) -> int:
    """R-VALID-3: the index of the stage to work on; the number of stages for the delete stage; -1 when all is done."""
    updating, last_finished = -1, -1
    for index, stage in enumerate(status.stages_status):
        if has_status(stage.conditions, SUCCEEDED, TRUE):
            _check_finished(stage, index, updating, last_finished)
            last_finished = index
        elif has_status(stage.conditions, SUCCEEDED, FALSE):
            text = _message(stage)
            raise Abort(f"{CANNOT_CONTINUE}the stage `{stage.stage_name}` has failed, err: {text}")
        elif find_condition(stage.conditions, PROGRESSING) is not None:
            _check_updating(stage, index, updating, last_finished)
            _check_concurrency(status, stage, index)
            updating = index
    return _next_stage(status, scheduled, updating, last_finished)


def _message(stage: StageStatus) -> str:
    found = find_condition(stage.conditions, SUCCEEDED)
    return found.message if found else ""


def _check_finished(stage: StageStatus, index: int, updating: int, last_finished: int) -> None:
    if updating != -1:
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the finished stage `{index}` is after the updating stage `{updating}`"
        )
    for entry in stage.clusters:
        if not has_status(entry.conditions, SUCCEEDED, TRUE):
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}cluster `{entry.cluster_name}` in the finished stage "
                f"`{stage.stage_name}` has not succeeded"
            )
    if last_finished != index - 1:
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the finished stage `{stage.stage_name}` is not right after "
            f"the last finished stage with index `{last_finished}`"
        )


def _check_updating(stage: StageStatus, index: int, updating: int, last_finished: int) -> None:
    if updating != -1:
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the stage `{stage.stage_name}` is updating, but there is already "
            f"a stage with index `{updating}` updating"
        )
    if last_finished != index - 1:
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the updating stage `{stage.stage_name}` is not right after "
            f"the last finished stage with index `{last_finished}`"
        )


def _check_concurrency(status: RunStatus, stage: StageStatus, index: int) -> None:
    strategy = status.staged_update_strategy_snapshot
    assert strategy is not None, "checked with the plan"
    limit = max_concurrency(strategy.stages[index].max_concurrency, len(stage.clusters))
    moving = sum(
        find_condition(entry.conditions, STARTED) is not None
        and find_condition(entry.conditions, SUCCEEDED) is None
        for entry in stage.clusters
    )
    if moving > limit:
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the number of updating clusters `{moving}` in the updating stage "
            f"`{stage.stage_name}` exceeds maxConcurrency `{limit}`"
        )


def _next_stage(status: RunStatus, scheduled: Scheduled, updating: int, last_finished: int) -> int:
    """R-VALID-4: the delete stage holds every leaving cluster and begins only after the others."""
    delete = status.deletion_stage_status
    assert delete is not None, "checked with the plan"
    recorded = {entry.cluster_name for entry in delete.clusters}
    for cluster in scheduled.leaving:
        if cluster not in recorded:
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}the cluster `{cluster}` to be deleted is not in the delete stage"
            )
    stage_count = len(status.stages_status)
    is_active = bool(delete.conditions)
    if is_active and (updating != -1 or last_finished < stage_count - 1):
        raise Abort(
            f"{CANNOT_CONTINUE}{UNEXPECTED}the delete stage is active, but there are still stages updating, "
            f"updatingStageIndex: {updating}, lastFinishedStageIndex: {last_finished}"
        )
    if has_status(delete.conditions, SUCCEEDED, TRUE):
        return ALL_DONE
    if has_status(delete.conditions, SUCCEEDED, FALSE):
        raise Abort(f"{CANNOT_CONTINUE}the delete stage has failed, err: {_message(delete)}")
    return updating if updating != -1 else last_finished + 1
