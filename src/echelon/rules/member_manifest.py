"""What of a manifest is the user's: identity, the copy that is sent to a member, and the part that is compared.

Pure functions on decoded JSON. They never change what they are given (manifests are shared with caches): a
changed copy shares every untouched branch with the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from echelon.rules import gojson

PREFIX = "kubernetes-fleet.io/"
SPEC_HASH = PREFIX + "spec-hash"
LAST_APPLIED = PREFIX + "last-applied-configuration"

# Written by machines on the way, never by the user; sending them on would fight whoever writes them there.
_MACHINE_ANNOTATIONS = frozenset(
    {
        SPEC_HASH,
        LAST_APPLIED,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
    }
)
_SERVER_METADATA = frozenset(
    {
        "ownerReferences",
        "managedFields",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_NEVER_COMPARED = _SERVER_METADATA | {"name", "namespace", "generateName", "finalizers"}
_RESERVED_DOMAINS = ("kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/")

Json = Any
Manifest = Mapping[str, Any]


class Identity(NamedTuple):
    """Names one object of any kind. Two entries of a Work with the same identity are duplicates."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """The text the API shows."""
        return (
            f"GV={self.group}/{self.version}, Kind={self.kind}, Namespace={self.namespace}, Name={self.name}"
        )

    @property
    def thing(self) -> tuple[str, str, str, str]:
        """The object itself, whatever version it is spoken of in."""
        return (self.group, self.kind, self.namespace, self.name)


def identity_of(manifest: Manifest) -> Identity:
    """Read who an object is; absent parts are empty."""
    group, _, version = str(manifest.get("apiVersion") or "").rpartition("/")
    meta = metadata_of(manifest)
    return Identity(
        group,
        version,
        str(manifest.get("kind") or ""),
        str(meta.get("namespace") or ""),
        str(meta.get("name") or ""),
    )


def metadata_of(manifest: Manifest) -> Mapping[str, Any]:
    """Return an object's metadata, empty when absent."""
    meta = manifest.get("metadata")
    return meta if isinstance(meta, Mapping) else {}


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Return an object's annotations, empty when absent."""
    return metadata_of(manifest).get("annotations") or {}


def generation_of(manifest: Manifest | None) -> int:
    """Return an object's generation; 0 for kinds without one and for no object."""
    return int(metadata_of(manifest).get("generation") or 0) if manifest else 0


def with_metadata(manifest: Manifest, **changes: Json) -> dict[str, Any]:
    """Return a copy with some metadata fields set; None removes a field."""
    meta = {**metadata_of(manifest), **changes}
    return {**manifest, "metadata": {key: value for key, value in meta.items() if value is not None}}


def with_annotation(manifest: Manifest, key: str, value: str) -> dict[str, Any]:
    """Return a copy with one annotation set."""
    return with_metadata(manifest, annotations={**annotations_of(manifest), key: value})


def sanitised(manifest: Manifest) -> dict[str, Any]:
    """Return what is sent to a member: without server-made metadata, machine annotations and status."""
    meta = {key: value for key, value in metadata_of(manifest).items() if key not in _SERVER_METADATA}
    if "annotations" in meta:
        kept = {
            key: value
            for key, value in (meta["annotations"] or {}).items()
            if key not in _MACHINE_ANNOTATIONS
        }
        meta = {**meta, "annotations": kept} if kept else _without(meta, "annotations")
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": meta}


def compared(manifest: Manifest) -> dict[str, Any]:
    """Return the part of an object that counts in comparisons.

    Labels and annotations are always present, so that a key more on one side is shown as that key and not as
    the whole map.
    """
    meta: dict[str, Any] = {
        key: value for key, value in metadata_of(manifest).items() if key not in _NEVER_COMPARED
    }
    for field in ("labels", "annotations"):
        meta[field] = {
            key: value
            for key, value in (meta.get(field) or {}).items()
            if not any(domain in key for domain in _RESERVED_DOMAINS)
        }
    out: dict[str, Any] = {key: value for key, value in manifest.items() if key != "status"}
    out["metadata"] = meta
    for path in (("spec", "template"), ("spec", "jobTemplate", "spec", "template")):
        out = _without_at(out, (*path, "metadata"), "creationTimestamp")
    return out


def spec_hash(manifest: Manifest) -> str:
    """Return the hash that tells whether this very manifest was applied before."""
    copy = compared(sanitised(manifest))
    meta = {
        key: value for key, value in copy["metadata"].items() if value or key not in {"labels", "annotations"}
    }
    return gojson.sha256_hex({**copy, "metadata": meta})


def is_unchanged(before: Manifest, after: Manifest) -> bool:
    """Tell whether two states of one live object differ at most in what its controllers write (its status)."""
    if before is after:
        return True
    return _steady(before) == _steady(after)


_RESTLESS = frozenset({"resourceVersion", "managedFields", "generation"})


def _steady(live: Manifest) -> tuple[dict[str, Any], dict[str, Any]]:
    body = {key: value for key, value in live.items() if key not in {"status", "metadata"}}
    return body, {key: value for key, value in metadata_of(live).items() if key not in _RESTLESS}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _without_at(doc: dict[str, Any], path: tuple[str, ...], key: str) -> dict[str, Any]:
    """Return the document without `key` of the map at `path`; unchanged when there is none."""
    if not path:
        return _without(doc, key) if key in doc else doc
    child = doc.get(path[0])
    if not isinstance(child, dict):
        return doc
    changed = _without_at(child, path[1:], key)
    return doc if changed is child else {**doc, path[0]: changed}
