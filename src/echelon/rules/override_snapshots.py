"""The snapshots of one override: a new one for each change, the last ten kept, exactly one marked latest.

The new snapshot is made before the old one loses its mark: there is no moment without a latest one (of two, the newer
counts). Old ones are removed only when a new one takes their place, never because time passed.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.names import (
    FINALIZER_OVERRIDE_CLEANUP,
    LABEL_FALSE,
    LABEL_IS_LATEST_SNAPSHOT,
    LABEL_OVERRIDE_INDEX,
    LABEL_PARENT_RESOURCE_OVERRIDE,
    LABEL_TRUE,
    override_snapshot_name,
)
from echelon.api.override import Override, OverrideSnapshot, OverrideSpec
from echelon.api.scope import Scope
from echelon.rules.binding_life import with_finalizer, without_finalizer
from echelon.rules.gojson import sha256_hex
from echelon.rules.override import override_index
from echelon.rules.override_check import check_override
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, ref_of
from echelon.rules.snapshot_index import is_latest

MAX_SNAPSHOTS = (
    10  # of one override; bindings refer to the newest, a few older ones are for rollouts under way
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One override and its snapshots."""

    scope: Scope
    override: Override
    snapshots: Sequence[OverrideSnapshot] = ()


def step(seen: Seen, _now: datetime) -> Plan:
    """R-OVERRIDE-5: each change is a snapshot; there is no moment without a latest one, and at most ten are kept."""
    override, resource = seen.override, seen.scope.override
    snapshots = sorted(seen.snapshots, key=override_index)
    if override.metadata.is_deleting:
        return _remove(seen, snapshots)
    wrong = check_override(override)
    if wrong:
        event = Emit(
            about=ref_of(resource, override), reason="InvalidOverride", message=wrong, type="Warning"
        )
        return Plan(events=(event,), why=wrong)
    steps: list[tuple[Action, ...]] = []
    finalizer = with_finalizer(resource, override, FINALIZER_OVERRIDE_CLEANUP)
    if finalizer:
        steps.append((finalizer,))
    live = [snapshot for snapshot in snapshots if not snapshot.metadata.is_deleting]
    newest = live[-1] if live else None
    digest = hash_spec(override.spec)
    if newest is not None and newest.spec.override_hash == digest:
        steps.append(tuple(_mark(seen, live[:-1], LABEL_FALSE) + _mark(seen, [newest], LABEL_TRUE)))
        return Plan(steps=_some(steps), why="the newest snapshot is the override")
    index = override_index(snapshots[-1]) + 1 if snapshots else 0
    steps.append((_make(seen, index, digest),))
    kept = live[-(MAX_SNAPSHOTS - 1) :]
    dropped = [Delete(ref=ref_of(seen.scope.override_snapshot, old)) for old in live[: -(MAX_SNAPSHOTS - 1)]]
    steps.append((*_mark(seen, kept, LABEL_FALSE), *dropped))
    return Plan(steps=_some(steps), why=f"snapshot {index}")


def _some(steps: list[tuple[Action, ...]]) -> tuple[tuple[Action, ...], ...]:
    return tuple(group for group in steps if group)


def _remove(seen: Seen, snapshots: Sequence[OverrideSnapshot]) -> Plan:
    override = seen.override
    if FINALIZER_OVERRIDE_CLEANUP not in override.metadata.finalizers:
        return NOTHING
    deletes = tuple(Delete(ref=_ref(seen, old)) for old in snapshots if not old.metadata.is_deleting)
    release = without_finalizer(seen.scope.override, override, FINALIZER_OVERRIDE_CLEANUP)
    return Plan(steps=_some([deletes, (release,)]), why="the override is gone, so are its snapshots")


def _ref(seen: Seen, snapshot: OverrideSnapshot) -> Any:
    return msgspec.structs.replace(ref_of(seen.scope.override_snapshot, snapshot), resource_version="")


def _mark(seen: Seen, snapshots: Sequence[OverrideSnapshot], value: str) -> list[Action]:
    """Set the latest marker where it is not what it should be."""
    body = {"metadata": {"labels": {LABEL_IS_LATEST_SNAPSHOT: value}}}
    wanted = value == LABEL_TRUE
    return [
        Patch(ref=_ref(seen, old), body=body, gone_ok=True) for old in snapshots if is_latest(old) != wanted
    ]


def _make(seen: Seen, index: int, digest: bytes) -> Create:
    override, resource = seen.override, seen.scope.override_snapshot
    meta: dict[str, Any] = {
        "name": override_snapshot_name(override.name, index),
        "labels": {
            LABEL_PARENT_RESOURCE_OVERRIDE: override.name,
            LABEL_IS_LATEST_SNAPSHOT: LABEL_TRUE,
            LABEL_OVERRIDE_INDEX: str(index),
        },
        "ownerReferences": [
            {
                "apiVersion": seen.scope.override.api_version,
                "kind": seen.scope.override.kind,
                "name": override.name,
                "uid": override.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if override.namespace:
        meta["namespace"] = override.namespace
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": meta,
        "spec": msgspec.to_builtins({"overrideSpec": override.spec, "overrideHash": digest}),
    }
    return Create(resource=resource, body=body, exists_ok=False)


def hash_spec(spec: OverrideSpec) -> bytes:
    """Return the digest of an override's spec: hexadecimal text, as bytes."""
    plain = msgspec.to_builtins(spec)
    for rule in plain["policy"]["overrideRules"]:
        for patch in rule.get("jsonPatchOverrides") or ():
            patch.setdefault("value", None)  # an absent value is hashed as null
    return sha256_hex(plain, sort_keys=False).encode()
