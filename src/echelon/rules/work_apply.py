"""Decisions about a Work as a whole on its member: defaults, what is known to be there, when time matters.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from echelon.api.conditions import find_condition
from echelon.api.meta import TRUE
from echelon.api.names import FINALIZER_WORK_CLEANUP, ApplyType, WorkCondition
from echelon.api.placement import ApplyStrategy, ServerSideApplyConfig
from echelon.api.work import AppliedWork, AppliedWorkStatus, Work, WorkStatus
from echelon.rules.apply_report import Processed

# On an AppliedWork while its Work only reports differences: what was applied before and is still there.
HELD: Final = "echelon.dev/held-resources"

FIRST_RETRY_S = 1.0
RETRY_FACTOR = 1.5
MAX_RETRY_S = 300.0  # a manifest that the member refuses for good costs one request in five minutes

_FINAL = frozenset({"Duplicated", "FoundGenerateName"})  # no retry can help: only a new manifest


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of a member decides."""

    deletion_wait: timedelta = timedelta(
        minutes=5
    )  # then co-owned objects no longer hold up a Work's deletion


def default_strategy(work: Work) -> ApplyStrategy:
    """Return the Work's strategy with everything filled in."""
    strategy = (work.spec.apply_strategy if work.spec else None) or ApplyStrategy()
    if strategy.type == ApplyType.SERVER_SIDE_APPLY and strategy.server_side_apply_config is None:
        return msgspec.structs.replace(strategy, server_side_apply_config=ServerSideApplyConfig())
    return strategy


def known_on_member(applied: AppliedWork, work: Work) -> tuple[Mapping[str, Any], ...]:
    """R-WORK-1: everything this Work may have put on the member is known, from either record of it.

    The AppliedWork is the record; a Work's status speaks for agents that recorded only there.
    """
    status = applied.status or AppliedWorkStatus()
    records = [msgspec.to_builtins(record) for record in status.applied_resources]
    records += held_records(applied)
    for entry in (work.status or WorkStatus()).manifest_conditions:
        condition = find_condition(entry.conditions, WorkCondition.APPLIED)
        if condition and (condition.status == TRUE or condition.reason == "PreparingToProcess"):
            records.append(msgspec.to_builtins(entry.identifier))
    return tuple(records)


def set_aside(applied: AppliedWork, work: Work) -> str | None:
    """R-WORK-3: what a Work has put on the member is kept in mind while it only reports; None for nothing."""
    records: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for record in known_on_member(applied, work):
        if record.get("resource"):
            thing = tuple(str(record.get(part) or "") for part in ("group", "kind", "namespace", "name"))
            records.setdefault(thing, record)
    return msgspec.json.encode(list(records.values())).decode() if records else None


def held_records(applied: AppliedWork) -> list[Mapping[str, Any]]:
    """Return what was set aside while only differences are reported."""
    text = applied.metadata.annotations.get(HELD)
    if not text:
        return []
    try:
        return list(msgspec.json.decode(text, type=list[dict[str, Any]]))
    except msgspec.DecodeError:
        return []


def retry_delay_s(processed: Sequence[Processed], failures: int) -> float:
    """R-WORK-2: only what another try may help is tried again, each time later; 0 when nothing needs it."""
    needs = any(_is_worth_retrying(one) for one in processed)
    return min(FIRST_RETRY_S * RETRY_FACTOR ** min(failures, 64), MAX_RETRY_S) if needs else 0.0


def _is_worth_retrying(one: Processed) -> bool:
    outcome = one.result.outcome
    if one.result.is_applied or outcome in _FINAL:
        return False
    if outcome in {"FoundDrifts", "FoundDriftsInDegradedMode", "NotTakenOver"}:
        return False  # only a change of the object or of the Work ends it, and both are watched
    is_reported = outcome in {"NoDiffFound", "FoundDiff", "FoundDiffInDegradedMode"}
    return not is_reported and not (outcome == "FailedToTakeOver" and one.result.diffs)


def needs_unblocking_at(applied: AppliedWork, options: Options) -> datetime:
    """R-WORK-4: co-owned objects hold up a Work's deletion for a while, not for ever."""
    asked_at = applied.metadata.deletion_timestamp
    if asked_at is None:
        raise ValueError("the AppliedWork is not being deleted")
    return asked_at + options.deletion_wait


def without_finalizer(work: Work) -> dict[str, Any]:
    """Return the patch that lets the Work go."""
    rest = [name for name in work.metadata.finalizers if name != FINALIZER_WORK_CLEANUP]
    return {"metadata": {"finalizers": rest}}
