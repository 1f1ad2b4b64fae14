"""How often a status that only tells progress is written.

A status tells of every cluster. Written at every step of every cluster, its bytes would grow with the square of the
clusters; written at a pace that is in step with its size, they grow with the clusters alone. Where many are under way
at once each takes longer, so they share the pace; but nobody waits longer than SHARED because of others.
"""

from __future__ import annotations

from datetime import datetime, timedelta

SHARED = timedelta(seconds=5)  # people still see things move


def due_at(written_at: datetime, alone: timedelta, busy: int) -> datetime:
    """R-PACE-3: when the next write is due: after what one takes alone, or its share among those under way."""
    return written_at + max(alone, min(alone * busy, SHARED))
