"""Finding one's way among a placement's snapshots: indexes, the latest marker, groups and their master.

Only reads labels and annotations. Unreadable ones are treated as the lowest index, never as an error that would
stop a placement for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from echelon.api.meta import Object
from echelon.api.names import (
    ANNOTATION_RESOURCE_HASH,
    ANNOTATION_SUBINDEX,
    LABEL_IS_LATEST_SNAPSHOT,
    LABEL_POLICY_INDEX,
    LABEL_RESOURCE_INDEX,
    LABEL_TRUE,
)
from echelon.api.placement import Placement
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot

S = TypeVar("S", bound=Object)


def owned(snapshots: Iterable[S], placement: Placement) -> list[S]:
    """R-VERSION-6: only what a live placement owns, by its uid, counts as made for it; a label alone proves nothing."""
    uid = placement.metadata.uid
    return [s for s in snapshots if any(ref.uid == uid for ref in s.metadata.owner_references)]


def index_of(snapshot: Object, label: str) -> int:
    """Return the number in an index label; -1 when there is none."""
    text = snapshot.metadata.labels.get(label, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def policy_index(snapshot: PolicySnapshot) -> int:
    """Return a policy snapshot's index."""
    return index_of(snapshot, LABEL_POLICY_INDEX)


def resource_index(snapshot: ResourceSnapshot) -> int:
    """Return the index of the group that a resource snapshot belongs to."""
    return index_of(snapshot, LABEL_RESOURCE_INDEX)


def is_latest(snapshot: Object) -> bool:
    """Whether the snapshot carries the latest marker."""
    return snapshot.metadata.labels.get(LABEL_IS_LATEST_SNAPSHOT) == LABEL_TRUE


def latest_policy_snapshot(snapshots: Iterable[PolicySnapshot]) -> PolicySnapshot | None:
    """Return the policy snapshot marked latest; of several the newest."""
    return max((s for s in snapshots if is_latest(s)), key=policy_index, default=None)


def newest_policy_snapshot(snapshots: Sequence[PolicySnapshot]) -> PolicySnapshot | None:
    """Return the latest policy snapshot; where none is marked (a crash between two writes), the newest."""
    return latest_policy_snapshot(snapshots) or max(snapshots, key=policy_index, default=None)


def is_master(snapshot: ResourceSnapshot) -> bool:
    """Whether the snapshot speaks for its group."""
    return ANNOTATION_RESOURCE_HASH in snapshot.metadata.annotations


def latest_master(snapshots: Iterable[ResourceSnapshot]) -> ResourceSnapshot | None:
    """Return the master marked latest; of several the newest."""
    marked = (s for s in snapshots if is_latest(s) and is_master(s))
    return max(marked, key=resource_index, default=None)


def newest_master(snapshots: Sequence[ResourceSnapshot]) -> ResourceSnapshot | None:
    """Return the latest master; where none is marked, the newest."""
    return latest_master(snapshots) or max(
        (s for s in snapshots if is_master(s)), key=resource_index, default=None
    )


def group_of(snapshots: Iterable[ResourceSnapshot], index: int) -> list[ResourceSnapshot]:
    """Return the parts of a group in order, the master first."""
    return sorted((s for s in snapshots if resource_index(s) == index), key=part_order)


def part_order(snapshot: ResourceSnapshot) -> int:
    """Sort key of the parts of a group: the master, then by subindex."""
    if is_master(snapshot):
        return -1
    text = snapshot.metadata.annotations.get(ANNOTATION_SUBINDEX, "")
    return int(text) if text.isascii() and text.isdigit() else len(text)
