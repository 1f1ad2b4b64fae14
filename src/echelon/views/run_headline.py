"""Where a run is, in one line: the same words in every output. And since when, and from which version to which."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from echelon.api.conditions import find_condition
from echelon.api.meta import TRUE
from echelon.api.names import RunState
from echelon.api.staged import RunStatus
from echelon.rules.diagnose import Finding
from echelon.rules.forecast import span_text
from echelon.rules.run_phases import PROGRESSING, SUCCEEDED, RunPhase, run_phase
from echelon.rules.run_seen import Seen
from echelon.views.run_shapes import RUN_STATES, StageView


def versions(seen: Seen, status: RunStatus) -> tuple[str, str]:
    """Return the snapshot indexes the run goes from and to; "" where unknown."""
    to = status.resource_snapshot_index_used
    prefix, suffix = f"{seen.run.spec.placement_name}-", "-snapshot"
    held = {
        name.removeprefix(prefix).removesuffix(suffix)
        for binding in seen.bindings
        if (name := binding.spec.resource_snapshot_name).startswith(prefix)
    } - {to}
    if not held or run_phase(status.conditions) in {RunPhase.SUCCEEDED, RunPhase.FAILED}:
        # what clusters have now was brought by others, after a run that is over
        made = seen.run.metadata.creation_timestamp
        ended = [
            (found.last_transition_time, other.status.resource_snapshot_index_used)
            for other in seen.rivals.values()
            if other.status is not None
            and (found := find_condition(other.status.conditions, SUCCEEDED)) is not None
            and found.status == TRUE
            and made is not None
            and found.last_transition_time <= made
        ]
        held = {max(ended)[1]} - {to} if ended else set()
    return (max(held, key=lambda text: (len(text), text)) if held else "", to)


def since_of(status: RunStatus, phase: RunPhase, stages: Sequence[StageView]) -> datetime | None:
    """Return since when the run is where it is."""
    if phase is RunPhase.WAITING:
        opened = [task.since for stage in stages for task in (*stage.before, *stage.after) if task.since]
        if opened:
            return max(opened)
    if phase is RunPhase.STUCK:
        stuck = [one.since for stage in stages for one in stage.shown if one.state == "stuck" and one.since]
        if stuck:
            return min(stuck)
    for type_ in (SUCCEEDED, PROGRESSING, "Initialized"):
        found = find_condition(status.conditions, type_)
        if found is not None:
            return found.last_transition_time
    return None


def headline(
    seen: Seen,
    status: RunStatus,
    phase: RunPhase,
    stages: Sequence[StageView],
    findings: Sequence[Finding],
    now: datetime,
) -> str:
    """Say in a line where the run is; the same words in every output."""
    since = since_of(status, phase, stages)
    for_ = f" {span_text(now - since)}" if since else ""
    if phase is RunPhase.WAITING:
        return f"waiting{for_}: {_awaited(stages, now)}"
    if phase is RunPhase.STUCK:
        names = [one.name for stage in stages for one in stage.shown if one.state == "stuck"]
        where = f": {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""
        stopping = " while stopping" if seen.run.spec.state == RunState.STOP else ""
        return f"stuck{for_}{stopping}{where}"
    if phase is RunPhase.PROGRESSING:
        current = next((stage for stage in stages if stage.state == "updating"), None)
        return f'progressing: stage "{current.name}"' if current else "progressing"
    if phase is RunPhase.SUCCEEDED:
        made = min((stage.started_at for stage in stages if stage.started_at), default=None)
        return f"succeeded in {span_text(since - made)}" if since and made else "succeeded"
    if phase in {RunPhase.FAILED, RunPhase.INIT_FAILED}:
        what = findings[0].title[0].lower() + findings[0].title[1:] if findings else "see its conditions"
        return f"failed{for_} ago: {what}" if for_ else f"failed: {what}"
    if phase is RunPhase.STOPPED:
        return f"stopped{for_} ago" if for_ else "stopped"
    if phase is RunPhase.INITIALIZED and seen.run.spec.state == RunState.INITIALIZE:
        return "initialized: not started"
    return RUN_STATES[phase]


def _awaited(stages: Sequence[StageView], now: datetime) -> str:
    parts = []
    for stage in stages:
        for task in (*stage.before, *stage.after):
            if task.state not in {"open", "not counted"}:
                continue
            if task.kind == "approval":
                note = " (given, but does not count)" if task.state == "not counted" else ""
                parts.append(f'approval {task.side} "{stage.name}"{note}')
            else:
                left = f", {span_text(task.until - now)} left" if task.until else ""
                parts.append(f'{span_text(timedelta(seconds=task.wait_s))} after "{stage.name}"{left}')
    return " and ".join(parts) or "for a task"
