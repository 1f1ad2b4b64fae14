"""Objects of definitions as one version shows them, and as they are stored.

What it decides: what becomes of a stored object when another version is asked for, or the schema has
changed since it was written: pruned and completed by the schema it is stored by, converted, and pruned by the
schema of the version that shows it. Definitions may name a webhook that converts; then nothing else can.

How: verbs hand in entries and get entries back, those of built-in kinds and of definitions whose
versions all say the same as they are. Converted ones are remembered: watchers of one event and pages
of one list ask for the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from echelon.hub import metadata, schema
from echelon.hub.call import Call
from echelon.hub.conversion import ConversionError, check_answer, restored
from echelon.hub.entries import entry_of
from echelon.hub.hook_client import HookError
from echelon.hub.kinds import Kind
from echelon.hub.status import StatusError, internal
from echelon.hub.store import Entry, Event

Json = dict[str, Any]

MAX_REMEMBERED_BYTES = 64 * 1024 * 1024
"""Bytes of converted objects kept: as many as of history."""

MAX_REVIEWED = 500
"""Objects sent to a conversion webhook in one review."""

TIMEOUT_S = 30
"""How long a conversion webhook may take, as in kube-apiserver."""

_Key = tuple[Kind, str, str, int]


class Remembered:
    """Converted objects by version, cluster, key and revision; the oldest give way."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, Entry] = OrderedDict()
        self._bytes = 0

    def get(self, key: _Key) -> Entry | None:
        """Return an object as it was converted before."""
        return self._known.get(key)

    def keep(self, key: _Key, entry: Entry) -> None:
        """Keep an object for who asks next."""
        if key not in self._known and entry.rev:  # without a revision it was never written
            self._known[key] = entry
            self._bytes += len(entry.body)
        while self._bytes > MAX_REMEMBERED_BYTES:
            self._bytes -= len(self._known.popitem(last=False)[1].body)


def as_is(kind: Kind, entry: Entry) -> bool:
    """Say whether a version shows an entry the way it is stored, but for its name."""
    return kind.plain and entry.rev >= kind.since


async def seen(call: Call, entry: Entry) -> Entry:
    """Return an entry as the call's version shows it."""
    if as_is(call.kind, entry):
        return entry
    try:
        return (await _all_seen(call, [entry]))[0]
    except ConversionError as error:
        raise _undecodable(call, entry, error) from None


async def seen_all(call: Call, entries: list[Entry]) -> list[Entry]:
    """Return entries as the call's version shows them."""
    kind = call.kind
    if kind.plain and not (kind.since and any(entry.rev < kind.since for entry in entries)):
        return entries
    try:
        return await _all_seen(call, entries)
    except ConversionError as error:
        raise StatusError(500, "", str(error)) from None


def all_as_they_are(kind: Kind, events: Iterable[Event]) -> bool:
    """Say whether a version shows all that events tell as it is stored."""
    return kind.plain and all(
        event.entry.rev >= kind.since and (event.prev is None or event.prev.rev >= kind.since)
        for event in events
    )


async def seen_event(call: Call, event: Event) -> Event:
    """Return an event with its objects as the call's version shows them."""
    kind, prev = call.kind, event.prev
    if as_is(kind, event.entry) and (prev is None or as_is(kind, prev)):
        return event
    found = await seen_all(call, [event.entry] if prev is None else [event.entry, prev])
    return Event(event.table, event.kind, found[0], found[1] if prev is not None else None)


async def stored(call: Call, obj: Json) -> tuple[Call, Json]:
    """Return an object as it is to be stored, and the call as one about the version that is stored."""
    kind = call.kind
    if kind.plain or kind.stored_as is None:
        return call, obj
    try:
        made = (await _converted(call, [obj], kind, kind.stored_as))[0]
    except ConversionError as error:
        raise StatusError(500, "", str(error)) from None
    _fit(kind.stored_as, made, complete=True)
    return raw(call), made


def raw(call: Call) -> Call:
    """Return a call as one about the version that is stored, for what does not care how it is shown."""
    return call if call.kind.stored_as is None else replace(call, kind=call.kind.stored_as)


