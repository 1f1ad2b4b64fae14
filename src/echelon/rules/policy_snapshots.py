"""The copy of a placement's policy that the scheduler works from: reuse the current one or make the next.

A policy is the same when it is equal but for numberOfClusters; how many clusters PickN wants now, and which
generation of the placement was looked at, are annotations that follow edits. A snapshot's spec never changes.

Theory of the latest marker: the old snapshot loses it before the new one is made, so after a crash in between no
snapshot is marked and the newest is taken for the latest. Should two be marked, the newest wins and the others
lose the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from echelon.api.names import (
    ANNOTATION_CRP_GENERATION,
    ANNOTATION_NUMBER_OF_CLUSTERS,
    LABEL_FALSE,
    LABEL_IS_LATEST_SNAPSHOT,
    LABEL_PARENT_CRP,
    LABEL_POLICY_INDEX,
    LABEL_TRUE,
    PlacementType,
    policy_snapshot_name,
)
from echelon.api.placement import Placement, PlacementPolicy
from echelon.api.scope import Scope
from echelon.api.snapshot import PolicySnapshot
from echelon.rules import gojson
from echelon.rules.plan import Action, Create, Delete, Patch, ref_of
from echelon.rules.snapshot_index import is_latest, newest_policy_snapshot, owned, policy_index


class PolicyPlan(NamedTuple):
    """Which policy snapshot stands for the placement now, and what must be written to make it so."""

    name: str
    current: PolicySnapshot | None  # as seen; None when it is only about to be made
    steps: tuple[tuple[Action, ...], ...]


def hash_of(policy: PlacementPolicy | None) -> str:
    """Return the digest that tells policies apart; numberOfClusters does not count."""
    if policy is None:
        return gojson.sha256_hex(None)
    counted = msgspec.structs.replace(policy, number_of_clusters=None)
    plain = msgspec.to_builtins(counted, order="deterministic")  # Go sorts maps, not struct fields
    return gojson.sha256_hex(plain, sort_keys=False)


def plan_policy_snapshot(
    scope: Scope, placement: Placement, snapshots: Sequence[PolicySnapshot]
) -> PolicyPlan:
    """R-POLICY-1: another policy is another snapshot; numberOfClusters alone makes none."""
    taken = {snapshot.name for snapshot in snapshots}
    snapshots = owned(snapshots, placement)
    latest = newest_policy_snapshot(snapshots)
    digest = hash_of(placement.spec.policy)
    if latest is not None and latest.spec.policy_hash == digest.encode():
        refresh = _refresh(scope, placement, latest)
        others = _unmark(scope, [s for s in snapshots if is_latest(s) and s is not latest])
        marked: tuple[tuple[Action, ...], ...] = (others, (refresh,) if refresh else ())
        return PolicyPlan(latest.name, latest, tuple(step for step in marked if step))
    index = free_index(
        max(map(policy_index, snapshots), default=-1) + 1,
        taken,
        lambda number: policy_snapshot_name(placement.name, number),
    )
    steps = (
        _unmark(scope, [s for s in snapshots if is_latest(s)]),
        _prune(scope, snapshots, placement.spec.revision_history_limit),
        (_create(scope, placement, index, digest),),
    )
    name = policy_snapshot_name(placement.name, index)
    return PolicyPlan(name, None, tuple(step for step in steps if step))


def free_index(index: int, taken: Collection[str], name_of: Callable[[int], str]) -> int:
    """Return the first index from this one on whose name is free: an unreadable label must not stop everything."""
    while name_of(index) in taken:
        index += 1
    return index


def _annotations(placement: Placement) -> dict[str, str]:
    noted = {ANNOTATION_CRP_GENERATION: str(placement.metadata.generation)}
    policy = placement.spec.policy
    if policy is not None and policy.placement_type == PlacementType.PICK_N:
        noted[ANNOTATION_NUMBER_OF_CLUSTERS] = str(policy.number_of_clusters or 0)
    return noted


def _refresh(scope: Scope, placement: Placement, snapshot: PolicySnapshot) -> Patch | None:
    """R-POLICY-2: the snapshot notes the generation and the count it stands for."""
    held, meta = snapshot.metadata, {}
    noted = {
        key: value for key, value in _annotations(placement).items() if held.annotations.get(key) != value
    }
    if noted:
        meta["annotations"] = noted
    if not is_latest(snapshot):
        meta["labels"] = {LABEL_IS_LATEST_SNAPSHOT: LABEL_TRUE}
    return Patch(ref=ref_of(scope.policy_snapshot, snapshot), body={"metadata": meta}) if meta else None


def _unmark(scope: Scope, snapshots: Sequence[PolicySnapshot]) -> tuple[Action, ...]:
    body = {"metadata": {"labels": {LABEL_IS_LATEST_SNAPSHOT: LABEL_FALSE}}}
    return tuple(Patch(ref=ref_of(scope.policy_snapshot, snapshot), body=body) for snapshot in snapshots)


def _prune(scope: Scope, snapshots: Sequence[PolicySnapshot], limit: int) -> tuple[Action, ...]:
    """Keep as many that one more fits into the limit."""
    oldest_first = sorted(snapshots, key=policy_index)
    surplus = max(len(oldest_first) - (limit - 1), 0)
    return tuple(Delete(ref=ref_of(scope.policy_snapshot, s)) for s in oldest_first[:surplus])


def _create(scope: Scope, placement: Placement, index: int, digest: str) -> Create:
    spec: dict[str, Any] = {"policyHash": msgspec.to_builtins(digest.encode())}
    if placement.spec.policy is not None:
        spec["policy"] = msgspec.to_builtins(placement.spec.policy)
    body = {
        "apiVersion": scope.policy_snapshot.api_version,
        "kind": scope.policy_snapshot.kind,
        "metadata": {
            **place_of(placement),
            "name": policy_snapshot_name(placement.name, index),
            "labels": {
                LABEL_PARENT_CRP: placement.name,
                LABEL_IS_LATEST_SNAPSHOT: LABEL_TRUE,
                LABEL_POLICY_INDEX: str(index),
            },
            "annotations": _annotations(placement),
            "ownerReferences": [owned_by(scope, placement)],
        },
        "spec": spec,
    }
    return Create(resource=scope.policy_snapshot, body=body)


def owned_by(scope: Scope, placement: Placement) -> dict[str, Any]:
    """Return the reference by which a placement owns what is made for it."""
    return {
        "apiVersion": scope.placement.api_version,
        "kind": scope.placement.kind,
        "name": placement.name,
        "uid": placement.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def place_of(placement: Placement) -> dict[str, str]:
    """Return the metadata that puts something beside a placement."""
    return {"namespace": placement.namespace} if placement.namespace else {}
