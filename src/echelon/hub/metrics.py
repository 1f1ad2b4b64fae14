"""/metrics: what the hub counts, in Prometheus' text format and kube-apiserver's names."""

from __future__ import annotations

import resource
from bisect import bisect_left
from typing import TYPE_CHECKING

from echelon.hub.call import Response

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.route import Target

BOUNDS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)
MAX_SERIES = 5_000
"""Label sets kept; unknown paths share one, so a scanner cannot fill memory."""

TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, str, str, str, str]


class Metrics:
    """Counts requests by verb, resource and code."""

    def __init__(self) -> None:
        self._requests: dict[tuple[Labels, int], int] = {}
        self._buckets: dict[Labels, list[int]] = {}
        self._seconds: dict[Labels, float] = {}
        self.rejected = 0
        self.in_flight = 0
        self.watches = 0

    def count(self, target: Target | None, code: int, seconds: float) -> None:
        """Count one answered request."""
        labels: Labels = ("", "", "", "", "")
        if target is not None and code != 404:
            verb = target.verb.upper()
            labels = (verb, target.group, target.version, target.plural, target.subresource)
        if labels not in self._buckets:
            if len(self._buckets) >= MAX_SERIES:
                labels = ("", "", "", "", "")
            self._buckets.setdefault(labels, [0] * (len(BOUNDS_S) + 1))
        self._requests[labels, code] = self._requests.get((labels, code), 0) + 1
        if labels[0] != "WATCH":
            self._buckets[labels][bisect_left(BOUNDS_S, seconds)] += 1
            self._seconds[labels] = self._seconds.get(labels, 0.0) + seconds

    def serve(self, hub: Hub) -> Response:
        """Answer with everything."""
        lines: list[str] = []
        self._write_requests(lines)
        self._write_durations(lines)
        self._write_state(lines, hub)
        return Response(200, ("\n".join(lines) + "\n").encode(), TYPE)

    def _write_requests(self, lines: list[str]) -> None:
        _head(lines, "apiserver_request_total", "counter", "Requests answered.")
        for (labels, code), count in sorted(self._requests.items()):
            lines.append(f'apiserver_request_total{{code="{code}",{_text(labels)}}} {count}')

    def _write_durations(self, lines: list[str]) -> None:
        name = "apiserver_request_duration_seconds"
        _head(lines, name, "histogram", "Time to answer requests, watches apart.")
        for labels, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip([*BOUNDS_S, "+Inf"], buckets, strict=True):
                total += count
                lines.append(f'{name}_bucket{{{_text(labels)},le="{bound}"}} {total}')
            lines.append(f"{name}_sum{{{_text(labels)}}} {self._seconds.get(labels, 0.0):.6f}")
            lines.append(f"{name}_count{{{_text(labels)}}} {total}")

    def _write_state(self, lines: list[str], hub: Hub) -> None:
        store = hub.store
        usage = resource.getrusage(resource.RUSAGE_SELF)
        gauges = (
            (
                "apiserver_current_inflight_requests",
                "Requests being answered, watches apart.",
                self.in_flight,
            ),
            ("apiserver_longrunning_requests", "Watches being served.", self.watches),
            ("apiserver_flowcontrol_rejected_requests_total", "Requests refused with 429.", self.rejected),
            ("echelon_hub_revision", "Newest durable revision.", store.committed),
            (
                "echelon_hub_compacted_revision",
                "Oldest revision that cannot be watched from.",
                store.compacted,
            ),
            ("echelon_hub_history_events", "Events kept for watches.", store.history_length),
            ("echelon_hub_logical_clusters", "Logical clusters served.", len(hub.clusters)),
            ("process_cpu_seconds_total", "CPU time used.", round(usage.ru_utime + usage.ru_stime, 3)),
            ("process_resident_memory_bytes", "Largest resident size so far.", usage.ru_maxrss * 1024),
        )
        for name, text, value in gauges:
            _head(lines, name, "counter" if name.endswith("_total") else "gauge", text)
            lines.append(f"{name} {value}")
        _head(lines, "apiserver_storage_objects", "gauge", "Objects stored, over all logical clusters.")
        counts: dict[str, int] = {}
        for tables in list(store.tables.values()):
            for table in tables.values():
                group, _, plural = table.resource.partition("/")
                named = f"{plural}.{group}" if group else plural
                counts[named] = counts.get(named, 0) + len(table.live)
        for named, count in sorted(counts.items()):
            lines.append(f'apiserver_storage_objects{{resource="{named}"}} {count}')


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _text(labels: Labels) -> str:
    names = ("verb", "group", "version", "resource", "subresource")
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, labels, strict=True))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
