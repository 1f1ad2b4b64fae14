"""The member's side of delivery: every Work of our namespace on the hub, made true on the member and reported.

Watches Works on the hub and, through `Member`, the objects on the member, so a change on either side is looked at
at once. A look is: our AppliedWork (which owns all we apply), left-overs away, manifests in waves, then one
status. What is on the member is recorded in the AppliedWork before it is put there, so a crash at any moment
leaves nothing unowned and unknown, and the hub is written to once.

Time matters only for manifests that fail without anything to watch for (tried again, further and further apart)
and for a deletion that others block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.agent.apply import Applier, Job
from echelon.agent.member import Member
from echelon.api.cluster import InternalMemberCluster
from echelon.api.names import (
    ANNOTATION_ABANDON,
    FINALIZER_WORK_CLEANUP,
    LABEL_TRUE,
    MembershipState,
    member_namespace,
)
from echelon.api.own import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, WORKS
from echelon.api.scope import Key
from echelon.api.work import AppliedWork, AppliedWorkStatus, Work
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.errors import AlreadyExists
from echelon.rules.apply_report import Processed, applied_status, identifier_of, report
from echelon.rules.apply_task import owner_reference
from echelon.rules.plan import NOTHING, Patch, Plan, StatusWrite, ref_of
from echelon.rules.waves import Item, find_left_overs, read_manifests
from echelon.rules.work_apply import (
    HELD,
    Options,
    default_strategy,
    known_on_member,
    needs_unblocking_at,
    retry_delay_s,
    set_aside,
    without_finalizer,
)
from echelon.runtime.clock import Clock
from echelon.runtime.controller import Watch, each


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a Work found."""

    work: Work
    has_left: bool = False  # the member leaves the fleet: the Work is let go of, what it placed stays
    processed: tuple[Processed, ...] | None = None  # None: nothing was applied in this look
    is_gone: bool = False  # deleting, and everything is off the member
    wake_at: datetime | None = None


