"""How one manifest of a Work becomes (or is only compared with) one object of the member: every decision, no I/O.

`plan_apply` is a generator: it yields what it wants from the member's API server (`DryRun`, `Create`, `Write`) and
is sent what came back (the object, or `Refused`). The caller carries requests and nothing else, so each decision
can be tested with plain values. It never touches an object that is not ours to touch:

1. take over an object that was there before, if allowed (owner references decide who owns it);
2. ReportDiff compares and ends, it writes nothing;
3. refuse what is not ours;
4. IfNotDrifted: look for drifts before writing;
5. write: create, three-way merge or server-side apply;
6. FullComparison: look for drifts after writing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from echelon.api.placement import PatchDetail
from echelon.rules import gojson
from echelon.rules.apply_task import (
    APPLIED_WORK,
    INVALID,
    OUR_GROUP,
    SERVER_SAID,
    Ask,
    Asking,
    DryRun,
    Failure,
    Owner,
    Refused,
    Reply,
    Result,
    Task,
    Write,
    is_applied_work,
    is_owned_by,
    owners_of,
)
from echelon.rules.apply_write import write
from echelon.rules.compare import differences
from echelon.rules.member_manifest import (
    SPEC_HASH,
    Identity,
    Manifest,
    annotations_of,
    compared,
    metadata_of,
    sanitised,
    spec_hash,
)

WHOLE_OBJECT = PatchDetail(path="/", value_in_hub="(the whole object)")
_DEGRADED = (
    " in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is"
    " considered to be invalid by the member cluster API server)"
)


# the decisions --------------------------------------------------------------------------------------------------


def plan_apply(task: Task) -> Asking:
    """R-APPLY-1: an object is written only when it is ours, or was taken over by the strategy's leave."""
    strategy, live = task.strategy, task.live
    if strategy.type == "ReportDiff":
        return (yield from _report_differences(task))
    if live is not None and strategy.when_to_take_over != "Never" and not is_owned_by(live, task.owner):
        taken = yield from _take_over(task, live)
        if isinstance(taken, Result):
            return taken
        live = taken
    if live is not None and not is_owned_by(live, task.owner):
        why = "no ownership of the object in the member cluster; takeover is needed"
        return Result(outcome="NotTakenOver", error=why, live=live)
    if live is not None and _must_not_overwrite_drift(task, live):
        stopped = yield from _look_for_drifts_first(task, live)
        if stopped is not None:
            return stopped
    written = yield from write(task, live)
    if isinstance(written, Failure):
        return Result(
            outcome="ManifestApplyFailed", error=f"failed to apply the manifest: {written.text}", live=live
        )
    if strategy.comparison_option == "FullComparison":
        drifts = differences_full(task, written)
        return Result(outcome="Applied", live=written, drifts=drifts)
    return Result(outcome="Applied", live=written)


class _Compared(NamedTuple):
    found: tuple[PatchDetail, ...]
    is_degraded: bool = False


def _compare(task: Task, live: Manifest) -> Generator[Ask, Reply, _Compared | Failure]:
    """Compare as the strategy says; a manifest the server finds invalid is compared in full."""
    if task.strategy.comparison_option == "FullComparison":
        return _Compared(differences_full(task, live))
    reply = yield DryRun(sanitised(task.manifest))
    if isinstance(reply, Refused):
        if reply.code == INVALID:
            return _Compared(differences_full(task, live), is_degraded=True)
        return Failure(f"failed to apply the manifest in dry-run mode: {reply.message}")
    return _Compared(_redacted(task.identity, live, differences(compared(reply), compared(live))))


def differences_full(task: Task, live: Manifest) -> tuple[PatchDetail, ...]:
    """Compare the manifest itself with the live object."""
    return _redacted(task.identity, live, differences(compared(task.manifest), compared(live)))


def _redacted(identity: Identity, live: Manifest, found: Sequence[PatchDetail]) -> tuple[PatchDetail, ...]:
    """R-APPLY-5: the values of a Secret's data are never shown."""
    if (identity.group, identity.version, identity.kind) != ("", "v1", "Secret"):
        return tuple(found)
    key = str(metadata_of(live).get("uid") or "").encode()
    return tuple(
        PatchDetail(
            path=one.path,
            value_in_member=_hidden(one.value_in_member, key),
            value_in_hub=_hidden(one.value_in_hub, key),
        )
        if one.path.startswith(("/data", "/stringData"))
        else one
        for one in found
    )


