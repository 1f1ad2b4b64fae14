"""Which overrides reach which clusters: from the latest override snapshots to ordered names per cluster.

A rollout (of either kind) asks this when it makes a version; the names go to the binding and from there, in
this order, to the manifests. Cluster-scoped overrides are ordered by name, namespaced ones by namespace and name,
as plain text: this order is all the priority there is.

Pure. Never looks at a binding and never changes a manifest (`override_apply.py` does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from echelon.api.cluster import MemberCluster
from echelon.api.meta import NamespacedName
from echelon.api.names import (
    LABEL_OVERRIDE_INDEX,
    LABEL_PARENT_RESOURCE_OVERRIDE,
    PLACEMENT_GROUP,
    EnvelopeType,
    PlacementScope,
)
from echelon.api.override import AnySelector, OverrideRule, OverrideSnapshot
from echelon.api.scope import Key
from echelon.rules.labels import InvalidSelector, check, matches
from echelon.rules.propagate import NAMESPACE, gvk_of
from echelon.rules.snapshot_index import index_of, is_latest

Manifest = Mapping[str, Any]


class InvalidOverride(Exception):
    """An override that nobody could carry out; the text says which part."""


class ClusterOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """The override snapshots that apply to one cluster, each list in its order of application."""

    cluster: tuple[str, ...] = ()
    namespaced: tuple[NamespacedName, ...] = ()


class Candidates(NamedTuple):
    """The snapshots that concern a placement's resources on at least one possible cluster, in order."""

    cluster: Sequence[OverrideSnapshot] = ()
    namespaced: Sequence[OverrideSnapshot] = ()


class Target(NamedTuple):
    """What a selector names: one object. The namespace is empty for a cluster-scoped one."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = self.kind or "Unknown"
        where = f' in namespace "{self.namespace}"' if self.namespace else ""
        return f'{kind} "{self.name}"{where}'


def target_of(manifest: Manifest) -> Target:
    """Name a manifest. Whether it is namespaced is read off it: what has a namespace is."""
    gvk = gvk_of(manifest)
    meta = manifest.get("metadata") or {}
    return Target(
        gvk.group, gvk.version, gvk.kind, str(meta.get("namespace") or ""), str(meta.get("name") or "")
    )


def namespace_target(name: str) -> Target:
    """Name the Namespace object of a namespaced manifest: a cluster-scoped override of it means its contents too."""
    return Target(NAMESPACE.group, NAMESPACE.version, NAMESPACE.kind, "", name)


def selector_target(selector: AnySelector, namespace: str) -> Target:
    """Name what a selector of an override in this namespace selects."""
    return Target(selector.group, selector.version, selector.kind, namespace, selector.name)


# --- choosing ------------------------------------------------------------------------------------------------------
def find_overrides(
    cluster_snapshots: Iterable[OverrideSnapshot],
    namespaced_snapshots: Iterable[OverrideSnapshot],
    resources: Iterable[Manifest],
    placement: Key,
) -> Candidates:
    """R-OVERRIDE-1: only the latest snapshots count, of overrides for this placement that select what is placed."""
    cluster = [snap for snap in _latest(cluster_snapshots) if _is_for(snap, placement)]
    namespaced = [snap for snap in _latest(namespaced_snapshots) if _is_for(snap, placement)]
    if not cluster and not namespaced:
        return Candidates()
    targets = targets_of(resources)
    return Candidates(
        cluster=sorted((s for s in cluster if selects_any(s, targets)), key=lambda s: s.name),
        namespaced=sorted(
            (s for s in namespaced if selects_any(s, targets)), key=lambda s: (s.namespace or "", s.name)
        ),
    )


def select_for_cluster(candidates: Candidates, cluster: MemberCluster) -> ClusterOverrides:
    """R-OVERRIDE-2: a snapshot reaches a cluster when at least one of its rules matches; order is that of names."""
    labels = cluster.metadata.labels
    return ClusterOverrides(
        cluster=tuple(snap.name for snap in candidates.cluster if _has_rule_for(snap, labels)),
        namespaced=tuple(
            NamespacedName(name=snap.name, namespace=snap.namespace or "")
            for snap in candidates.namespaced
            if _has_rule_for(snap, labels)
        ),
    )


def targets_of(resources: Iterable[Manifest]) -> frozenset[Target]:
    """Return everything overrides can select among a placement's resources.

    The objects themselves, the Namespaces of namespaced ones, and the objects inside envelopes; never an envelope
    itself. What an envelope may not contain is left out silently: generating its Work will say so.
    """
    found: set[Target] = set()
    for manifest in resources:
        envelope = envelope_type(manifest)
        target = target_of(manifest)
        if envelope is None:
            found.add(target)
        else:
            found.update(
                inner for inner in map(target_of, wrapped(manifest)) if inner.namespace == target.namespace
            )
        if target.namespace:
            found.add(namespace_target(target.namespace))
    return frozenset(found)


def envelope_type(manifest: Manifest) -> EnvelopeType | None:
    """Tell whether a manifest is an envelope, and of which kind; the version does not matter."""
    if not str(manifest.get("apiVersion", "")).startswith(f"{PLACEMENT_GROUP}/"):
        return None
    match manifest.get("kind"):
        case "ClusterResourceEnvelope":
            return EnvelopeType.CLUSTER_RESOURCE_ENVELOPE
        case "ResourceEnvelope":
            return EnvelopeType.RESOURCE_ENVELOPE
    return None


def wrapped(envelope: Manifest) -> list[Manifest]:
    """Return the values in an envelope that are objects at all."""
    data = envelope.get("data") or {}
    return [value for value in data.values() if isinstance(value, Mapping)]


def selects_any(snapshot: OverrideSnapshot, targets: frozenset[Target]) -> bool:
    """Whether any selector of the override names one of the targets."""
    namespace = snapshot.namespace or ""
    selectors = snapshot.spec.override_spec.selectors
    return any(selector_target(selector, namespace) in targets for selector in selectors)


def _latest(snapshots: Iterable[OverrideSnapshot]) -> list[OverrideSnapshot]:
    """Keep one snapshot of each override: of those marked latest (two, for a moment) the newest."""
    newest: dict[tuple[str | None, str], OverrideSnapshot] = {}
    for snapshot in snapshots:
        if not is_latest(snapshot) or snapshot.metadata.is_deleting:
            continue
        key = snapshot.namespace, snapshot.metadata.labels.get(LABEL_PARENT_RESOURCE_OVERRIDE, snapshot.name)
        held = newest.get(key)
        if held is None or override_index(held) < override_index(snapshot):
            newest[key] = snapshot
    return list(newest.values())


def override_index(snapshot: OverrideSnapshot) -> int:
    """Return a snapshot's index; -1 when it carries none."""
    return index_of(snapshot, LABEL_OVERRIDE_INDEX)


