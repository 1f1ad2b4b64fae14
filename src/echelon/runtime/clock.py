"""Time as an argument: the one clock of a process, and how to wait on it.

`now` is the wall clock for decisions, the event loop's own clock is for waiting. A simulation replaces both
at once (`runtime/simulation.py`), so nobody else may call datetime.now or time.time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...


class WallClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return datetime.now(UTC)