def _hidden(value: str | None, key: bytes) -> str | None:
    """Replace a secret value by a mark that tells equal from different, and tells no more.

    The mark is keyed with the object's uid, which the hub does not know: reading the hub is not enough to try
    guesses out.
    """
    if not value:
        return value
    mark = hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:8]
    return f"(redacted for security reasons) hmac:{mark}"


def _report_differences(task: Task) -> Asking:
    """R-APPLY-3: reporting differences writes nothing at all."""
    if task.live is None:
        return Result(outcome="FoundDiff", diffs=(WHOLE_OBJECT,))
    outcome = yield from _compare(task, task.live)
    if isinstance(outcome, Failure):
        why = (
            "failed to calculate configuration diffs between the manifest object and the object from the member"
            f" cluster: {outcome.text}"
        )
        return Result(outcome="FailedToReportDiff", error=why, live=task.live)
    if not outcome.found:
        return Result(outcome="NoDiffFound", live=task.live)
    kind = "FoundDiffInDegradedMode" if outcome.is_degraded else "FoundDiff"
    return Result(outcome=kind, live=task.live, diffs=outcome.found)


def _take_over(task: Task, live: Manifest) -> Generator[Ask, Reply, Manifest | Result]:
    """R-APPLY-2: taking over adds our owner reference and changes nothing else."""

    def failed(text: str, diffs: tuple[PatchDetail, ...] = ()) -> Result:
        return Result(outcome="FailedToTakeOver", error=text, live=live, diffs=diffs)

    existing = owners_of(live)
    owners = tuple(ref for ref in existing if not _is_orphaned(ref, task.is_work))
    refusal = _refuse_owners(task, owners)
    if refusal:
        return failed(f"failed to take over a pre-existing object: {refusal}")
    if task.strategy.when_to_take_over == "IfNoDiff":
        outcome = yield from _compare(task, live)
        if isinstance(outcome, Failure):
            return failed(f"failed to take over a pre-existing object: {outcome.text}")
        if outcome.found:
            text = (
                "cannot take over object: configuration differences are found between the manifest object and the"
                " corresponding object in the member cluster"
            )
            return failed(text + (_DEGRADED if outcome.is_degraded else ""), outcome.found)
    reply = yield Write("merge", _owners_patch(live, (*owners, task.owner)))
    if isinstance(reply, Refused):
        return failed(
            "failed to take over a pre-existing object: failed to take over the object:"
            f" {SERVER_SAID}{reply.message}"
        )
    return reply


def _is_orphaned(ref: Owner, is_work: Callable[[str], bool]) -> bool:
    """R-APPLY-8: an owner whose Work is gone no longer counts."""
    is_ours = str(ref.get("apiVersion") or "").startswith(OUR_GROUP) or ref.get("kind") == APPLIED_WORK
    return is_ours and not is_work(str(ref.get("name") or ""))


def _refuse_owners(task: Task, owners: Sequence[Owner]) -> str:
    if owners and not task.strategy.allow_co_ownership:
        return (
            "the object is already owned by some other sources(s) and co-ownership is disallowed"
            f" (existingOwnerRefs: {gojson.encode(list(owners)).decode()})"
        )
    if any(is_applied_work(ref) and ref.get("uid") != task.owner["uid"] for ref in owners):
        return "the object is already owned by another Fleet AppliedWork object"
    return ""


def _owners_patch(live: Manifest, owners: Sequence[Owner]) -> Manifest:
    """Set the owner references, if the object is still the one that was seen."""
    meta = {"ownerReferences": list(owners), "resourceVersion": metadata_of(live).get("resourceVersion", "")}
    return {"metadata": meta}


def _must_not_overwrite_drift(task: Task, live: Manifest) -> bool:
    """R-APPLY-4: drifts stop a write only if this very manifest was applied before; a new one overwrites them."""
    if task.strategy.when_to_apply != "IfNotDrifted":
        return False
    return annotations_of(live).get(SPEC_HASH) == spec_hash(task.manifest)


def _look_for_drifts_first(task: Task, live: Manifest) -> Generator[Ask, Reply, Result | None]:
    outcome = yield from _compare(task, live)
    if isinstance(outcome, Failure):
        why = (
            "failed to calculate pre-apply drifts between the manifest and the object from the member cluster:"
            f" {outcome.text}"
        )
        return Result(outcome="FailedToRunDriftDetection", error=why, live=live)
    if not outcome.found:
        return None
    why = (
        "cannot apply manifest: drifts are found between the manifest and the object from the member cluster"
    )
    if outcome.is_degraded:
        return Result(
            outcome="FoundDriftsInDegradedMode", error=why + _DEGRADED, live=live, drifts=outcome.found
        )
    return Result(outcome="FoundDrifts", error=why, live=live, drifts=outcome.found)