def _is_for(snapshot: OverrideSnapshot, placement: Key) -> bool:
    """Whether the override is for this placement: for all of them, or for exactly this one."""
    ref = snapshot.spec.override_spec.placement
    if ref is None:
        return True
    if ref.scope == PlacementScope.NAMESPACED:
        return placement == Key(snapshot.namespace, ref.name) and snapshot.namespace is not None
    return placement == Key(None, ref.name)


# --- rules and clusters ------------------------------------------------------------------------------------------------
def is_rule_for(rule: OverrideRule, labels: Mapping[str, str]) -> bool:
    """Whether a rule is for a cluster with these labels; raises InvalidOverride when that cannot be told."""
    if rule.cluster_selector is None:
        return False
    terms = rule.cluster_selector.cluster_selector_terms
    if not terms:
        return True
    for term in terms:
        try:
            check(term.label_selector)
            if matches(term.label_selector, labels):
                return True
        except InvalidSelector as error:
            raise InvalidOverride(
                f"invalid cluster label selector {write_selector(term.label_selector)}: {error}"
            ) from None
    return False


def _has_rule_for(snapshot: OverrideSnapshot, labels: Mapping[str, str]) -> bool:
    policy = snapshot.spec.override_spec.policy
    return any(is_rule_for(rule, labels) for rule in policy.override_rules)


def write_selector(selector: Any) -> str:
    """Write a label selector as Kubernetes' Go clients print it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {selector.match_labels[key]}," for key in sorted(selector.match_labels))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{demand.key},Operator:{demand.operator},"
        f"Values:[{' '.join(demand.values)}],}},"
        for demand in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
