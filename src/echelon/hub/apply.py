"""Server-side apply and the tracking of field managers.

What it decides: the object after an apply, who owns which field afterwards,
and when an apply conflicts. What it must never do: change its arguments, know
HTTP paths, or default and validate objects: the caller does that before
`track_update` and after `apply`.

Stable signatures:
- `apply(live, applied, manager, force, schema, now, api_version, subresource="", reset=None) -> dict`
  returns the merged object with its new managedFields. `live` is None when the
  object does not exist. Raises `ApplyConflict`, or StatusError for a bad request.
  The result still carries `resourceVersion` and `uid` of `applied` if it has
  them: compare them with the live object's as for an update. `result is live`
  cannot be relied on; use `unchanged(live, result)`.
- `track_update(live, new, manager, schema, now, api_version, subresource="", operation="Update", reset=None) -> dict`
  returns `new` with its managedFields; `new` is complete (defaulted, pruned).
- `unchanged(live, new) -> bool`: equal but for the times in managedFields, so nothing need be written.
- `manager_name(requested, user_agent) -> str`: the default manager is the User-Agent up to the first slash.
- `RESET_STATUS`, `RESET_FOR_STATUS`, `RESET_FOR_CR_STATUS`: `reset` are the fields this endpoint puts back to
  what they were, so nobody comes to own them. Pass RESET_STATUS on the main
  endpoint of kinds with a status subresource, RESET_FOR_STATUS on `/status` of
  built-ins and RESET_FOR_CR_STATUS on `/status` of custom resources. None means: by subresource name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub import fieldset
from echelon.hub.fieldset import FieldSet
from echelon.hub.mistyped import is_mistyped, misfits
from echelon.hub.owners import Elsewhere, Entry, Managers, before_first_apply, decode, owner_text
from echelon.hub.shape import Shape, shape_of
from echelon.hub.status import StatusError, bad_request
from echelon.hub.typed import ABSENT, Mistyped, compare, fields_of, merge, remove
from echelon.rules import gojson
from echelon.rules.merge import same

JSON = Any
Object = dict[str, Any]

RESET_STATUS: FieldSet = {"f:status": {}}
RESET_FOR_STATUS: FieldSet = {"f:spec": {}}
RESET_FOR_CR_STATUS: FieldSet = {"f:metadata": {}, "f:spec": {}}

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATION_BYTES = 256 * 1024
"""All annotations of an object together; the last-applied one is dropped rather than exceed it."""
MAX_MANAGER_BYTES = 128
"""Longer manager names are cut (from the User-Agent) or refused (when asked for)."""


class ApplyConflict(StatusError):
    """Fields of the configuration belong to other managers; `causes` lists them."""

    def __init__(self, conflicts: list[tuple[Entry, FieldSet]]) -> None:
        self.conflicts = conflicts
        self.causes: list[Object] = []
        lines: list[str] = []
        for owner, fields in conflicts:
            who = owner_text(owner)
            lines.append(f"conflicts with {who}:")
            for path in fieldset.paths(fields):
                field = fieldset.path_text(path)
                lines.append(f"- {field}")
                self.causes.append(
                    {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
                )
        if len(self.causes) == 1:
            what = f"Apply failed with 1 conflict: {self.causes[0]['message']}: {self.causes[0]['field']}"
        else:
            what = f"Apply failed with {len(self.causes)} conflicts: " + "\n".join(lines)
        super().__init__(409, "Conflict", what, {"causes": self.causes})


def manager_name(requested: str, user_agent: str) -> str:
    """Return the manager of a request: the one asked for, or the User-Agent's first word."""
    if requested:
        return requested
    kept = ""
    for char in user_agent.split("/", 1)[0]:
        if not char.isprintable():
            continue
        if len((kept + char).encode()) > MAX_MANAGER_BYTES:
            break
        kept += char
    return kept


def track_update(
    live: Object | None,
    new: Object,
    manager: str,
    schema: Any,
    now: str | None,
    api_version: str,
    subresource: str = "",
    operation: str = "Update",
    reset: FieldSet | None = None,
    elsewhere: Elsewhere | None = None,
) -> Object:
    """Return `new` with the managedFields of a create, update or patch."""
    managers = _managers_of_write(live, new, subresource)
    if live is not None and not managers.entries:
        return _with_managed_fields(new, managers)  # untracked objects stay so until somebody applies
    shape = shape_of(schema)
    reset = _reset_of(subresource, reset)
    if is_mistyped(live, new, shape, reset):
        return _with_managed_fields(new, decode((live or {}).get("metadata", {}).get("managedFields") or []))
    touched, removed = compare(live or shape.nothing, new, shape)
    touched, removed = _without_reset(touched, removed, reset)
    me = Entry.of(manager, operation, api_version, subresource)
    managers.yield_fields(touched, removed, elsewhere=elsewhere)
    if touched:
        managers.take(me, touched, now)
    managers.cap()
    return _with_managed_fields(new, managers)


