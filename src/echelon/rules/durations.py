"""Durations as Kubernetes writes them: `90s`, `1h30m`, and the one form they are stored in.

Parses what a wait time may be and renders it the way the API stores it (`1m` becomes `1m0s`). Exact arithmetic:
a wait of 0.1 s is a tenth of a second, not a float near it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_UNIT_MS = {"h": Decimal(3_600_000), "m": Decimal(60_000), "s": Decimal(1000), "ms": Decimal(1)}
MAX_WAIT = timedelta(days=36_500)  # a longer wait would leave the range of dates; nobody waits a century


def parse_duration(text: str) -> timedelta:
    """Read a duration; raises ValueError for anything else."""
    milliseconds, end = Decimal(0), 0
    for part in _PART.finditer(text):
        if part.start() != end:
            break
        milliseconds += Decimal(part[1]) * _UNIT_MS[part[2]]
        end = part.end()
    if not text or end != len(text):
        raise ValueError(f"{text!r} is not a duration such as 90s, 15m or 1h30m")
    if milliseconds > Decimal(MAX_WAIT.total_seconds()) * 1000:
        return MAX_WAIT
    return timedelta(microseconds=int(milliseconds * 1000))


def render_duration(duration: timedelta) -> str:
    """Write a duration in its stored form: 1h0m0s, 1m30s, 0.5s as 500ms, 0s."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000_000:
        return f"{_short(Decimal(microseconds) / 1000)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_short(Decimal(rest) / 1_000_000)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _short(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
