"""The queue between events and decisions: each key waits once, runs once at a time, and backs off alone.

A key added while it waits is not added again; added while it runs, it runs once more afterwards. Added for a
later moment, it keeps the earliest. The number of keys is bounded by the number of objects, so nothing is
ever refused or forgotten.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_S = 0.005  # a conflict is usually solved by looking again
MAX_RETRY_S = 60.0  # a broken dependency is asked once a minute per key
RETRY_FACTOR = 2.0
JITTER = 0.2  # keys that failed together do not come back together


class Queue(Generic[K]):
    """Deduplicating, single-flight, with timers and per-key back-off."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wakers: deque[asyncio.Future[None]] = deque()
        self._rng = rng or random.Random()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Ask for the key to be looked at."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._wake()

    def add_in(self, key: K, delay_s: float) -> None:
        """Ask for the key to be looked at after a delay; of two delays the shorter counts."""
        loop = asyncio.get_running_loop()
        held = self._timers.get(key)
        when = loop.time() + max(delay_s, 0.0)
        if held is not None:
            if held.when() <= when:
                return
            held.cancel()
        self._timers[key] = loop.call_at(when, self._fire, key)

    def retry(self, key: K, at_most_s: float = MAX_RETRY_S) -> float:
        """Ask for the key again after its own growing, jittered delay; returns the delay."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_RETRY_S * RETRY_FACTOR ** min(count - 1, 30), at_most_s)
        delay *= 1 + JITTER * (2 * self._rng.random() - 1)
        self.add_in(key, delay)
        return delay

    def succeeded(self, key: K) -> None:
        """Forget the key's failures."""
        self._failures.pop(key, None)

    def cancel_timer(self, key: K) -> None:
        """Forget the moment the key was to be looked at: a newer decision knows better."""
        timer = self._timers.pop(key, None)
        if timer:
            timer.cancel()

    async def take(self) -> K:
        """Wait for a key and take it; `done` must follow."""
        while not self._waiting:
            waker = asyncio.get_running_loop().create_future()
            self._wakers.append(waker)
            try:
                await waker
            finally:
                if waker in self._wakers:
                    self._wakers.remove(waker)
        key = self._waiting.popleft()
        self._queued.discard(key)
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """Give a taken key back."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def is_idle(self) -> bool:
        """Tell whether nothing waits and nothing runs (timers aside)."""
        return not self._waiting and not self._running

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._wakers:
            waker = self._wakers.popleft()
            if not waker.done():
                waker.set_result(None)
                return
