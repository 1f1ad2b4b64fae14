"""What the member says about a Work: results of its manifests become conditions, details and one short verdict.

Pure. Every condition keeps its transition time while its status stays, and observations keep their time while
they stay the same, so that a pass that finds nothing new gives the very status it was given. What is too long
for the API is shortened and said to be shortened, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.conditions import remove_condition, set_condition
from echelon.api.meta import FALSE, MAX_CONDITION_MESSAGE, TRUE, Condition, Conditions, timestamp
from echelon.api.names import ReportBackType, WorkCondition
from echelon.api.placement import PatchDetail
from echelon.api.work import (
    AppliedResource,
    AppliedWorkStatus,
    BackReportedStatus,
    DiffDetails,
    DriftDetails,
    ManifestCondition,
    Work,
    WorkResourceIdentifier,
    WorkStatus,
)
from echelon.rules.apply_task import Result
from echelon.rules.available import Availability
from echelon.rules.member_manifest import generation_of, metadata_of
from echelon.rules.waves import Item

MAX_WORK_BYTES = 1415578  # 10 % below etcd's limit of 1.5 MiB for an object
_OMITTED = "(omitted)"

APPLIED, AVAILABLE = WorkCondition.APPLIED, WorkCondition.AVAILABLE
DIFF_REPORTED, STATUS_TRIMMED = WorkCondition.DIFF_REPORTED, WorkCondition.STATUS_TRIMMED


class Processed(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest after its pass. `plural` is empty while the member does not know the kind."""

    item: Item
    plural: str
    result: Result
    availability: Availability | None = None  # None: not applied, so not looked at


_AVAILABILITY: Mapping[Availability, tuple[str, str, str]] = {
    Availability.AVAILABLE: (TRUE, "Available", "Manifest is available"),
    Availability.NOT_TRACKABLE: (
        TRUE,
        "NotTrackable",
        "Manifest's availability is not trackable; Fleet assumes that the applied manifest is available",
    ),
    Availability.NOT_YET: (
        FALSE,
        "ManifestNotAvailableYet",
        "Manifest is not yet available; Fleet will check again later",
    ),
}
_APPLIED: Mapping[str, tuple[str, str, str]] = {
    "Applied": (TRUE, "Applied", "Manifest has been applied successfully"),
    "AppliedWithFailedDriftDetection": (
        TRUE,
        "AppliedWithFailedDriftDetection",
        "AppliedWithFailedDriftDetection",
    ),
}
_REPORTED: Mapping[str, tuple[str, str, str]] = {
    "NoDiffFound": (
        TRUE,
        "NoDiffFound",
        "No diff has been found between the hub cluster and the member cluster",
    ),
    "FoundDiff": (TRUE, "FoundDiff", "Diff has been found between the hub cluster and the member cluster"),
    "FoundDiffInDegradedMode": (
        TRUE,
        "FoundDiffInDegradedMode",
        (
            "Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server"
            " rejected the manifest object (object is invalid)"
        ),
    ),
}


def report(work: Work, processed: Sequence[Processed], now: datetime, *, is_report_diff: bool) -> WorkStatus:
    """R-WORK-9: a look that finds nothing new reports the very status it was given."""
    before = work.status or WorkStatus()
    held = _by_identity(before.manifest_conditions)
    mirrors = _mirrors(work)
    entries: list[ManifestCondition] = []
    for one in processed:
        identifier = identifier_of(one.item, one.plural)
        queue = held.get(_key(identifier))
        old = queue.pop(0) if queue else ManifestCondition(identifier=identifier)
        entries.append(_entry(old, identifier, one, now, is_report_diff=is_report_diff, mirrors=mirrors))
    conditions = _verdict(work, processed, before.conditions, now, is_report_diff=is_report_diff)
    return _fit(work, WorkStatus(conditions=conditions, manifest_conditions=tuple(entries)), now)


def applied_status(processed: Sequence[Processed], *, is_report_diff: bool) -> AppliedWorkStatus:
    """List what this Work holds on the member."""
    if is_report_diff:
        return AppliedWorkStatus()
    return AppliedWorkStatus(
        applied_resources=tuple(
            AppliedResource(
                **msgspec.structs.asdict(identifier_of(one.item, one.plural)),
                uid=str(metadata_of(one.result.live or {}).get("uid") or ""),
            )
            for one in processed
            if one.result.is_applied
        )
    )


