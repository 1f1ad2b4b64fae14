"""Keeps the metrics of staged runs true by following the runs themselves. Names and labels are contract.

A run's series live as long as the run. Decides nothing: what is counted is told by `rules/run_metrics.py`.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram

from echelon.api.staged import Run
from echelon.rules.run_metrics import approval_latencies, stage_durations, standing
from echelon.runtime.clock import Clock

APPROVAL_BUCKETS = (60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400)
STAGE_BUCKETS = (15, 30, 60, 120, 300, 600, 1800, 3600)


class RunMetrics:
    """The metrics of all runs of a process, of both scopes."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.clock = clock
        run = ("namespace", "name")
        self.status = Gauge(
            "fleet_workload_update_run_status_last_timestamp_seconds",
            "When a run was last seen with these conditions, in seconds since 1970.",
            (*run, "state", "condition", "status", "reason", "failureType"),
            registry=registry,
        )
        self.approvals = Histogram(
            "fleet_workload_update_run_approval_request_latency_seconds",
            "Seconds from a run's question to a person's answer.",
            (*run, "taskType"),
            registry=registry,
            buckets=APPROVAL_BUCKETS,
        )
        self.stages = Histogram(
            "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
            "Seconds in which the clusters of a stage were updated.",
            run,
            registry=registry,
            buckets=STAGE_BUCKETS,
        )
        self._series: dict[tuple[str, str], set[tuple[Any, tuple[str, ...]]]] = {}

    def sees(self, old: Run | None, new: Run | None) -> None:
        """Take a change of a run in."""
        if new is None:
            if old is not None:
                self._forget((old.namespace or "", old.name))
            return
        key = (new.namespace or "", new.name)
        now = standing(new)
        if now is not None and (old is None or standing(old) != now):
            self._of(self.status, key, *now).set(self.clock.now().timestamp())
        for task_type, seconds in approval_latencies(old, new):
            self._of(self.approvals, key, task_type).observe(seconds)
        for seconds in stage_durations(old, new):
            self._of(self.stages, key).observe(seconds)

    def _of(self, metric: Any, key: tuple[str, str], *labels: str) -> Any:
        values = (*key, *labels)
        self._series.setdefault(key, set()).add((metric, values))
        return metric.labels(*values)

    def _forget(self, key: tuple[str, str]) -> None:
        for metric, values in self._series.pop(key, ()):
            metric.remove(*values)
