"""Topology spread: what placing one more cluster in a domain does to the skew between domains.

A domain is a value of a cluster label; its count is the number of its clusters this placement already holds.
Pure arithmetic; which clusters exist and which are held is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from echelon.api.cluster import MemberCluster
from echelon.api.names import UnsatisfiableAction
from echelon.api.placement import TopologySpreadConstraint

VIOLATION_PENALTY = -1000  # a ScheduleAnyway constraint that cannot hold: below every cluster that keeps it


class Effect(NamedTuple):
    """What one more cluster in a domain would do."""

    violates: bool
    skew_change: int


def effect_of(counts: Sequence[int], count: int, max_skew: int) -> Effect:
    """Judge adding one to the domain that holds `count`, given the sorted counts of all domains."""
    smallest, largest = counts[0], counts[-1]
    second = counts[1] if len(counts) > 1 else smallest
    skew = largest - smallest
    if largest == smallest:
        return Effect(skew + 1 > max_skew, 1)
    if count == smallest and smallest != second:
        return Effect(skew - 1 > max_skew, -1)
    if count == largest:
        return Effect(skew + 1 > max_skew, 1)
    return Effect(skew > max_skew, 0)


class _Tally:
    """The counts of one constraint's domains."""

    def __init__(
        self, constraint: TopologySpreadConstraint, fleet: Iterable[MemberCluster], held: Iterable[str]
    ) -> None:
        self.constraint = constraint
        key = constraint.topology_key
        self.domain_of = {c.name: c.metadata.labels[key] for c in fleet if key in c.metadata.labels}
        self.counts: dict[str, int] = dict.fromkeys(self.domain_of.values(), 0)
        for name in held:
            if name in self.domain_of:
                self.counts[self.domain_of[name]] += 1
        self._judge()

    def _judge(self) -> None:
        ordered = sorted(self.counts.values())
        max_skew = self.constraint.max_skew
        self.effects: Mapping[str, Effect] = {
            domain: effect_of(ordered, count, max_skew) for domain, count in self.counts.items()
        }

    def add(self, name: str) -> None:
        """Count one more held cluster."""
        if name in self.domain_of:
            self.counts[self.domain_of[name]] += 1
            self._judge()

    def effect(self, name: str) -> Effect:
        """Judge placing on this cluster; one without the label never violates and changes nothing."""
        domain = self.domain_of.get(name)
        return self.effects[domain] if domain is not None else Effect(violates=False, skew_change=0)


class Spread:
    """All constraints of a policy over a fleet, kept up to date while clusters are picked."""

    def __init__(
        self,
        constraints: Sequence[TopologySpreadConstraint],
        fleet: Sequence[MemberCluster],
        held: Iterable[str],
    ) -> None:
        names = tuple(held)
        tallies = [_Tally(constraint, fleet, names) for constraint in constraints]
        strict = UnsatisfiableAction.DO_NOT_SCHEDULE
        self._strict = [tally for tally in tallies if tally.constraint.when_unsatisfiable == strict]
        self._loose = [tally for tally in tallies if tally.constraint.when_unsatisfiable != strict]

    def __bool__(self) -> bool:
        return bool(self._strict or self._loose)

    def add(self, name: str) -> None:
        """Count a cluster that was just picked."""
        for tally in (*self._strict, *self._loose):
            tally.add(name)

    def refusal(self, name: str) -> str | None:
        """Return why a DoNotSchedule constraint refuses the cluster, if one does."""
        for tally in self._strict:
            if tally.effect(name).violates:
                constraint = tally.constraint
                return (
                    f'violated doNotSchedule topology spread constraint "{constraint.topology_key}" '
                    f"(max skew {constraint.max_skew})"
                )
        return None

    def score(self, name: str) -> int:
        """Return the topology spread score of a cluster that is not refused."""
        score = -sum(tally.effect(name).skew_change for tally in self._strict)
        for tally in self._loose:
            effect = tally.effect(name)
            score += VIOLATION_PENALTY if effect.violates else -effect.skew_change
        return score