def apply(
    live: Object | None,
    applied: Object,
    manager: str,
    force: bool,
    schema: Any,
    now: str,
    api_version: str,
    subresource: str = "",
    reset: FieldSet | None = None,
    elsewhere: Elsewhere | None = None,
) -> Object:
    """Merge a configuration into the live object and return the result with its managedFields."""
    _check_configuration(applied, api_version)
    shape = shape_of(schema)
    wanted = _fields(applied, shape)
    if live is not None and shape.typed:
        _expect_typed(live, applied, shape)
    managers = decode((live or {}).get("metadata", {}).get("managedFields") or [])
    if live is not None and not managers.entries:
        there, _ = _without_reset(compare(shape.nothing, live, shape)[0], {}, _reset_of(subresource, reset))
        before_first_apply(managers, there, api_version, subresource, now)
    attempt = _Attempt(live or {}, applied, shape, _reset_of(subresource, reset), elsewhere)
    me = Entry.of(manager, "Apply", api_version, subresource)
    try:
        result, managers = attempt.run(managers, me, wanted, force=force, now=now)
    except ApplyConflict as conflict:
        if manager != "kubectl" or live is None:
            raise
        _forgive_client_side_apply(conflict, live, shape, api_version)
        result, managers = attempt.run(managers, me, wanted, force=True, now=now)
    if manager == "kubectl":
        result = _refresh_last_applied(result, applied)
    return _with_managed_fields(result, managers)


def unchanged(live: Object, new: Object) -> bool:
    """Tell whether a write may be skipped: nothing differs, or only times of managers."""
    if live is new:
        return True
    ours = live.get("metadata", {}).get("managedFields") or []
    theirs = new.get("metadata", {}).get("managedFields") or []
    if ours is not theirs:
        if len(ours) != len(theirs):
            return False
        for a, b in zip(ours, theirs, strict=True):
            if a is not b and not same({**a, "time": ""}, {**b, "time": ""}):
                return False
    return same(_without_managed_fields(live), _without_managed_fields(new))


