"""The versions of a placement's resources: reuse the current one or make the next.

A version is a group of resource snapshots with one index: the master, which carries the hash of all the content,
and as many further parts as the size of one object demands. A version is made when the content differs from the
latest version's; going back to older content makes a new version too, so that history reads forwards.

A placement that rolls out by itself may collect changes for a while before a version is made of them; a run that
asks for "the resources as they are now" is never made to wait.

Never changes a version. After a crash, finds what is missing: a marker, a part, the next version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api.envelope import Envelope
from echelon.api.names import (
    ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME,
    ANNOTATION_NUMBER_OF_ENVELOPED_OBJECT,
    ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS,
    ANNOTATION_RESOURCE_HASH,
    ANNOTATION_SUBINDEX,
    LABEL_FALSE,
    LABEL_IS_LATEST_SNAPSHOT,
    LABEL_PARENT_CRP,
    LABEL_RESOURCE_INDEX,
    LABEL_TRUE,
    resource_snapshot_name,
)
from echelon.api.own import OWN
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.rules import gojson
from echelon.rules.plan import Action, Create, Delete, Patch, ref_of
from echelon.rules.policy_snapshots import free_index, owned_by, place_of
from echelon.rules.snapshot_index import group_of, is_latest, is_master, newest_master, owned, resource_index

Manifest = Mapping[str, Any]

MAX_PART_BYTES = 800 * 1024  # of manifests in one snapshot: etcd takes 1.5 MiB, a Work is made of each part
_ENVELOPES = frozenset((row.group, row.kind) for row in OWN if row.type is Envelope)


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """How long changes are collected before a version is made of them; flags of the hub agent."""

    minimum_interval: timedelta = timedelta(seconds=30)  # between two versions
    collection: timedelta = timedelta(seconds=15)  # from the first change on


AT_ONCE = Delays(minimum_interval=timedelta(0), collection=timedelta(0))


class Version(msgspec.Struct, frozen=True):
    """The version that stands for a placement now, and what must be written to make it so."""

    index: int
    name: str  # of the master
    resources: Sequence[
        Manifest
    ]  # what the version holds; differs from what is selected only while `wake_at` is set
    steps: tuple[tuple[Action, ...], ...] = ()
    wake_at: datetime | None = None  # when a newer version is to be made


def hash_of(resources: Sequence[Manifest]) -> str:
    """Return the digest that tells contents apart."""
    return gojson.sha256_hex({"selectedResources": list(resources)})


def plan_snapshot(
    scope: Scope,
    placement: Placement,
    snapshots: Sequence[ResourceSnapshot],
    resources: Sequence[Manifest],
    now: datetime,
    *,
    delays: Delays = AT_ONCE,
    digest: str = "",
    in_use: Collection[str] = (),
) -> Version:
    """R-VERSION-1: other content than the latest version's is a new version, also when it was there before.

    `snapshots` are all of the placement's; `digest` is `hash_of(resources)` where the caller knows it already;
    `in_use` names versions that somebody still needs.
    """
    digest = digest or hash_of(resources)
    taken = {snapshot.name for snapshot in snapshots}
    snapshots = owned(snapshots, placement)
    latest = newest_master(snapshots)
    if latest is None:
        return _next(scope, placement, snapshots, resources, digest, taken, in_use)
    if latest.metadata.annotations.get(ANNOTATION_RESOURCE_HASH) == digest:
        return _again(scope, placement, snapshots, latest, resources)
    if is_latest(latest):
        waiting = _wait(scope, snapshots, latest, delays, now)
        if waiting is not None:
            return waiting
    return _next(scope, placement, snapshots, resources, digest, taken, in_use)


# --- the version is there already -----------------------------------------------------------------------------------
def _again(
    scope: Scope,
    placement: Placement,
    snapshots: Sequence[ResourceSnapshot],
    latest: ResourceSnapshot,
    resources: Sequence[Manifest],
) -> Version:
    index = resource_index(latest)
    marked = [s for s in snapshots if is_latest(s) and is_master(s) and s is not latest]
    repair = _repair(latest)
    missing: tuple[Action, ...] = ()
    group = group_of(snapshots, index)
    if len(group) < _part_count(latest):
        held = {snapshot.name for snapshot in group}
        parts = _parts(scope, placement, index, resources, hash_of(resources))
        missing = tuple(part for part in parts if part.body["metadata"]["name"] not in held)
    steps: tuple[tuple[Action, ...], ...] = (
        _unmark(scope, marked),
        (Patch(ref=ref_of(scope.resource_snapshot, latest), body={"metadata": repair}),) if repair else (),
        missing,
    )
    return Version(index, latest.name, resources, tuple(step for step in steps if step))


def is_whole(snapshots: Iterable[ResourceSnapshot], master: ResourceSnapshot) -> bool:
    """R-VERSION-7: a version is rolled out when all its parts are there."""
    return len(group_of(snapshots, resource_index(master))) >= _part_count(master)


def _repair(latest: ResourceSnapshot) -> dict[str, Any]:
    """R-VERSION-5: the latest version is marked so; a change that was noticed and taken back is forgotten."""
    meta: dict[str, Any] = {}
    if not is_latest(latest):
        meta["labels"] = {LABEL_IS_LATEST_SNAPSHOT: LABEL_TRUE}
    if ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME in latest.metadata.annotations:
        meta["annotations"] = {ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME: None}
    return meta


def _part_count(master: ResourceSnapshot) -> int:
    text = master.metadata.annotations.get(ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS, "")
    return int(text) if text.isascii() and text.isdigit() else 1


# --- waiting for more changes ---------------------------------------------------------------------------------------
def _wait(
    scope: Scope,
    snapshots: Sequence[ResourceSnapshot],
    latest: ResourceSnapshot,
    delays: Delays,
    now: datetime,
) -> Version | None:
    """R-VERSION-2: changes are collected for a while before a version is made of them."""
    if delays.minimum_interval <= timedelta(0) and delays.collection <= timedelta(0):
        return None
    noted = _noted(latest)
    made_at = latest.metadata.creation_timestamp or now
    next_at = max((noted or now) + delays.collection, made_at + delays.minimum_interval)
    if now >= next_at:
        return None
    steps: tuple[tuple[Action, ...], ...] = ()
    if noted is None:
        note = {ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME: now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"metadata": {"annotations": note}}
        steps = ((Patch(ref=ref_of(scope.resource_snapshot, latest), body=body),),)
    index = resource_index(latest)
    return Version(index, latest.name, content_of(snapshots, index), steps, next_at)


def _noted(latest: ResourceSnapshot) -> datetime | None:
    text = latest.metadata.annotations.get(ANNOTATION_NEXT_SNAPSHOT_DETECTION_TIME, "")
    try:
        noted = datetime.fromisoformat(text)
    except ValueError:
        return None
    return noted if noted.tzinfo else noted.replace(tzinfo=UTC)


def content_of(snapshots: Iterable[ResourceSnapshot], index: int) -> list[Manifest]:
    """Return what a version holds, in order."""
    return [manifest for part in group_of(snapshots, index) for manifest in part.spec.selected_resources]


# --- the next version -----------------------------------------------------------------------------------------------
def _next(
    scope: Scope,
    placement: Placement,
    snapshots: Sequence[ResourceSnapshot],
    resources: Sequence[Manifest],
    digest: str,
    taken: Collection[str],
    in_use: Collection[str],
) -> Version:
    index = free_index(
        max((resource_index(snapshot) for snapshot in snapshots if is_master(snapshot)), default=-1) + 1,
        taken,
        lambda number: resource_snapshot_name(placement.name, number),
    )
    steps: list[tuple[Action, ...]] = [
        _unmark(scope, [s for s in snapshots if is_latest(s)]),
        _prune(scope, placement, snapshots, in_use),
    ]
    steps += [(part,) for part in _parts(scope, placement, index, resources, digest)]  # the master first
    name = resource_snapshot_name(placement.name, index)
    return Version(index, name, resources, tuple(step for step in steps if step))


def _unmark(scope: Scope, snapshots: Iterable[ResourceSnapshot]) -> tuple[Action, ...]:
    body = {"metadata": {"labels": {LABEL_IS_LATEST_SNAPSHOT: LABEL_FALSE}}}
    return tuple(Patch(ref=ref_of(scope.resource_snapshot, snapshot), body=body) for snapshot in snapshots)


def _prune(
    scope: Scope, placement: Placement, snapshots: Sequence[ResourceSnapshot], in_use: Collection[str]
) -> tuple[Action, ...]:
    """R-VERSION-4: whole old versions that nobody needs are deleted so that the next fits; parts count as objects."""
    limit = placement.spec.revision_history_limit
    if len(snapshots) < limit:
        return ()
    indexes = sorted({resource_index(snapshot) for snapshot in snapshots}, reverse=True)
    needed = {index for index in indexes if resource_snapshot_name(placement.name, index) in in_use}
    kept = needed.union(indexes[: limit - 1])
    return tuple(
        Delete(ref=ref_of(scope.resource_snapshot, s)) for s in snapshots if resource_index(s) not in kept
    )


def _parts(
    scope: Scope, placement: Placement, index: int, resources: Sequence[Manifest], digest: str
) -> list[Create]:
    groups = split(resources)
    labels = {LABEL_PARENT_CRP: placement.name, LABEL_RESOURCE_INDEX: str(index)}
    master_notes = {
        ANNOTATION_RESOURCE_HASH: digest,
        ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS: str(len(groups)),
        ANNOTATION_NUMBER_OF_ENVELOPED_OBJECT: str(sum(map(is_envelope, resources))),
    }
    made = []
    for number, group in enumerate(groups):
        subindex = number - 1 if number else None  # the second part has subindex 0
        meta: dict[str, Any] = {
            **place_of(placement),
            "name": resource_snapshot_name(placement.name, index, subindex),
            "labels": labels if number else {**labels, LABEL_IS_LATEST_SNAPSHOT: LABEL_TRUE},
            "annotations": {ANNOTATION_SUBINDEX: str(subindex)} if number else master_notes,
            "ownerReferences": [owned_by(scope, placement)],
        }
        body = {
            "apiVersion": scope.resource_snapshot.api_version,
            "kind": scope.resource_snapshot.kind,
            "metadata": meta,
            "spec": {"selectedResources": group},
        }
        made.append(Create(resource=scope.resource_snapshot, body=body))
    return made


def is_envelope(manifest: Manifest) -> bool:
    """Whether a manifest carries others."""
    return (str(manifest.get("apiVersion", "")).rpartition("/")[0], manifest.get("kind")) in _ENVELOPES


def split(resources: Sequence[Manifest]) -> list[list[Manifest]]:
    """R-VERSION-3: a version is cut into parts of bounded size, in order; what is larger alone is a part of its own."""
    parts: list[list[Manifest]] = [[]]
    size = 0
    for manifest in resources:
        length = len(gojson.encode(manifest))
        if parts[-1] and size + length > MAX_PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(manifest)
        size += length
    return parts
