"""Create, update and patch: from what a client sent to one write in the store.

The order is kube-apiserver's: decode, check the kind, prune and default, fill
in the hub's part of the metadata, let the kind's own rules work, record field
managed, validate, admit, convert, write. Where something was waited for on the
way (admission, a webhook that converts), the newest state is looked at again
before the write is handed in, so no lock is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from echelon.hub import (
    builtins_computed,
    conform,
    escalation,
    generation,
    kind_rules,
    managed,
    metadata,
    policy_problems,
)
from echelon.hub.apply import unchanged
from echelon.hub.body import decode_object, expect_kind
from echelon.hub.call import Call, Response
from echelon.hub.entries import entry_of
from echelon.hub.gotext import quote
from echelon.hub.kinds import Kind
from echelon.hub.metadata import OTHER_NAMESPACE
from echelon.hub.negotiate import render_object
from echelon.hub.seen import seen, stored
from echelon.hub.status import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    generated_name_taken,
    invalid,
    method_not_allowed,
    not_found,
)
from echelon.hub.store import Entry

Json = dict[str, Any]
Change = Callable[[Json], Json]

MAX_OBJECT = 1_572_864
"""1.5 MiB: what etcd takes in one request by default."""

TOO_LARGE = "etcdserver: request is too large"


async def create(call: Call) -> Response:
    """POST to a collection."""
    obj = decode_object(call)
    expect_kind(call, obj)
    return await create_object(call, obj)


async def create_object(call: Call, obj: Json, operation: str = "Update", dry_revision: str = "") -> Response:
    """Create an object that was already decoded; one that is not kept shows `dry_revision`."""
    kind, world = call.kind, call.hub.world
    dry = call.dry_run()
    conform.shape(call, obj, applied=operation == "Apply")
    kind_rules.on_decoded(call, obj)
    generated = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
    obj["metadata"] = metadata.born(kind, obj["metadata"], call.namespace, world)
    count = generation.first(kind)
    if count:
        obj["metadata"]["generation"] = count
    call.name = obj["metadata"]["name"]
    if kind.ending:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(kind.group, kind.plural, call.name, why)
    if operation != "Apply":
        managed.track(call, None, obj)
    if kind.has_status and kind.resource not in kind_rules.KEEP_STATUS_ON_CREATE:
        obj.pop("status", None)
    conform.settle(call, obj)
    kind_rules.on_create(call, obj)
    quiet = call.hub.admission.quiet(call)
    if not quiet:
        await _admit_new(call, obj, generated=generated)
        conform.settle(call, obj)
    check = escalation.CHECKS.get(kind.resource)
    if check is not None:
        check(call, obj, None)
    _refuse(call, conform.problems(call, obj, None) + _expression_problems(call, obj))
    if not quiet:
        await call.hub.admission.validate(call, obj, None)
    target, made = await stored(call, obj)
    taken = call.table.head(call.key)
    if taken is not None:
        say = generated_name_taken if generated else already_exists
        raise say(kind.group, kind.plural, call.name, ending=taken.ending)
    if dry:
        made["metadata"]["resourceVersion"] = dry_revision
        if not dry_revision:
            del made["metadata"]["resourceVersion"]
        entry = entry_of(call.key, 0, target.kind.write(made), made["metadata"])
    else:
        entry = write(target, made, None)
        await call.hub.store.durable(entry.rev)
    return render_object(call, (await seen(call, entry)).body, 201)


HUBS_OWN = ("uid", "resourceVersion", "creationTimestamp")


async def _admit_new(call: Call, obj: Json, *, generated: bool) -> None:
    """Let admission change a new object: it sees what was sent; what only the hub says comes afterwards."""
    born, status = obj["metadata"], obj.get("status")
    hidden = {*HUBS_OWN, "generation"} if generation.first(call.kind) else set(HUBS_OWN)
    if generated:
        hidden.add("name")
    obj["metadata"] = {name: value for name, value in born.items() if name not in hidden}
    await call.hub.admission.mutate(call, obj, None)
    meta = obj.get("metadata") or {}
    hidden.add("namespace")
    if meta.get("name"):
        hidden.discard("name")
    known = {**meta, **{name: value for name, value in born.items() if name in hidden}}
    obj["metadata"] = {name: known[name] for name in {**born, **meta} if name in known}
    call.name = obj["metadata"].get("name", "")
    if call.kind.has_status and call.kind.resource not in kind_rules.KEEP_STATUS_ON_CREATE:
        obj.pop("status", None)
        if status is not None:
            obj["status"] = status
    builtins_computed.born(call, obj)  # what was changed may need an address, a port, a label of its own


async def update(call: Call) -> Response:
    """PUT an object or its status."""
    obj = decode_object(call)
    expect_kind(call, obj)
    given = obj.get("metadata")
    if not isinstance(given, dict) or not given.get("name"):
        raise nameless(call)
    expect_name(call, given)
    conform.shape(call, obj)
    entry = call.table.head(call.key)
    if entry is None:
        return await _create_by_update(call, obj)
    expect_uid(call, obj["metadata"], call.kind.read(entry.body)["metadata"])
    if obj["metadata"].get("resourceVersion") in (None, "", "0") and (
        call.kind.custom or call.kind.resource in kind_rules.NEED_REVISION
    ):
        raise invalid(
            call.kind.group,
            call.kind.plural,
            call.name,
            [
                {
                    "reason": "FieldValueInvalid",
                    "field": "metadata.resourceVersion",
                    "message": "Invalid value: 0: must be specified for an update",
                }
            ],
        )
    return await change_object(call, lambda _old: obj)


def expect_uid(call: Call, given: Json, found: Json) -> None:
    """Refuse to put an object in the place of another, or of none, than the client means."""
    if given.get("uid") and given["uid"] != found.get("uid"):
        raise other_object(call, given["uid"], found.get("uid", ""))


async def _create_by_update(call: Call, obj: Json) -> Response:
    """Create what a PUT did not find, of kinds that allow it."""
    if call.kind.resource not in kind_rules.CREATE_ON_UPDATE:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    meta = obj["metadata"]
    expect_uid(call, meta, {})
    revision = meta.pop("resourceVersion", "")
    expect_revision(revision)
    return await create_object(call, obj, dry_revision=revision)


def expect_revision(given: str) -> None:
    """Refuse a revision that is no number."""
    if given and not given.isdecimal():
        raise bad_request(f"strconv.ParseUint: parsing {quote(given)}: invalid syntax")


async def change_object(call: Call, change: Change, operation: str = "Update") -> Response:
    """Apply a change to the newest state of an object, write it and answer with it."""
    return render_object(call, await change_entry(call, change, operation), 200)


async def change_entry(call: Call, change: Change, operation: str = "Update") -> bytes:
    """Apply a change to the newest state of an object, write it and return it as this version presents it."""
    while True:
        entry = call.table.head(call.key)
        if entry is None:
            raise not_found(call.kind.group, call.kind.plural, call.name)
        shown = await seen(call, entry)
        old = call.kind.read(shown.body)
        new = change(old if shown is entry else call.kind.read(shown.body))  # which completes it in place
        if await managed.look_elsewhere(call, old, new) and operation == "Apply":
            new = change(call.kind.read(shown.body))  # once more, knowing what it means to the others
        kind_rules.on_decoded(call, new)
        if operation != "Apply" and not new["metadata"].get("name"):
            raise nameless(call)
        expect_same(call, new, old)
        if operation != "Apply":
            new["metadata"] = dict(new["metadata"])
            managed.track(call, old, new)
        quiet = call.hub.admission.quiet(call)
        if not quiet:
            new = dict(new)  # what the client sent is looked at again if somebody else is quicker
            if call.kind.namespaced:
                new["metadata"] = {"namespace": call.namespace, **new["metadata"]}
            await call.hub.admission.mutate(call, new, old)
        conform.settle(call, new)
        new = prepare_update(call, old, new)
        if shown is entry and unchanged(old, new):
            await call.hub.store.durable(entry.rev)  # nothing to write, but what is shown must be durable
            return entry.body
        check = escalation.CHECKS.get(call.kind.resource)
        if check is not None:
            check(call, new, old)
        _refuse(call, conform.problems(call, new, old) + _expression_problems(call, new))
        if not quiet:
            await call.hub.admission.validate(call, new, old)
        target, made = await stored(call, new)
        if call.table.head(call.key) is not entry:
            continue
        written = _written(target, made, entry, converted=shown is not entry)
        await call.hub.store.durable(written.rev)
        if target is not call and call.table.head(call.key) is None:  # gone: what was asked for is the answer
            return call.kind.write(
                {**new, "metadata": {**new["metadata"], "resourceVersion": str(entry.rev)}}
            )
        return (await seen(call, written)).body


def _written(target: Call, made: Json, entry: Entry, *, converted: bool) -> Entry:
    """Hand in what an update made of an object, unless it is a dry run or stored just so."""
    if target.dry_run():
        return entry_of(target.key, 0, target.kind.write(made), made["metadata"])
    if converted and _is_stored(target, entry, made):
        return entry
    return write(target, made, entry)


def _is_stored(target: Call, entry: Entry, made: Json) -> bool:
    """Say whether an object that was converted to be shown is stored just so, in the version that is stored."""
    return entry.body.startswith(target.kind.stored_prefix) and unchanged(
        msgspec.json.decode(entry.body), made
    )


def expect_same(call: Call, new: Json, old: Json) -> None:
    """Refuse an update of another object, or of another state of it."""
    kind = call.kind
    meta = new["metadata"]
    expect_name(call, meta)
    if kind.namespaced and meta.get("namespace") and meta["namespace"] != call.namespace:
        raise bad_request(OTHER_NAMESPACE)
    given = meta.get("resourceVersion")
    if call.verb == "update":
        expect_uid(call, meta, old["metadata"])
    if given and given != old["metadata"]["resourceVersion"]:
        expect_revision(given)
        raise conflict(kind.group, kind.plural, call.name)


def prepare_update(call: Call, old: Json, new: Json) -> Json:
    """Return the object an update means: identity, status or spec, and generation put right."""
    kind, meta = call.kind, new["metadata"]
    if call.subresource == "status":
        return _status_of(kind, old, new)
    made = dict(new)
    made["metadata"] = metadata.kept(kind, call.name, meta, old["metadata"])
    if kind.has_status:
        if "status" in old:
            made["status"] = old["status"]
        else:
            made.pop("status", None)
    kind_rules.on_update(call, made, old)
    if generation.moved(kind, made, old):
        made["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return made


def nameless(call: Call) -> StatusError:
    """Answer that an object has lost its name."""
    return bad_request(
        f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
    )


def expect_name(call: Call, meta: Json) -> None:
    """Refuse an object that is not the one its path names."""
    name = meta.get("name")
    if name and name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def other_object(call: Call, wanted: str, found: str) -> StatusError:
    """Answer that the object of this name is not the one the client means."""
    key = f"/registry/{call.kind.plural}/{call.key}"
    if call.kind.custom:
        key = f"/registry/{call.kind.group}/{call.kind.plural}/{call.key}"
    return conflict(
        call.kind.group,
        call.kind.plural,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


BY_STATUS = ("labels", "annotations", "finalizers", "ownerReferences")
"""Metadata that a write to the status of a built-in kind may change, as in Kubernetes."""

NOT_BY_STATUS: dict[str, frozenset[str]] = {
    "apps/deployments": frozenset({"labels"}),
    "/pods": frozenset({"ownerReferences"}),
    "apiregistration.k8s.io/apiservices": frozenset(BY_STATUS),
}


def _status_of(kind: Kind, old: Json, new: Json) -> Json:
    made = dict(old)
    made.pop("status", None)
    if "status" in new:
        made["status"] = new["status"]
    meta = dict(old["metadata"])
    meta.pop("managedFields", None)
    if new["metadata"].get("managedFields"):
        meta["managedFields"] = new["metadata"]["managedFields"]
    if not kind.custom:
        frozen = NOT_BY_STATUS.get(kind.resource, frozenset())
        for name in (name for name in BY_STATUS if name not in frozen):
            meta.pop(name, None)
            if new["metadata"].get(name):
                meta[name] = new["metadata"][name]
    made["metadata"] = meta
    kind_rules.on_status(kind, made, old)
    return made


def write(call: Call, obj: Json, prev: Entry | None) -> Entry:
    """Hand an object in to the store; a deleted one without finalizers leaves it."""
    store = call.hub.store
    meta = obj["metadata"]
    gone = prev is not None and is_finished(meta) and not held_by_spec(call, obj)
    rev = store.next_revision()
    meta["resourceVersion"] = str(rev)
    body = call.kind.write(obj)
    if len(body) > MAX_OBJECT:
        raise StatusError(500, "", TOO_LARGE)
    entry = entry_of(call.key, rev, body, meta)
    if not gone:
        store.write(call.table, entry, prev)
        return entry
    assert prev is not None
    store.write(call.table, last_state(call, prev, rev), prev, gone=True)
    meta["resourceVersion"] = str(prev.rev)  # what the writer is shown was never stored
    return entry_of(call.key, rev, call.kind.write(obj), meta)


def last_state(call: Call, prev: Entry, rev: int) -> Entry:
    """Return what watchers are told of an object's end: how it was stored last, at the revision of its end."""
    old = call.kind.read(prev.body)
    old["metadata"]["resourceVersion"] = str(rev)
    return entry_of(call.key, rev, call.kind.write(old), old["metadata"])


