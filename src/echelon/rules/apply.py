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
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from echelon.api.placement import ApplyStrategy, PatchDetail
from echelon.rules import gojson
from echelon.rules.compare import differences
from echelon.rules.member_manifest import (
    LAST_APPLIED,
    SPEC_HASH,
    Identity,
    Manifest,
    annotations_of,
    compared,
    metadata_of,
    sanitised,
    spec_hash,
    with_annotation,
    with_metadata,
)
from echelon.rules.merge import three_way_json_merge

FIELD_MANAGER = "work-api-agent"
APPLIED_WORK_API_VERSION = "placement.kubernetes-fleet.io/v1beta1"
_OUR_GROUP = "placement.kubernetes-fleet.io/"
_APPLIED_WORK = "AppliedWork"
_OUR_MANAGERS = frozenset({FIELD_MANAGER, "before-first-apply"})

MAX_ANNOTATION_BYTES = 262144  # the API server's limit for all annotations of an object together
WHOLE_OBJECT = PatchDetail(path="/", value_in_hub="(the whole object)")
_SERVER_SAID = "error returned by the API server: "
_DEGRADED = (
    " in degraded mode (full comparison is performed instead of partial comparison, as the manifest object is"
    " considered to be invalid by the member cluster API server)"
)

Owner = Mapping[str, Any]


# what the generator asks for ------------------------------------------------------------------------------------


class DryRun(NamedTuple):
    """Ask what a forced server-side apply of this body would make of the live object."""

    body: Manifest


class Create(NamedTuple):
    """Create the object."""

    body: Manifest


class Write(NamedTuple):
    """Patch the live object: a merge or strategic patch, or a server-side apply."""

    type: Literal["merge", "strategic", "apply"]
    body: Manifest
    force: bool = False


class Refused(NamedTuple):
    """The API server refused."""

    code: int
    message: str


Ask = DryRun | Create | Write
Reply = Manifest | Refused
Asking = Generator[Ask, Reply, "Result"]

INVALID = 422


# what comes out -------------------------------------------------------------------------------------------------


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one manifest. `outcome` is the contract's result type, most of them condition reasons."""

    outcome: str
    error: str = ""
    live: Manifest | None = None
    drifts: tuple[PatchDetail, ...] = ()
    diffs: tuple[PatchDetail, ...] = ()

    @property
    def is_applied(self) -> bool:
        """Whether the manifest is now on the member."""
        return self.outcome in {"Applied", "AppliedWithFailedDriftDetection"}


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest to apply and everything its decisions look at."""

    identity: Identity
    manifest: Manifest
    live: Manifest | None
    strategy: ApplyStrategy
    owner: Owner
    is_work: Callable[[str], bool]  # whether a Work of this name exists in our member namespace
    strategic: Callable[[Manifest, Manifest, Manifest], Manifest] | None = None  # None: not a built-in kind


def owner_reference(name: str, uid: str) -> Owner:
    """Return the reference by which an AppliedWork owns what it applied."""
    return {
        "apiVersion": APPLIED_WORK_API_VERSION,
        "kind": _APPLIED_WORK,
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": True,
    }


def owners_of(live: Manifest) -> tuple[Owner, ...]:
    """Return an object's owner references."""
    return tuple(metadata_of(live).get("ownerReferences") or ())


def is_owned_by(live: Manifest, owner: Owner) -> bool:
    """Tell whether the object carries this owner reference (its flags aside)."""
    return any(_is_same_owner(ref, owner) for ref in owners_of(live))


def _is_same_owner(left: Owner, right: Owner) -> bool:
    return all(left.get(key) == right.get(key) for key in ("uid", "name", "kind", "apiVersion"))


def _is_applied_work(ref: Owner) -> bool:
    return str(ref.get("apiVersion") or "").startswith(_OUR_GROUP) and ref.get("kind") == _APPLIED_WORK


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
    written = yield from _write(task, live)
    if isinstance(written, _Failure):
        return Result(
            outcome="ManifestApplyFailed", error=f"failed to apply the manifest: {written.text}", live=live
        )
    if strategy.comparison_option == "FullComparison":
        drifts = differences_full(task, written)
        return Result(outcome="Applied", live=written, drifts=drifts)
    return Result(outcome="Applied", live=written)


