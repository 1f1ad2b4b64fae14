"""Secrets in history: their values are sealed before they enter a snapshot and opened only to be delivered.

A sealed Secret keeps its shape: the same keys under `data` and `stringData`, each value base64 of the sealed value,
and an annotation that says so. Sealing is deterministic (AES-SIV): equal content stays equal, so versions are told
apart as ever, and nobody who reads snapshots can tell more than whether two values of one key of one Secret are the
same. A value is bound to its Secret and key; moved elsewhere it does not open.

Secrets inside envelopes are sealed too. Everything else passes through untouched. Pure; the key is an argument.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from echelon.api.names import ANNOTATION_SEALED
from echelon.rules.snapshots import is_envelope

Manifest = dict[str, Any]
Turn = Callable[[str, list[bytes]], str]

KEY_BYTES = 64  # AES-256 in SIV mode
SEALED_V1 = "v1"
_FIELDS = ("data", "stringData")
_BYTES, _TEXT = b"\x00", b"\x01"  # what a value was before: base64 of bytes, or any other text


class CannotOpen(ValueError):
    """A sealed value was sealed with another key, or tampered with."""


def is_secret(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest is a Secret."""
    return manifest.get("apiVersion") == "v1" and manifest.get("kind") == "Secret"


def holds_secrets(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest is a Secret or an envelope around one."""
    return is_secret(manifest) or (is_envelope(manifest) and any(map(is_secret, _wrapped(manifest))))


def _wrapped(envelope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = envelope.get("data")
    values = data.values() if isinstance(data, Mapping) else ()
    return [value for value in values if isinstance(value, Mapping)]


def seal(manifests: Sequence[Manifest], key: bytes) -> list[Manifest]:
    """R-SEAL-1: values of Secrets enter history sealed, also those inside envelopes."""
    cipher = AESSIV(key)

    def turn(value: str, bound_to: list[bytes]) -> str:
        return base64.b64encode(cipher.encrypt(_plain(value), bound_to)).decode()

    def one(secret: Manifest) -> Manifest:
        if is_sealed(secret):  # somebody's own annotation: sealing is never mistaken for done
            secret = _noted(secret, None)
        return _noted(_turned(secret, turn), SEALED_V1)

    return [_each(manifest, one) for manifest in manifests]


def open_sealed(manifests: Sequence[Manifest], key: bytes) -> list[Manifest]:
    """R-SEAL-2: they open only with the key and in their own place; raises CannotOpen."""
    cipher = AESSIV(key)

    def turn(value: str, bound_to: list[bytes]) -> str:
        try:
            opened = cipher.decrypt(base64.b64decode(value, validate=True), bound_to)
        except (InvalidTag, ValueError):
            where = "/".join(part.decode() for part in bound_to if part)
            raise CannotOpen(
                f"the sealed value of Secret {where} does not open with this hub's key"
            ) from None
        mode, rest = opened[:1], opened[1:]
        return base64.b64encode(rest).decode() if mode == _BYTES else rest.decode()

    def one(secret: Manifest) -> Manifest:
        return _noted(_turned(secret, turn), None) if is_sealed(secret) else secret

    return [_each(manifest, one) for manifest in manifests]


def is_sealed(manifest: Mapping[str, Any]) -> bool:
    """Whether a Secret says that its values are sealed."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(ANNOTATION_SEALED) == SEALED_V1)


def any_sealed(manifests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any Secret among the manifests, or inside their envelopes, is sealed."""
    return any(
        is_sealed(inner)
        for manifest in manifests
        for inner in (
            (manifest,) if is_secret(manifest) else _wrapped(manifest) if is_envelope(manifest) else ()
        )
    )


def _each(manifest: Manifest, one: Callable[[Manifest], Manifest]) -> Manifest:
    """Apply to a Secret, or to the Secrets in an envelope."""
    if is_secret(manifest):
        return one(manifest)
    if not (is_envelope(manifest) and any(map(is_secret, _wrapped(manifest)))):
        return manifest
    data = {
        name: one(value) if isinstance(value, dict) and is_secret(value) else value
        for name, value in manifest["data"].items()
    }
    return {**manifest, "data": data}


def _turned(secret: Manifest, turn: Turn) -> Manifest:
    meta = secret.get("metadata") or {}
    place = [str(meta.get("namespace") or "").encode(), str(meta.get("name") or "").encode()]
    fields: Manifest = {}
    for field in _FIELDS:
        held = secret.get(field)
        if isinstance(held, Mapping):
            fields[field] = {
                name: turn(value, [*place, name.encode(), field.encode()])
                if isinstance(value, str)
                else value
                for name, value in held.items()
            }
    return {**secret, **fields}


def _noted(secret: Manifest, note: str | None) -> Manifest:
    meta = dict(secret.get("metadata") or {})
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != ANNOTATION_SEALED}
    if note is not None:
        annotations[ANNOTATION_SEALED] = note
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)
    return {**secret, "metadata": meta}


def _plain(value: str) -> bytes:
    """Return what is sealed: bytes where the value is their base64, which keeps its size, else the text."""
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return _TEXT + value.encode()
    return _BYTES + decoded if base64.b64encode(decoded).decode() == value else _TEXT + value.encode()