async def in_version(call: Call, obj: Json, kind: Kind) -> Json:
    """Return an object of one version of a resource as another shows it."""
    if obj.get("apiVersion") == kind.api_version or not kind.custom:
        return obj
    version = str(obj.get("apiVersion")).rpartition("/")[2]
    source = kind.versions.get(version, kind)
    try:
        made = (await _converted(call, [obj], source, kind))[0]
    except ConversionError as error:
        raise StatusError(500, "", str(error)) from None
    _fit(kind, made)
    return made


async def _all_seen(call: Call, entries: list[Entry]) -> list[Entry]:
    kind, known = call.kind, call.hub.seen
    found: dict[int, Entry] = {}
    missing: list[int] = []
    for index, entry in enumerate(entries):
        if as_is(kind, entry):
            found[index] = entry
            continue
        one = known.get((kind, call.cluster.name, entry.key, entry.rev))
        if one is None:
            missing.append(index)
        else:
            found[index] = one
    for start in range(0, len(missing), MAX_REVIEWED):
        part = missing[start : start + MAX_REVIEWED]
        shown = await _shown(call, [entries[index] for index in part])
        for index, one in zip(part, shown, strict=True):
            found[index] = one
            known.keep((kind, call.cluster.name, one.key, one.rev), one)
    return [found[index] for index in range(len(entries))]


async def _shown(call: Call, entries: list[Entry]) -> list[Entry]:
    """Decode, complete, convert and prune entries; encode them so that the kind presents them as its own."""
    kind = call.kind
    storage = kind.stored_as or kind
    objects: list[Json] = [msgspec.json.decode(entry.body) for entry in entries]
    for obj in objects:
        version = str(obj["apiVersion"]).rpartition("/")[2]
        by = kind.versions.get(version, storage)
        _fit(by, obj, complete=True)
    by_version: dict[str, list[int]] = {}
    for index, obj in enumerate(objects):
        by_version.setdefault(str(obj["apiVersion"]).rpartition("/")[2], []).append(index)
    for version, indexes in by_version.items():
        source = kind.versions.get(version, storage)
        made = await _converted(call, [objects[index] for index in indexes], source, kind)
        for index, obj in zip(indexes, made, strict=True):
            objects[index] = obj
    out = []
    for entry, obj in zip(entries, objects, strict=True):
        _fit(kind, obj)
        out.append(entry_of(entry.key, entry.rev, kind.write(obj), obj["metadata"]))
    return out


def _fit(kind: Kind, obj: Json, *, complete: bool = False) -> None:
    """Prune an object by a version's schema, and fill in its defaults where it is kept in that version."""
    metadata.shape(obj, custom=True)
    compiled = kind.schema
    if compiled is not None:
        schema.prune(compiled, obj)
        if complete:
            schema.apply_defaults(compiled, obj)


async def _converted(call: Call, objects: list[Json], source: Kind, wanted: Kind) -> list[Json]:
    """Return objects of one version in another; the webhook is asked only where versions differ."""
    if source.api_version == wanted.api_version:
        return objects
    hook = wanted.conversion
    if hook is None:
        return [{**obj, "apiVersion": wanted.api_version} for obj in objects]
    uid = call.hub.world.uuid()
    sent = [_without_revision(obj) for obj in objects]
    request = {"uid": uid, "desiredAPIVersion": wanted.api_version, "objects": sent}
    nothing: Json = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    review = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{hook.version}",
        "request": request,
        "response": nothing,
    }
    failed = f"conversion webhook for {source.api_version}, Kind={source.kind} "
    try:
        answer = await call.hub.hooks.review(hook.client, review, TIMEOUT_S)
    except HookError as error:
        raise ConversionError(f"{failed}failed: {error}") from None
    try:
        made = check_answer(answer, review, wanted.api_version, wanted.kind)
        return [restored(before, after) for before, after in zip(objects, made, strict=True)]
    except ConversionError as error:
        raise ConversionError(failed + str(error)) from None


def _without_revision(obj: Json) -> Json:
    """Return an object without what the store adds: a stored object does not know its revision."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}


def _undecodable(call: Call, entry: Entry, error: ConversionError) -> StatusError:
    """Answer that what is stored cannot be shown."""
    why = f"object not decodable revision={entry.rev}: {error}"
    if call.verb in {"update", "patch"}:
        return StatusError(500, "", why)
    key = f"/{call.kind.group}/{call.kind.plural}/{entry.key}"
    return internal(
        f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