def identifier_of(item: Item, plural: str) -> WorkResourceIdentifier:
    """Name a manifest in a status."""
    identity = item.identity
    if not identity.kind:
        return WorkResourceIdentifier(ordinal=item.ordinal)
    return WorkResourceIdentifier(
        ordinal=item.ordinal,
        group=identity.group,
        version=identity.version,
        kind=identity.kind,
        resource=plural,
        namespace=identity.namespace,
        name=identity.name,
    )


_Identity = tuple[str, str, str, str, str]


def _key(identifier: WorkResourceIdentifier) -> _Identity:
    return (identifier.group, identifier.version, identifier.kind, identifier.namespace, identifier.name)


def _by_identity(entries: Sequence[ManifestCondition]) -> dict[_Identity, list[ManifestCondition]]:
    """File earlier entries; duplicates stay in their order."""
    out: dict[_Identity, list[ManifestCondition]] = {}
    for entry in entries:
        out.setdefault(_key(entry.identifier), []).append(entry)
    return out


def _mirrors(work: Work) -> bool:
    strategy = work.spec.report_back_strategy if work.spec else None
    return strategy is not None and strategy.type == ReportBackType.MIRROR


# one manifest ---------------------------------------------------------------------------------------------------


def _entry(
    old: ManifestCondition,
    identifier: WorkResourceIdentifier,
    one: Processed,
    now: datetime,
    *,
    is_report_diff: bool,
    mirrors: bool,
) -> ManifestCondition:
    said = _conditions_of(one, is_report_diff=is_report_diff)
    generation = generation_of(one.result.live)
    conditions = remove_condition(old.conditions, *({APPLIED, AVAILABLE, DIFF_REPORTED} - said.keys()))
    for type_, (status, reason, message) in said.items():
        conditions = set_condition(
            conditions, _condition(type_, status, reason, message, generation=generation), now
        )
    return ManifestCondition(
        identifier=identifier,
        conditions=conditions,
        drift_details=_drifts(old.drift_details, one.result, now),
        diff_details=_diffs(old.diff_details, one.result, now),
        back_reported_status=_back_report(old.back_reported_status, one.result, now) if mirrors else None,
    )


def _conditions_of(one: Processed, *, is_report_diff: bool) -> dict[str, tuple[str, str, str]]:
    result = one.result
    if is_report_diff:
        return {DIFF_REPORTED: _REPORTED.get(result.outcome) or _failed_report(result)}
    failed = (FALSE, result.outcome, f"Failed to apply the manifest (error: {result.error})")
    said: dict[str, tuple[str, str, str]] = {APPLIED: _APPLIED.get(result.outcome, failed)}
    if one.availability is not None:
        said[AVAILABLE] = _AVAILABILITY[one.availability]
    return said


def _failed_report(result: Result) -> tuple[str, str, str]:
    if result.outcome == "FailedToReportDiff":
        text = f"Failed to report the diff between the hub cluster and the member cluster (error = {result.error})"
    else:
        text = f"An error blocks the diff reporting process ({result.outcome}, error: {result.error})"
    return (FALSE, "FailedToReportDiff", text)


def _condition(type_: str, status: Any, reason: str, message: str, *, generation: int) -> Condition:
    return Condition(
        type=str(type_),
        status=status,
        reason=reason,
        message=message[:MAX_CONDITION_MESSAGE],
        observed_generation=generation,
        last_transition_time=_UNSET_TIME,  # set_condition decides it
    )


_UNSET_TIME = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _drifts(old: DriftDetails | None, result: Result, now: datetime) -> DriftDetails | None:
    if not result.drifts:
        return None
    generation = generation_of(result.live)
    if (
        old
        and old.observed_drifts == result.drifts
        and old.observed_in_member_cluster_generation == generation
    ):
        return old
    return DriftDetails(
        observation_time=timestamp(now),
        observed_in_member_cluster_generation=generation,
        first_drifted_observed_time=old.first_drifted_observed_time if old else timestamp(now),
        observed_drifts=result.drifts,
    )


def _diffs(old: DiffDetails | None, result: Result, now: datetime) -> DiffDetails | None:
    if not result.diffs:
        return None
    generation = generation_of(result.live) if result.live is not None else None
    if old and old.observed_diffs == result.diffs and old.observed_in_member_cluster_generation == generation:
        return old
    return DiffDetails(
        observation_time=timestamp(now),
        observed_in_member_cluster_generation=generation,
        first_diffed_observed_time=old.first_diffed_observed_time if old else timestamp(now),
        observed_diffs=result.diffs,
    )


