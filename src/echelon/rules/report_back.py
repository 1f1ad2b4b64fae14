"""Reporting status back: what a placed object's status is on its one member becomes its status on the hub.

Only where a placement asks for it (Mirror to OriginalResource) and has exactly one target cluster: of two clusters'
statuses none is the true one. Only for objects the placement selects itself, never for the content of envelopes, and
never for kinds whose status steers the hub (a member must not be able to end a namespace of the hub by reporting so).

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from echelon.api.conditions import is_true_at
from echelon.api.names import PlacementType, ReportBackDestination, ReportBackType, WorkCondition
from echelon.api.placement import Placement
from echelon.api.resource import Resource
from echelon.api.scope import Scope
from echelon.api.work import Work, WorkResourceIdentifier
from echelon.rules.binding_status_details import envelope_of
from echelon.rules.merge import diff_merge
from echelon.rules.plan import Action, Emit, Patch, Plan, ref_of

STEERING_GROUPS = frozenset(
    {
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "admissionregistration.k8s.io",
        "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    }
)
STEERING_KINDS = frozenset({"Namespace", "Node", "PersistentVolume"})  # of the core group

_CANNOT = "; cannot back-report status to original resources"


class Original(NamedTuple):
    """An object on the hub whose status is to become what its member reports."""

    resource: Resource
    namespace: str | None
    name: str
    status: Mapping[str, Any]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One placement and what its member has reported."""

    scope: Scope
    placement: Placement
    found: Sequence[tuple[Original, Mapping[str, Any]]] = ()  # with the objects as they are on the hub


def asks_for_it(placement: Placement) -> bool:
    """Whether a placement wants status in the original resources."""
    strategy = placement.spec.strategy
    wanted = strategy.report_back_strategy if strategy else None
    return (
        wanted is not None
        and wanted.type == ReportBackType.MIRROR
        and wanted.destination == ReportBackDestination.ORIGINAL_RESOURCE
    )


def problem_of(placement: Placement) -> str:
    """Say why a placement's policy rules reporting back out; empty when it does not."""
    policy = placement.spec.policy
    if policy is None:
        return f"no scheduling policy specified (the PickAll type is in use){_CANNOT}"
    match policy.placement_type:
        case PlacementType.PICK_FIXED if len(policy.cluster_names) != 1:
            count = len(policy.cluster_names)
            return (
                "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster "
                f"({count} clusters){_CANNOT}"
            )
        case PlacementType.PICK_N if policy.number_of_clusters is None:
            return (
                "the scheduling policy in use is of the PickN type, but no number of target clusters is specified"
                f"{_CANNOT}"
            )
        case PlacementType.PICK_N if policy.number_of_clusters != 1:
            return (
                "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1"
                f"{_CANNOT}"
            )
        case PlacementType.PICK_ALL:
            return f"the scheduling policy in use is of the PickAll type{_CANNOT}"
    return ""


def originals_of(placement: Placement, works: Sequence[Work]) -> list[Original]:
    """R-REPORT-1: only what the placement itself selects is reported back, never what steers the hub."""
    if placement.status is None or not asks_for_it(placement) or problem_of(placement):
        return []
    selected = {
        (it.group, it.version, it.kind, it.namespace, it.name)
        for it in placement.status.selected_resources
        if it.envelope is None
    }
    found: list[Original] = []
    for work in works:
        if work.metadata.is_deleting or envelope_of(work) is not None or not _is_applied(work):
            continue
        for entry in work.status.manifest_conditions if work.status else ():
            it, reported = entry.identifier, entry.back_reported_status
            key = (it.group, it.version, it.kind, it.namespace, it.name)
            if reported is None or key not in selected or _steers(it):
                continue
            status = (reported.observed_status or {}).get("status")
            if isinstance(status, Mapping) and it.resource:
                found.append(Original(_resource(it), it.namespace or None, it.name, status))
    return found


def _is_applied(work: Work) -> bool:
    conditions = work.status.conditions if work.status else ()
    return is_true_at(conditions, WorkCondition.APPLIED, work.metadata.generation)


def _steers(it: WorkResourceIdentifier) -> bool:
    return it.group in STEERING_GROUPS or (not it.group and it.kind in STEERING_KINDS)


def _resource(it: WorkResourceIdentifier) -> Resource:
    return Resource(it.group, it.version, it.resource, it.kind, bool(it.namespace))


def step(seen: Seen, _now: datetime) -> Plan:
    """Bring the status of the originals to what was reported, or say why that cannot be."""
    placement = seen.placement
    if not asks_for_it(placement):
        return Plan(why="not asked for")
    problem = problem_of(placement)
    if problem:
        return say(seen, problem)
    patches: tuple[Action, ...] = tuple(
        Patch(
            ref=ref_of(original.resource, live), body={"status": change}, subresource="status", gone_ok=True
        )
        for original, live in seen.found
        if (change := diff_merge(dict(live.get("status") or {}), dict(original.status)))
    )
    return Plan(steps=(patches,) if patches else (), why=f"{len(patches)} of {len(seen.found)} objects")


def say(seen: Seen, problem: str) -> Plan:
    """Tell the placement's author why status is not reported back."""
    about = ref_of(seen.scope.placement, seen.placement)
    event = Emit(about=about, reason="StatusNotReportedBack", message=problem, type="Warning")
    return Plan(events=(event,), why=problem)