def is_finished(meta: Json) -> bool:
    """Say whether a deleted object may go now."""
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


def held_by_spec(call: Call, obj: Json) -> bool:
    """Say whether a namespace still has a finalizer in its spec."""
    return call.kind.resource == "/namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _expression_problems(call: Call, obj: Json) -> list[Json]:
    check = policy_problems.PROBLEMS.get(call.kind.resource)
    return check(call, obj) if check is not None else []


def _refuse(call: Call, causes: list[dict[str, str]]) -> None:
    if causes:
        raise invalid(call.kind.group, call.kind.kind, call.name, causes)


def not_supported(call: Call, verb: str) -> StatusError:
    """Answer that a subresource does not do a verb; custom resources say which."""
    if not call.kind.custom:
        return method_not_allowed()
    text = f'{verb} is not supported on resources of kind "{call.kind.qualified}"'
    details = {"group": call.kind.group, "kind": call.kind.plural}
    return StatusError(405, "MethodNotAllowed", text, details)


def need(call: Call, verb: str) -> None:
    """Refuse a verb that the resource, or the subresource, does not do."""
    if call.subresource:
        sub = call.kind.subresources.get(call.subresource)
        if sub is None or verb not in sub.verbs:
            raise not_supported(call, verb)
    elif verb not in call.kind.verbs:
        raise method_not_allowed()
