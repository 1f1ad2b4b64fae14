"""From a binding to its Works, and from their reports back to the binding.

    (a rollout points the binding at a version and stamps RolloutStarted at its generation)
    finalizer → Works written → "in progress" → members report → Applied, Available (or DiffReported)
    deleted   → Works deleted → they are gone (or their member is silent for too long) → finalizer removed

Nothing is written for a Bound binding before it was handed over: RolloutStarted, True or False, at its current
generation. A Work is rewritten only when it holds another version or other overrides than the binding names; what
is in it is worked out only then. Either everything of a version can be worked out, or nothing is written.

Pure. Errors of content end up in the binding's status, worded for the author; events (a snapshot, an override, a
label of a cluster that appears) bring the next look, never a timer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from echelon.api.binding import Binding, BindingStatus
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE, NamespacedName
from echelon.api.names import (
    ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH,
    ANNOTATION_PARENT_OVERRIDE_HASH,
    FINALIZER_WORK_CLEANUP,
    LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX,
    BindingState,
    PlacementCondition,
    ReportBackType,
    is_reserved_namespace,
    member_namespace,
)
from echelon.api.override import OverrideSnapshot
from echelon.api.own import WORKS
from echelon.api.placement import ApplyStrategy, Placement, ReportBackStrategy
from echelon.api.scope import Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.work import Work, WorkSpec
from echelon.rules import binding_status
from echelon.rules.binding_life import with_finalizer, without_finalizer
from echelon.rules.override_apply import OverrideFailure, Overrider
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, Ref, StatusWrite, ref_of
from echelon.rules.work_generation_content import (
    NotDeliverable,
    Wanted,
    binding_of_work,
    has_version,
    order_group,
    placement_of,
    placement_of_work,
    second_name,
    wanted_works,
)

DELETION_WAIT = timedelta(seconds=30)
"""How long a deleted binding waits for its Works to be gone: a silent member must not hold up the hub for ever."""


# API servers quote what they refuse; an object may hold secrets and does not belong into a status
_QUOTED_OBJECT = re.compile(r"Invalid value: (\"\{.*\}\"|\{.*\}|\"\[.*\]\"|\[.*\])", re.DOTALL)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub decides."""

    allow_powerful_in_envelopes: bool = False  # roles, role bindings, webhooks inside a ResourceEnvelope


