"""CronJobs: a Job at each due time. Decisions only; schedules are read in UTC unless the object names a time zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from echelon.api.builtin import CRON_JOBS, JOBS
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Plan, StatusWrite, ref_of
from echelon.sandbox.workloads_job import finished_at
from echelon.sandbox.workloads_objects import (
    Obj,
    condition_of,
    created_at,
    is_deleting,
    meta,
    moment,
    owned_by,
    spec,
    stamp,
    status,
)

MAX_LOOK_AHEAD = timedelta(days=366 * 5)  # a schedule such as 30 February never comes
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A CronJob and its Jobs."""

    cron_job: Obj
    jobs: tuple[Obj, ...] = ()


class BadSchedule(ValueError):
    """The schedule cannot be read; the text says what is wrong with it."""


class Schedule(NamedTuple):
    """The moments of a cron expression."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def next_after(self, at: datetime) -> datetime | None:
        """Return the first moment after `at`; None when there is none."""
        found = (at + timedelta(minutes=1)).replace(second=0, microsecond=0)
        end = at + MAX_LOOK_AHEAD
        while found < end:
            if found.month not in self.months:
                found = (found.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._suits(found):
                found = found.replace(hour=0, minute=0) + timedelta(days=1)
            elif found.hour not in self.hours:
                found = found.replace(minute=0) + timedelta(hours=1)
            elif found.minute not in self.minutes:
                found += timedelta(minutes=1)
            else:
                return found
        return None

    def _suits(self, at: datetime) -> bool:
        """Tell whether a day suits: restricted in both ways, either one is enough."""
        by_day = at.day in self.days
        by_weekday = (at.weekday() + 1) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Read a cron expression."""
    fields = _ALIASES.get(text.strip(), text).split()
    if len(fields) != 5:
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: {text!r}")
    minutes, hours, days, months, weekdays = fields
    return Schedule(
        _values(minutes, 0, 59, {}),
        _values(hours, 0, 23, {}),
        _values(days, 1, 31, {}),
        _values(months, 1, 12, _MONTHS),
        frozenset(day % 7 for day in _values(weekdays, 0, 7, _DAYS)),
        any_day=days[0] in "*?",
        any_weekday=weekdays[0] in "*?",
    )


def _values(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    out: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in {"*", "?"}:
            begin, end = low, high
        else:
            begin = _number(first, names)
            end = _number(last, names) if dash else (high if step else begin)
        every = _number(step, {}) if step else 1
        if not low <= begin <= end <= high or every < 1:
            raise BadSchedule(f"{part!r} is not within {low} to {high}")
        out |= set(range(begin, end + 1, every))
    return frozenset(out)


def _number(text: str, names: dict[str, int]) -> int:
    if text in names:
        return names[text]
    if not text.isdigit():
        raise BadSchedule(f"{text!r} is not a number")
    return int(text)


def step(seen: Seen, now: datetime) -> Plan:
    """Decide the next step of a CronJob."""
    owner = seen.cron_job
    if is_deleting(owner):
        return NOTHING
    ref = msgspec.structs.replace(ref_of(CRON_JOBS, owner), resource_version="")
    active = [job for job in seen.jobs if finished_at(job) is None]
    actions: list[Action] = [*_tidy(owner, seen.jobs)]
    report = _report(owner, seen.jobs, active)
    events: tuple[Emit, ...] = ()
    wake_at = None
    if not spec(owner).get("suspend"):
        try:
            due, wake_at = _times(owner, now)
        except (BadSchedule, ZoneInfoNotFoundError) as error:
            message = f"unparseable schedule: {spec(owner).get('schedule')!r}: {error}"
            return Plan(
                events=(Emit(about=ref, reason="UnparseableSchedule", message=message, type="Warning"),)
            )
        if due is not None:
            begun, replaced = _begin(owner, active, due)
            actions += [*replaced, *begun]
            report["lastScheduleTime"] = stamp(due)
    return Plan(
        steps=(tuple(actions),) if actions else (),
        status=StatusWrite(ref=ref, old=status(owner), new=report),
        events=events,
        wake_at=wake_at,
        why="scheduled",
    )


def _times(owner: Obj, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the last due time that was not served yet, and the next one."""
    schedule = parse_schedule(spec(owner)["schedule"])
    zone = ZoneInfo(spec(owner)["timeZone"]) if spec(owner).get("timeZone") else UTC
    last = moment(status(owner).get("lastScheduleTime")) or moment(created_at(owner)) or now
    due = None
    found = schedule.next_after(last.astimezone(zone))
    for _ in range(100):  # of missed times only the last counts
        if found is None or found > now:
            break
        due, found = found, schedule.next_after(found)
    if found is not None and found <= now:
        found = schedule.next_after(now.astimezone(zone))
    limit_s = spec(owner).get("startingDeadlineSeconds")
    if due is not None and limit_s is not None and now - due > timedelta(seconds=int(limit_s)):
        due = None
    return due, found


def _begin(owner: Obj, active: Sequence[Obj], due: datetime) -> tuple[list[Action], list[Action]]:
    policy = spec(owner).get("concurrencyPolicy") or "Allow"
    if policy == "Forbid" and active:
        return [], []
    replaced: list[Action] = [_delete(job) for job in active] if policy == "Replace" else []
    template = spec(owner)["jobTemplate"]
    made = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": f"{meta(owner)['name']}-{int(due.timestamp()) // 60}",
        "namespace": meta(owner)["namespace"],
        "ownerReferences": owned_by(owner),
        "annotations": {
            **(made.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": stamp(due),
        },
    }
    if made.get("labels"):
        metadata["labels"] = made["labels"]
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
    return [Create(resource=JOBS, body=body)], replaced


def _delete(job: Obj) -> Delete:
    ref = msgspec.structs.replace(ref_of(JOBS, job), resource_version="")
    return Delete(ref=ref, propagation="Background")


def _tidy(owner: Obj, jobs: Sequence[Obj]) -> list[Action]:
    """Keep a few finished Jobs of each kind."""
    actions: list[Action] = []
    for type_, field, standard in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        limit = spec(owner).get(field)
        keep = standard if limit is None else int(limit)
        ended = [job for job in jobs if (condition_of(job, type_) or {}).get("status") == "True"]
        ended.sort(key=created_at)
        actions += [_delete(job) for job in ended[: max(len(ended) - keep, 0)] if not is_deleting(job)]
    return actions


def _report(owner: Obj, jobs: Sequence[Obj], active: Sequence[Obj]) -> dict[str, Any]:
    report = {key: value for key, value in status(owner).items() if key != "active"}
    if active:
        report["active"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": meta(job)["name"],
                "namespace": meta(job)["namespace"],
                "uid": meta(job)["uid"],
                "resourceVersion": meta(job)["resourceVersion"],
            }
            for job in active
        ]
    done = [at for job in jobs if (at := status(job).get("completionTime"))]
    if done:
        report["lastSuccessfulTime"] = max(done)
    return report
