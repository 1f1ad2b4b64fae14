"""Logs and metrics of a process: one place that sets them up, so that everything else only says things.

Logs are one line a thing, `key=value` for people or JSON for machines, to stderr. Payloads of objects are never
logged; names, revisions and reasons are.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MAX_LOGGED_VALUE = 2000  # a longer value is cut: an error text can quote a whole object

Level = Literal["debug", "info", "warning", "error"]


def configure_logs(level: Level = "info", *, as_json: bool = False) -> None:
    """Set up logging for the process."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _cut,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


def _cut(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Cut values that are too long to be read."""
    for key, value in event.items():
        if isinstance(value, str) and len(value) > MAX_LOGGED_VALUE:
            event[key] = value[:MAX_LOGGED_VALUE] + "..."
    return event


class Telemetry:
    """The metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("controller",)
        self.decisions = Counter("echelon_decisions_total", "Rules applied.", labels, registry=self.registry)
        self.failures = Counter(
            "echelon_failures_total",
            "Looks that failed and will be repeated.",
            labels,
            registry=self.registry,
        )
        self.seconds = Histogram(
            "echelon_decision_seconds",
            "Seconds from load to the last write of a decision.",
            labels,
            registry=self.registry,
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
        )
        self.waiting = Gauge(
            "echelon_queue_keys", "Keys waiting to be looked at.", labels, registry=self.registry
        )
        self.writes = Counter(
            "echelon_writes_total", "Writes sent to the API.", ("verb", "resource"), registry=self.registry
        )

    def page(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)
