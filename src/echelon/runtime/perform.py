"""The only code that writes: performs a Plan.

Idempotent: a patch that would change nothing is not sent, a create of what exists and a delete of what is gone
count as done, and every write that carries a seen resourceVersion is compare-and-swap. Steps go one after the
other, the actions of a step side by side; the status comes last, events after it. An error ends the plan after
its step: whoever decided will decide anew from what is then true.

Every answer is fed back into the cache, so the next decision sees its own writes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import EVENTS
from echelon.api.resource import Resource
from echelon.client.base import Client
from echelon.client.cache import Cache, meta_of
from echelon.client.errors import AlreadyExists, ApiError, NotFound
from echelon.rules.merge import diff_merge
from echelon.rules.plan import Action, Create, Delete, Emit, Patch, Plan, Ref, StatusWrite
from echelon.runtime.clock import Clock
from echelon.runtime.telemetry import Telemetry

MAX_PARALLEL_WRITES = 32  # of one plan: a full stage starts side by side without drowning the API
MAX_REMEMBERED_EVENTS = (
    1000  # told again they cost one request instead of three; forgotten they are told all the same
)
MAX_EVENT_MESSAGE = 1024  # the API's own limit for the note of an Event


# Where one plan has written, and the version each place has since: a plan does not conflict with itself.
Place = tuple[str, str, str | None, str]
Versions = dict[Place, str]


def _place(ref: Ref) -> Place:
    return ref.resource.group, ref.resource.plural, ref.namespace, ref.name


def _version(ref: Ref, own: Versions) -> str:
    """Return the version to compare with: the one seen, or the one this plan has made of it."""
    return own.get(_place(ref), ref.resource_version) if ref.resource_version else ""


class Performer:
    """Performs plans with one client, feeding results back into one cache."""

    def __init__(
        self,
        client: Client,
        cache: Cache | None,
        clock: Clock,
        *,
        component: str,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.client = client
        self.cache = cache
        self.clock = clock
        self.component = component
        self.write_count = 0
        self._writes = telemetry.writes if telemetry else None
        self._slots = asyncio.Semaphore(MAX_PARALLEL_WRITES)
        self._told: dict[tuple[str, str], int] = {}  # Events told lately, and how often

    async def perform(self, plan: Plan) -> None:
        """Carry out a plan; raises the first error after letting the other actions of that step finish."""
        own: Versions = {}
        for step in plan.steps:
            if len(step) == 1:
                await self._act(step[0], own)
                continue
            results = await asyncio.gather(
                *(self._act(action, own) for action in step), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        if plan.status is not None:
            await self._write_status(plan.status, own)
        for event in plan.events:
            await self._emit(event)

    async def _act(self, action: Action, own: Versions) -> None:
        async with self._slots:
            match action:
                case Create():
                    await self._create(action)
                case Patch():
                    await self._patch(action, own)
                case Delete():
                    await self._delete(action, own)
                case Emit():
                    await self._emit(action)

    def _count(self, verb: str, resource: Resource) -> None:
        self.write_count += 1
        if self._writes is not None:
            self._writes.labels(verb, resource.plural).inc()

    async def _create(self, action: Create) -> None:
        namespace = action.body["metadata"].get("namespace")
        self._count("create", action.resource)
        if action.subresource:
            name = action.body["metadata"]["name"]
            await self.client.create(
                action.resource, action.body, namespace, subresource=action.subresource, name=name
            )
            return  # the answer is not the object
        try:
            made = await self.client.create(action.resource, action.body, namespace)
        except AlreadyExists:
            if not action.exists_ok:
                raise
            return
        self._observe(Ref(resource=action.resource, name=""), made)

    async def _patch(self, action: Patch, own: Versions) -> None:
        try:
            if action.body:
                await self._send_patch(action.ref, action.body, action.subresource, own)
            if action.status is not None:
                await self._send_patch(action.ref, {"status": action.status}, "status", own)
        except NotFound:
            if not action.gone_ok:
                raise

    async def _send_patch(self, ref: Ref, body: Mapping[str, Any], subresource: str, own: Versions) -> None:
        if ref.resource_version:
            meta = {**body.get("metadata", {}), "resourceVersion": _version(ref, own)}
            body = {**body, "metadata": meta}
        self._count(f"patch {subresource}".rstrip(), ref.resource)
        made = await self.client.patch(ref.resource, ref.name, ref.namespace, body, subresource=subresource)
        own[_place(ref)] = meta_of(made)[1]
        self._observe(ref, made)

    async def _delete(self, action: Delete, own: Versions) -> None:
        ref = action.ref
        self._count("delete", ref.resource)
        try:
            terminating = await self.client.delete(
                ref.resource,
                ref.name,
                ref.namespace,
                uid=ref.uid,
                resource_version=_version(ref, own),
                propagation=action.propagation,
                grace_s=action.grace_s,
            )
        except NotFound:
            return
        if terminating is not None:
            self._observe(ref, terminating)

    async def _write_status(self, write: StatusWrite, own: Versions) -> None:
        old = msgspec.to_builtins(write.old) or {}
        patch = diff_merge(old, msgspec.to_builtins(write.new))
        if patch:
            await self._send_patch(write.ref, {"status": patch}, "status", own)

    async def _emit(self, event: Emit) -> None:
        """Write a Kubernetes Event named after what it says, so that saying it again only counts."""
        about, now = event.about, self.clock.now()
        name = event_name(event)
        namespace = about.namespace or "default"
        message = event.message[:MAX_EVENT_MESSAGE]
        body = event_body(event, name, namespace, message, now, self.component)
        try:
            if (namespace, name) in self._told and await self._count_again(name, namespace, now):
                return
            self._count("create", EVENTS)
            try:
                await self.client.create(EVENTS, body, namespace)
                self._remember(name, namespace, 1)
            except AlreadyExists:
                held = await self.client.get(EVENTS, name, namespace)
                self._remember(name, namespace, held.get("count") or 1)
                await self._count_again(name, namespace, now)
        except ApiError:
            return  # an Event is a courtesy: the state itself is in the status

    async def _count_again(self, name: str, namespace: str, now: datetime) -> bool:
        """Add one to an Event this process knows; False when it is gone meanwhile."""
        count = self._told.pop((namespace, name)) + 1
        again = {"count": count, "lastTimestamp": wire_time(now)}
        self._count("patch", EVENTS)
        try:
            await self.client.patch(EVENTS, name, namespace, again)
        except NotFound:
            return False
        self._remember(name, namespace, count)
        return True

    def _remember(self, name: str, namespace: str, count: int) -> None:
        """Keep in mind how often an Event was told: telling it again is then one request instead of three."""
        self._told[namespace, name] = count
        if len(self._told) > MAX_REMEMBERED_EVENTS:
            self._told.pop(next(iter(self._told)))

    def _observe(self, ref: Ref, made: Any) -> None:
        if self.cache is not None:
            self.cache.observe(ref.resource, made)


def wire_time(at: datetime) -> str:
    """Render a time the way Kubernetes does, to the second."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def event_name(event: Emit) -> str:
    """Name an Event after its subject and what it says."""
    said = f"{event.about.uid}/{event.about.name}/{event.type}/{event.reason}/{event.message}"
    return f"{event.about.name[:200]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def event_body(
    event: Emit, name: str, namespace: str, message: str, now: datetime, component: str
) -> dict[str, Any]:
    """Build the core/v1 Event."""
    about = event.about
    involved = {
        "apiVersion": f"{about.resource.group}/{about.resource.version}".lstrip("/"),
        "kind": about.resource.kind,
        "name": about.name,
        **({"namespace": about.namespace} if about.namespace else {}),
        **({"uid": about.uid} if about.uid else {}),
        **({"resourceVersion": about.resource_version} if about.resource_version else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": event.type,
        "reason": event.reason,
        "message": message,
        "count": 1,
        "firstTimestamp": wire_time(now),
        "lastTimestamp": wire_time(now),
        "source": {"component": component},
        "reportingComponent": component,
    }
