"""How the scheduler words its decisions, and which of them fit into a policy snapshot's status.

The texts are what people read when a cluster is not picked, and what scripts grep for. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, Condition, timestamp
from echelon.api.names import ANNOTATION_CRP_GENERATION, PlacementCondition
from echelon.api.snapshot import (
    MAX_DECISIONS,
    ClusterDecision,
    ClusterScore,
    PolicySnapshot,
    PolicySnapshotStatus,
)
from echelon.rules.eligible import without_minutes

MAX_UNSELECTED = 20  # enough to see why; the rest would crowd out the picked clusters

FULFILLED = "SchedulingPolicyFulfilled"
UNFULFILLED = "SchedulingPolicyUnfulfilled"


class Score(NamedTuple):
    """A cluster's rank: compared in this order, the greatest is picked first."""

    spread: int = 0
    affinity: int = 0
    obsolete: int = 0  # 1 when the placement already holds the cluster for an older policy

    def wire(self) -> ClusterScore:
        """Return the part that people see."""
        return ClusterScore(affinity_score=self.affinity, priority_score=self.spread)


def picked(cluster: str, score: Score) -> ClusterDecision:
    """Word the pick of a ranked cluster."""
    reason = (
        f'Successfully scheduled resources for placement in "{cluster}" '
        f"(affinity score: {score.affinity}, topology spread score: {score.spread}): picked by scheduling policy"
    )
    return ClusterDecision(cluster_name=cluster, selected=True, cluster_score=score.wire(), reason=reason)


def picked_by_name(cluster: str) -> ClusterDecision:
    """Word the pick of a cluster that the policy names."""
    reason = f'Successfully scheduled resources for placement in "{cluster}": picked by scheduling policy'
    return ClusterDecision(cluster_name=cluster, selected=True, reason=reason)


def outranked(cluster: str, score: Score) -> ClusterDecision:
    """Word that others scored higher."""
    reason = (
        f'Cluster "{cluster}" does not score high enough '
        f"(affinity score: {score.affinity}, topology spread score: {score.spread})"
    )
    return ClusterDecision(cluster_name=cluster, selected=False, cluster_score=score.wire(), reason=reason)


def filtered(cluster: str, why: str) -> ClusterDecision:
    """Word that a cluster cannot be picked."""
    return ClusterDecision(cluster_name=cluster, selected=False, reason=f"ClusterUnschedulable, {why}")


def not_eligible(cluster: str, why: str) -> ClusterDecision:
    """Word that a named cluster cannot receive anything yet."""
    reason = f'Cluster "{cluster}" is not eligible for resource placement yet: {why}'
    return ClusterDecision(cluster_name=cluster, selected=False, reason=reason)


def not_found(cluster: str) -> ClusterDecision:
    """Word that a named cluster does not exist."""
    reason = f'Specified cluster "{cluster}" is not found'
    return ClusterDecision(cluster_name=cluster, selected=False, reason=reason)


def fitting(
    selected: Iterable[ClusterDecision], unselected: Iterable[ClusterDecision], limit: int = MAX_DECISIONS
) -> tuple[ClusterDecision, ...]:
    """Cut the list to what a status holds: picked ones first, a few others, each cluster once."""
    kept = list(selected)[:limit]
    seen = {decision.cluster_name for decision in kept}
    rest = [decision for decision in unselected if decision.cluster_name not in seen]
    return (*kept, *rest[: min(MAX_UNSELECTED, limit - len(kept))])


class Outcome(NamedTuple):
    """What a scheduling cycle says about its policy."""

    decisions: Sequence[ClusterDecision]
    is_fulfilled: bool
    found_count: int
    remark: str = ""  # why nothing can be found at all


def status_of(snapshot: PolicySnapshot, outcome: Outcome, now: datetime) -> PolicySnapshotStatus | None:
    """Return the policy snapshot's new status, or None when what it says already is still true.

    The passing of time ("last received 7.31 minutes ago") is no news: the old words are kept.
    """
    old = snapshot.status
    if outcome.is_fulfilled:
        message = (
            "found all cluster needed as specified by the scheduling policy, "
            f"found {outcome.found_count} cluster(s)"
        )
    else:
        message = (
            "could not find all clusters needed as specified by the scheduling policy, "
            f"found {outcome.found_count} cluster(s) instead"
        )
    wanted = Condition(
        type=PlacementCondition.SCHEDULED,
        status=TRUE if outcome.is_fulfilled else FALSE,
        observed_generation=snapshot.metadata.generation,
        last_transition_time=timestamp(now),
        reason=FULFILLED if outcome.is_fulfilled else UNFULFILLED,
        message=message + (f": {outcome.remark}" if outcome.remark else ""),
    )
    conditions = set_condition(old.conditions if old else (), wanted, now)
    new = PolicySnapshotStatus(
        observed_crp_generation=seen_generation(snapshot),
        conditions=conditions,
        cluster_decisions=tuple(outcome.decisions),
    )
    if old is None:
        return new
    same_set = _comparable(old.cluster_decisions) == _comparable(new.cluster_decisions)
    if same_set:
        new = msgspec.structs.replace(new, cluster_decisions=old.cluster_decisions)
    return None if new == old else new


def _comparable(decisions: Iterable[ClusterDecision]) -> dict[str, ClusterDecision]:
    return {
        decision.cluster_name: msgspec.structs.replace(decision, reason=without_minutes(decision.reason))
        for decision in decisions
    }


def seen_generation(snapshot: PolicySnapshot) -> int:
    """Return the placement generation that a policy snapshot stands for; 0 when its annotation is unreadable."""
    text = snapshot.metadata.annotations.get(ANNOTATION_CRP_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def is_answered(snapshot: PolicySnapshot) -> bool:
    """Whether the status already speaks about the placement generation the snapshot stands for, and is fulfilled."""
    status = snapshot.status
    if status is None or status.observed_crp_generation != seen_generation(snapshot):
        return False
    found = find_condition(status.conditions, PlacementCondition.SCHEDULED)
    return (
        found is not None
        and found.status == TRUE
        and found.observed_generation == snapshot.metadata.generation
    )
