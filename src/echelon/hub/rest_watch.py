"""WATCH: a stream of what changes, from a revision on.

A frame is encoded once per event and served version and shared by all
watchers; whatever came since the last look goes out in one piece. A stream ends
at its timeout, when its client leaves, or when it does not keep up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any

import msgspec

from echelon.hub.call import Call, Response
from echelon.hub.gotext import quote
from echelon.hub.kinds import Kind, encode
from echelon.hub.list_options import check, revision, timeout
from echelon.hub.negotiate import Form, form_of, partial
from echelon.hub.rest_read import CHUNK, select, selection
from echelon.hub.seen import all_as_they_are, seen_all, seen_event
from echelon.hub.selectors import Match
from echelon.hub.status import StatusError, bad_request, expired
from echelon.hub.store import Event
from echelon.hub.watch import Watcher, seen_as

Json = dict[str, Any]

MIN_TIMEOUT_S = 1800.0
"""How long a watch without a timeout lasts at least, as in kube-apiserver."""

BOOKMARK_EVERY_S = 60.0
INITIAL_END = "k8s.io/initial-events-end"


async def watch(call: Call) -> Response:
    """Answer with a stream of events."""
    form = form_of(call)
    scope, match = selection(call)
    timeout_s = _timeout(call)
    store, table = call.hub.store, call.table
    since, initial = _start(call)
    bookmarks = call.flag("allowWatchBookmarks")
    if since is not None and since < store.compacted:
        error = expired(f"too old resource version: {since} ({store.compacted})")
        return Response(200, [_frame("ERROR", encode(error.body()))])
    # What the version shows decides what is selected; a webhook that converts is asked by the stream.
    late = match if call.kind.conversion is not None else None
    watcher = Watcher(table, scope, match if late is None else None)
    first: list[bytes] = []
    if initial:
        entries = await seen_all(call, select(table, scope, watcher.match))
        first = [
            _shaped("ADDED", call.kind.present(entry.body), call, form, headed=not number)
            for number, entry in enumerate(entries if late is None else filter(late, entries))
        ]
        if call.flag("sendInitialEvents") and bookmarks:
            first.append(_bookmark(call, form, store.committed, {INITIAL_END: "true"}))
    elif since is not None:
        for event in table.since(since):
            if _in_scope(event, scope):
                watcher.push(event)
    floor = since if since is not None and since > store.committed else 0
    return Response(
        200, _Stream(watcher, _frames(call, watcher, form, first, (timeout_s, bookmarks, floor, late)))
    )


class _Stream:
    """Frames that forget their watcher even if nobody asks for the first one; a generator that never ran would not."""

    def __init__(self, watcher: Watcher, frames: AsyncGenerator[bytes]) -> None:
        self._watcher = watcher
        self._frames = frames

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        return self._frames.__anext__()

    async def aclose(self) -> None:
        """End the stream, begun or not."""
        self._watcher.close()
        await self._frames.aclose()


def _start(call: Call) -> tuple[int | None, bool]:
    """Return the revision to begin after, and whether the present state comes first."""
    asked, send = call.option("resourceVersion"), call.option("sendInitialEvents")
    check(call, watching=True)
    if send:
        if asked not in {"", "0"}:
            revision(call, asked)
        if call.flag("sendInitialEvents"):
            return None, True
        return (int(asked) if asked not in {"", "0"} else call.hub.store.committed), False
    if asked in {"", "0"}:
        return None, True
    if not asked.isdecimal() or len(asked) > 19:
        raise bad_request(
            f"resourceVersion: Invalid value: {quote(asked)}: strconv.ParseUint: parsing {quote(asked)}: invalid syntax"
        )
    return int(asked), False


def _timeout(call: Call) -> float:
    seconds = timeout(call)
    return float(seconds) if seconds > 0 else MIN_TIMEOUT_S


def _in_scope(event: Event, scope: str) -> bool:
    if not scope:
        return True
    if scope[0] == "=":
        return event.entry.key == scope[1:]
    return event.entry.key.startswith(scope)


async def _frames(
    call: Call, watcher: Watcher, form: Form, first: list[bytes], how: tuple[float, bool, int, Match | None]
) -> AsyncGenerator[bytes]:
    timeout_s, bookmarks, floor, late = how
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_s
    bookmark_at = loop.time() + (BOOKMARK_EVERY_S if bookmarks else timeout_s)
    try:
        for at in range(0, len(first), 100):
            yield b"".join(first[at : at + 100])
        while True:
            now = loop.time()
            if await watcher.ready(min(ends_at, bookmark_at) - now):
                events = watcher.take()
                if late or not all_as_they_are(call.kind, (event for _, event in events)):
                    try:
                        events = await _seen(call, events, late)
                    except StatusError as error:  # the webhook that converts does not
                        yield _frame("ERROR", encode(error.body()))
                        return
                for piece in _pieces(call, events, form, floor):
                    yield piece
            elif watcher.closed:
                return
            elif loop.time() >= ends_at:
                if bookmarks:  # so that the next watch begins where this one ends
                    yield _bookmark(call, form, max(call.hub.store.committed, floor), None)
                return
            elif bookmarks and loop.time() >= bookmark_at:
                bookmark_at = loop.time() + BOOKMARK_EVERY_S
                yield _bookmark(call, form, max(call.hub.store.committed, floor), None)
    finally:
        watcher.close()


async def _seen(call: Call, events: list[tuple[str, Event]], late: Match | None) -> list[tuple[str, Event]]:
    """Return events as the call's version shows them, and selects by."""
    shown = [(type_, await seen_event(call, event)) for type_, event in events]
    if late is None:
        return shown
    judged = [(seen_as(event, late), event) for _, event in shown]
    return [(type_, event) for type_, event in judged if type_]