def _nobody(_name: str) -> Work | None:
    return None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One binding and everything its Works are made of."""

    scope: Scope
    binding: Binding
    cluster: MemberCluster | None = None
    placement: Placement | None = None
    works: Sequence[Work] = ()  # of this binding, those being deleted too
    find_work: Callable[[str], Work | None] = _nobody  # any Work in the member's namespace, by name
    master: ResourceSnapshot | None = None
    group: Sequence[ResourceSnapshot] = ()  # all parts of the master's version
    cluster_overrides: Mapping[str, OverrideSnapshot] = {}
    overrides: Mapping[NamespacedName, OverrideSnapshot] = {}
    options: Options = Options()

    @property
    def live_works(self) -> list[Work]:
        """The Works of this binding that are there to stay."""
        return [work for work in self.works if not work.metadata.is_deleting]


class DuplicateWorks(NotDeliverable):
    """Several Works claim to hold the same envelope; a person has to say which one stays."""

    def __init__(self, names: Sequence[str], envelope: str, namespace: str) -> None:
        super().__init__(
            f"{len(names)} work objects found for the same envelope {envelope}, only one expected"
        )
        self.event = (
            f"Multiple Work objects ({', '.join(names)}) found for envelope {envelope} in namespace {namespace}; "
            "delete all but the oldest to recover"
        )


def step(seen: Seen, now: datetime) -> Plan:
    """Decide what delivery of one binding needs next."""
    binding = seen.binding
    if binding.metadata.is_deleting:
        return _let_go(seen, now)
    why_not = _not_ours(seen)
    if why_not:
        return Plan(why=why_not)
    if not _is_handed_over(binding):
        return Plan(why="not handed over yet")
    return _synchronize(seen, now)


def _not_ours(seen: Seen) -> str:
    """Say why nothing is delivered for this binding; empty when it is to be delivered."""
    binding = seen.binding
    if binding.spec.state not in {BindingState.BOUND, BindingState.UNSCHEDULED}:
        return "not bound"
    if not binding.spec.resource_snapshot_name:
        return "no version was ever given to it"
    if seen.cluster is None:
        return "its cluster is not a member"
    if not placement_of(binding).name:
        return "it names no placement"
    if binding.namespace and is_reserved_namespace(binding.namespace):
        return "its namespace is reserved"
    return ""


def _is_handed_over(binding: Binding) -> bool:
    """Whether a rollout has pointed the binding at what it names; one given up stays as it was last."""
    if binding.spec.state == BindingState.UNSCHEDULED:
        return True
    conditions = binding.status.conditions if binding.status else ()
    stamp = find_condition(conditions, PlacementCondition.ROLLOUT_STARTED)
    return (
        stamp is not None
        and stamp.status in {TRUE, FALSE}
        and stamp.observed_generation == binding.metadata.generation
    )


# --- deletion ---------------------------------------------------------------------------------------------------------
def _let_go(seen: Seen, now: datetime) -> Plan:
    binding = seen.binding
    if FINALIZER_WORK_CLEANUP not in binding.metadata.finalizers:
        return NOTHING
    live = seen.live_works
    if live:
        deletes = tuple(_delete(work) for work in live)
        return Plan(steps=(deletes,), why="removing what was delivered")
    asked_at = [work.metadata.deletion_timestamp for work in seen.works]
    latest = max((at for at in asked_at if at is not None), default=None)
    if latest is not None and now < latest + DELETION_WAIT:
        return Plan(wake_at=latest + DELETION_WAIT, why="waiting for the member to remove it")
    release = without_finalizer(seen.scope.binding, binding, FINALIZER_WORK_CLEANUP)
    return Plan(steps=((release,),), why="everything is removed")


def _delete(work: Work) -> Delete:
    return Delete(ref=_ref(work))


def _ref(work: Work) -> Ref:
    """Point at a Work whatever its member has reported since: what is wanted of it does not depend on that."""
    return msgspec.structs.replace(ref_of(WORKS, work), resource_version="")


# --- synchronizing -------------------------------------------------------------------------------------------------------
def _synchronize(seen: Seen, now: datetime) -> Plan:
    finalizer = with_finalizer(seen.scope.binding, seen.binding, FINALIZER_WORK_CLEANUP)
    steps: list[tuple[Action, ...]] = [(finalizer,)] if finalizer else []
    event = ""
    try:
        writes, removals = _differences(seen)
    except OverrideFailure as error:
        steps.append(_tunings(seen))
        report = binding_status.not_overridden(str(error))
    except NotDeliverable as error:
        steps.append(_tunings(seen))
        report = binding_status.not_synchronized(seen.binding, str(error))
        event = error.event if isinstance(error, DuplicateWorks) else ""
    else:
        steps += [tuple(writes), tuple(removals)]
        if any(_is_news(action) for action in (*writes, *removals)):
            report = binding_status.in_progress(seen.binding)
        else:
            report = binding_status.judge(seen.binding, seen.live_works)
    return _plan(seen, steps, report, event, now)


def _plan(
    seen: Seen,
    steps: list[tuple[Action, ...]],
    report: binding_status.Report,
    event: str,
    now: datetime,
) -> Plan:
    ref = ref_of(seen.scope.binding, seen.binding)
    old = seen.binding.status or BindingStatus()
    new = binding_status.status_of(seen.binding, report, now)
    emit = Emit(about=ref, reason="DuplicateEnvelopeWorks", message=event, type="Warning")
    last = report.told[-1]
    return Plan(
        steps=tuple(group for group in steps if group),
        status=StatusWrite(ref=ref, old=old, new=new) if new != old else None,
        events=(emit,) if event and new != old else (),
        why=f"{last.type} {last.status}: {last.reason}",
    )


def explain(seen: Seen, refusal: str, now: datetime) -> Plan:
    """Say in the binding's status that the API server refused to write its Works."""
    if seen.binding.metadata.is_deleting or _not_ours(seen):
        return NOTHING
    shown = _QUOTED_OBJECT.sub("Invalid value: (not shown)", refusal)
    return _plan(seen, [], binding_status.not_synchronized(seen.binding, shown), "", now)