def _back_report(old: BackReportedStatus | None, result: Result, now: datetime) -> BackReportedStatus | None:
    live = result.live
    if not result.is_applied or live is None or "status" not in live:
        return old
    seen = {"apiVersion": live.get("apiVersion"), "kind": live.get("kind"), "status": live["status"]}
    if old is not None and old.observed_status == seen:
        return old
    return BackReportedStatus(observed_status=seen, observation_time=timestamp(now))


# the Work -------------------------------------------------------------------------------------------------------


def _verdict(
    work: Work,
    processed: Sequence[Processed],
    conditions: Conditions,
    now: datetime,
    *,
    is_report_diff: bool,
) -> Conditions:
    said = _diff_verdict(processed) if is_report_diff else _apply_verdict(processed)
    conditions = remove_condition(conditions, *({APPLIED, AVAILABLE, DIFF_REPORTED} - said.keys()))
    for type_, (status, reason, message) in said.items():
        wanted = _condition(type_, status, reason, message, generation=work.metadata.generation)
        conditions = set_condition(conditions, wanted, now)
    return conditions


def _apply_verdict(processed: Sequence[Processed]) -> dict[str, tuple[str, str, str]]:
    total = len(processed)
    applied = sum(one.result.is_applied for one in processed)
    if applied < total:
        message = f"Failed to apply all manifests ({applied} of {total} manifests are applied)"
        return {APPLIED: (FALSE, "SomeManifestsAreNotApplied", message)}
    return {
        APPLIED: (TRUE, "AllManifestsApplied", "All the specified manifests have been applied"),
        AVAILABLE: _availability_verdict(processed),
    }


def _availability_verdict(processed: Sequence[Processed]) -> tuple[str, str, str]:
    total = len(processed)
    available = sum(one.availability is not Availability.NOT_YET for one in processed)
    if available < total:
        message = f"Some manifests are not available ({available} of {total} manifests are available)"
        return (FALSE, "SomeManifestsAreNotAvailable", message)
    if any(one.availability is Availability.NOT_TRACKABLE for one in processed):
        return (TRUE, "WorkNotTrackable", "Some of the applied manifests cannot be tracked for availability")
    return (TRUE, "AllManifestsAvailable", "All of the applied manifests are available")


def _diff_verdict(processed: Sequence[Processed]) -> dict[str, tuple[str, str, str]]:
    total = len(processed)
    reported = sum(one.result.outcome in _REPORTED for one in processed)
    if reported < total:
        message = (
            f"Failed to report diff on all manifests ({reported} of {total} manifests have reported diff)"
        )
        return {DIFF_REPORTED: (FALSE, "SomeManifestsHaveNotReportedDiff", message)}
    message = "All the specified manifests have reported diff"
    return {DIFF_REPORTED: (TRUE, "AllManifestsDiffReported", message)}


# size -----------------------------------------------------------------------------------------------------------


def _fit(work: Work, status: WorkStatus, now: datetime) -> WorkStatus:
    """R-WORK-10: a status with which the Work would outgrow the API's limit is shortened, and says so."""
    conditions = remove_condition(status.conditions, STATUS_TRIMMED)
    size = len(msgspec.json.encode(msgspec.structs.replace(work, status=status)))
    if size <= MAX_WORK_BYTES:
        return msgspec.structs.replace(status, conditions=conditions)
    message = (
        "The status data (drift/diff details and back-reported status) has been trimmed due to size constraints"
        f" ({size - MAX_WORK_BYTES} bytes over limit {MAX_WORK_BYTES})"
    )
    wanted = _condition(STATUS_TRIMMED, TRUE, "Oversized", message, generation=work.metadata.generation)
    return WorkStatus(
        conditions=set_condition(status.conditions, wanted, now),
        manifest_conditions=tuple(_trimmed(entry) for entry in status.manifest_conditions),
    )


def _trimmed(entry: ManifestCondition) -> ManifestCondition:
    drifts, diffs = entry.drift_details, entry.diff_details
    return msgspec.structs.replace(
        entry,
        drift_details=drifts
        and msgspec.structs.replace(drifts, observed_drifts=_collapsed(drifts.observed_drifts)),
        diff_details=diffs
        and msgspec.structs.replace(diffs, observed_diffs=_collapsed(diffs.observed_diffs)),
        back_reported_status=None,
    )


def _collapsed(details: tuple[PatchDetail, ...]) -> tuple[PatchDetail, ...]:
    if not details:
        return details
    more = f" and {len(details) - 1} more path(s)" if len(details) > 1 else ""
    return (PatchDetail(path=f"{details[0].path}{more}", value_in_member=_OMITTED, value_in_hub=_OMITTED),)
