"""Looks at the member when a heartbeat is due: is it up, what has it got, what does its property provider know.

The built-in collection reads nodes and pods. A provider, if there is one, is asked instead; one that does not start
or answer in time is done without (and asked again at the next beat), because a heartbeat must never wait for it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

import msgspec

from echelon.api.builtin import NAMESPACES, NODES, PODS
from echelon.api.cluster import PropertyValue
from echelon.api.meta import Condition, timestamp
from echelon.api.names import PROPERTY_CA_DATA, PROPERTY_ENTRYPOINT
from echelon.client.base import Client
from echelon.client.errors import ApiError, Unreachable
from echelon.rules import heartbeat, properties
from echelon.rules.properties import Collected
from echelon.runtime.clock import Clock

_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"


class Provider(Protocol):
    """Somebody's code that knows more about a cluster."""

    async def start(self, member: Client) -> None:
        """Get ready; raise if that is impossible."""
        ...

    async def collect(self) -> Collected:
        """Return what is known now."""
        ...


class Prober:
    """Looks at one member."""

    def __init__(
        self, member: Client, clock: Clock, provider: Provider | None = None, *, with_namespaces: bool = False
    ) -> None:
        self._member = member
        self._clock = clock
        self._provider = provider
        self._with_namespaces = with_namespaces
        self._is_started = False
        self._calls: set[asyncio.Task[Collected]] = set()

    async def probe(self) -> heartbeat.Probe:
        """Look."""
        try:
            await self._member.raw("GET", "/readyz")
        except ApiError as error:
            return heartbeat.Probe(ready_code=error.code)
        except Unreachable:
            return heartbeat.Probe(ready_code=0)
        now = self._clock.now()
        conditions = await self._start(now)
        found = None
        if self._is_started:
            found, said = await self._collect(now)
            conditions += (said,)
        if found is None:
            found = await built_in(self._member, now, with_namespaces=self._with_namespaces)
        return heartbeat.Probe(
            ready_code=200,
            usage=found.usage,
            properties=found.properties,
            namespaces=found.namespaces,
            conditions=(*conditions, *found.conditions),
        )

    async def close(self) -> None:
        """Give up calls that still hang."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    # the provider

    async def _start(self, now: datetime) -> tuple[Condition, ...]:
        if self._provider is None:
            return ()
        if self._is_started:
            return (properties.started(now),)
        try:
            async with asyncio.timeout(properties.MAX_START_S):
                await self._provider.start(self._member)
        except TimeoutError:
            return (properties.start_timed_out(now),)
        except Exception as error:  # noqa: BLE001 - somebody else's code; its failure is reported, not ours
            return (properties.start_failed(str(error), now),)
        self._is_started = True
        return (properties.started(now),)

    async def _collect(self, now: datetime) -> tuple[Collected | None, Condition]:
        assert self._provider is not None
        if len(self._calls) >= properties.MAX_CALLS:
            return None, properties.too_many_calls(now)
        call = asyncio.create_task(self._provider.collect(), name="property provider")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        done, _ = await asyncio.wait({call}, timeout=properties.MAX_COLLECT_S)
        if not done:
            return None, properties.collect_timed_out(now)
        error = call.exception()
        if error is not None:
            return None, properties.collect_failed(str(error), now)
        return call.result(), properties.collected(now)


async def built_in(member: Client, now: datetime, *, with_namespaces: bool = False) -> Collected:
    """Return what every cluster can tell."""
    listed: dict[str, str] | None = None
    said: tuple[Condition, ...] = ()
    try:
        version = await version_of(member)
        nodes = (await member.list(NODES)).items
        pods = (await member.list(PODS, fields=_RUNNING)).items
        if with_namespaces:
            listed, one = properties.namespaces_of((await member.list(NAMESPACES)).items, now)
            said = (one,)
    except (ApiError, Unreachable):
        return Collected()  # alive, but it would not say what it has
    return Collected(
        properties=heartbeat.properties_of(len(nodes), version, now),
        usage=heartbeat.usage_of(nodes, pods, now),
        namespaces=listed,
        conditions=said,
    )


async def version_of(member: Client) -> str:
    """Return the Kubernetes version of a cluster."""
    answer = msgspec.json.decode(await member.raw("GET", "/version"), type=dict[str, str])
    return answer.get("gitVersion", "")


class ReachableProvider:
    """Tells, beside what every cluster can tell, where the member's API server is reached and whom to trust there."""

    def __init__(self, clock: Clock, entrypoint: str, certificates: bytes = b"") -> None:
        self._clock = clock
        self._entrypoint = entrypoint
        self._certificates = certificates
        self._member: Client | None = None

    async def start(self, member: Client) -> None:
        """Get ready."""
        self._member = member

    async def collect(self) -> Collected:
        """Return what every cluster can tell, and how to reach this one."""
        assert self._member is not None
        now = self._clock.now()
        found = await built_in(self._member, now)
        at = timestamp(now)
        more = {PROPERTY_ENTRYPOINT: PropertyValue(value=self._entrypoint, observation_time=at)}
        if self._certificates:
            text = self._certificates.decode()
            more[PROPERTY_CA_DATA] = PropertyValue(value=text, observation_time=at)
        return msgspec.structs.replace(found, properties={**found.properties, **more})
