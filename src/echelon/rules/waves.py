"""What a Work asks of its member: which objects, in which order, and which earlier ones are to go.

Pure. Manifests are read once; a manifest that cannot be applied keeps its place in the list with the reason.
Kinds are resolved elsewhere (only the member's API server knows them), right before their wave, so a custom
resource in the same Work as its definition is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from echelon.rules.member_manifest import Identity, Manifest, identity_of, metadata_of

LAST_WAVE = 999

_BUILT_IN_GROUPS = frozenset(
    {
        "",
        "networking.k8s.io",
        "scheduling.k8s.io",
        "policy",
        "storage.k8s.io",
        "apiextensions.k8s.io",
        "rbac.authorization.k8s.io",
        "apps",
        "autoscaling",
        "apiregistration.k8s.io",
        "admissionregistration.k8s.io",
        "batch",
    }
)
_WAVES = (
    "namespaces priorityclasses",
    (
        "networkpolicies resourcequotas limitranges podsecuritypolicies poddisruptionbudgets serviceaccounts secrets"
        " configmaps storageclasses persistentvolumes persistentvolumeclaims customresourcedefinitions ingressclasses"
    ),
    "clusterroles roles",
    "clusterrolebindings rolebindings",
    (
        "services daemonsets pods replicationcontrollers replicasets deployments horizontalpodautoscalers"
        " statefulsets jobs cronjobs ingresses"
    ),
    "apiservices validatingwebhookconfigurations mutatingwebhookconfigurations",
)
_WAVE_OF = {plural: index for index, plurals in enumerate(_WAVES) for plural in plurals.split()}


def wave_of(group: str, plural: str) -> int:
    """R-WORK-5: manifests are applied in waves by kind, namespaces first and custom kinds last."""
    return _WAVE_OF.get(plural, LAST_WAVE) if group in _BUILT_IN_GROUPS else LAST_WAVE


def wave_of_kind(group: str, kind: str) -> int:
    """Return the wave of a kind that is not resolved yet; built-in plurals follow from the kind's name."""
    lower = kind.lower()
    for plural in (lower + "s", lower + "es", lower[:-1] + "ies"):
        if plural in _WAVE_OF:
            return wave_of(group, plural)
    return LAST_WAVE


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest of a Work, at its place; `problem` (reason, error) says why it can never be applied."""

    ordinal: int
    identity: Identity
    manifest: Manifest
    problem: tuple[str, str] | None = None


def read_manifests(manifests: Sequence[Manifest]) -> tuple[Item, ...]:
    """R-WORK-6: of two manifests of one object the first wins."""
    items: list[Item] = []
    seen: set[Identity] = set()
    for ordinal, manifest in enumerate(manifests):
        identity = identity_of(manifest)
        problem = _problem_of(manifest, identity)
        if problem is None and identity in seen:
            problem = ("Duplicated", "a duplicate manifest has been found")
        seen.add(identity)
        items.append(Item(ordinal=ordinal, identity=identity, manifest=manifest, problem=problem))
    return tuple(items)


def _problem_of(manifest: Manifest, identity: Identity) -> tuple[str, str] | None:
    if not identity.kind or not identity.version:
        why = "failed to decode manifest: failed to unmarshal JSON: Object 'Kind' is missing"
        return ("DecodingErred", why)
    if not identity.name and metadata_of(manifest).get("generateName"):
        return ("FoundGenerateName", "objects with only generate name are not supported")
    return None


def find_left_overs(
    applied: Iterable[Mapping[str, Any]], items: Sequence[Item]
) -> tuple[Mapping[str, Any], ...]:
    """R-WORK-7: a recorded object that no manifest speaks of any more is left over, whatever its version.

    An object named in another API version is still the same object, so it is not a left-over.
    """
    wanted = {item.identity.thing for item in items if item.problem is None}
    out: dict[tuple[str, str, str, str], Mapping[str, Any]] = {}
    for record in applied:
        thing = (
            record.get("group") or "",
            record.get("kind") or "",
            record.get("namespace") or "",
            record.get("name") or "",
        )
        if thing not in wanted and record.get("resource"):
            out.setdefault(thing, record)
    return tuple(out.values())
