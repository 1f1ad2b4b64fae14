"""Leader election on a coordination.k8s.io Lease, the way every Kubernetes controller does it.

One of several replicas holds the Lease and works; it renews well before the lease runs out and stops working the
moment it could not. Times are judged by how long *we* have seen a record unchanged, never by comparing clocks of
two machines. Losing the lease ends `lead`; starting again is the caller's decision (a process usually exits).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from echelon.api.builtin import LEASES
from echelon.client.base import Client
from echelon.client.errors import ApiError, Conflict, NotFound, Unreachable
from echelon.runtime.clock import Clock

log = structlog.get_logger("echelon.lease")


class Timing(msgspec.Struct, frozen=True):
    """How long a lease lasts, when renewing must have worked, how often it is tried."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


def micro_time(at: datetime) -> str:
    """Render a time as Kubernetes' MicroTime."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def claim(held: Mapping[str, Any] | None, identity: str, timing: Timing, now: datetime) -> dict[str, Any]:
    """Return the lease spec with which `identity` takes or keeps the lease."""
    spec = dict(held or {})
    transitions = int(spec.get("leaseTransitions") or 0)
    mine = spec.get("holderIdentity") == identity
    if not mine:
        spec["acquireTime"] = micro_time(now)
        transitions += 1 if spec.get("holderIdentity") else 0
    spec |= {
        "holderIdentity": identity,
        "leaseDurationSeconds": round(timing.duration_s),
        "renewTime": micro_time(now),
        "leaseTransitions": transitions,
    }
    return spec


class Election:
    """One candidate for one lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self.timing = timing or Timing()
        self.is_leader = False
        self.error = (
            ""  # why the last try to take or renew failed; empty when it only belongs to somebody else
        )
        self._seen: tuple[str, float] = ("", 0.0)  # the record last seen, and since when (loop time)
        self._is_lost = False  # somebody else was seen to hold what was ours

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        patience_s = self.timing.renew_deadline_s / 2
        while not await self._try(patience_s):  # noqa: ASYNC110 - another process holds it; only asking tells
            await asyncio.sleep(self.timing.retry_s)
        self.is_leader = True

    async def hold(self) -> None:
        """Renew the lease until it is somebody else's, or renewing has not worked for the deadline; then return.

        A server that takes the request and never answers is no excuse: the deadline counts from the last renewal.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timing.renew_deadline_s
        while loop.time() < deadline and not self._is_lost:
            await asyncio.sleep(min(self.timing.retry_s, max(deadline - loop.time(), 0)))
            asked_at = loop.time()
            if asked_at < deadline and await self._try(deadline - asked_at):
                deadline = asked_at + self.timing.renew_deadline_s
        self.is_leader = False

    async def release(self) -> None:
        """Let go of the lease, so that the next one need not wait for it to run out."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            lease = await self.client.get(LEASES, self.name, self.namespace)
            if lease["spec"].get("holderIdentity") == self.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self.client.update(LEASES, {**lease, "spec": spec}, self.name, self.namespace)
        except (ApiError, Unreachable):
            return  # it runs out by itself

    async def _try(self, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                mine = await self._take_or_renew()
        except (ApiError, Unreachable, TimeoutError) as error:
            said = str(error) or f"no answer within {patience_s:.0f} s"
            if said != self.error:
                log.warning("cannot take the lease, will try again", lease=self.name, error=said)
            self.error = said
            return False
        self.error = ""
        return mine

    async def _take_or_renew(self) -> bool:
        now = self.clock.now()
        try:
            lease = await self.client.get(LEASES, self.name, self.namespace)
        except NotFound:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": claim(None, self.identity, self.timing, now),
            }
            await self.client.create(LEASES, body, self.namespace)
            return True
        if not self._is_free(lease.get("spec") or {}):
            return False
        spec = claim(lease.get("spec"), self.identity, self.timing, now)
        try:
            await self.client.update(LEASES, {**lease, "spec": spec}, self.name, self.namespace)
        except Conflict:
            return False
        return True

    def _is_free(self, spec: Mapping[str, Any]) -> bool:
        """Tell whether the lease is ours, unheld, or has not been renewed for its whole duration."""
        holder = spec.get("holderIdentity") or ""
        if holder in {"", self.identity}:
            return True
        self._is_lost = self.is_leader
        record = f"{holder}/{spec.get('renewTime')}"
        loop_now = asyncio.get_running_loop().time()
        if record != self._seen[0]:
            self._seen = (record, loop_now)
            return False
        return loop_now - self._seen[1] > float(spec.get("leaseDurationSeconds") or self.timing.duration_s)
