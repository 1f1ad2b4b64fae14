"""Applies overrides to manifests for one cluster: JSON patches with variables, or leaving the object out.

First the cluster-scoped overrides, in the binding's order, then (for namespaced objects) the namespaced ones: later
rules win over earlier ones. A cluster-scoped override of a Namespace hits every object in it too.

Pure: manifests are shared and never changed; a patched one is a new object. Errors are the author's and are worded
for him.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from echelon.api.cluster import MemberCluster
from echelon.api.names import OverrideType
from echelon.api.override import JsonPatchOverride, OverrideSnapshot
from echelon.api.scope import scope_of
from echelon.rules.json_patch import PatchRejected, apply_operations
from echelon.rules.override import (
    InvalidOverride,
    Target,
    is_rule_for,
    namespace_target,
    selector_target,
    target_of,
)

NAME_VARIABLE = "${MEMBER-CLUSTER-NAME}"
LABEL_VARIABLE = "${MEMBER-CLUSTER-LABEL-KEY-"


class OverrideFailure(Exception):
    """An override cannot be carried out on this cluster; the text names it, the object and the cause."""


class Overrider:
    """The overrides of one binding, filed by what they select."""

    def __init__(
        self,
        cluster: MemberCluster,
        cluster_snapshots: Iterable[OverrideSnapshot] = (),
        namespaced_snapshots: Iterable[OverrideSnapshot] = (),
    ) -> None:
        self.cluster = cluster
        self._by_target: dict[Target, list[OverrideSnapshot]] = {}
        for snapshot in (*cluster_snapshots, *namespaced_snapshots):
            for selector in snapshot.spec.override_spec.selectors:
                target = selector_target(selector, snapshot.namespace or "")
                held = self._by_target.setdefault(target, [])
                if snapshot not in held:
                    held.append(snapshot)

    def apply(self, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """R-OVERRIDE-3: cluster-scoped overrides first, then the object's own; later rules win; None leaves it out."""
        if not self._by_target:
            return manifest
        target = target_of(manifest)
        wanted: dict[str, Any] | None = manifest
        for snapshot in self._for(target):
            try:
                wanted = self._carry_out(snapshot, wanted)
            except (PatchRejected, InvalidOverride) as cause:
                raise OverrideFailure(
                    f'{scope_of(snapshot.namespace).override_snapshot.kind} "{snapshot.name}" failed to apply on {target}: {cause}'
                ) from None
        return wanted

    def _for(self, target: Target) -> Sequence[OverrideSnapshot]:
        """Return the overrides of an object: the cluster-scoped ones of it or its Namespace, then its own."""
        own = self._by_target.get(target, ())
        if not target.namespace:
            return own
        return [*self._by_target.get(namespace_target(target.namespace), ()), *own]

    def _carry_out(
        self, snapshot: OverrideSnapshot, manifest: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        for rule in snapshot.spec.override_spec.policy.override_rules:
            if not is_rule_for(rule, self.cluster.metadata.labels):
                continue
            if rule.override_type == OverrideType.DELETE:
                return None
            operations = [self._operation(patch) for patch in rule.json_patch_overrides]
            if manifest is not None:
                manifest = apply_operations(manifest, operations, strict=True)
        return manifest

    def _operation(self, patch: JsonPatchOverride) -> dict[str, Any]:
        operation: dict[str, Any] = {"op": patch.operator.value, "path": patch.path}
        if patch.value is not msgspec.UNSET:
            operation["value"] = replace_variables(patch.value, self.cluster)
        return operation


def replace_variables(value: Any, cluster: MemberCluster) -> Any:
    """Put the cluster's name and labels where the value's text asks for them.

    It is text that is replaced, in keys and values alike; what is not spelled exactly like a variable stays.
    """
    text = msgspec.json.encode(value).decode()
    if "${" not in text:
        return value
    text = _replace_labels(text.replace(NAME_VARIABLE, cluster.name), cluster)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidOverride(f"the value is no JSON after its variables were replaced: {error}") from None


def _replace_labels(text: str, cluster: MemberCluster) -> str:
    labels: Mapping[str, str] = cluster.metadata.labels
    while (start := text.find(LABEL_VARIABLE)) >= 0:
        end = text.find("}", start)
        if end < 0:
            raise InvalidOverride(f"input {text} is missing the closing bracket `}}`")
        key = text[start + len(LABEL_VARIABLE) : end]
        if key not in labels:
            raise InvalidOverride(f"label key {key} not found on cluster {cluster.name}")
        text = text[:start] + labels[key] + text[end + 1 :]
    return text