def _without_managed_fields(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


class _Attempt:
    """One apply, to be run once more by force if its conflicts are forgiven."""

    def __init__(
        self,
        live: Object,
        applied: Object,
        shape: Shape,
        reset: FieldSet,
        elsewhere: Elsewhere | None,
    ) -> None:
        self.live = live
        self.applied = applied
        self.shape = shape
        self.reset = reset
        self.elsewhere = elsewhere

    def run(
        self, before: Managers, me: Entry, wanted: FieldSet, *, force: bool, now: str
    ) -> tuple[Object, Managers]:
        """Return the merged object and its managers, or raise `ApplyConflict`."""
        managers = before.copy()
        mine = fieldset.without_trees(wanted, self.reset) if self.reset else wanted
        last = managers.fields_of(me)
        managers.put(me, mine)
        result: Object = merge(self.live, self.applied, self.shape)
        if last and fieldset.difference(last, mine):
            result = self._prune(result, last, managers)
        touched, removed = compare(self.live, result, self.shape)
        touched, removed = _without_reset(touched, removed, self.reset)
        if not force:
            conflicts = managers.overlaps(touched, but=me, elsewhere=self.elsewhere)
            if conflicts:
                raise ApplyConflict(conflicts)
        managers.yield_fields(touched, removed, but=me, elsewhere=self.elsewhere)
        managers.drop_empty()
        if not same(self.live, result):
            managers.stamp(me, now)
        return result, managers

    def _prune(self, merged: Object, last: FieldSet, managers: Managers) -> Object:
        """Remove what this manager applied before, does not apply now, and nobody else owns.

        In three steps, so that neither removing a parent takes along what others
        own below it, nor anything goes that this manager never applied.
        """
        shape = self.shape
        last = shape.with_parents(last)
        all_fields = shape.with_parents(_tree(merged, shape))
        pruned = remove(merged, last, shape)
        kept = shape.with_parents(_tree(pruned, shape))
        owned = shape.with_parents(managers.all_fields())
        pruned = remove(merged, fieldset.difference(all_fields, fieldset.union(kept, owned)), shape)
        kept = shape.with_parents(_tree(pruned, shape))
        gone = fieldset.intersection(fieldset.difference(all_fields, kept), last)
        result = remove(merged, gone, shape)
        return {} if result is ABSENT else result


def _tree(value: JSON, shape: Shape) -> FieldSet:
    """List the fields of an object that is already stored: nothing to check."""
    return {} if value is ABSENT else fields_of(value, shape, check=False)


def _check_configuration(applied: Object, api_version: str) -> None:
    if applied.get("apiVersion") != api_version:
        raise wrong_type(applied)
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def wrong_type(applied: Object) -> StatusError:
    """Answer that a configuration is for another kind or version than its path."""
    given = applied.get("apiVersion") or ""
    group_version = given if isinstance(given, str) and "/" in given else f"/{given}"
    return bad_request(f"invalid object type: {group_version}, Kind={applied.get('kind') or ''}")


def _fields(applied: Object, shape: Shape) -> FieldSet:
    try:
        return fields_of(applied, shape)
    except Mistyped as error:
        raise _untyped("patch", applied, error) from error


def _expect_typed(live: Object, applied: Object, shape: Shape) -> None:
    """Refuse to merge into an object whose fields cannot be told apart."""
    found = misfits(live, shape)
    if found:
        raise _untyped("live", {**live, "kind": applied["kind"]}, Mistyped(found))


def _untyped(which: str, obj: Object, error: Mistyped) -> StatusError:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    version = obj["apiVersion"]
    version = version if "/" in version else f"/{version}"
    what = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {version}, Kind={obj.get('kind')}"
    return StatusError(500, "", f"failed to create typed {which} object ({what}): {error}")


def _reset_of(subresource: str, reset: FieldSet | None) -> FieldSet:
    if reset is not None:
        return reset
    return {"": RESET_STATUS, "status": RESET_FOR_STATUS}.get(subresource, {})


def _without_reset(touched: FieldSet, removed: FieldSet, reset: FieldSet) -> tuple[FieldSet, FieldSet]:
    if not reset:
        return touched, removed
    return fieldset.without_trees(touched, reset), fieldset.without_trees(removed, reset)


def _managers_of_write(live: Object | None, new: Object, subresource: str) -> Managers:
    """Decode the managers a write starts from: a valid list the client sent, else the live ones.

    A client that does not know managedFields must not lose them by leaving them
    out; an empty list, or one empty entry, asks to forget them.
    """
    ours: list[Object] = ((live or {}).get("metadata") or {}).get("managedFields") or []
    theirs = (new.get("metadata") or {}).get("managedFields")
    if theirs is ours or subresource or theirs is None:
        return decode(ours)
    if theirs in ([], [{}]):
        return Managers({})
    if same(theirs, ours):
        return decode(ours)
    try:
        managers = decode(theirs, trusted=False)
    except (ValueError, msgspec.DecodeError):
        return decode(ours)
    return managers if managers.entries else decode(ours)


def _with_managed_fields(obj: Object, managers: Managers) -> Object:
    metadata = dict(obj.get("metadata") or {})
    encoded = managers.encode()
    if encoded:
        metadata["managedFields"] = encoded
    else:
        metadata.pop("managedFields", None)
    return {**obj, "metadata": metadata}


def _forgive_client_side_apply(conflict: ApplyConflict, live: Object, shape: Shape, api_version: str) -> None:
    """Let kubectl take over, without force, what its own client-side apply set; raise what remains."""
    annotation = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not annotation:
        raise conflict
    try:
        last = msgspec.json.decode(annotation)
    except msgspec.DecodeError:
        raise conflict from None
    if type(last) is not dict or last.get("apiVersion") != api_version:
        raise conflict
    try:
        theirs = fields_of(last, shape)
    except Mistyped:
        raise conflict from None
    touched, removed = compare(last, live, shape)
    allowed = fieldset.difference(fieldset.difference(theirs, touched), removed)
    left = [(owner, fieldset.difference(fields, allowed)) for owner, fields in conflict.conflicts]
    left = [(owner, fields) for owner, fields in left if fields]
    if left:
        raise ApplyConflict(left)


def _refresh_last_applied(result: Object, applied: Object) -> Object:
    """Keep the annotation of client-side apply up to date where there is one."""
    metadata = result.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    config_metadata = applied.get("metadata") or {}
    if LAST_APPLIED in (config_metadata.get("annotations") or {}):
        rest = {key: value for key, value in config_metadata["annotations"].items() if key != LAST_APPLIED}
        config_metadata = {**config_metadata, "annotations": rest}
        if not rest:
            del config_metadata["annotations"]
        applied = {**applied, "metadata": config_metadata}
    text = gojson.encode(applied).decode() + "\n"
    fresh = {**annotations, LAST_APPLIED: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in fresh.items()) > MAX_ANNOTATION_BYTES:
        del fresh[LAST_APPLIED]
    return {**result, "metadata": {**metadata, "annotations": fresh}}