class Works:
    """The controller of Works on one member."""

    name = "work-applier"
    workers = 5

    def __init__(self, cluster: str, hub: Cache, member: Client, clock: Clock, options: Options) -> None:
        self.namespace = member_namespace(cluster)
        self.clock = clock
        self.options = options
        self.member = Member(member, self.changed)
        self.applier = Applier(member, self.member)
        self._cluster = cluster
        self._works = hub.store(WORKS, self.namespace)
        self._desks = hub.store(INTERNAL_MEMBER_CLUSTERS, self.namespace)
        self._client = self.applier.client
        self._applied = self.member.cache.store(APPLIED_WORKS)
        self._applied.subscribe(self._applied_work_changed)
        self._enqueue: Callable[[Key], None] | None = None
        self._early: set[Key] = set()
        self._failures: dict[Key, tuple[int, int]] = {}  # generation, looks in a row with a failed manifest

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow our Works, and our desk: joining and leaving concern all of them."""
        desk = Watch(INTERNAL_MEMBER_CLUSTERS, self._of_desk, self.namespace)
        return (each(WORKS, self.namespace), desk)

    def _of_desk(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        if old is not None and new is not None and old.spec.state == new.spec.state:
            return ()
        return tuple(Key(self.namespace, work.name) for work in self._works.all())

    # events of the member

    def connect(self, enqueue: Callable[[Key], None]) -> None:
        """Say where keys go that change on the member."""
        self._enqueue = enqueue
        for key in sorted(self._early, key=str):
            enqueue(key)
        self._early.clear()

    def changed(self, key: Key) -> None:
        """Ask for a look at a Work."""
        if self._enqueue is None:
            self._early.add(key)
        else:
            self._enqueue(key)

    def _applied_work_changed(self, old: AppliedWork | None, new: AppliedWork | None) -> None:
        if old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or new.metadata.is_deleting
        ):
            self.changed(Key(self.namespace, old.name))

    async def close(self) -> None:
        """Stop following the member."""
        await self.member.close()

    # one look

    async def load(self, key: Key) -> Looked | None:
        """Make a Work true on the member and gather what came of it."""
        work: Work | None = self._works.get(key.name, key.namespace)
        if work is None:
            self.applier.forget(key)
            self._failures.pop(key, None)
            return None
        desk: InternalMemberCluster | None = self._desks.get(self._cluster, self.namespace)
        if desk is None or desk.spec.state != MembershipState.JOIN:
            self.applier.forget(key)
            return Looked(work=work, has_left=desk is not None)
        await self._applied.synced.wait()
        if work.metadata.is_deleting:
            return await self._delete(key, work)
        if FINALIZER_WORK_CLEANUP not in work.metadata.finalizers:
            return Looked(work=work)
        applied = await self._ensure_applied_work(work)
        if applied.metadata.is_deleting:  # of an earlier Work of this name; its end is an event
            return None
        processed = await self._apply(key, work, applied)
        return Looked(work=work, processed=processed, wake_at=self._retry_at(key, work, processed))

    def decide(self, seen: Looked, now: datetime) -> Plan:
        """Report a look."""
        work = seen.work
        ref = ref_of(WORKS, work)
        if seen.has_left:
            return self._let_go(work)
        if work.metadata.is_deleting:
            if not seen.is_gone:
                return Plan(wake_at=seen.wake_at, why="waiting for the objects to go")
            if FINALIZER_WORK_CLEANUP not in work.metadata.finalizers:
                return NOTHING
            done = Patch(ref=ref, body=without_finalizer(work), gone_ok=True)
            return Plan(steps=((done,),), why="everything is off the member")
        if seen.processed is None:
            finalizers = [*work.metadata.finalizers, FINALIZER_WORK_CLEANUP]
            held = Patch(ref=ref, body={"metadata": {"finalizers": finalizers}})
            return Plan(steps=((held,),), why="the Work must not vanish before its objects")
        is_report_diff = default_strategy(work).type == "ReportDiff"
        status = report(work, seen.processed, now, is_report_diff=is_report_diff)
        write = StatusWrite(ref=ref, old=work.status, new=status) if status != work.status else None
        return Plan(status=write, wake_at=seen.wake_at, why="looked at every manifest")

    def _let_go(self, work: Work) -> Plan:
        """Leave the Work to the hub; what it placed stays on the member."""
        if FINALIZER_WORK_CLEANUP not in work.metadata.finalizers:
            return NOTHING
        ref = ref_of(WORKS, work)
        return Plan(steps=((Patch(ref=ref, body=without_finalizer(work), gone_ok=True),),), why="leaving")

    async def _apply(self, key: Key, work: Work, applied: AppliedWork) -> tuple[Processed, ...]:
        strategy = default_strategy(work)
        owner = owner_reference(applied.name, applied.metadata.uid)
        items = read_manifests(work.spec.manifests if work.spec else ())
        is_report_diff = strategy.type == "ReportDiff"
        if not is_report_diff:
            known = known_on_member(applied, work)
            await self.applier.remove(find_left_overs(known, items), owner)
            applied = await self._write_ahead(key, applied, items)
        job = Job(key=key, items=items, strategy=strategy, owner=owner, is_work=self._is_work)
        processed = await self.applier.apply(job)
        if is_report_diff:
            applied = await self._set_aside(applied, set_aside(applied, work))
        await self._record(applied, applied_status(processed, is_report_diff=is_report_diff))
        if not is_report_diff:
            await self._set_aside(applied, None)
        return processed

    def _is_work(self, name: str) -> bool:
        return self._works.get(name, self.namespace) is not None

    def _retry_at(self, key: Key, work: Work, processed: Sequence[Processed]) -> datetime | None:
        """Say when to try failed manifests again, each time later; a change is looked at at once anyway."""
        delay_s = 0.0
        generation, count = self._failures.get(key, (0, 0))
        count = count if generation == work.metadata.generation else 0
        delay_s = retry_delay_s(processed, count)
        if not delay_s:
            self._failures.pop(key, None)
            return None
        self._failures[key] = (work.metadata.generation, count + 1)
        return self.clock.now() + timedelta(seconds=delay_s)

    # the AppliedWork

    async def _ensure_applied_work(self, work: Work) -> AppliedWork:
        held: AppliedWork | None = self._applied.get(work.name)
        if held is not None:
            return held
        body = {
            "apiVersion": APPLIED_WORKS.api_version,
            "kind": APPLIED_WORKS.kind,
            "metadata": {"name": work.name},
            "spec": {"workName": work.name, "workNamespace": self.namespace},
        }
        try:
            made: AppliedWork = await self._client.create(APPLIED_WORKS, body)
        except AlreadyExists:
            made = await self._client.get(APPLIED_WORKS, work.name)
        self.member.cache.observe(APPLIED_WORKS, made)
        return made

    async def _write_ahead(self, key: Key, applied: AppliedWork, items: Sequence[Item]) -> AppliedWork:
        """Record what is about to be put on the member, if some of it is not recorded yet."""
        status = applied.status or AppliedWorkStatus()
        recorded = {(r.group, r.kind, r.namespace, r.name) for r in status.applied_resources}
        wanted: list[Mapping[str, Any]] = []
        for item in items:
            identity = item.identity
            if item.problem is not None or identity.thing in recorded:
                continue
            resource = await self.member.resolve(identity.group, identity.version, identity.kind, key)
            if resource is not None:
                wanted.append(msgspec.to_builtins(identifier_of(item, resource.plural)))
        if not wanted:
            return applied
        resources = [msgspec.to_builtins(record) for record in status.applied_resources] + wanted
        made: AppliedWork = await self._client.patch(
            APPLIED_WORKS,
            applied.name,
            None,
            {"status": {"appliedResources": resources}},
            subresource="status",
        )
        self.member.cache.observe(APPLIED_WORKS, made)
        return made

    async def _record(self, applied: AppliedWork, status: AppliedWorkStatus) -> None:
        """Record what is on the member now."""
        before = applied.status or AppliedWorkStatus()
        if before == status:
            return
        made = await self._client.patch(
            APPLIED_WORKS,
            applied.name,
            None,
            {"status": {"appliedResources": msgspec.to_builtins(status.applied_resources)}},
            subresource="status",
        )
        self.member.cache.observe(APPLIED_WORKS, made)

    async def _set_aside(self, applied: AppliedWork, held: str | None) -> AppliedWork:
        """Keep in mind (or forget) what stays on the member while only differences are reported."""
        if applied.metadata.annotations.get(HELD) == held:
            return applied
        body = {"metadata": {"annotations": {HELD: held}}}
        made: AppliedWork = await self._client.patch(APPLIED_WORKS, applied.name, None, body)
        self.member.cache.observe(APPLIED_WORKS, made)
        return made

    # deletion

    async def _delete(self, key: Key, work: Work) -> Looked:
        """Take everything off the member: the AppliedWork goes, with all it owns (or without, if that is wanted)."""
        applied: AppliedWork | None = self._applied.get(work.name)
        if applied is None:
            self.applier.forget(key)
            return Looked(work=work, is_gone=True)
        if not applied.metadata.is_deleting:
            stays = work.metadata.annotations.get(ANNOTATION_ABANDON) == LABEL_TRUE
            await self._client.delete(
                APPLIED_WORKS,
                applied.name,
                uid=applied.metadata.uid,
                propagation="Orphan" if stays else "Foreground",
            )
            return Looked(work=work)
        unblock_at = needs_unblocking_at(applied, self.options)
        if self.clock.now() < unblock_at:
            return Looked(work=work, wake_at=unblock_at)
        records = [record for record in known_on_member(applied, work) if record.get("resource")]
        await self.applier.unblock(records, owner_reference(applied.name, applied.metadata.uid))
        return Looked(work=work, wake_at=self.clock.now() + timedelta(minutes=1))
