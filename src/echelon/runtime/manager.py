"""Runs a set of controllers over one cache: the engine of a process.

`start` returns when every controller follows what it watches; `stop` lets decisions in flight finish their
current write, then ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.runtime.clock import Clock, WallClock
from echelon.runtime.controller import Controller, Loop
from echelon.runtime.perform import Performer
from echelon.runtime.telemetry import Telemetry


class Manager:
    """Controllers of one process against one API server."""

    def __init__(self, client: Client, clock: Clock | None = None, *, component: str = "echelon") -> None:
        self.client = client
        self.clock = clock or WallClock()
        self.cache = Cache(client)
        self.telemetry = Telemetry()
        self.performer = Performer(
            client, self.cache, self.clock, component=component, telemetry=self.telemetry
        )
        self.loops: list[Loop] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, controllers: Sequence[Controller]) -> None:
        """Start controllers and wait until their first lists are in."""
        for controller in controllers:
            loop = Loop(controller, self.cache, self.performer, self.clock, self.telemetry)
            self.loops.append(loop)
            self._tasks.append(asyncio.create_task(loop.run(), name=controller.name))
        await asyncio.sleep(0)
        await self.cache.synced()

    def is_idle(self) -> bool:
        """Tell whether no controller has anything to look at right now (timers aside)."""
        return all(loop.queue.is_idle() for loop in self.loops)

    def is_synced(self) -> bool:
        """Tell whether the controllers run and every store holds its first list."""
        return bool(self.loops) and self.cache.is_synced()

    async def wait(self) -> None:
        """Wait until a controller ends, which only a bug makes happen, and raise its error."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=lambda task: task.get_name()):
            task.result()

    async def stop(self) -> None:
        """End all controllers and stop following."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.cache.close()
