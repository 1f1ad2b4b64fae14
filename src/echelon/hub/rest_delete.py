"""DELETE of one object or a collection: options, finalizers, grace, and what becomes of dependents.

Deleting either removes the object now or marks it and leaves the rest to those
named in its finalizers. Dependents are never touched here: that is the garbage
collector's.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from echelon.hub import crd_status
from echelon.hub.call import Call, Response
from echelon.hub.cluster import CRDS
from echelon.hub.entries import entry_of
from echelon.hub.list_options import page_limit
from echelon.hub.negotiate import document, form_of, render_object
from echelon.hub.options import POLICIES, read_delete_options
from echelon.hub.rest_read import render_list, select, selection
from echelon.hub.rest_write import held_by_spec, write
from echelon.hub.seen import raw, seen, seen_all
from echelon.hub.status import conflict, forbidden, not_found
from echelon.hub.store import Entry
from echelon.hub.world import rfc3339

Json = dict[str, Any]

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
ORPHAN_BY_DEFAULT = frozenset({"/replicationcontrollers", "batch/jobs"})
"""Resources whose dependents stay unless the client says otherwise, for the sake of old clients."""

RETURN_DELETED = frozenset(
    {
        "/pods",
        "/serviceaccounts",
        "/services",
        "/resourcequotas",
        "/podtemplates",
        "/persistentvolumes",
        "/persistentvolumeclaims",
        "storage.k8s.io/csidrivers",
        "storage.k8s.io/csinodes",
        "storage.k8s.io/storageclasses",
        "storage.k8s.io/volumeattachments",
        "storage.k8s.io/volumeattributesclasses",
    }
)
"""Resources whose deletion answers with the object, not with a Status."""

POD_GRACE_S = 30
NAMESPACES = "/namespaces"
WITHOUT_GRACE = frozenset({NAMESPACES, CRDS})
"""Resources whose deletion does not note a grace period."""

KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


async def delete(call: Call) -> Response:
    """DELETE one object."""
    options = read_delete_options(call)
    form_of(call)
    entry = call.table.head(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    old = call.kind.read((await seen(call, entry)).body)
    if call.kind.resource == NAMESPACES and call.name in KEPT_NAMESPACES:
        raise forbidden("", "namespaces", call.name, "this namespace may not be deleted")
    preconditions(call, old["metadata"], options.get("preconditions") or {})
    if not call.hub.admission.quiet(call):
        await call.hub.admission.validate(call, None, old)
        entry = call.table.head(call.key)
        if entry is None:
            raise not_found(call.kind.group, call.kind.plural, call.name)
        old = call.kind.read(entry.body)
        preconditions(call, old["metadata"], options.get("preconditions") or {})
    target = raw(call)
    old = target.kind.read(entry.body)
    if options.get("dryRun"):
        return _answer(call, old, entry, gone=True)
    after, gone = remove(target, entry, old, options)
    await call.hub.store.durable(after.rev)
    return _answer(call, old, await seen(call, after) if not gone else after, gone=gone)


def _answer(call: Call, old: Json, after: Entry, *, gone: bool) -> Response:
    if not gone or call.kind.resource in RETURN_DELETED:
        return render_object(call, after.body, 200)
    details: Json = {"name": call.name}
    if call.kind.group:
        details["group"] = call.kind.group
    details["kind"] = call.kind.plural
    details["uid"] = old["metadata"]["uid"]
    return document(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    )


def preconditions(call: Call, meta: Json, wanted: Json) -> None:
    """Refuse to delete another object, or another state of it, than the client means."""
    for name, called, hint in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        given = wanted.get(name)
        if given is not None and given != meta.get(name):
            raise conflict(
                call.kind.group,
                call.kind.kind,
                call.name,
                f"the {called} in the precondition ({given}) does not match the {called} in record "
                f"({meta.get(name)}). The object might have been {hint}",
            )


def remove(call: Call, entry: Entry, old: Json, options: Json) -> tuple[Entry, bool]:
    """Remove an object, or mark it as being deleted; return what is left and whether it is gone."""
    meta = dict(old["metadata"])
    finalizers = wanted_finalizers(call, list(meta.get("finalizers") or ()), options)
    grace = _grace(call, old, options)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    marked = meta.get("deletionTimestamp")
    held = bool(finalizers) or call.kind.resource == CRDS or held_by_spec(call, old)
    if not held and not grace:
        if call.kind.resource == "/pods" and not marked:
            entry, old = _mark_ended(call, entry, old)  # asked to end, and there is nothing to wait for
        return erase(call, entry, old), True
    if marked:
        before = meta.get("deletionGracePeriodSeconds") or 0
        if grace < before:
            meta["deletionGracePeriodSeconds"] = grace
            meta["deletionTimestamp"] = rfc3339(call.hub.world.now() + timedelta(seconds=grace))
        elif finalizers == list(old["metadata"].get("finalizers") or ()):
            return entry, False
    else:
        meta["deletionTimestamp"] = rfc3339(call.hub.world.now() + timedelta(seconds=grace))
        if call.kind.resource not in WITHOUT_GRACE:
            meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
    new = {**old, "metadata": meta}
    if call.kind.resource == NAMESPACES:
        new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    elif call.kind.resource == CRDS and not marked:
        crd_status.mark(new, rfc3339(call.hub.world.now()))
    after = write(call, new, entry)
    return after, False


def _mark_ended(call: Call, entry: Entry, old: Json) -> tuple[Entry, Json]:
    """Write that a pod is being deleted without any delay: its watchers see that before its end."""
    meta = {
        **old["metadata"],
        "deletionGracePeriodSeconds": 0,
        "generation": old["metadata"]["generation"] + 1,
    }
    meta["deletionTimestamp"] = rfc3339(call.hub.world.now())
    new = {**old, "metadata": meta}
    store = call.hub.store
    rev = store.next_revision()
    meta["resourceVersion"] = str(rev)
    marked = entry_of(call.key, rev, call.kind.write(new), meta)
    store.write(call.table, marked, entry)
    return marked, new


def erase(call: Call, entry: Entry, old: Json) -> Entry:
    """Take an object out of the store; its last state carries the revision of its end."""
    store = call.hub.store
    rev = store.next_revision()
    meta = {**old["metadata"], "resourceVersion": str(rev)}
    if call.kind.resource == "/pods" and meta.get("deletionTimestamp"):
        meta["deletionGracePeriodSeconds"] = 0
    after = entry_of(call.key, rev, call.kind.write({**old, "metadata": meta}), meta)
    store.write(call.table, after, entry, gone=True)
    return after


def wanted_finalizers(call: Call, finalizers: list[str], options: Json) -> list[str]:
    """Return the finalizers after the propagation policy has had its say."""
    policy = options.get("propagationPolicy")
    orphans = options.get("orphanDependents")
    if policy is None and orphans is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers
        wanted = ORPHAN if call.kind.resource in ORPHAN_BY_DEFAULT else ""
    elif policy is not None:
        wanted = POLICIES[policy]
    else:
        wanted = ORPHAN if orphans else ""
    kept = [name for name in finalizers if name not in {ORPHAN, FOREGROUND}]
    return [*kept, wanted] if wanted else kept


def _grace(call: Call, old: Json, options: Json) -> int:
    if call.kind.resource != "/pods":
        return 0
    given = options.get("gracePeriodSeconds")
    spec = old.get("spec") or {}
    grace = int(spec.get("terminationGracePeriodSeconds", POD_GRACE_S) if given is None else given)
    if grace < 0:
        grace = 1
    if not spec.get("nodeName") or (old.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return grace


async def delete_collection(call: Call) -> Response:
    """DELETE every object that a list would return."""
    options = read_delete_options(call)
    form = form_of(call)
    scope, match = selection(call)
    limit = page_limit(call)
    late = match if call.kind.conversion is not None else None  # what the version shows is selected
    entries = await seen_all(call, select(call.table, scope, match if late is None else None))
    entries = entries if late is None else [entry for entry in entries if late(entry)]
    entries = entries[:limit] if limit else entries
    last = 0
    for entry in entries:
        last = max(last, await _remove_one(call, entry, options))
    await call.hub.store.durable(last)
    meta = {"resourceVersion": str(call.hub.store.committed)}
    if call.kind.custom:
        meta["continue"] = ""
    return render_list(call, form, entries, meta)


async def _remove_one(call: Call, shown: Entry, options: Json) -> int:
    """Delete a member of a collection unless somebody else just did; return the revision of its end."""
    namespace, _, name = shown.key.rpartition("/")
    one = replace(call, namespace=namespace, name=name)
    now = call.table.head(shown.key)
    if now is None:
        return 0
    old = call.kind.read(shown.body)
    preconditions(one, old["metadata"], options.get("preconditions") or {})
    if not call.hub.admission.quiet(call):
        await call.hub.admission.validate(replace(call, namespace=namespace), None, old)
        if call.table.head(shown.key) is not now:
            return 0
    if options.get("dryRun"):
        return 0
    target = raw(one)
    return remove(target, now, target.kind.read(now.body), options)[0].rev
