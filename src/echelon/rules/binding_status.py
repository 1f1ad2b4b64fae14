"""What a binding says about its delivery: the Works' reports summed up, and the objects that need attention.

    Overridden → WorkSynchronized → Applied → Available        (or DiffReported instead of the last two)

Each condition is at the binding's generation and stands only if those before it are True. Transition times move
only when a status changes: nothing is removed and written again. A Work's word counts only about its current
generation. What a member reports is bounded before it is copied.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

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
    LABEL_ENVELOPE_NAME,
    LABEL_ENVELOPE_NAMESPACE,
    LABEL_ENVELOPE_WORK,
    ApplyType,
    EnvelopeType,
    PlacementCondition,
    WorkCondition,
)
from echelon.api.placement import (
    MAX_DETAILS,
    DiffedPlacement,
    DriftedPlacement,
    EnvelopeIdentifier,
    FailedPlacement,
    PatchDetail,
    ResourceIdentifier,
)
from echelon.api.work import ManifestCondition, Work

MAX_DETAIL_BYTES = 256 * 1024
"""Drift and diff details of one binding beyond this are shortened: a hundred bindings' worth goes into a placement."""

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

Row = TypeVar("Row", DriftedPlacement, DiffedPlacement)


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
    """Sum up what the members have reported on the Works of a binding."""
    if is_waiting(binding, works):
        return in_progress(binding)
    ordered = sorted(works, key=lambda work: work.name)
    return _judge_diff(binding, ordered) if is_report_diff(binding) else _judge_applied(binding, ordered)


def is_waiting(binding: Binding, works: Sequence[Work]) -> bool:
    """Whether what was said when the Works were written still says it all: no Work has answered yet."""
    diff = is_report_diff(binding)
    type_ = PlacementCondition.DIFF_REPORTED if diff else PlacementCondition.APPLIED
    said = find_condition(binding.status.conditions if binding.status else (), type_)
    if said is None or said.observed_generation != binding.metadata.generation:
        return False
    if said.reason not in {APPLY_IN_PROGRESS, DIFF_IN_PROGRESS}:
        return False
    asked = WorkCondition.DIFF_REPORTED if diff else WorkCondition.APPLIED
    return bool(works) and not any(_answer(work, asked) for work in works)


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


# --- the objects that need attention ----------------------------------------------------------------------------------------
def failed_of(works: Iterable[Work]) -> tuple[FailedPlacement, ...]:
    """Return what was not applied or is not available, of Works that say so."""
    rows = [
        FailedPlacement(**_identity(work, entry), condition=condition)
        for work in works
        if FALSE in (_answer(work, WorkCondition.APPLIED), _answer(work, WorkCondition.AVAILABLE))
        for entry in _entries(work)
        if (condition := _failure(entry)) is not None
    ]
    return tuple(sorted(rows, key=_sort_key)[:MAX_DETAILS]) if len(rows) > MAX_DETAILS else tuple(rows)


def _failure(entry: ManifestCondition) -> Condition | None:
    for type_ in (WorkCondition.APPLIED, WorkCondition.AVAILABLE):
        condition = find_condition(entry.conditions, type_)
        if condition is not None and condition.status == FALSE:
            return condition
    return None


def drifted_of(works: Iterable[Work]) -> tuple[DriftedPlacement, ...]:
    """Return what was changed on the member."""
    rows = [
        DriftedPlacement(
            **_identity(work, entry),
            observation_time=found.observation_time,
            target_cluster_observed_generation=found.observed_in_member_cluster_generation,
            first_drifted_observed_time=found.first_drifted_observed_time,
            observed_drifts=found.observed_drifts[:MAX_DETAILS],
        )
        for work in works
        for entry in _entries(work)
        if (found := entry.drift_details) is not None
    ]
    return _bound(
        rows, lambda row, kept: msgspec.structs.replace(row, observed_drifts=kept(row.observed_drifts))
    )


def diffed_of(works: Iterable[Work]) -> tuple[DiffedPlacement, ...]:
    """Return what differs between hub and member."""
    rows = [
        DiffedPlacement(
            **_identity(work, entry),
            observation_time=found.observation_time,
            target_cluster_observed_generation=found.observed_in_member_cluster_generation,
            first_diffed_observed_time=found.first_diffed_observed_time,
            observed_diffs=found.observed_diffs[:MAX_DETAILS],
        )
        for work in works
        for entry in _entries(work)
        if (found := entry.diff_details) is not None
    ]
    return _bound(
        rows, lambda row, kept: msgspec.structs.replace(row, observed_diffs=kept(row.observed_diffs))
    )


Details = tuple[PatchDetail, ...]


def _bound(
    rows: list[Row], with_details: Callable[[Row, Callable[[Details], Details]], Row]
) -> tuple[Row, ...]:
    """Keep at most MAX_DETAILS rows (sorted first when there are more), shortened when they are too big together."""
    kept = sorted(rows, key=_sort_key)[:MAX_DETAILS] if len(rows) > MAX_DETAILS else rows
    if len(msgspec.json.encode(kept)) > MAX_DETAIL_BYTES:
        kept = [with_details(row, _shortened) for row in kept]
    return tuple(kept)


def _shortened(details: Details) -> Details:
    """Say in one line where an object differs."""
    if not details:
        return details
    more = len(details) - 1
    path = details[0].path + (f" and {more} more path(s)" if more else "")
    return (PatchDetail(path=path[:1024], value_in_member="(omitted)", value_in_hub="(omitted)"),)


def _entries(work: Work) -> tuple[ManifestCondition, ...]:
    return work.status.manifest_conditions if work.status else ()


def _identity(work: Work, entry: ManifestCondition) -> dict[str, Any]:
    it = entry.identifier
    return {
        "group": it.group,
        "version": it.version,
        "kind": it.kind,
        "name": it.name,
        "namespace": it.namespace,
        "envelope": envelope_of(work),
    }


def envelope_of(work: Work) -> EnvelopeIdentifier | None:
    """Return the envelope whose content a Work holds, from its labels."""
    labels = work.metadata.labels
    type_ = labels.get(LABEL_ENVELOPE_WORK)
    if not type_ or type_ not in set(EnvelopeType):
        return None
    return EnvelopeIdentifier(
        name=labels.get(LABEL_ENVELOPE_NAME, ""),
        namespace=labels.get(LABEL_ENVELOPE_NAMESPACE, ""),
        type=EnvelopeType(type_),
    )


def _sort_key(row: ResourceIdentifier) -> str:
    key = f"{row.group}/{row.version}/{row.kind}/{row.namespace}/{row.name}"
    if row.envelope is None:
        return key
    return f"{key}/{row.envelope.type}/{row.envelope.namespace}/{row.envelope.name}"


# --- writing it down ----------------------------------------------------------------------------------------------------------
def status_of(binding: Binding, report: Report, now: datetime) -> BindingStatus:
    """Return the binding's status with the report in it; what is not ours to say stays as it is."""
    old = binding.status or BindingStatus()
    said = {told.type for told in report.told}
    conditions = tuple(c for c in old.conditions if c.type not in OWN or c.type in said)
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
