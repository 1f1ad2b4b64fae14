"""Keeps the metric of placements true by following the placements themselves. Name and labels are contract.

A placement's series live as long as the placement. Decides nothing: where a placement stands is told by its rule.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.rules.placement_status import standing
from echelon.runtime.clock import Clock

Labels = tuple[str, ...]
MAX_SERIES = 50  # of one placement: a few generations of it; a metric store is no history


class PlacementMetrics:
    """The metric of all placements of a process, of both scopes."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.clock = clock
        self.status = Gauge(
            "fleet_workload_placement_status_last_timestamp_seconds",
            "When a placement was last seen to stand here, in seconds since 1970.",
            ("namespace", "name", "generation", "conditionType", "status", "reason"),
            registry=registry,
        )
        self._series: dict[Labels, dict[Labels, None]] = {}  # by namespace and name

    def sees(self, scope: Scope, old: Placement | None, new: Placement | None) -> None:
        """Take a change of a placement in."""
        if new is None:
            if old is not None:
                for labels in self._series.pop((old.namespace or "", old.name), ()):
                    self.status.remove(*labels)
            return
        now = standing(scope, new)
        if old is not None and standing(scope, old) == now:
            return
        key = (new.namespace or "", new.name)
        labels = (*key, *now)
        series = self._series.setdefault(key, {})
        series[labels] = None
        if len(series) > MAX_SERIES:
            oldest = next(iter(series))
            del series[oldest]
            self.status.remove(*oldest)
        self.status.labels(*labels).set(self.clock.now().timestamp())
