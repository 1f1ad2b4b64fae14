"""From an object to its entry in the store, and from a row of the log back to one.

Takes only what the store must know without decoding: labels, uid and owners.
Fields for field selectors are worked out when a selector first asks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub.store import Entry


class _Owner(msgspec.Struct):
    uid: str = ""


class _Meta(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] | None = None
    ownerReferences: list[_Owner] | None = None  # noqa: N815 - the wire's name
    deletionTimestamp: str | None = None  # noqa: N815 - the wire's name


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


def entry_of(key: str, rev: int, body: bytes, metadata: dict[str, Any]) -> Entry:
    """Make the entry of an object about to be written."""
    entry = Entry(key, rev, body)
    entry.labels = metadata.get("labels") or None
    entry.uid = metadata.get("uid", "")
    entry.ending = bool(metadata.get("deletionTimestamp"))
    owners = metadata.get("ownerReferences")
    if owners:
        entry.owners = tuple(owner["uid"] for owner in owners)
    return entry


def entry_of_row(key: str, rev: int, body: bytes) -> Entry:
    """Make the entry of a body read back from the log."""
    entry = Entry(key, rev, body)
    meta = _decode(body).metadata
    entry.labels = meta.labels or None
    entry.uid = meta.uid
    entry.ending = bool(meta.deletionTimestamp)
    if meta.ownerReferences:
        entry.owners = tuple(owner.uid for owner in meta.ownerReferences)
    return entry
