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
from echelon.hub.process import allow_files, keep_buffers
from echelon.hub.status import (
    StatusError,
    bad_request,
    too_large,
    too_many_requests,
    too_slow,
    unauthorized,
)

MAX_QUERY_FIELDS = 200
"""Query parameters taken: more is an attack on the parser."""

MAX_WAITING_BYTES = 256 * 1024 * 1024
"""Bytes of all bodies in memory that are coming, wait for their turn or are being served."""

MAX_LINE = 64 * 1024
"""Bytes of a request line: selectors and continue tokens are long."""

BODY_S = 60.0
"""How long a body may take to arrive; kube-apiserver gives a whole request as long."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Bytes of large answers that clients are still taking; one alone may be larger."""

TAKEN_S = 60.0
"""How long a client may take for one piece of an answer or a watch; a full minute of nothing is nobody."""

LARGE = 64 * 1024
"""Bytes that a connection buffers: less is handed over without waiting."""

SHUTDOWN_S = 2.0


class Server:
    """Serves one hub on one port."""

    def __init__(self, hub: Hub, host: str = "127.0.0.1", port: int = 0) -> None:
        self.hub = hub
        self.host = host
        self.port = port
        self.fairness = Fairness()
        self._body_bytes = 0
        self._answer_bytes = 0
        self._web = web.Server(
            self._serve,
            access_log=None,
            keepalive_timeout=75,
            handler_cancellation=True,  # else the watch of a client that left lives on until the next event
            auto_decompress=False,  # as kube-apiserver; nothing small can become large
            max_line_size=MAX_LINE,
        )
        self._listener: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None) -> None:
        """Begin to listen."""
        keep_buffers()
        allow_files()
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
        pieces: list[bytes] = []
        try:
            response = await self._handle(incoming, pieces)
        except StatusError as error:
            response = refuse(error)
        finally:
            self._body_bytes -= sum(map(len, pieces))
        return await self._answer(incoming, response)

    async def _handle(self, incoming: web.BaseRequest, pieces: list[bytes]) -> Response:
        metrics, fairness = self.hub.metrics, self.fairness
        request = await self._read(incoming, pieces)
        try:
            await fairness.enter(request.user)
        finally:
            metrics.rejected = fairness.rejected
        try:
            metrics.in_flight = fairness.active
            return await self.hub.handle(request)
        finally:
            fairness.leave()

    async def _read(self, incoming: web.BaseRequest, pieces: list[bytes]) -> Request:
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
            await self._receive(incoming, pieces)
            body = b"".join(pieces)
            pieces[:] = [body]
        return Request(incoming.method, path, query, headers, body, self._user(incoming, headers))

    async def _receive(self, incoming: web.BaseRequest, pieces: list[bytes]) -> None:
        """Take a body piece by piece; what has come counts from the moment it is in memory."""
        if (incoming.content_length or 0) > MAX_BODY:
            raise too_large(MAX_BODY)
        size = 0
        try:
            async with asyncio.timeout(BODY_S):
                async for piece in incoming.content.iter_any():
                    pieces.append(piece)
                    size += len(piece)
                    self._body_bytes += len(piece)
                    if size > MAX_BODY:
                        raise too_large(MAX_BODY)
                    if self._body_bytes > MAX_WAITING_BYTES:
                        raise too_many_requests()
        except TimeoutError:
            raise too_slow() from None

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
        if isinstance(body, bytes) and (len(body) <= LARGE or incoming.method == "HEAD"):
            return web.Response(status=response.status, body=body, headers=headers)
        stream = web.StreamResponse(status=response.status, headers=headers)
        if isinstance(body, bytes):
            body = [body[at : at + LARGE] for at in range(0, len(body), LARGE)]
        if isinstance(body, list):
            size = stream.content_length = sum(map(len, body))
            if self._answer_bytes and self._answer_bytes + size > MAX_ANSWER_BYTES:
                return await self._answer(incoming, refuse(too_many_requests()))
            self._answer_bytes += size
            try:
                await self._send(incoming, stream, body)
            finally:
                self._answer_bytes -= size
            return stream
        if self.hub.metrics.watches >= MAX_WATCHES:
            await body.aclose()  # type: ignore[attr-defined]
            return await self._answer(incoming, refuse(too_many_requests()))
        await self._stream(incoming, stream, body)
        return stream

    async def _send(self, incoming: web.BaseRequest, stream: web.StreamResponse, pieces: list[bytes]) -> None:
        with contextlib.suppress(ConnectionError):  # the client left; nobody is there to be told
            await stream.prepare(incoming)
            for piece in pieces:
                await _hand_over(incoming, stream, piece)
            await stream.write_eof()

    async def _stream(
        self, incoming: web.BaseRequest, stream: web.StreamResponse, body: AsyncIterator[bytes]
    ) -> None:
        stream.enable_chunked_encoding()
        metrics = self.hub.metrics
        metrics.watches += 1
        try:
            await stream.prepare(incoming)
            async for piece in body:
                await _hand_over(incoming, stream, piece)
            await stream.write_eof()
        except ConnectionError:
            pass  # the client left; nobody is there to be told
        finally:
            metrics.watches -= 1
            await body.aclose()  # type: ignore[attr-defined]


async def _hand_over(incoming: web.BaseRequest, stream: web.StreamResponse, piece: bytes) -> None:
    """Write a piece; a client that takes nothing for long is cut off, and what waits for it is free."""
    transport = incoming.transport
    if transport is None or transport.get_write_buffer_size() + len(piece) < LARGE:
        await stream.write(piece)
        return
    try:
        async with asyncio.timeout(TAKEN_S):
            await stream.write(piece)
    except TimeoutError:
        transport.abort()
        raise ConnectionResetError from None


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
