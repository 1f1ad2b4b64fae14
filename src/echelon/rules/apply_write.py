"""How an object of ours is written: created, merged three ways, or applied by the server. Every decision, no I/O.

`write` is a part of the generator in `apply.py` and speaks its words. What the member's API server need not be asked
is decided here: whether the owner references allow the write, what has to be remembered, and which fields are ours.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal

import msgspec

from echelon.api.placement import ApplyStrategy
from echelon.rules import gojson
from echelon.rules.apply_task import (
    SERVER_SAID,
    Ask,
    Create,
    Failure,
    Refused,
    Reply,
    Task,
    Write,
    is_applied_work,
    is_owned_by,
    is_same_owner,
    owners_of,
)
from echelon.rules.member_manifest import (
    LAST_APPLIED,
    SPEC_HASH,
    Manifest,
    annotations_of,
    metadata_of,
    sanitised,
    spec_hash,
    with_annotation,
    with_metadata,
)
from echelon.rules.merge import three_way_json_merge

FIELD_MANAGER = "work-api-agent"
_OUR_MANAGERS = frozenset({FIELD_MANAGER, "before-first-apply"})
MAX_ANNOTATION_BYTES = 262144  # the API server's limit for all annotations of an object together


def write(task: Task, live: Manifest | None) -> Generator[Ask, Reply, Manifest | Failure]:
    """Write a manifest over (or in place of) the live object."""
    refusal = _refuse_ownership(task, live)
    if refusal:
        return Failure(f"failed to validate owner references: {refusal}")
    strategy = task.strategy
    if strategy.type not in {"ClientSideApply", "ServerSideApply"}:
        return Failure(f"unexpected apply strategy {strategy.type} is found")
    body = with_metadata(sanitised(task.manifest), ownerReferences=[task.owner])
    body = with_annotation(body, SPEC_HASH, spec_hash(task.manifest))
    is_client_side = strategy.type == "ClientSideApply"
    if is_client_side:
        body = with_annotation(body, LAST_APPLIED, last_applied_text(body))
    if live is None:
        return _answer((yield Create(body)), "failed to create manifest object: " + SERVER_SAID)
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
    if any(is_applied_work(ref) for ref in wanted):
        return "an AppliedWork object is unexpectedly added as an owner in the manifest object"
    if live is None:
        return ""
    owners = owners_of(live)
    if len(owners) > 1 and not may_share:
        return "object is co-owned by multiple objects but co-ownership has been disallowed"
    if not is_owned_by(live, task.owner):
        return "object is not owned by the expected AppliedWork object"
    if any(is_applied_work(ref) and not is_same_owner(ref, task.owner) for ref in owners):
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
) -> Generator[Ask, Reply, Manifest | Failure]:
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
    return _answer((yield Write(type_, patch)), "failed to patch the manifest object: " + SERVER_SAID)


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
) -> Generator[Ask, Reply, Manifest | Failure]:
    prefix = "failed to apply the manifest object: an error is returned by the API server: "
    if _entries(live, "Update"):
        reply = yield Write("merge", _hand_over(live))
        if isinstance(reply, Refused):
            return Failure(prefix + reply.message)
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


def _answer(reply: Reply, prefix: str) -> Manifest | Failure:
    return Failure(prefix + reply.message) if isinstance(reply, Refused) else reply