def _is_news(action: Action) -> bool:
    """Whether a write gives the member something to do (a new label on a Work does not)."""
    return not isinstance(action, Patch) or "spec" in action.body


def _differences(seen: Seen) -> tuple[list[Action], list[Action]]:
    """Return what to write and what to remove; raises OverrideFailure or NotDeliverable."""
    binding = seen.binding
    if seen.master is None:
        if has_version(seen.live_works, binding):
            return list(_tunings(seen)), []
        raise OverrideFailure("the master resource snapshot is not found")
    group = order_group(seen.master, seen.group, placement_of(binding))
    overrider = cache(lambda: _overrider(seen))  # asked for only when content has to be worked out
    allow = seen.options.allow_powerful_in_envelopes
    works = _Works(seen)
    writes = [
        action
        for wanted in wanted_works(binding, group, overrider, allow_powerful=allow)
        if (action := works.bring_to(wanted)) is not None
    ]
    return writes, [_delete(work) for work in works.left_over()]


def _overrider(seen: Seen) -> Overrider:
    spec = seen.binding.spec
    for name in spec.cluster_resource_override_snapshots:
        if name not in seen.cluster_overrides:
            raise OverrideFailure(f"clusterResourceOverrideSnapshot {name} is not found")
    for ref in spec.resource_override_snapshots:
        if ref not in seen.overrides:
            raise OverrideFailure(f"resourceOverrideSnapshot {{{ref.name} {ref.namespace}}} is not found")
    assert seen.cluster is not None
    return Overrider(
        seen.cluster,
        [seen.cluster_overrides[name] for name in spec.cluster_resource_override_snapshots],
        [seen.overrides[ref] for ref in spec.resource_override_snapshots],
    )


class _Works:
    """A binding's Works as they are, matched one by one with what they are to be."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.namespace = member_namespace(seen.binding.spec.target_cluster)
        self._left = {work.name: work for work in seen.live_works}

    def left_over(self) -> list[Work]:
        """Return the Works that nothing wants any more."""
        return [self._left[name] for name in sorted(self._left)]

    def bring_to(self, wanted: Wanted) -> Action | None:
        """Return the write that makes a Work what it is to be; None when it is."""
        held = self._find(wanted)
        if held is None:
            return self._create(wanted)
        self._left.pop(held.name, None)
        return _update(self.seen, held, wanted)

    def _find(self, wanted: Wanted) -> Work | None:
        if wanted.envelope:
            found = [
                work for work in self._left.values() if _envelope_labels(work, wanted) == wanted.identity
            ]
            if len(found) > 1:
                raise DuplicateWorks(sorted(work.name for work in found), wanted.envelope, self.namespace)
            return found[0] if found else None
        for name in (wanted.name, second_name(wanted.name, self.seen.binding)):
            if name in self._left:
                return self._left[name]
        return None

    def _create(self, wanted: Wanted) -> Create:
        body: dict[str, Any] = {
            "apiVersion": WORKS.api_version,
            "kind": WORKS.kind,
            "metadata": {
                "name": self._free_name(wanted),
                "namespace": self.namespace,
                "labels": wanted.labels,
                "annotations": wanted.annotations,
            },
            "spec": {"workload": {"manifests": wanted.render()}, **_strategies(self.seen)},
        }
        return Create(resource=WORKS, body=body, exists_ok=False)

    def _free_name(self, wanted: Wanted) -> str:
        """Return a name nobody has: the contract's, or a second one when that is another placement's."""
        for name in (wanted.name, second_name(wanted.name, self.seen.binding)):
            holder = self.seen.find_work(name)
            if holder is None:
                return name
            if _is_of_placement(holder, self.seen.binding):
                raise NotDeliverable(_is_in_the_way(holder, self.seen.binding))
        raise NotDeliverable(f"both names of work {wanted.name} in namespace {self.namespace} are taken")


def _envelope_labels(work: Work, wanted: Wanted) -> tuple[str, ...]:
    return wanted._replace(labels=dict(work.metadata.labels)).identity


def _is_of_placement(work: Work, binding: Binding) -> bool:
    """Whether a Work was made for the placement of this binding (by it, or by one before it)."""
    return placement_of_work(work) == placement_of(binding)


def _is_in_the_way(work: Work, binding: Binding) -> str:
    holder = binding_of_work(work).name
    if work.metadata.is_deleting:
        return f"work {work.name} is still being deleted on cluster {binding.spec.target_cluster}"
    return f"work {work.name} still belongs to binding {holder} of the same placement"


def _update(seen: Seen, work: Work, wanted: Wanted) -> Patch | None:
    """Return the patch that brings a Work to the binding's version and strategy."""
    spec = _spec_patch(seen, work)
    labels, annotations = work.metadata.labels, work.metadata.annotations
    index = LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX
    is_current = labels.get(index) == wanted.labels[index] and all(
        annotations.get(key) == wanted.annotations[key]
        for key in (ANNOTATION_PARENT_OVERRIDE_HASH, ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH)
    )
    if is_current:
        return _patch(work, {"spec": spec}) if spec else None
    manifests = wanted.render()
    if list((work.spec or WorkSpec()).manifests) != manifests:
        spec["workload"] = {"manifests": manifests}
    body: dict[str, Any] = {
        "metadata": {"labels": {index: wanted.labels[index]}, "annotations": wanted.annotations}
    }
    return _patch(work, {**body, "spec": spec} if spec else body)


