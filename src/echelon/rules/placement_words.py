"""The words of a placement's status: stations of a cluster, and what is said at each of them. Contract, byte for byte.

Tables only; which row holds is told by `placement_status.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from echelon.api.meta import FALSE, TRUE, UNKNOWN
from echelon.api.names import PlacementCondition

SCHEDULED = PlacementCondition.SCHEDULED
ROLLOUT_STARTED = PlacementCondition.ROLLOUT_STARTED
OVERRIDDEN = PlacementCondition.OVERRIDDEN
APPLIED = PlacementCondition.APPLIED
AVAILABLE = PlacementCondition.AVAILABLE
DIFF_REPORTED = PlacementCondition.DIFF_REPORTED

APPLYING = (ROLLOUT_STARTED, OVERRIDDEN, PlacementCondition.WORK_SYNCHRONIZED, APPLIED, AVAILABLE)
REPORTING = (*APPLYING[:3], DIFF_REPORTED)

EXTERNAL_REASON = "RolloutControlledByExternalController"


class Said(NamedTuple):
    """A reason and its words; `{n}` is a number of clusters."""

    reason: str
    message: str


# What is said of one cluster while its binding says nothing (current) yet.
PENDING: Mapping[str, Said] = {
    ROLLOUT_STARTED: Said(
        "RolloutStartedUnknown",
        "In the process of deciding whether to roll out some version of the resources or not",
    ),
    OVERRIDDEN: Said(
        "OverriddenPending",
        "In the process of overriding the selected resources if there is any override defined",
    ),
    PlacementCondition.WORK_SYNCHRONIZED: Said(
        "WorkSynchronizedUnknown",
        "In the process of creating or updating the work object(s) in the hub cluster",
    ),
    APPLIED: Said("ApplyPending", "In the process of applying the resources on the member cluster"),
    AVAILABLE: Said("ResourceAvailableUnknown", "The availability of the selected resources is unknown yet "),
    DIFF_REPORTED: Said(
        "DiffReportingPending", "Diff reporting has just started; its status is not yet to be known"
    ),
}
BLOCKED = Said("RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy")

# What is said of the whole placement: Unknown, False, True.
SUMMED: Mapping[str, Mapping[str, Said]] = {
    ROLLOUT_STARTED: {
        UNKNOWN: Said(
            "RolloutStartedUnknown",
            "There are still {n} cluster(s) in the process of deciding whether to roll out the latest "
            "resources or not",
        ),
        FALSE: Said(
            "RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy in {n} cluster(s)"
        ),
        TRUE: Said("RolloutStarted", "All {n} cluster(s) start rolling out the latest resource"),
    },
    OVERRIDDEN: {
        UNKNOWN: Said(
            "OverriddenPending",
            "There are still {n} cluster(s) in the process of overriding the selected resources if there is "
            "any override defined",
        ),
        FALSE: Said("OverriddenFailed", "Failed to override resources in {n} cluster(s)"),
        TRUE: Said(
            "OverriddenSucceeded", "The selected resources are successfully overridden in {n} cluster(s)"
        ),
    },
    PlacementCondition.WORK_SYNCHRONIZED: {
        UNKNOWN: Said(
            "WorkSynchronizedUnknown",
            "There are still {n} cluster(s) in the process of creating or updating the work object(s) in the "
            "hub cluster",
        ),
        FALSE: Said(
            "WorkNotSynchronizedYet",
            "There are {n} cluster(s) which have not finished creating or updating work(s) yet",
        ),
        TRUE: Said(
            "WorkSynchronized",
            "Work(s) are successfully created or updated in {n} target cluster(s)' namespaces",
        ),
    },
    APPLIED: {
        UNKNOWN: Said(
            "ApplyPending",
            "There are still {n} cluster(s) in the process of applying the resources on the member cluster",
        ),
        FALSE: Said(
            "ApplyFailed",
            "Failed to apply resources to {n} cluster(s), please check the `failedPlacements` status",
        ),
        TRUE: Said("ApplySucceeded", "The selected resources are successfully applied to {n} cluster(s)"),
    },
    AVAILABLE: {
        UNKNOWN: Said(
            "ResourceAvailableUnknown",
            "There are still {n} cluster(s) in the process of checking the availability of the selected "
            "resources",
        ),
        FALSE: Said(
            "ResourceNotAvailableYet", "The selected resources in {n} cluster(s) are still not available yet"
        ),
        TRUE: Said("ResourceAvailable", "The selected resources in {n} cluster(s) are available now"),
    },
    DIFF_REPORTED: {
        UNKNOWN: Said(
            "DiffReportingPending",
            "There are still {n} cluster(s) in the process of checking for configuration differences",
        ),
        FALSE: Said(
            "DiffReportingIncompleteOrFailed",
            "Diff reporting in {n} clusters is still in progress or has failed",
        ),
        TRUE: Said("DiffReportingCompleted", "Diff reporting in {n} cluster(s) has been completed"),
    },
}
NO_OVERRIDE = Said("NoOverrideSpecified", "No override rules are configured for the selected resources")
