"""Carries the manifests of one Work to the member: the I/O of `rules/apply.py`, wave after wave.

It decides nothing: every question is asked by the rule's generator, here it is only sent and its answer brought
back. An object that stayed as it was since it was dealt with is not asked about again (`_Settled`), so an event
about one object costs nothing for its neighbours. That memory is a saving only; losing it loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from echelon.agent.member import Member, Thing, thing_of
from echelon.agent.strategic import strategic_of
from echelon.api.builtin import NAMESPACES
from echelon.api.names import FIELD_MANAGER_WORK_AGENT
from echelon.api.placement import ApplyStrategy
from echelon.api.resource import Resource
from echelon.api.scope import Key
from echelon.client.base import Client
from echelon.client.errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests
from echelon.rules.apply import plan_apply
from echelon.rules.apply_report import Processed
from echelon.rules.apply_task import (
    Ask,
    Create,
    DryRun,
    Owner,
    Refused,
    Reply,
    Result,
    Task,
    is_owned_by,
    owners_of,
)
from echelon.rules.available import availability_of
from echelon.rules.member_manifest import Identity, Manifest, is_unchanged, metadata_of
from echelon.rules.waves import Item, wave_of_kind

MAX_PARALLEL = 8  # manifests of one Work at a time: fast, and a slow member is not flooded
MAX_LOOKS = 3  # at an object that changes while we write; then the conflict is reported and tried again later

# Outcomes that stay true as long as manifest, strategy and object stay the same.
_SETTLED = frozenset(
    {
        "Applied",
        "FoundDrifts",
        "FoundDriftsInDegradedMode",
        "NoDiffFound",
        "FoundDiff",
        "FoundDiffInDegradedMode",
        "NotTakenOver",
    }
)


class Settled(NamedTuple):
    """What an object looked like when a manifest was last dealt with, and what came of it."""

    manifest: Manifest
    strategy: ApplyStrategy
    result: Result


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One Work's manifests, ready to be carried."""

    key: Key
    items: tuple[Item, ...]
    strategy: ApplyStrategy
    owner: Owner
    is_work: Callable[[str], bool]


