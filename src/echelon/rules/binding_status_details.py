"""The objects of a binding that need attention: failed, drifted, different from the hub. Bounded in number and size.

What a member reports about its objects is copied here, so nothing of it may grow without a limit.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from echelon.api.conditions import find_condition, is_false_at
from echelon.api.meta import FALSE, Condition
from echelon.api.names import (
    LABEL_ENVELOPE_NAME,
    LABEL_ENVELOPE_NAMESPACE,
    LABEL_ENVELOPE_WORK,
    EnvelopeType,
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

MAX_CLIPPED = 1024  # of a path or a message that has to be shortened
MAX_NAME = 253  # Kubernetes' own limit; a member that reports longer names means no object

Row = TypeVar("Row", DriftedPlacement, DiffedPlacement)


def failed_of(works: Iterable[Work]) -> tuple[FailedPlacement, ...]:
    """Return what was not applied or is not available, of Works that say so."""
    rows = [
        FailedPlacement(**_identity(work, entry), condition=condition)
        for work in works
        if _says_false(work)
        for entry in _entries(work)
        if (condition := _failure(entry)) is not None
    ]
    kept = sorted(rows, key=_sort_key)[:MAX_DETAILS] if len(rows) > MAX_DETAILS else rows
    if len(msgspec.json.encode(kept)) > MAX_DETAIL_BYTES:
        kept = [msgspec.structs.replace(row, condition=_clipped(row.condition)) for row in kept]
    return tuple(kept)


def _clipped(condition: Condition) -> Condition:
    return msgspec.structs.replace(condition, message=condition.message[:MAX_CLIPPED])


def _says_false(work: Work) -> bool:
    conditions, generation = (work.status.conditions if work.status else ()), work.metadata.generation
    return is_false_at(conditions, WorkCondition.APPLIED, generation) or is_false_at(
        conditions, WorkCondition.AVAILABLE, generation
    )


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
    return (PatchDetail(path=path[:MAX_CLIPPED], value_in_member="(omitted)", value_in_hub="(omitted)"),)


def _entries(work: Work) -> tuple[ManifestCondition, ...]:
    return work.status.manifest_conditions if work.status else ()


def _identity(work: Work, entry: ManifestCondition) -> dict[str, Any]:
    it = entry.identifier
    named = {
        "group": it.group,
        "version": it.version,
        "kind": it.kind,
        "name": it.name,
        "namespace": it.namespace,
    }
    return {**{key: value[:MAX_NAME] for key, value in named.items()}, "envelope": envelope_of(work)}


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
