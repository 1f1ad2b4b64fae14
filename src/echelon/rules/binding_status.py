"""What a binding says about its delivery: the Works' reports summed up, and the objects that need attention.

    Overridden → WorkSynchronized → Applied → Available        (or DiffReported instead of the last two)

Each condition is at the binding's generation and stands only if those before it are True. Transition times move
only when a status changes: nothing is removed and written again. A Work's word counts only about its current
generation. What a member reports is bounded before it is copied.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from echelon.api.binding import Binding, BindingStatus
from echelon.api.conditions import find_condition, is_false_at, is_true_at, set_condition
from echelon.api.meta import (
    FALSE,
    MAX_CONDITION_MESSAGE,
    TRUE,
    Condition,
    Conditions,
    ConditionStatus,
    timestamp,
)
from echelon.api.names import (
    ANNOTATION_WRITTEN_AT,
    ANNOTATION_WRITTEN_FOR,
    ApplyType,
    PlacementCondition,
    WorkCondition,
)
from echelon.api.placement import DiffedPlacement, DriftedPlacement, FailedPlacement
from echelon.api.work import Work
from echelon.rules.binding_status_details import diffed_of, drifted_of, failed_of

OWN = (
    PlacementCondition.OVERRIDDEN,
    PlacementCondition.WORK_SYNCHRONIZED,
    PlacementCondition.APPLIED,
    PlacementCondition.AVAILABLE,
    PlacementCondition.DIFF_REPORTED,
)
NOT_TRACKABLE = frozenset({"WorkNotTrackable", "SomeManifestsAreNotAvailabilityTrackable"})
APPLY_IN_PROGRESS = "ApplyInProgress"
DIFF_IN_PROGRESS = "DiffReportInProgress"

LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


class Told(msgspec.Struct, frozen=True):
    """One condition to be said, before it has a time and a generation."""

    type: PlacementCondition
    status: ConditionStatus
    reason: str
    message: str


class Report(msgspec.Struct, frozen=True):
    """Everything to be said about a binding."""

    told: tuple[Told, ...]
    failed: tuple[FailedPlacement, ...] = ()
    drifted: tuple[DriftedPlacement, ...] = ()
    diffed: tuple[DiffedPlacement, ...] = ()


# --- what can be said --------------------------------------------------------------------------------------------------
def overridden(binding: Binding) -> Told:
    """Say that overrides, if there are any, were carried out."""
    spec = binding.spec
    if spec.cluster_resource_override_snapshots or spec.resource_override_snapshots:
        return Told(
            PlacementCondition.OVERRIDDEN,
            TRUE,
            "OverriddenSucceeded",
            "Successfully applied the override rules on the resources",
        )
    return Told(
        PlacementCondition.OVERRIDDEN,
        TRUE,
        "NoOverrideSpecified",
        "No override rules are configured for the selected resources",
    )


def not_overridden(why: str) -> Report:
    """Say that the content for this cluster could not be worked out."""
    message = f"Failed to apply the override rules on the resources: {why}"
    return Report((Told(PlacementCondition.OVERRIDDEN, FALSE, "OverriddenFailed", message),))


def not_synchronized(binding: Binding, why: str) -> Report:
    """Say that the Works could not be written."""
    message = f"Failed to synchronize the work to the latest: {why}"
    failed = Told(PlacementCondition.WORK_SYNCHRONIZED, FALSE, "SyncWorkFailed", message)
    return Report((overridden(binding), failed))


def synchronized(binding: Binding) -> tuple[Told, Told]:
    """Say that the Works are what they should be."""
    return overridden(binding), Told(
        PlacementCondition.WORK_SYNCHRONIZED,
        TRUE,
        "AllWorkSynced",
        "All of the works are synchronized to the latest",
    )


def is_report_diff(binding: Binding) -> bool:
    """Whether members only report differences instead of applying."""
    strategy = binding.spec.apply_strategy
    return strategy is not None and strategy.type == ApplyType.REPORT_DIFF


def in_progress(binding: Binding) -> Report:
    """Say that members have something new to do."""
    if is_report_diff(binding):
        last = Told(
            PlacementCondition.DIFF_REPORTED,
            FALSE,
            DIFF_IN_PROGRESS,
            "Diff reporting on resources is in progress",
        )
    else:
        last = Told(PlacementCondition.APPLIED, FALSE, APPLY_IN_PROGRESS, "Resources are being applied")
    return Report((*synchronized(binding), last))


def judge(binding: Binding, works: Sequence[Work]) -> Report:
    """R-DELIVER-8: a Work's word counts only about its current generation; all Works must agree."""
    if is_waiting(binding, works):
        return in_progress(binding)
    ordered = sorted(works, key=lambda work: work.name)
    return _judge_diff(binding, ordered) if is_report_diff(binding) else _judge_applied(binding, ordered)


def has_spoken(binding: Binding) -> bool:
    """Whether anything was said about the binding's current generation."""
    conditions = binding.status.conditions if binding.status else ()
    return any(c.type in OWN and c.observed_generation == binding.metadata.generation for c in conditions)


def is_silent(binding: Binding, works: Iterable[Work]) -> bool:
    """Whether any Work has not answered about what it holds now."""
    return any(_answer(work, _asked(binding)) is None for work in works)


def is_waiting(binding: Binding, works: Sequence[Work]) -> bool:
    """Whether Works were written for the binding as it is now, and no member has answered anything yet."""
    return written_for(works) == binding.metadata.generation and not any(
        _answer(work, _asked(binding)) for work in works
    )


def _asked(binding: Binding) -> WorkCondition:
    return WorkCondition.DIFF_REPORTED if is_report_diff(binding) else WorkCondition.APPLIED


