"""A limit on how often one client asks: a token bucket, in the order of asking."""

from __future__ import annotations

import asyncio


class Rate:
    """At most `burst` requests at once and `qps` a second in the long run."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._left = float(burst)  # below zero: so many requests wait already
        self._counted_at: float | None = None

    def take(self, now_s: float) -> float:
        """Take one request; returns the seconds to wait before it may be sent."""
        if self._counted_at is not None:
            self._left = min(self._burst, self._left + (now_s - self._counted_at) * self._qps)
        self._counted_at = now_s
        self._left -= 1.0
        return max(0.0, -self._left / self._qps)

    async def wait(self) -> None:
        """Wait for one's turn."""
        delay_s = self.take(asyncio.get_running_loop().time())
        if delay_s > 0:
            await asyncio.sleep(delay_s)
