"""A binding's Works as they are, matched one by one with what they are to be: what to write and what to remove.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.binding import Binding
from echelon.api.names import (
    ANNOTATION_ABANDON,
    ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH,
    ANNOTATION_PARENT_OVERRIDE_HASH,
    ANNOTATION_WRITTEN_AT,
    ANNOTATION_WRITTEN_FOR,
    LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX,
    LABEL_TRUE,
    DeletePolicy,
    ReportBackType,
    member_namespace,
)
from echelon.api.own import WORKS
from echelon.api.placement import ApplyStrategy, ReportBackStrategy
from echelon.api.work import Work, WorkSpec
from echelon.rules.plan import Action, Create, Delete, Patch, Ref, ref_of
from echelon.rules.work_generation_content import (
    NotDeliverable,
    Wanted,
    binding_of_work,
    placement_of,
    placement_of_work,
    second_name,
)
from echelon.rules.work_generation_seen import Seen


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


class Works:
    """A binding's Works as they are, matched one by one with what they are to be."""

    def __init__(self, seen: Seen, now: datetime) -> None:
        self.seen = seen
        self.now = now
        self.namespace = member_namespace(seen.binding.spec.target_cluster)
        self._left = {work.name: work for work in seen.live_works}

    def keep_all(self) -> None:
        """Take all Works that are there for wanted."""
        self._left.clear()

    def kept(self) -> list[Work]:
        """Return the Works that are wanted and were there."""
        return [work for work in self.seen.live_works if work.name not in self._left]

    def left_over(self) -> list[Work]:
        """Return the Works that nothing wants any more."""
        return [self._left[name] for name in sorted(self._left)]

    def bring_to(self, wanted: Wanted) -> Action | None:
        """Return the write that makes a Work what it is to be; None when it is."""
        held = self._find(wanted)
        if held is None:
            return self._create(wanted)
        self._left.pop(held.name, None)
        return _update(self.seen, held, wanted, self.now)

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
                "annotations": {
                    **wanted.annotations,
                    **_written(self.seen, self.now),
                    **marks(self.seen, None),
                },
            },
            "spec": {"workload": {"manifests": wanted.render()}, **_strategies(self.seen)},
        }
        return Create(resource=WORKS, body=body, exists_ok=False)

    def _free_name(self, wanted: Wanted) -> str:
        """R-DELIVER-4: a Work of another placement is never touched; ours takes a second name then."""
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


def _update(seen: Seen, work: Work, wanted: Wanted, now: datetime) -> Patch | None:
    """R-DELIVER-3: a Work is written only when it holds another version, other overrides or another strategy."""
    spec = _spec_patch(seen, work)
    labels, annotations = work.metadata.labels, work.metadata.annotations
    index = LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX
    is_current = labels.get(index) == wanted.labels[index] and all(
        annotations.get(key) == wanted.annotations[key]
        for key in (ANNOTATION_PARENT_OVERRIDE_HASH, ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH)
    )
    if is_current:
        return _patch(seen, work, {}, spec, now)
    manifests = wanted.render()
    if list((work.spec or WorkSpec()).manifests) != manifests:
        spec["workload"] = {"manifests": manifests}
    meta = {"labels": {index: wanted.labels[index]}, "annotations": wanted.annotations}
    return _patch(seen, work, meta, spec, now)


def _patch(seen: Seen, work: Work, meta: dict[str, Any], spec: dict[str, Any], now: datetime) -> Patch | None:
    annotations = {**meta.get("annotations", {}), **marks(seen, work)}
    if spec:
        annotations |= _written(seen, now)
    body: dict[str, Any] = {"spec": spec} if spec else {}
    if annotations:
        body["metadata"] = {**meta, "annotations": annotations}
    return Patch(ref=_ref(work), body=body) if body else None


def marks(seen: Seen, work: Work | None) -> dict[str, str | None]:
    """R-DELIVER-10: Works say whether their objects stay when the placement goes; once it is gone, nobody else can.

    Returns only what is to be changed.
    """
    is_marked = work is not None and ANNOTATION_ABANDON in work.metadata.annotations
    placement = seen.placement
    if placement is None:
        return {}
    strategy = placement.spec.strategy.delete_strategy if placement.spec.strategy else None
    stays = strategy is not None and strategy.propagation_policy == DeletePolicy.ABANDON
    if stays == is_marked:
        return {}
    return {ANNOTATION_ABANDON: LABEL_TRUE if stays else None}


def _written(seen: Seen, now: datetime) -> dict[str, str]:
    """Note on a Work when and for which state of the binding the member was given something to do."""
    return {
        ANNOTATION_WRITTEN_FOR: str(seen.binding.metadata.generation),
        ANNOTATION_WRITTEN_AT: now.isoformat(),
    }


def _ref(work: Work) -> Ref:
    """Point at a Work whatever its member has reported since: what is wanted of it does not depend on that."""
    return msgspec.structs.replace(ref_of(WORKS, work), resource_version="")


def removals(
    works: Sequence[Work], seen: Seen | None = None, *, is_placement_leaving: bool = False
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """Return how Works go: first they are told what becomes of their objects, then they are deleted.

    While the placement stays they take everything along; when it goes, what they say themselves counts (brought up
    to date by `seen`, where the placement is still there to ask).
    """
    gone: dict[str, str | None] = {ANNOTATION_ABANDON: None}
    told: list[Action] = []
    for work in works:
        if is_placement_leaving:
            change = marks(seen, work) if seen else {}
        else:
            change = gone if ANNOTATION_ABANDON in work.metadata.annotations else {}
        if change:
            told.append(Patch(ref=_ref(work), body={"metadata": {"annotations": change}}, gone_ok=True))
    return tuple(told), tuple(Delete(ref=_ref(work)) for work in works)


def tunings(seen: Seen, now: datetime) -> tuple[Action, ...]:
    """Return the patches that bring strategies to Works whose content stays."""
    patches = (_patch(seen, work, {}, _spec_patch(seen, work), now) for work in seen.live_works)
    return tuple(patch for patch in patches if patch is not None)


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
