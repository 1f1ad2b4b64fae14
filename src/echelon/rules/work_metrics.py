"""What the metrics of Works and members say: label values, told from the objects alone. Names and values are contract."""

from __future__ import annotations

from typing import NamedTuple

from echelon.api.conditions import find_condition
from echelon.api.meta import UNKNOWN, Conditions
from echelon.api.names import WorkCondition
from echelon.api.work import ManifestCondition, Work

SKIPPED, FOUND, NOT_FOUND = "Skipped", "Found", "NotFound"


class Standing(NamedTuple):
    """Where a Work or a manifest stands: the reasons of its three conditions."""

    applied: str
    available: str
    diff_reported: str


def standing(conditions: Conditions) -> Standing:
    """R-METRIC-5: a condition counts by its reason; one that is absent is Skipped, an open one Unknown."""
    return Standing(
        _word(conditions, WorkCondition.APPLIED),
        _word(conditions, WorkCondition.AVAILABLE),
        _word(conditions, WorkCondition.DIFF_REPORTED),
    )


def _word(conditions: Conditions, type_: str) -> str:
    found = find_condition(conditions, type_)
    if found is None:
        return SKIPPED
    return "Unknown" if found.status == UNKNOWN else found.reason


def is_current(work: Work) -> bool:
    """Tell whether everything that is said about a Work is about its present generation."""
    conditions = work.status.conditions if work.status else ()
    return bool(conditions) and all(one.observed_generation == work.metadata.generation for one in conditions)


def of_manifest(entry: ManifestCondition) -> tuple[str, ...]:
    """Return the label values of one manifest."""
    drift = FOUND if entry.drift_details and entry.drift_details.observed_drifts else NOT_FOUND
    diff = FOUND if entry.diff_details and entry.diff_details.observed_diffs else NOT_FOUND
    return (*standing(entry.conditions), drift, diff)