def written_for(works: Iterable[Work]) -> int:
    """Return the latest generation of the binding for which any of its Works was written; 0 when none says so."""
    noted = (work.metadata.annotations.get(ANNOTATION_WRITTEN_FOR, "") for work in works)
    return max((int(text) for text in noted if text.isascii() and text.isdigit()), default=0)


def written_at(works: Iterable[Work]) -> datetime:
    """Return when any of the Works was written last; long ago when none says so."""
    return max((_written_at(work) for work in works), default=LONG_AGO)


def _written_at(work: Work) -> datetime:
    try:
        noted = datetime.fromisoformat(work.metadata.annotations.get(ANNOTATION_WRITTEN_AT, ""))
    except ValueError:
        return LONG_AGO
    return noted if noted.tzinfo else LONG_AGO


# --- summing up ---------------------------------------------------------------------------------------------------------
def _judge_diff(binding: Binding, works: Sequence[Work]) -> Report:
    told = synchronized(binding)

    def say(status: ConditionStatus, reason: str, message: str) -> tuple[Told, ...]:
        return (*told, Told(PlacementCondition.DIFF_REPORTED, status, reason, message))

    silent, refused = _split(works, WorkCondition.DIFF_REPORTED)
    not_all = "NotAllWorkHaveDiffReported"
    if silent:
        return Report(say(FALSE, not_all, f"Work object {silent.name} has not yet completed diff reporting"))
    if refused:
        return Report(say(FALSE, not_all, f"Work object {refused.name} has failed to report diff"))
    message = "All corresponding work objects have reported diff"
    return Report(say(TRUE, "AllWorkHaveDiffReported", message), diffed=diffed_of(works))


def _judge_applied(binding: Binding, works: Sequence[Work]) -> Report:
    told = synchronized(binding)

    def say(status: ConditionStatus, reason: str, message: str) -> tuple[Told, ...]:
        return (*told, Told(PlacementCondition.APPLIED, status, reason, message))

    silent, refused = _split(works, WorkCondition.APPLIED)
    not_all = "NotAllWorkHaveBeenApplied"
    if silent:
        message = f"Work object {silent.name} has not yet completed the apply op"
        return Report(say(FALSE, not_all, message))
    if refused:
        return Report(
            say(FALSE, not_all, f"Work object {refused.name} has failed to apply"),
            failed=failed_of(works),
            drifted=drifted_of(works),
            diffed=diffed_of(works),
        )
    applied = say(TRUE, "AllWorkHaveBeenApplied", "All corresponding work objects are applied")
    return _judge_available(applied, works)


def _judge_available(told: tuple[Told, ...], works: Sequence[Work]) -> Report:
    def say(status: ConditionStatus, reason: str, message: str) -> tuple[Told, ...]:
        return (*told, Told(PlacementCondition.AVAILABLE, status, reason, message))

    drifted = drifted_of(works)
    silent, refused = _split(works, WorkCondition.AVAILABLE)
    not_all = "NotAllWorkAreAvailable"
    if silent:
        message = f"Work object {silent.name} has not yet completed availability check"
        return Report(say(FALSE, not_all, message), drifted=drifted)
    if refused:
        message = f"Work object {refused.name} is not yet available"
        return Report(say(FALSE, not_all, message), failed=failed_of(works), drifted=drifted)
    for work in works:
        condition = find_condition(_conditions(work), WorkCondition.AVAILABLE)
        if condition and condition.reason in NOT_TRACKABLE:
            message = f"The availability of work object {work.name} is not trackable"
            return Report(say(TRUE, "NotAllWorkAreAvailabilityTrackable", message), drifted=drifted)
    message = "All corresponding work objects are available"
    return Report(say(TRUE, "AllWorkAreAvailable", message), drifted=drifted)


def _conditions(work: Work) -> Conditions:
    return work.status.conditions if work.status else ()


def _answer(work: Work, type_: str) -> ConditionStatus | None:
    """Return what a Work says about its current generation, True or False."""
    generation = work.metadata.generation
    if is_true_at(_conditions(work), type_, generation):
        return TRUE
    return FALSE if is_false_at(_conditions(work), type_, generation) else None


def _split(works: Iterable[Work], type_: str) -> tuple[Work | None, Work | None]:
    """Return the first Work that has not answered, and the first that has answered False."""
    answers = [(work, _answer(work, type_)) for work in works]
    silent = next((work for work, answer in answers if answer is None), None)
    return silent, next((work for work, answer in answers if answer == FALSE), None)


# --- writing it down ----------------------------------------------------------------------------------------------------------
def status_of(binding: Binding, report: Report, works: Iterable[Work], now: datetime) -> BindingStatus:
    """R-DELIVER-9: conditions change only when they change; what is not ours to say stays as it is.

    What was said before the Works were last written was about something else: then even a condition that stays
    True has just become so.
    """
    old = binding.status or BindingStatus()
    said = {told.type for told in report.told}
    since = written_for(works)
    conditions = tuple(
        c for c in old.conditions if c.type not in OWN or (c.type in said and _holds(c, since))
    )
    for told in report.told:
        wanted = Condition(
            type=told.type,
            status=told.status,
            observed_generation=binding.metadata.generation,
            last_transition_time=timestamp(now),
            reason=told.reason,
            message=told.message[:MAX_CONDITION_MESSAGE],
        )
        conditions = set_condition(conditions, wanted, now)
    return BindingStatus(
        failed_placements=report.failed,
        drifted_placements=report.drifted,
        diffed_placements=report.diffed,
        conditions=conditions,
    )


def _holds(condition: Condition, since: int) -> bool:
    """Whether a condition is about the Works' present content."""
    is_answer = condition.type not in {PlacementCondition.OVERRIDDEN, PlacementCondition.WORK_SYNCHRONIZED}
    return not is_answer or condition.observed_generation >= since