class Applier:
    """Applies Works on one member."""

    def __init__(self, client: Client, member: Member) -> None:
        self.client = Client(client.transport, field_manager=FIELD_MANAGER_WORK_AGENT)
        self.member = member
        self._settled: dict[Key, dict[Identity, Settled]] = {}
        self._slots = asyncio.Semaphore(MAX_PARALLEL)

    def forget(self, key: Key) -> None:
        """Forget what is known about a Work that is gone."""
        self._settled.pop(key, None)
        self.member.hold(key, ())

    async def apply(self, job: Job) -> tuple[Processed, ...]:
        """Deal with every manifest of a Work, in order of waves; failures are results, not errors."""
        done: dict[int, Processed] = {}
        things: set[Thing] = set()
        for wave in self._waves(job):
            answers = await _all(self._one(job, item, things) for item in wave)
            done.update((answer.item.ordinal, answer) for answer in answers)
        self.member.hold(job.key, things)
        await self.member.release_unused()
        self._remember(job, done.values())
        return tuple(done[item.ordinal] for item in job.items)

    def _waves(self, job: Job) -> Iterable[Sequence[Item]]:
        if job.strategy.type == "ReportDiff":
            return [job.items] if job.items else []

        def wave(item: Item) -> int:
            return wave_of_kind(item.identity.group, item.identity.kind)

        return [tuple(group) for _, group in groupby(sorted(job.items, key=wave), key=wave)]

    def _remember(self, job: Job, answers: Iterable[Processed]) -> None:
        self._settled[job.key] = {
            one.item.identity: Settled(one.item.manifest, job.strategy, one.result)
            for one in answers
            if one.result.outcome in _SETTLED and one.result.live is not None
        }

    async def _one(self, job: Job, item: Item, things: set[Thing]) -> Processed:
        if item.problem is not None:
            outcome, error = item.problem
            return Processed(item=item, plural="", result=Result(outcome=outcome, error=error))
        identity = item.identity
        resource = await self.member.resolve(identity.group, identity.version, identity.kind, job.key)
        if resource is None:
            return Processed(item=item, plural="", result=_unknown_kind(identity))
        if resource.namespaced and not identity.namespace:
            return Processed(item=item, plural=resource.plural, result=_NO_NAMESPACE)
        thing = thing_of(resource, identity.namespace, identity.name)
        things.add(thing)
        self.member.hold_also(job.key, (thing,))
        async with self._slots:
            result = await self._result(job, item, thing)
        if result.outcome == "ManifestApplyFailed" and identity.namespace:
            # It may be the namespace that is missing: its coming is news then, not only the next try.
            things.add(thing_of(NAMESPACES, "", identity.namespace))
        availability = None
        if result.is_applied and result.live is not None:
            availability = availability_of(resource.group, resource.version, resource.plural, result.live)
        return Processed(item=item, plural=resource.plural, result=result, availability=availability)

    async def _result(self, job: Job, item: Item, thing: Thing) -> Result:
        look: Callable[[Thing], Any] = self.member.live
        for last in (*[False] * (MAX_LOOKS - 1), True):
            try:
                live = await look(thing)
            except TooManyRequests:
                raise
            except ApiError as error:
                why = f"failed to find the corresponding object for the manifest object in the member cluster: {error}"
                return Result(outcome="FailedToFindObjInMemberCluster", error=why)
            known = self._still_settled(job, item, live)
            if known is not None:
                return known
            task = Task(
                identity=item.identity,
                manifest=item.manifest,
                live=live,
                strategy=job.strategy,
                owner=job.owner,
                is_work=job.is_work,
                strategic=strategic_of(item.identity),
            )
            result, has_moved = await self._drive(task, thing)
            if not has_moved or last:
                return result
            look = self.member.read
        raise AssertionError("unreachable")

    def _still_settled(self, job: Job, item: Item, live: Manifest | None) -> Result | None:
        """Return the earlier result if nothing that it depends on has changed."""
        known = self._settled.get(job.key, {}).get(item.identity)
        if known is None or live is None or known.result.live is None:
            return None
        if known.manifest != item.manifest or known.strategy != job.strategy:
            return None
        if not is_unchanged(known.result.live, live):
            return None
        return msgspec.structs.replace(known.result, live=live)

    async def _drive(self, task: Task, thing: Thing) -> tuple[Result, bool]:
        """Run the rule, carrying its questions; also tell whether the object changed under our hands."""
        rule = plan_apply(task)
        has_moved = False
        try:
            ask = next(rule)
            while True:
                reply, moved = await self._carry(ask, thing)
                has_moved = has_moved or moved
                ask = rule.send(reply)
        except StopIteration as end:
            result: Result = end.value
            return result, has_moved

    async def _carry(self, ask: Ask, thing: Thing) -> tuple[Reply, bool]:
        place = thing.place
        try:
            if isinstance(ask, DryRun):
                reply = await self.client.patch(
                    place.resource,
                    thing.name,
                    place.namespace,
                    ask.body,
                    type="apply",
                    force=True,
                    dry_run=True,
                )
                return reply, False
            if isinstance(ask, Create):
                reply = await self.client.create(place.resource, ask.body, place.namespace)
            else:
                reply = await self.client.patch(
                    place.resource, thing.name, place.namespace, ask.body, type=ask.type, force=ask.force
                )
        except TooManyRequests:
            raise
        except ApiError as error:
            is_moved = isinstance(error, AlreadyExists) or (
                isinstance(error, (Conflict, NotFound)) and not isinstance(ask, Create) and ask_is_locked(ask)
            )
            return Refused(error.code, str(error)), is_moved
        self.member.observe(thing, reply)
        return reply, False

    # objects that no manifest speaks of any more -------------------------------------------------------------------

    async def remove(self, left_overs: Sequence[Mapping[str, Any]], owner: Owner) -> None:
        """Remove objects that this Work applied earlier; what others own too is only let go of."""
        await _all(self._remove_one(record, owner) for record in left_overs)

    async def _remove_one(self, record: Mapping[str, Any], owner: Owner) -> None:
        namespace = record.get("namespace") or ""
        resource = Resource(
            record.get("group") or "",
            record.get("version") or "",
            record["resource"],
            record.get("kind") or "",
            bool(namespace),
        )
        live = await self._read(resource, record.get("name") or "", namespace)
        if live is None or metadata_of(live).get("deletionTimestamp") or not is_owned_by(live, owner):
            return
        meta = metadata_of(live)
        try:
            if len(owners_of(live)) > 1:
                rest = [ref for ref in owners_of(live) if ref.get("uid") != owner["uid"]]
                body = {"metadata": {"ownerReferences": rest, "resourceVersion": meta.get("resourceVersion")}}
                await self.client.patch(resource, meta["name"], namespace or None, body)
            else:
                await self.client.delete(resource, meta["name"], namespace or None, uid=meta.get("uid", ""))
        except NotFound:
            return

    async def _read(self, resource: Resource, name: str, namespace: str) -> Manifest | None:
        try:
            found: Manifest = await self.client.get(resource, name, namespace or None)
        except NotFound:
            return None
        return found

    async def unblock(self, records: Sequence[Mapping[str, Any]], owner: Owner) -> None:
        """Let a deletion of ours that waits for co-owned objects go on: our reference no longer blocks it."""
        for record in records:
            namespace = record.get("namespace") or ""
            resource = Resource(
                record.get("group") or "",
                record.get("version") or "",
                record["resource"],
                record.get("kind") or "",
                bool(namespace),
            )
            live = await self._read(resource, record.get("name") or "", namespace)
            if live is None or len(owners_of(live)) < 2 or not is_owned_by(live, owner):
                continue
            refs = [
                {**ref, "blockOwnerDeletion": False} if ref.get("uid") == owner["uid"] else ref
                for ref in owners_of(live)
            ]
            if refs != list(owners_of(live)):
                meta = metadata_of(live)
                body = {"metadata": {"ownerReferences": refs, "resourceVersion": meta.get("resourceVersion")}}
                await self.client.patch(resource, meta["name"], namespace or None, body)


_NO_NAMESPACE = Result(
    outcome="FailedToFindObjInMemberCluster",
    error="failed to find the corresponding object for the manifest object in the member cluster: an empty namespace"
    " may not be set when a resource name is provided",
)


def ask_is_locked(ask: Ask) -> bool:
    """Tell whether a write names the revision it was decided on."""
    return "resourceVersion" in (ask.body.get("metadata") or {})


def _unknown_kind(identity: Identity) -> Result:
    version = f"{identity.group}/{identity.version}" if identity.group else identity.version
    why = (
        "failed to decode manifest: failed to find GVR from member cluster client REST mapping:"
        f' no matches for kind "{identity.kind}" in version "{version}"'
    )
    return Result(outcome="DecodingErred", error=why)


async def _all(work: Iterable[Any]) -> list[Any]:
    """Run side by side, let all finish, then raise the first error."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers
