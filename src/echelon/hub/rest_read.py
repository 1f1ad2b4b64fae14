"""GET and LIST: from stored bytes to the answer, without decoding when nobody needs it.

Lists are consistent at one revision, page after page: the continue token names
it, and the history gives back what was different then. Items are sent as the
bytes they are stored in.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.call import Call, Response
from echelon.hub.gotext import quote
from echelon.hub.kinds import encode
from echelon.hub.list_options import (
    check,
    list_revision,
    page_limit,
    read_token,
    revision,
    timeout,
    write_token,
)
from echelon.hub.negotiate import Form, document, form_of, in_shape, list_kind, partial, render_object
from echelon.hub.seen import seen, seen_all
from echelon.hub.selectors import LabelMatch, Match, parse_fields, parse_labels
from echelon.hub.status import bad_request, expired, not_found
from echelon.hub.store import Entry, Table

Json = dict[str, Any]

CHUNK = 64 * 1024
"""Bytes joined into one piece of a streamed list."""

EXPIRED_TOKEN = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."


async def get(call: Call) -> Response:
    """Answer with one object."""
    entry = call.table.live.get(call.key)
    asked = call.option("resourceVersion")
    if asked:
        revision(call, asked, f"resourceVersion: Invalid value: {quote(asked)}: ")
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    return render_object(call, (await seen(call, entry)).body, 200)


def selection(call: Call) -> tuple[str, Match | None]:
    """Return the key prefix and the test that a list or watch selects by."""
    labels = parse_labels(call.option("labelSelector"))
    fields, name, namespace = parse_fields(call.option("fieldSelector"), call.kind)
    prefix = ""
    tests: list[Match] = [fields] if fields is not None else []
    if call.kind.namespaced:
        if namespace and call.namespace and namespace != call.namespace:
            return "\x00/", None
        prefix = f"{call.namespace or namespace}/" if call.namespace or namespace else ""
    name = call.name or name
    if name:
        if prefix or not call.kind.namespaced:
            return "=" + prefix + name, both(labels, fields)
        ending = "/" + name
        tests.append(lambda entry: entry.key.endswith(ending))
    if not tests:
        return prefix, both(labels, None)
    first = tests[0] if len(tests) == 1 else lambda entry: all(test(entry) for test in tests)
    return prefix, both(labels, first)


def both(labels: LabelMatch | None, fields: Match | None) -> Match | None:
    """Join a label test and a field test."""
    if labels is None:
        return fields
    if fields is None:
        return lambda entry: labels(entry.labels)
    return lambda entry: labels(entry.labels) and fields(entry)


def select(
    table: Table,
    scope: str,
    match: Match | None,
    after: str = "",
    then: dict[str, Entry | None] | None = None,
) -> list[Entry]:
    """Return the entries of a scope in key order, now or at an earlier revision."""
    live = table.live
    if scope.startswith("="):
        entry = live.get(scope[1:]) if not then or scope[1:] not in then else then[scope[1:]]
        return [entry] if entry is not None and scope[1:] >= after and (match is None or match(entry)) else []
    keys, start, end = table.span(scope, after)
    wanted = keys[start:end]
    if then:
        missing = [
            key
            for key, entry in then.items()
            if entry is not None and key not in live and key.startswith(scope) and key >= after
        ]
        found = [live[key] if key not in then else then[key] for key in sorted([*wanted, *missing])]
        return [entry for entry in found if entry is not None and (match is None or match(entry))]
    if match is None:
        return [live[key] for key in wanted]
    return [entry for entry in map(live.__getitem__, wanted) if match(entry)]


def snapshot(call: Call) -> tuple[int, str, dict[str, Entry | None] | None]:
    """Return the revision to list at, the key to start from, and what was different then."""
    store, table = call.hub.store, call.table
    asked, how, token = (
        call.option("resourceVersion"),
        call.option("resourceVersionMatch"),
        call.option("continue"),
    )
    check(call, watching=False)
    if token:
        decoded = read_token(token)
        if asked and asked != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        if decoded.rv < 0:
            return store.committed, decoded.start, None
        if decoded.rv < store.compacted:
            error = expired(EXPIRED_TOKEN)
            error.list_meta = {"continue": write_token(-1, decoded.start)}
            raise error
        return decoded.rv, decoded.start, table.at(decoded.rv)
    if not asked or asked == "0":
        return store.committed, "", None
    rev = list_revision(call, asked)
    if how == "Exact" or (not how and call.option("limit") not in {"", "0"}):
        if rev < store.compacted:
            raise expired("The resourceVersion for the provided list is too old.")
        return rev, "", table.at(rev)
    return store.committed, "", None


async def list_objects(call: Call) -> Response:
    """Answer with a list."""
    form = form_of(call)
    scope, match = selection(call)
    rev, after, then = snapshot(call)
    limit = page_limit(call)
    timeout(call)
    late = match if call.kind.conversion is not None else None  # what the version shows is selected
    entries = select(call.table, scope, match if late is None else None, after, then)
    if late is not None:
        entries = [entry for entry in await seen_all(call, entries) if late(entry)]
    meta: Json = (
        {"continue": "", "resourceVersion": str(rev)} if call.kind.custom else {"resourceVersion": str(rev)}
    )
    if limit and (len(entries) > limit or _goes_on(call, scope, entries[limit - 1 :], then)):
        meta["continue"] = write_token(rev, entries[limit - 1].key + "\x00")
        if match is None:
            meta["remainingItemCount"] = len(entries) - limit
        entries = entries[:limit]
    return render_list(call, form, await seen_all(call, entries), meta)


def render_list(call: Call, form: Form, entries: list[Entry], meta: Json) -> Response:
    """Answer with entries, as the call's version shows them, in the form that was asked for."""
    if form.plain:
        return Response(200, pieces(call, entries, meta))
    return _shaped_list(call, form, entries, meta)


