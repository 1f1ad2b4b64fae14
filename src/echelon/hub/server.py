"""HTTP around the hub: aiohttp's low-level server, TLS, one task per connection.

Only carries: reads a request into the hub's own struct, writes the answer. It
judges nothing but the size of a body and who the connection's certificate names.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs

from aiohttp import web

from echelon.hub.app import Hub, refuse
from echelon.hub.body import MAX_BODY
from echelon.hub.call import ANONYMOUS, MASTERS, Request, Response, User
from echelon.hub.certificates import RENEW_AFTER_DAYS, Authority, user_of
from echelon.hub.fairness import MAX_WATCHES, Fairness
from echelon.hub.kubeconfig import write
from echelon.hub.malloc import keep_buffers
from echelon.hub.status import StatusError, bad_request, too_large, too_many_requests, unauthorized

MAX_QUERY_FIELDS = 200
"""Query parameters taken: more is an attack on the parser."""

MAX_WAITING_BYTES = 256 * 1024 * 1024
"""Bytes of all bodies in memory that wait for their turn or are being served."""

SHUTDOWN_S = 2.0


class Server:
    """Serves one hub on one port."""

    def __init__(self, hub: Hub, host: str = "127.0.0.1", port: int = 0) -> None:
        self.hub = hub
        self.host = host
        self.port = port
        self.fairness = Fairness()
        self._body_bytes = 0
        self._web = web.Server(self._serve, access_log=None, keepalive_timeout=75)
        self._listener: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None) -> None:
        """Begin to listen."""
        keep_buffers()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._web, self.host, self.port, ssl=tls, backlog=1024)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop to listen, end the streams, finish the rest."""
        if self._listener is not None:
            self._listener.close()
        for tables in self.hub.store.tables.values():
            for table in tables.values():
                for watchers in list(table.scopes.values()):
                    for watcher in list(watchers):
                        watcher.close()
        await self._web.shutdown(SHUTDOWN_S)
        if self._listener is not None:
            await self._listener.wait_closed()

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        metrics, fairness = self.hub.metrics, self.fairness
        size = 0
        try:
            request = await self._read(incoming)
            size = len(request.body)
            self._body_bytes += size
            if self._body_bytes > MAX_WAITING_BYTES and size:
                raise too_many_requests()
            await fairness.enter(request.user)
        except StatusError as error:
            self._body_bytes -= size
            metrics.rejected = fairness.rejected
            return await self._answer(incoming, refuse(error))
        except asyncio.CancelledError:
            self._body_bytes -= size
            raise
        try:
            metrics.in_flight = fairness.active
            response = await self.hub.handle(request)
        finally:
            self._body_bytes -= size
            fairness.leave()
        return await self._answer(incoming, response)

    async def _read(self, incoming: web.BaseRequest) -> Request:
        path, _, text = incoming.raw_path.partition("?")
        if path.startswith("http"):  # absolute form: some proxies send it
            path = incoming.rel_url.raw_path
        try:
            query = (
                parse_qs(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS, errors="strict")
                if text
                else {}
            )
        except ValueError:
            raise bad_request("the query of the request cannot be read") from None
        headers = _headers(incoming)
        body = b""
        if incoming.can_read_body:
            body = await _body(incoming)
        return Request(incoming.method, path, query, headers, body, self._user(incoming, headers))

    def _user(self, incoming: web.BaseRequest, headers: dict[str, str]) -> User:
        transport = incoming.transport
        peer = transport.get_extra_info("peercert") if transport is not None else None
        if peer:
            user = user_of(peer)
            if user is not None:
                return user
        authorization = headers.get("authorization", "")
        if authorization:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                found = self.hub.authenticate(token.strip(), incoming.raw_path)
                if found is None:
                    raise unauthorized()
                return found
        return ANONYMOUS

    async def _answer(self, incoming: web.BaseRequest, response: Response) -> web.StreamResponse:
        headers = [
            ("Content-Type", response.content_type),
            ("Cache-Control", "no-cache, private"),
            *response.headers,
        ]
        body = response.body
        if incoming.method == "HEAD" and isinstance(body, list):
            body = b"".join(body)
        if isinstance(body, bytes):
            return web.Response(status=response.status, body=body, headers=headers)
        stream = web.StreamResponse(status=response.status, headers=headers)
        if isinstance(body, list):
            stream.content_length = sum(map(len, body))
            with contextlib.suppress(ConnectionError):  # the client left; nobody is there to be told
                await stream.prepare(incoming)
                for piece in body:
                    await stream.write(piece)
                await stream.write_eof()
            return stream
        if self.hub.metrics.watches >= MAX_WATCHES:
            await body.aclose()  # type: ignore[attr-defined]
            return await self._answer(incoming, refuse(too_many_requests()))
        await self._stream(incoming, stream, body)
        return stream

    async def _stream(
        self, incoming: web.BaseRequest, stream: web.StreamResponse, body: AsyncIterator[bytes]
    ) -> None:
        stream.enable_chunked_encoding()
        metrics = self.hub.metrics
        metrics.watches += 1
        try:
            await stream.prepare(incoming)
            async for piece in body:
                await stream.write(piece)
            await stream.write_eof()
        except ConnectionError:
            pass  # the client left; nobody is there to be told
        finally:
            metrics.watches -= 1
            await body.aclose()  # type: ignore[attr-defined]


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    """Return the headers by lower-case name; those that may repeat are joined."""
    headers: dict[str, str] = {}
    for name, value in incoming.headers.items():
        key = name.lower()
        if key in headers and key.startswith("impersonate-"):
            value = f"{headers[key]}\n{value}"
        elif key in headers and key == "accept":
            value = f"{headers[key]},{value}"
        headers[key] = value
    return headers


async def _body(incoming: web.BaseRequest) -> bytes:
    length = incoming.content_length
    if length is not None and length > MAX_BODY:
        raise too_large(MAX_BODY)
    pieces: list[bytes] = []
    size = 0
    async for piece in incoming.content.iter_any():
        size += len(piece)
        if size > MAX_BODY:
            raise too_large(MAX_BODY)
        pieces.append(piece)
    return b"".join(pieces)


@contextlib.asynccontextmanager
async def serving(
    hub: Hub, kubeconfig: Path, *, port: int = 0, data: Path | None = None
) -> AsyncIterator[Server]:
    """Serve a hub over TLS and write the kubeconfig that reaches it."""
    with TemporaryDirectory() as scratch:
        folder = data or Path(scratch)
        authority = hub.authority or Authority.load(folder, hub.world.now())
        hub.authority = authority
        server = Server(hub, port=port)
        context = authority.context(folder)
        await server.start(context)
        invite(server, authority, kubeconfig)
        renewal = asyncio.create_task(_renew(server, context, folder, kubeconfig), name="hub-certificates")
        try:
            yield server
        finally:
            renewal.cancel()
            await server.stop()


def invite(server: Server, authority: Authority, kubeconfig: Path) -> None:
    """Write the administrator's kubeconfig, with a fresh certificate."""
    admin = authority.client("admin", (MASTERS,))
    address = f"https://{server.host}:{server.port}"
    write(kubeconfig, address, authority.pair.certificate, admin, sorted(server.hub.clusters))


async def _renew(server: Server, context: ssl.SSLContext, folder: Path, kubeconfig: Path) -> None:
    """Make certificates anew long before they end; a process may run for years."""
    authority = server.hub.authority
    assert authority is not None
    while True:
        await asyncio.sleep(timedelta(days=RENEW_AFTER_DAYS).total_seconds())
        authority.renew(context, folder, server.hub.world.now())
        invite(server, authority, kubeconfig)
