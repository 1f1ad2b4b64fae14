"""How much longer a run takes, and what the estimate rests on.

Theory. What a cluster takes is learnt from clusters that are finished: five of this run, or else those of the last
run of the placement that succeeded. The rest is scheduled on paper: every stage in its order, its clusters on as
many slots as may be updated at a time, then its timed waits. Done once with the median and once with the 90th
percentile, this gives a range. Approvals take as long as people take, so they are counted, never guessed.

Never estimates a run that is stuck, stopped, over or not started: a number there would be an invention.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from echelon.api.conditions import find_condition
from echelon.api.meta import TRUE, Conditions
from echelon.api.names import TaskType
from echelon.api.staged import ClusterStatus, Run, RunStatus, Stage, StageStatus
from echelon.rules.approval import is_passed
from echelon.rules.durations import parse_duration
from echelon.rules.run_phases import (
    PROGRESSING,
    STARTED,
    SUCCEEDED,
    RunPhase,
    StagePhase,
    run_phase,
    stage_phase,
)
from echelon.rules.run_seen import Abort
from echelon.rules.run_validation import max_concurrency

MIN_SAMPLES = 5  # fewer finished clusters say little about the rest
LOW, HIGH = 0.5, 0.9
_MOVING = (RunPhase.PROGRESSING, RunPhase.WAITING)


class Basis(msgspec.Struct, frozen=True):
    """What clusters took elsewhere, and in words where that was."""

    durations: tuple[timedelta, ...]
    text: str


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """When a run will probably be over, if `approvals` people say yes at once."""

    earliest: datetime
    latest: datetime
    approvals: int
    basis: str


def estimate(run: Run, status: RunStatus, earlier: Iterable[Run], now: datetime) -> Estimate | None:
    """R-ETA-1: the range in which a moving run will end; None when nothing honest can be said."""
    if run_phase(status.conditions) not in _MOVING or status.staged_update_strategy_snapshot is None:
        return None
    basis = basis_of(status, run, earlier)
    if basis is None:
        return None
    low, high = (remaining(status, quantile(basis.durations, q), now) for q in (LOW, HIGH))
    return Estimate(earliest=now + low, latest=now + high, approvals=open_approvals(status), basis=basis.text)


def basis_of(status: RunStatus, run: Run, earlier: Iterable[Run]) -> Basis | None:
    """R-ETA-2: this run's own clusters, or those of the last run of the placement that succeeded."""
    own = durations(status)
    if len(own) >= MIN_SAMPLES:
        return Basis(own, f"{len(own)} clusters of this run")
    ended = [
        (finished.last_transition_time, other)
        for other in earlier
        if other.spec.placement_name == run.spec.placement_name
        and other.name != run.name
        and other.status is not None
        and (finished := find_condition(other.status.conditions, SUCCEEDED)) is not None
        and finished.status == TRUE
    ]
    for _, other in sorted(ended, key=lambda pair: (pair[0], pair[1].name), reverse=True):
        taken = durations(other.status or RunStatus())
        if taken:
            return Basis(taken, f"run {other.name}")
    return None


def durations(status: RunStatus) -> tuple[timedelta, ...]:
    """Return what each finished cluster took, shortest first."""
    taken = []
    for stage in status.stages_status:
        for entry in stage.clusters:
            started, ended = (find_condition(entry.conditions, type_) for type_ in (STARTED, SUCCEEDED))
            if started is not None and ended is not None and ended.status == TRUE:
                span = ended.last_transition_time - started.last_transition_time
                taken.append(max(span, timedelta(0)))
    return tuple(sorted(taken))


def quantile(ordered: Sequence[timedelta], share: float) -> timedelta:
    """Return the value that a share of the ordered values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def remaining(status: RunStatus, each: timedelta, now: datetime) -> timedelta:
    """R-ETA-3: what is left when every cluster takes `each` and nobody keeps the run waiting."""
    strategy = status.staged_update_strategy_snapshot
    total = timedelta(0)
    for stage, planned in zip(status.stages_status, strategy.stages if strategy else (), strict=False):
        if stage.clusters and find_condition(stage.conditions, SUCCEEDED) is None:
            total += _updates(stage, planned, each, now) + _waits(stage, planned, now)
    return total


def _updates(stage: StageStatus, planned: Stage, each: timedelta, now: datetime) -> timedelta:
    """Schedule a stage's unfinished clusters on as many slots as may move at a time."""
    busy: list[timedelta] = []
    waiting = 0
    for entry in stage.clusters:
        if find_condition(entry.conditions, SUCCEEDED) is not None:
            continue
        since = _started_at(entry)
        if since is None:
            waiting += 1
        else:
            busy.append(max(each - (now - since), timedelta(0)))
    heapq.heapify(busy)
    end = max(busy, default=timedelta(0))
    slots = limit_of(planned, len(stage.clusters))
    for _ in range(waiting):
        begin = heapq.heappop(busy) if len(busy) >= slots else timedelta(0)
        heapq.heappush(busy, begin + each)
        end = max(end, begin + each)
    return end


def limit_of(planned: Stage, cluster_count: int) -> int:
    """Return how many clusters of a stage may move at a time; 1 for a value nobody can read."""
    try:
        return max(1, max_concurrency(planned.max_concurrency, cluster_count))
    except Abort:
        return 1


def _started_at(entry: ClusterStatus) -> datetime | None:
    started = find_condition(entry.conditions, STARTED)
    return started.last_transition_time if started and started.status == TRUE else None


def _waits(stage: StageStatus, planned: Stage, now: datetime) -> timedelta:
    left = timedelta(0)
    for index, task in enumerate(planned.after_stage_tasks):
        if task.type != TaskType.TIMED_WAIT or _is_passed(stage, index):
            continue
        wait = wait_of(task.wait_time)
        until = waiting_until(stage, wait)
        left = max(left, wait if until is None else max(until - now, timedelta(0)))
    return left


def wait_of(text: str | None) -> timedelta:
    """Read a wait time; one that cannot be read counts as none."""
    try:
        return parse_duration(text or "0s")
    except ValueError:
        return timedelta(0)


def waiting_until(stage: StageStatus, wait: timedelta) -> datetime | None:
    """Return when a timed wait after this stage ends; None while the wait has not begun."""
    if stage_phase(stage.conditions) is not StagePhase.WAITING_AFTER:
        return None
    return _since(stage.conditions) + wait


def _since(conditions: Conditions) -> datetime:
    found = find_condition(conditions, PROGRESSING)
    assert found is not None, "a stage that waits has the condition"
    return found.last_transition_time


def _is_passed(stage: StageStatus, index: int) -> bool:
    tasks = stage.after_stage_task_status
    return index < len(tasks) and is_passed(tasks[index])


def open_approvals(status: RunStatus) -> int:
    """Count the approvals that people still have to give."""
    return sum(
        task.type == TaskType.APPROVAL and not is_passed(task)
        for stage in status.stages_status
        if stage.clusters and find_condition(stage.conditions, SUCCEEDED) is None
        for task in (*stage.before_stage_task_status, *stage.after_stage_task_status)
    )


def span_text(span: timedelta) -> str:
    """Write a span as people say it: 42s, 14m, 2h10m, 3d4h."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < 86400:
        return f"{seconds // 3600}h" + (f"{seconds % 3600 // 60}m" if seconds % 3600 >= 60 else "")
    return f"{seconds // 86400}d" + (f"{seconds % 86400 // 3600}h" if seconds % 86400 >= 3600 else "")
