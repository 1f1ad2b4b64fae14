"""One member of the fleet, as a process part: its heartbeat and its applier, started and stopped together.

It needs two clients: one of the hub, acting as the member's identity (whose Role allows exactly what is done here),
and one of the member itself. It waits for neither: a hub that does not know the member yet, or cannot be reached,
is asked again until it answers. Idle, it costs a few parked tasks and nothing else.
"""

from __future__ import annotations

import asyncio

import msgspec

from echelon.agent.heartbeat import Heartbeat
from echelon.agent.properties import Prober, Provider
from echelon.agent.works import Works
from echelon.api.names import member_namespace
from echelon.api.own import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, WORKS
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.errors import ApiError, NotFound, Unreachable
from echelon.rules import work_apply
from echelon.runtime.clock import Clock
from echelon.runtime.controller import Controller, Loop
from echelon.runtime.member_metrics import AgentMetrics
from echelon.runtime.perform import Performer
from echelon.runtime.telemetry import Telemetry


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of a member decides."""

    works: work_apply.Options = work_apply.Options()
    collect_namespaces: bool = (
        False  # tell the hub which namespaces there are: placements can then follow them
    )


class CannotStart(Exception):
    """The member lacks something the agent cannot do without; the text says what and how to mend it."""


class Agent:
    """The agent of one member."""

    def __init__(
        self,
        hub: Client,
        member: Client,
        clock: Clock,
        name: str,
        options: Options | None = None,
        telemetry: Telemetry | None = None,
        provider: Provider | None = None,
        metrics: AgentMetrics | None = None,
    ) -> None:
        self.name = name
        self.options = options or Options()
        self._hub = hub
        self._member = member
        self._clock = clock
        self._metrics = metrics
        self._telemetry = telemetry  # shared by many agents of one process; made when there is none
        self._prober = Prober(member, clock, provider, with_namespaces=self.options.collect_namespaces)
        self._tasks: list[asyncio.Task[None]] = []
        self.loops: list[Loop] = []

    @property
    def is_started(self) -> bool:
        """Tell whether everything is under way."""
        return bool(self._tasks)

    async def start(self) -> None:
        """Start; returns once everything is under way, whether or not the hub answers yet."""
        await self._check()
        self._cache = Cache(self._hub)
        self.works = Works(self.name, self._cache, self._member, self._clock, self.options.works)
        heartbeat = Heartbeat(self._cache, self._member, self._clock, self.name, self._prober)
        if self._metrics is not None:
            space = member_namespace(self.name)
            self._cache.store(WORKS, space).subscribe(self._metrics.sees_work)
            self._cache.store(INTERNAL_MEMBER_CLUSTERS, space).subscribe(self._metrics.sees_desk)
        performer = Performer(self._hub, self._cache, self._clock, component="member-agent")
        telemetry = self._telemetry or Telemetry()
        controllers: tuple[Controller, ...] = (heartbeat, self.works)
        for controller in controllers:
            loop = Loop(controller, self._cache, performer, self._clock, telemetry)
            self.loops.append(loop)
            task = asyncio.create_task(loop.run(), name=f"{self.name} {controller.name}")
            self._tasks.append(task)

    async def _check(self) -> None:
        """Refuse to start on a member that cannot keep the record of what was applied."""
        try:
            await self._member.page(APPLIED_WORKS, limit=1)
        except NotFound as error:
            why = (
                f"the member cluster {self.name} does not serve {APPLIED_WORKS.full_name}, in which the agent"
                " records what it applied; install it there: echelon crds | kubectl apply --server-side -f -"
            )
            raise CannotStart(why) from error
        except (ApiError, Unreachable):
            return  # not a reason to give up: it is asked again

    def is_idle(self) -> bool:
        """Tell whether there is nothing to look at right now (timers aside)."""
        return all(loop.queue.is_idle() for loop in self.loops)

    async def wait(self) -> None:
        """Wait until a part of the agent ends, which only a bug makes happen, and raise its error."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """End: what is under way is cut off, and continues where it was when an agent starts again."""
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self.loops.clear()
        await self.works.close()
        await self._prober.close()
        await self._cache.close()