def _tunings(seen: Seen) -> tuple[Action, ...]:
    """Return the patches that bring strategies to Works whose content stays."""
    specs = [(work, _spec_patch(seen, work)) for work in seen.live_works]
    return tuple(_patch(work, {"spec": spec}) for work, spec in specs if spec)


def _patch(work: Work, body: dict[str, Any]) -> Patch:
    return Patch(ref=_ref(work), body=body)


# --- strategies ----------------------------------------------------------------------------------------------------------
def _strategies(seen: Seen) -> dict[str, Any]:
    """Return the strategies of a new Work."""
    wanted = {
        "applyStrategy": seen.binding.spec.apply_strategy,
        "reportBackStrategy": _report_back(seen, None),
    }
    return {key: msgspec.to_builtins(value) for key, value in wanted.items() if value is not None}


def _spec_patch(seen: Seen, work: Work) -> dict[str, Any]:
    """Return how a Work's strategies differ from what they are to be."""
    spec = work.spec or WorkSpec()
    changes: dict[str, Any] = {}
    apply = seen.binding.spec.apply_strategy
    if spec.apply_strategy != apply:
        changes["applyStrategy"] = _replacing(spec.apply_strategy, apply)
    report_back = _report_back(seen, spec.report_back_strategy)
    if spec.report_back_strategy != report_back:
        changes["reportBackStrategy"] = _replacing(spec.report_back_strategy, report_back)
    return changes


def _report_back(seen: Seen, held: ReportBackStrategy | None) -> ReportBackStrategy | None:
    """Return how members report status back: as the placement says; while it is not there, as before."""
    if seen.placement is None:
        return held
    strategy = seen.placement.spec.strategy
    wanted = strategy.report_back_strategy if strategy else None
    return wanted if wanted is not None and wanted.type == ReportBackType.MIRROR else None


def _replacing(
    old: ApplyStrategy | ReportBackStrategy | None, new: ApplyStrategy | ReportBackStrategy | None
) -> dict[str, Any] | None:
    """Return the merge patch that puts new in the place of old, leaving nothing of it."""
    if new is None:
        return None
    was: dict[str, Any] = msgspec.to_builtins(old) if old is not None else {}
    wanted: dict[str, Any] = msgspec.to_builtins(new)
    return {**{key: None for key in was if key not in wanted}, **wanted}
