"""Create, update and patch: from what a client sent to one write in the store.

The order is kube-apiserver's: decode, check the kind, prune and default, fill
in the hub's part of the metadata, let the kind's own rules work, record field
managed, validate, admit, write. Everything between reading the newest state and
handing in the write happens without waiting, so no lock is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


async def create_object(call: Call, obj: Json, operation: str = "Update") -> Response:
    """Create an object that was already decoded."""
    kind, world = call.kind, call.hub.world
    dry = call.dry_run()
    conform.shape(call, obj)
    kind_rules.on_decoded(call, obj)
    generated = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
    obj["metadata"] = metadata.born(kind, obj["metadata"], call.namespace, world)
    count = generation.first(kind)
    if count:
        obj["metadata"]["generation"] = count
    if kind.has_status and kind.resource not in kind_rules.KEEP_STATUS_ON_CREATE:
        obj.pop("status", None)
    call.name = obj["metadata"]["name"]
    if kind.ending:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(kind.group, kind.plural, call.name, why)
    if operation != "Apply":
        managed.track(call, None, obj)
    kind_rules.on_create(call, obj)
    quiet = call.hub.admission.quiet(call)
    if not quiet:
        await _admit_new(call, obj, generated=generated)
    _refuse(call, conform.problems(call, obj, None) + _expression_problems(call, obj))
    check = escalation.CHECKS.get(kind.resource)
    if check is not None:
        check(call, obj, None)
    if not quiet:
        await call.hub.admission.validate(call, obj, None)
    table, key = call.table, call.key
    taken = table.head(key)
    if taken is not None:
        say = generated_name_taken if generated else already_exists
        raise say(kind.group, kind.plural, call.name, ending=taken.ending)
    if dry:
        del obj["metadata"]["resourceVersion"]
        return render_object(call, kind.write(obj), 201)
    entry = write(call, obj, None)
    await call.hub.store.durable(entry.rev)
    return render_object(call, entry.body, 201)


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
        if call.subresource or call.kind.resource not in kind_rules.CREATE_ON_UPDATE:
            raise not_found(call.kind.group, call.kind.plural, call.name)
        obj["metadata"].setdefault("name", call.name)
        obj["metadata"].pop("resourceVersion", None)
        obj["metadata"].pop("uid", None)
        return await create_object(call, obj)
    if not obj["metadata"].get("resourceVersion") and (
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


async def change_object(call: Call, change: Change, operation: str = "Update") -> Response:
    """Apply a change to the newest state of an object, write it and answer with it."""
    return render_object(call, await change_entry(call, change, operation), 200)


async def change_entry(call: Call, change: Change, operation: str = "Update") -> bytes:
    """Apply a change to the newest state of an object, write it and return it as it is stored."""
    dry = call.dry_run()
    while True:
        entry = call.table.head(call.key)
        if entry is None:
            raise not_found(call.kind.group, call.kind.plural, call.name)
        old = call.kind.read(entry.body)
        new = change(old)
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
        new = prepare_update(call, old, new)
        if unchanged(old, new):
            await call.hub.store.durable(entry.rev)  # nothing to write, but what is shown must be durable
            return entry.body
        _refuse(call, conform.problems(call, new, old) + _expression_problems(call, new))
        check = escalation.CHECKS.get(call.kind.resource)
        if check is not None:
            check(call, new, old)
        if not quiet:
            await call.hub.admission.validate(call, new, old)
            if call.table.head(call.key) is not entry:
                continue
        if dry:
            return call.kind.write(new)
        written = write(call, new, entry)
        await call.hub.store.durable(written.rev)
        return written.body


def expect_same(call: Call, new: Json, old: Json) -> None:
    """Refuse an update of another object, or of another state of it."""
    kind = call.kind
    meta = new["metadata"]
    expect_name(call, meta)
    if kind.namespaced and meta.get("namespace") and meta["namespace"] != call.namespace:
        raise bad_request(OTHER_NAMESPACE)
    given = meta.get("resourceVersion")
    if given and given != old["metadata"]["resourceVersion"]:
        if not given.isdecimal():
            raise bad_request(f"strconv.ParseUint: parsing {quote(given)}: invalid syntax")
        raise conflict(kind.group, kind.plural, call.name)
    if call.verb == "update" and meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
        raise other_object(call, meta["uid"], old["metadata"]["uid"])


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
    if new["metadata"].get("managedFields"):
        meta["managedFields"] = new["metadata"]["managedFields"]
    if not kind.custom:
        frozen = NOT_BY_STATUS.get(kind.resource, frozenset())
        for name in (name for name in BY_STATUS if name not in frozen):
            meta.pop(name, None)
            if new["metadata"].get(name):
                meta[name] = new["metadata"][name]
    made["metadata"] = meta
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