def _pieces(call: Call, events: list[tuple[str, Event]], form: Form, floor: int) -> list[bytes]:
    frames = [
        frame_of(kind, event, call.kind)
        if form.plain
        else _shaped(kind, body_of(kind, event, call.kind), call, form)
        for kind, event in events
        if event.rev > floor
    ]
    if len(frames) <= 1:
        return frames
    out: list[bytes] = []
    batch: list[bytes] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += len(frame)
        if size > CHUNK:
            out.append(b"".join(batch))
            batch, size = [], 0
    if batch:
        out.append(b"".join(batch))
    return out


def frame_of(type_: str, event: Event, kind: Kind) -> bytes:
    """Return one event as its line of the stream; encoded once per type and version."""
    frames = event.frames
    if frames is None:
        frames = event.frames = {}
    name = type_ + kind.api_version
    frame = frames.get(name)
    if frame is None:
        frame = frames[name] = _frame(type_, body_of(type_, event, kind))
    return frame


def body_of(type_: str, event: Event, kind: Kind) -> bytes:
    """Return the object an event shows: what stopped matching is shown as it was, at the new revision."""
    if type_ == "DELETED" and event.kind != "DELETED" and event.prev is not None:
        obj = kind.read(event.prev.body)
        obj["metadata"]["resourceVersion"] = str(event.rev)
        return encode(obj)
    return kind.present(event.entry.body)


def _frame(type_: str, body: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"


def _shaped(type_: str, body: bytes, call: Call, form: Form, *, headed: bool = False) -> bytes:
    """Return one event in the asked form; the first of a stream of tables has their head."""
    if form.plain:
        return _frame(type_, body)
    obj = msgspec.json.decode(body)
    if form.shape == "Table":
        from echelon.hub.tables import table_of  # noqa: PLC0415 - most watches are not tables

        shown = table_of(call, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})
        if not headed:
            shown["columnDefinitions"] = None
        return _frame(type_, encode(shown))
    return _frame(type_, encode(partial(obj) if form.shape else obj))


def _bookmark(call: Call, form: Form, rev: int, annotations: dict[str, str] | None) -> bytes:
    meta: Json = {"resourceVersion": str(rev), "creationTimestamp": None}
    if annotations:
        meta["annotations"] = annotations
    obj: Json = {"kind": call.kind.kind, "apiVersion": call.kind.api_version, "metadata": meta}
    if form.shape and form.shape != "Table":
        obj = partial(obj)
    elif form.shape:
        from echelon.hub.tables import table_of  # noqa: PLC0415 - most watches are not tables

        obj = {**table_of(call, [], {"resourceVersion": str(rev)}), "columnDefinitions": None}
    return _frame("BOOKMARK", encode(obj))