class _Failure(NamedTuple):
    text: str


class _Compared(NamedTuple):
    found: tuple[PatchDetail, ...]
    is_degraded: bool = False


def _compare(task: Task, live: Manifest) -> Generator[Ask, Reply, _Compared | _Failure]:
    """Compare as the strategy says; a manifest the server finds invalid is compared in full."""
    if task.strategy.comparison_option == "FullComparison":
        return _Compared(differences_full(task, live))
    reply = yield DryRun(sanitised(task.manifest))
    if isinstance(reply, Refused):
        if reply.code == INVALID:
            return _Compared(differences_full(task, live), is_degraded=True)
        return _Failure(f"failed to apply the manifest in dry-run mode: {reply.message}")
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
    if isinstance(outcome, _Failure):
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
        if isinstance(outcome, _Failure):
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
            f" {_SERVER_SAID}{reply.message}"
        )
    return reply


def _is_orphaned(ref: Owner, is_work: Callable[[str], bool]) -> bool:
    """R-APPLY-8: an owner whose Work is gone no longer counts."""
    is_ours = str(ref.get("apiVersion") or "").startswith(_OUR_GROUP) or ref.get("kind") == _APPLIED_WORK
    return is_ours and not is_work(str(ref.get("name") or ""))


def _refuse_owners(task: Task, owners: Sequence[Owner]) -> str:
    if owners and not task.strategy.allow_co_ownership:
        return (
            "the object is already owned by some other sources(s) and co-ownership is disallowed"
            f" (existingOwnerRefs: {gojson.encode(list(owners)).decode()})"
        )
    if any(_is_applied_work(ref) and ref.get("uid") != task.owner["uid"] for ref in owners):
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
    if isinstance(outcome, _Failure):
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


# writing --------------------------------------------------------------------------------------------------------


def _write(task: Task, live: Manifest | None) -> Generator[Ask, Reply, Manifest | _Failure]:
    refusal = _refuse_ownership(task, live)
    if refusal:
        return _Failure(f"failed to validate owner references: {refusal}")
    strategy = task.strategy
    if strategy.type not in {"ClientSideApply", "ServerSideApply"}:
        return _Failure(f"unexpected apply strategy {strategy.type} is found")
    body = with_metadata(sanitised(task.manifest), ownerReferences=[task.owner])
    body = with_annotation(body, SPEC_HASH, spec_hash(task.manifest))
    is_client_side = strategy.type == "ClientSideApply"
    if is_client_side:
        body = with_annotation(body, LAST_APPLIED, last_applied_text(body))
    if live is None:
        return _answer((yield Create(body)), "failed to create manifest object: " + _SERVER_SAID)
    locked = strategy.when_to_apply == "IfNotDrifted"
    if is_client_side and annotations_of(body)[LAST_APPLIED]:
        if read_last_applied(live) is None and _entries(live, "Apply"):
            # Too big to remember until now: only the server knows what was ours, so it takes away what is dropped.
            return (yield from _server_side(live, body, locked=locked, force=True))
        return (yield from _merge(task, live, body, locked=locked))
    is_forced = not is_client_side and _wants_force(strategy)
    return (yield from _server_side(live, body, locked=locked, force=is_forced))


def _wants_force(strategy: ApplyStrategy) -> bool:
    config = strategy.server_side_apply_config
    return bool(config and config.force)


def _refuse_ownership(task: Task, live: Manifest | None) -> str:
    wanted = owners_of(task.manifest)
    may_share = task.strategy.allow_co_ownership
    if wanted and not may_share:
        return "manifest is set to have owner references but co-ownership is disallowed"
    if any(_is_applied_work(ref) for ref in wanted):
        return "an AppliedWork object is unexpectedly added as an owner in the manifest object"
    if live is None:
        return ""
    owners = owners_of(live)
    if len(owners) > 1 and not may_share:
        return "object is co-owned by multiple objects but co-ownership has been disallowed"
    if not is_owned_by(live, task.owner):
        return "object is not owned by the expected AppliedWork object"
    if any(_is_applied_work(ref) and not _is_same_owner(ref, task.owner) for ref in owners):
        return "object is already owned by another AppliedWork object"
    return ""