def _goes_on(call: Call, scope: str, last: list[Entry], then: dict[str, Entry | None] | None) -> bool:
    """Say whether a full page may not be the last: what comes after was not looked at yet, selected or not."""
    return bool(last) and bool(select(call.table, scope, None, last[0].key + "\x00", then))


def pieces(call: Call, entries: list[Entry], meta: Json) -> list[bytes]:
    """Return a plain list as pieces of bytes."""
    kind = call.kind
    head = (
        encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta})[:-1]
        + b',"items":['
    )
    if not entries:
        return [head + b"]}\n"]
    if kind.from_storage is not None:
        bodies = [kind.present(entry.body) for entry in entries]
    elif kind.custom:
        cut = len(kind.stored_prefix)
        same = kind.prefix == kind.stored_prefix
        bodies = (
            [entry.body for entry in entries]
            if same
            else [kind.prefix + entry.body[cut:] for entry in entries]
        )
    else:
        cut = len(kind.stored_prefix)
        bodies = [b"{" + entry.body[cut:] for entry in entries]
    out: list[bytes] = []
    batch: list[bytes] = []
    size = 0
    for body in bodies:
        batch.append(body)
        size += len(body)
        if size > CHUNK:
            out.append(b",".join(batch))
            batch, size = [], 0
    if batch:
        out.append(b",".join(batch))
    framed = [head + out[0], *(b"," + piece for piece in out[1:])]
    framed[-1] += b"]}\n"
    return framed


def _shaped_list(call: Call, form: Form, entries: list[Entry], meta: Json) -> Response:
    objects = [call.kind.read(entry.body) for entry in entries]
    if form.shape == "Table":
        from echelon.hub.tables import table_of  # noqa: PLC0415 - most answers are not tables

        if not meta.get("continue"):
            meta.pop("continue", None)
        return document(in_shape(form, table_of(call, objects, meta)), 200, form)
    api_version, kind = list_kind(call.kind, form)
    items: Any = [partial(obj) for obj in objects] or None if form.shape else objects
    return document({"kind": kind, "apiVersion": api_version, "metadata": meta, "items": items}, 200, form)
