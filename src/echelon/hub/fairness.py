"""How many requests are served at once, and whose turn is next when there are more.

Below the limit nobody waits. Above it each client waits in a queue of its own
and the queues take turns, so a client with a thousand requests delays another's
one by one request, not by a thousand. A full queue is answered with 429.
Members of system:masters do not wait, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections import deque

from echelon.hub.call import MASTERS, User
from echelon.hub.status import too_many_requests

MAX_ACTIVE = 100
"""Requests served at once: enough that writers share their commits."""

MAX_QUEUED = 200
"""Requests one client may have waiting."""

MAX_WAITING = 5_000
"""Requests of all clients together that may wait: their bodies are in memory."""

MAX_WATCHES = 20_000
"""Watches served at once."""


class Fairness:
    """Lets requests in, in turns."""

    def __init__(self, active: int = MAX_ACTIVE, queued: int = MAX_QUEUED) -> None:
        self._limit = active
        self._queue_limit = queued
        self.active = 0
        self.waiting = 0
        self.rejected = 0
        self._flows: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, user: User) -> None:
        """Wait for a turn; refuse when too many of this client's requests wait already."""
        if (self.active < self._limit and not self.waiting) or MASTERS in user.groups:
            self.active += 1
            return
        flow = self._flows.setdefault(user.name, deque())
        if len(flow) >= self._queue_limit or self.waiting >= MAX_WAITING:
            self.rejected += 1
            raise too_many_requests()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # the turn came as the client left
            else:
                self._forget(user.name, turn)
            raise

    def leave(self) -> None:
        """End a request, and give its place to the next client in turn."""
        self.active -= 1
        while self.active < self._limit and self._flows:
            name = next(iter(self._flows))
            flow = self._flows.pop(name)
            turn = flow.popleft()
            if flow:
                self._flows[name] = flow  # to the end of the round
            self.waiting -= 1
            if not turn.done():
                self.active += 1
                turn.set_result(None)

    def _forget(self, name: str, turn: asyncio.Future[None]) -> None:
        flow = self._flows.get(name)
        if flow is not None and turn in flow:
            flow.remove(turn)
            self.waiting -= 1
            if not flow:
                del self._flows[name]
