"""The one way to a Kubernetes API: a Client over a Transport.

The client knows verbs, paths, typed decoding and errors; a transport only carries one request. `http.py` and
`inprocess.py` are the two transports, so everything above behaves the same over the network and in process.
It never retries a write and never interprets an object beyond decoding it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol
from urllib.parse import urlencode

import msgspec

from echelon.api.meta import Object
from echelon.api.resource import Resource
from echelon.client.errors import ApiError, Expired, error_of

PATCH_TYPES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PatchType = Literal["merge", "json", "strategic", "apply"]

MAX_LIST_PAGE = 500  # objects a page: about a megabyte of our kinds, small enough to stream
WATCH_TIMEOUT_S = 290  # a watch is renewed before proxies cut it (commonly 300 s)


class Reply(msgspec.Struct, frozen=True):
    """What a server answered: status code, headers with lower-case names, whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Carries requests. `path` begins with /api or /apis and carries its query."""

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request and return the whole answer."""
        ...

    def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """GET and yield the lines of the answer as they come; raises ApiError for an answer other than 200."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class WatchEvent(msgspec.Struct, frozen=True):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, with the decoded object."""

    type: str
    object: Any


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    items: list[Any]
    resource_version: str
    continue_token: str = ""


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _OnlyMeta(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _DeletedMeta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Deleted(msgspec.Struct):
    metadata: _DeletedMeta = msgspec.field(default_factory=_DeletedMeta)


_decode_deleted = msgspec.json.Decoder(_Deleted).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_list = msgspec.json.Decoder(_List).decode
_decode_status = msgspec.json.Decoder(dict[str, Any]).decode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(resource: Resource, raw: bytes | msgspec.Raw) -> Any:
    """Decode one object into the resource's type (a frozen struct, or a dict that is to be treated as frozen)."""
    decoder = _decoders.get(resource.type)
    if decoder is None:
        decoder = _decoders[resource.type] = msgspec.json.Decoder(resource.type)
    return decoder.decode(raw)


def _whole(resource: Resource, item: Any) -> Any:
    """Complete a list's item: servers leave out what the list itself says, so it would differ from a watched one."""
    if resource.type is dict and "kind" not in item:
        return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
    return item


def encode(body: Any) -> bytes:
    """Encode an object (typed or plain) as JSON."""
    return msgspec.json.encode(body)


def path_of(
    resource: Resource, name: str = "", namespace: str | None = None, subresource: str = "", **query: str
) -> str:
    """Build the request path of a resource; empty query values are left out."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    parts = [root]
    if resource.namespaced and namespace:
        parts.append(f"namespaces/{namespace}")
    parts.append(resource.plural)
    parts.extend(part for part in (name, subresource) if part)
    wanted = {key: value for key, value in query.items() if value}
    return "/".join(parts) + (f"?{urlencode(wanted)}" if wanted else "")


class Client:
    """Verbs on Kubernetes objects. Every answer other than success raises an ApiError with the server's Status."""

    def __init__(self, transport: Transport, *, field_manager: str = "echelon") -> None:
        self.transport = transport
        self.field_manager = field_manager

    async def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send any request; the way to endpoints that are not objects (discovery, version, logs)."""
        headers = {"Accept": accept}
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = body if isinstance(body, bytes) else encode(body)
        reply = await self.transport.send(method, path, headers, data)
        if reply.status >= 400:
            raise error_of(reply.status, reply.body, reply.headers)
        return reply.body

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, subresource: str = ""
    ) -> Any:
        """Return one object."""
        return decode(resource, await self.raw("GET", path_of(resource, name, namespace, subresource)))

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        continue_token: str = "",
        limit: int = MAX_LIST_PAGE,
        only_meta: bool = False,
    ) -> Page:
        """Return one page of a list, consistent at its resourceVersion; the objects whole or their metadata alone."""
        path = path_of(
            resource,
            namespace=namespace,
            labelSelector=labels,
            fieldSelector=fields,
            limit=str(limit) if limit else "",
            **{"continue": continue_token},
        )
        accept = PARTIAL_LIST if only_meta else "application/json"
        answer = _decode_list(await self.raw("GET", path, accept=accept))
        if only_meta:
            resource = dataclasses.replace(resource, type=Object)
        items = [_whole(resource, decode(resource, item)) for item in answer.items or ()]
        return Page(items, answer.metadata.resource_version, answer.metadata.continue_)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        only_meta: bool = False,
    ) -> Page:
        """Return the whole list, page by page. A list that expires on the way is begun again once."""
        for last_try in (False, True):
            items: list[Any] = []
            token = ""
            try:
                while True:
                    page = await self.page(
                        resource,
                        namespace,
                        labels=labels,
                        fields=fields,
                        continue_token=token,
                        only_meta=only_meta,
                    )
                    items += page.items
                    token = page.continue_token
                    if not token:
                        return Page(items, page.resource_version)
            except Expired:
                if last_try:
                    raise
        raise AssertionError("unreachable")

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_s: int = WATCH_TIMEOUT_S,
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes after `resource_version` until the server ends the watch; Expired when it is too old."""
        path = path_of(
            resource,
            namespace=namespace,
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
            timeoutSeconds=str(timeout_s),
        )
        async for line in self.transport.stream(path, {"Accept": "application/json"}):
            event = _decode_envelope(line)
            if event.type == "ERROR":
                status = bytes(event.object)
                raise error_of(int(_decode_status(status).get("code") or 500), status, {})
            if event.type == "BOOKMARK":
                yield WatchEvent("BOOKMARK", msgspec.json.decode(event.object, type=_OnlyMeta))
            else:
                yield WatchEvent(event.type, decode(resource, event.object))

    async def create(
        self,
        resource: Resource,
        body: Any,
        namespace: str | None = None,
        *,
        subresource: str = "",
        name: str = "",
        dry_run: bool = False,
    ) -> Any:
        """Create an object (or POST to the subresource of a named one)."""
        path = path_of(
            resource,
            name,
            namespace,
            subresource,
            fieldManager=self.field_manager,
            dryRun="All" if dry_run else "",
        )
        return decode(resource, await self.raw("POST", path, body))

    async def update(
        self,
        resource: Resource,
        body: Any,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Any:
        """Replace an object; its resourceVersion, if any, is compared."""
        path = path_of(
            resource,
            name,
            namespace,
            subresource,
            fieldManager=self.field_manager,
            dryRun="All" if dry_run else "",
        )
        return decode(resource, await self.raw("PUT", path, body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - the API's own word
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Any:
        """Patch an object."""
        path = path_of(
            resource,
            name,
            namespace,
            subresource,
            fieldManager=self.field_manager,
            force="true" if force else "",
            dryRun="All" if dry_run else "",
        )
        return decode(resource, await self.raw("PATCH", path, body, PATCH_TYPES[type]))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str | None = None,
        grace_s: int | None = None,
    ) -> Any | None:
        """Delete an object, if its uid and resourceVersion are still those given.

        Returns the object when it lives on for a while (finalizers, a grace period), None when it is gone.
        """
        preconditions = {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        answer = await self.raw("DELETE", path_of(resource, name, namespace), options)
        if _decode_deleted(answer).metadata.deletion_timestamp is None:
            return None
        return decode(resource, answer)

    async def close(self) -> None:
        """Let go of connections."""
        await self.transport.close()


__all__ = [
    "ApiError",
    "Client",
    "Page",
    "PatchType",
    "Reply",
    "Transport",
    "WatchEvent",
    "decode",
    "encode",
    "path_of",
]