def last_applied_text(body: Manifest) -> str:
    """R-APPLY-6: what was applied is remembered on the object, unless that would not fit beside its annotations."""
    text = gojson.encode(body).decode()
    others = sum(len(f"{key}{value}".encode()) for key, value in annotations_of(body).items())
    fits = others + len(LAST_APPLIED) + len(text.encode()) <= MAX_ANNOTATION_BYTES
    return text if fits else ""


def read_last_applied(live: Manifest) -> Manifest | None:
    """Return what was applied last, or None when the live object does not say or no longer makes sense."""
    text = annotations_of(live).get(LAST_APPLIED)
    if not text:
        return None
    try:
        return dict(msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.DecodeError:
        return None


def _merge(
    task: Task, live: Manifest, body: Manifest, *, locked: bool
) -> Generator[Ask, Reply, Manifest | _Failure]:
    """Client-side apply: send only what differs; nothing, when nothing does."""
    last = read_last_applied(live) or {}
    if task.strategic is not None:
        type_: Literal["merge", "strategic"] = "strategic"
        patch = task.strategic(last, body, live)
    else:
        type_ = "merge"
        patch = three_way_json_merge(dict(last), dict(body), dict(live))
        # A merge patch replaces lists whole: ours is in the list already, and the others' are not ours to drop.
        patch = _without_owners(patch)
    if not patch:
        return live
    if locked:
        patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **_lock(live)}}
    return _answer((yield Write(type_, patch)), "failed to patch the manifest object: " + _SERVER_SAID)


def _without_owners(patch: Manifest) -> Manifest:
    meta = patch.get("metadata")
    if not isinstance(meta, Mapping) or "ownerReferences" not in meta:
        return patch
    rest = {key: value for key, value in meta.items() if key != "ownerReferences"}
    if rest:
        return {**patch, "metadata": rest}
    return {key: value for key, value in patch.items() if key != "metadata"}


def _server_side(
    live: Manifest, body: Manifest, *, locked: bool, force: bool
) -> Generator[Ask, Reply, Manifest | _Failure]:
    prefix = "failed to apply the manifest object: an error is returned by the API server: "
    if _entries(live, "Update"):
        reply = yield Write("merge", _hand_over(live))
        if isinstance(reply, Refused):
            return _Failure(prefix + reply.message)
        live = reply
    managers = {entry.get("manager") for entry in metadata_of(live).get("managedFields") or ()}
    if locked:
        body = with_metadata(body, **_lock(live))
    return _answer((yield Write("apply", body, force or managers <= _OUR_MANAGERS)), prefix)


def _entries(live: Manifest, operation: str = "") -> list[Mapping[str, Any]]:
    """Return the records of the fields that are ours, by how they became ours."""
    return [
        entry
        for entry in metadata_of(live).get("managedFields") or ()
        if entry.get("manager") == FIELD_MANAGER
        and not entry.get("subresource")
        and (not operation or entry.get("operation") == operation)
    ]


def _hand_over(live: Manifest) -> Manifest:
    """R-APPLY-7: fields that are ours by either way of applying go when they are dropped."""
    ours = _entries(live)
    others = [entry for entry in metadata_of(live)["managedFields"] if entry not in ours]
    fields: Mapping[str, Any] = {}
    for entry in ours:
        fields = _union(fields, entry.get("fieldsV1") or {})
    one = {**ours[0], "operation": "Apply", "fieldsV1": fields}
    return {"metadata": {"managedFields": [*others, one], **_lock(live)}}


def _union(left: Mapping[str, Any], right: Mapping[str, Any]) -> Mapping[str, Any]:
    """Join two sets of fields."""
    return {key: _union(left.get(key) or {}, right.get(key) or {}) for key in dict.fromkeys((*left, *right))}


def _lock(live: Manifest) -> dict[str, Any]:
    return {"resourceVersion": metadata_of(live).get("resourceVersion", "")}


def _answer(reply: Reply, prefix: str) -> Manifest | _Failure:
    return _Failure(prefix + reply.message) if isinstance(reply, Refused) else reply
