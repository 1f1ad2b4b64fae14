"""Field managers of one object: `metadata.managedFields` decoded, changed and encoded again.

What it decides: how entries merge (one per manager, operation, API version and
subresource; appliers one per manager and subresource), their order, their times
and what happens to the oldest when there are too many.

What it must never do: change an entry in place; the list it was made from may
belong to a stored object. Entries nobody touched come out as they went in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from echelon.hub import fieldset
from echelon.hub.fieldset import FieldSet
from echelon.hub.gotext import quote

Object = dict[str, Any]

MAX_UPDATE_MANAGERS = 10
"""More managers of updates are merged, oldest first, into one called `ancient-changes`."""
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"


class Entry(NamedTuple):
    """Who an entry is about. Appliers are the same whatever API version they used last."""

    manager: str
    operation: str
    version: str
    """API version of updaters; empty for appliers."""
    subresource: str
    written_version: str
    """API version written in the entry; no part of the identity."""

    @classmethod
    def of(cls, manager: str, operation: str, api_version: str, subresource: str) -> Entry:
        """Name a manager."""
        version = "" if operation == "Apply" else api_version
        return cls(manager or "unknown", operation, version, subresource, api_version)


Elsewhere = Mapping[str, tuple[FieldSet, FieldSet]]
"""By another version that managers have written in: the fields a write touches and removes as that version has them."""

_Key = tuple[str, str, str, str]


class _State:
    """The fields and the time of one manager; `wire` is the entry as it stands in the object, if untouched."""

    __slots__ = ("api_version", "fields", "time", "wire")

    def __init__(
        self, fields: FieldSet, time: str | None, api_version: str, wire: Object | None = None
    ) -> None:
        self.fields = fields
        self.time = time
        self.api_version = api_version
        self.wire = wire


class Managers:
    """All managers of one object, by identity."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[_Key, _State]) -> None:
        self.entries = entries

    def copy(self) -> Managers:
        """Return a copy that can be changed freely."""
        return Managers(dict(self.entries))

    def fields_of(self, entry: Entry) -> FieldSet:
        """Return what one manager owns."""
        state = self.entries.get(entry[:4])
        return state.fields if state is not None else {}

    def all_fields(self) -> FieldSet:
        """Return what anybody owns."""
        return fieldset.union_of([state.fields for state in self.entries.values()])

    def overlaps(
        self, touched: FieldSet, *, but: Entry, elsewhere: Elsewhere | None = None
    ) -> list[tuple[Entry, FieldSet]]:
        """Return the other managers that own some of the touched fields, and these."""
        found = []
        for key, state in sorted(self.entries.items()):
            if key != but[:4]:
                there = (elsewhere or {}).get(state.api_version)
                common = fieldset.intersection(state.fields, touched if there is None else there[0])
                if common:
                    found.append((Entry(*key, state.api_version), common))
        return found

    def yield_fields(
        self,
        touched: FieldSet,
        removed: FieldSet,
        *,
        but: Entry | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Take the touched fields from everybody else, and the removed ones from everybody."""
        if not touched and not removed:
            return
        for key, state in list(self.entries.items()):
            if but is not None and key == but[:4]:
                continue
            here = touched, removed
            ours, gone = (elsewhere or {}).get(state.api_version, here)
            left = fieldset.difference(state.fields, ours) if ours else state.fields
            left = fieldset.difference(left, gone) if gone else left
            if left is not state.fields:
                self._set(key, left, state.time, state.api_version)

    def take(self, entry: Entry, touched: FieldSet, now: str | None) -> None:
        """Add fields to what an updater owns and note the time."""
        self._set(entry[:4], fieldset.union(self.fields_of(entry), touched), now, entry.written_version)

    def put(self, entry: Entry, fields: FieldSet) -> None:
        """Set what an applier owns; its time stays."""
        state = self.entries.get(entry[:4])
        if (
            state is not None
            and state.api_version == entry.written_version
            and same_fields(state.fields, fields)
        ):
            return
        self.entries[entry[:4]] = _State(
            fields, state.time if state is not None else None, entry.written_version
        )

    def stamp(self, entry: Entry, now: str) -> None:
        """Note the time of an applier, if it owns anything."""
        state = self.entries.get(entry[:4])
        if state is not None and state.time != now:
            self.entries[entry[:4]] = _State(state.fields, now, state.api_version)

    def drop_empty(self) -> None:
        """Forget managers that own nothing."""
        for key in [key for key, state in self.entries.items() if not state.fields]:
            del self.entries[key]

    def _set(self, key: _Key, fields: FieldSet, time: str | None, api_version: str) -> None:
        if fields:
            self.entries[key] = _State(fields, time, api_version)
        else:
            self.entries.pop(key, None)

    def cap(self) -> None:
        """Merge the oldest updaters until no more than `MAX_UPDATE_MANAGERS` are left, one bucket per API version."""
        if len(self.entries) <= MAX_UPDATE_MANAGERS:
            return
        updaters = [key for key in self.entries if key[1] == "Update"]
        count = len(updaters)
        updaters.sort(key=lambda key: (self.entries[key].time or "", _identity_text(key)))
        first: dict[str, _Key] = {}
        ancient: dict[_Key, list[FieldSet]] = {}
        for key in updaters:
            if count <= MAX_UPDATE_MANAGERS:
                break
            version = self.entries[key].api_version
            bucket: _Key = (ANCIENT, "Update", version, "")
            if version not in first:
                first[version] = key
                continue
            if bucket not in self.entries:
                self.entries[bucket] = self.entries.pop(first[version])
            state = self.entries.pop(key) if key != bucket else self.entries[bucket]
            ancient.setdefault(bucket, [self.entries[bucket].fields]).append(state.fields)
            self.entries[bucket] = _State(self.entries[bucket].fields, state.time, version)
            count -= 1
        for bucket, sets in ancient.items():
            state = self.entries[bucket]
            self.entries[bucket] = _State(fieldset.union_of(sets), state.time, state.api_version)

    def encode(self) -> list[Object]:
        """Return the wire form, in the API server's order."""
        return [_wire(key, state) for key, state in sorted(self.entries.items(), key=_wire_order)]


def same_fields(a: FieldSet, b: FieldSet) -> bool:
    """Tell whether two sets are equal; they hold only objects, so Python's equality is exact."""
    return a is b or a == b


def _wire_order(item: tuple[_Key, _State]) -> tuple[str, ...]:
    (manager, operation, _, subresource), state = item
    return operation, state.time or "", manager, state.api_version, subresource


def _wire(key: _Key, state: _State) -> Object:
    if state.wire is not None:
        return state.wire
    manager, operation, _, subresource = key
    wire: Object = {"manager": manager, "operation": operation, "apiVersion": state.api_version}
    if state.time is not None:
        wire["time"] = state.time
    wire["fieldsType"] = "FieldsV1"
    wire["fieldsV1"] = state.fields
    if subresource:
        wire["subresource"] = subresource
    return wire


def _identity_text(key: _Key) -> str:
    manager, operation, version, subresource = key
    parts = {"manager": manager, "operation": operation, "apiVersion": version, "subresource": subresource}
    return msgspec.json.encode({name: value for name, value in parts.items() if value}).decode()


def owner_text(entry: Entry) -> str:
    """Name a manager as conflict messages do."""
    text = quote(entry.manager)
    if entry.subresource:
        text += f" with subresource {quote(entry.subresource)}"
    return f"{text} using {entry.version}" if entry.operation == "Update" else text


def decode(entries: list[Object], *, trusted: bool = True) -> Managers:
    """Read `metadata.managedFields`; entries a client sent (not trusted) are checked and normalised."""
    states: dict[_Key, _State] = {}
    for index, wire in enumerate(entries):
        if not trusted:
            wire = _checked(index, wire)
        operation = wire["operation"]
        api_version = wire["apiVersion"]
        key = (
            wire.get("manager", ""),
            operation,
            "" if operation == "Apply" else api_version,
            wire.get("subresource", ""),
        )
        states[key] = _State(wire.get("fieldsV1") or {}, wire.get("time"), api_version, wire)
    return Managers(states)


def _checked(index: int, wire: Any) -> Object:
    if type(wire) is not dict:
        raise ValueError(f"managed fields entry {index} is no object")
    if wire.get("operation") not in ("Apply", "Update"):
        raise ValueError("operation must be `Apply` or `Update`")
    if not isinstance(wire.get("apiVersion"), str) or not wire["apiVersion"]:
        raise ValueError("apiVersion must not be empty")
    if not wire.get("fieldsType"):
        raise ValueError(f"missing fieldsType in managed fields entry {index}")
    if wire["fieldsType"] != "FieldsV1":
        raise ValueError(f"invalid fieldsType {wire['fieldsType']!r} in managed fields entry {index}")
    for name in ("manager", "subresource", "time"):
        if not isinstance(wire.get(name) or "", str):
            raise ValueError(f"{name} of managed fields entry {index} is no text")  # noqa: TRY004 - one error for all
    fields = fieldset.parse(wire.get("fieldsV1") or {})
    known = ("manager", "operation", "apiVersion", "time", "fieldsType")
    kept: Object = {name: wire[name] for name in known if wire.get(name)}
    kept["fieldsV1"] = fields
    if wire.get("subresource"):
        kept["subresource"] = wire["subresource"]
    return kept


def before_first_apply(
    managers: Managers, fields: FieldSet, api_version: str, subresource: str, now: str
) -> None:
    """Give everything an untracked object holds to one manager, so that the first apply meets an owner."""
    entry = Entry.of(BEFORE_FIRST_APPLY, "Update", api_version, subresource)
    if fields:
        managers.take(entry, fields, now)
