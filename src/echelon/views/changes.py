"""What changes between two versions of a placement's resources, object by object and field by field.

Pure. Secret values never appear: they are replaced by marks made with a key of the caller's choosing before anything is
compared, so that one sees whether a value changes and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from echelon.rules.compare import differences

Manifest = Mapping[str, Any]
MAX_VALUE = 200  # characters of a value; a longer one is told by its length
_SECRET_FIELDS = ("data", "stringData")
_ENVELOPES = ("ClusterResourceEnvelope", "ResourceEnvelope")


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field: None where it is not there."""

    path: str
    before: str | None
    after: str | None


class ObjectChange(msgspec.Struct, frozen=True, kw_only=True):
    """One object: added, removed or changed."""

    object: str
    verb: str
    fields: tuple[FieldChange, ...] = ()


def changes_between(
    before: Iterable[Manifest], after: Iterable[Manifest], key: bytes
) -> tuple[ObjectChange, ...]:
    """Return what changes, in the order of the new version, what goes away last."""
    old = {identity(one): one for one in before}
    new = {identity(one): one for one in after}
    told = []
    for name, manifest in new.items():
        if name not in old:
            told.append(ObjectChange(object=title(manifest), verb="added"))
            continue
        fields = _fields(masked(old[name], key), masked(manifest, key))
        if fields:
            told.append(ObjectChange(object=title(manifest), verb="changed", fields=fields))
    told += [
        ObjectChange(object=title(manifest), verb="removed")
        for name, manifest in old.items()
        if name not in new
    ]
    return tuple(told)


def _fields(before: Manifest, after: Manifest) -> tuple[FieldChange, ...]:
    return tuple(
        FieldChange(path=one.path, before=_short(one.value_in_member), after=_short(one.value_in_hub))
        for one in differences(after, before)
    )


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= MAX_VALUE:
        return text
    return f"{text[:MAX_VALUE]}… ({len(text)} characters)"


def identity(manifest: Manifest) -> tuple[str, str, str, str]:
    """Tell objects apart: group, kind, namespace, name (a new API version is a change, not another object)."""
    meta = manifest.get("metadata") or {}
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    return (group, str(manifest.get("kind") or ""), meta.get("namespace") or "", meta.get("name") or "")


def title(manifest: Manifest) -> str:
    """Name an object for people."""
    _, kind, namespace, name = identity(manifest)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def masked(manifest: Manifest, key: bytes) -> Manifest:
    """Replace the values of a Secret by marks, also of one that is wrapped in an envelope."""
    out = dict(manifest)
    if manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1":
        for field in _SECRET_FIELDS:
            values = out.get(field)
            if isinstance(values, Mapping):
                out[field] = {name: mark(str(value), key) for name, value in values.items()}
    elif manifest.get("kind") in _ENVELOPES and isinstance(manifest.get("data"), Mapping):
        out["data"] = {
            name: masked(inner, key) if isinstance(inner, Mapping) else inner
            for name, inner in manifest["data"].items()
        }
    return out


def mark(value: str, key: bytes) -> str:
    """Return a mark that is equal for equal values and says nothing else."""
    return "(secret) " + hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:8]


def write_changes(changes: Sequence[ObjectChange], indent: str = "") -> list[str]:
    """Write changes for people: + added, - removed, ~ changed with its fields."""
    signs = {"added": "+", "removed": "-", "changed": "~"}
    lines = []
    for change in changes:
        lines.append(f"{indent}{signs[change.verb]} {change.object}")
        for one in change.fields:
            if one.before is None:
                lines.append(f"{indent}    {one.path}: + {one.after}")
            elif one.after is None:
                lines.append(f"{indent}    {one.path}: - {one.before}")
            else:
                lines.append(f"{indent}    {one.path}: {one.before} → {one.after}")
    return lines
