"""The HTTP transport: one aiohttp session to one API server.

Connections are reused; reads are tried again a bounded number of times when the network breaks or the server asks
to wait; writes never are (whoever decided decides again). Tokens from files and exec plugins are refreshed before
they end. At most MAX_IN_FLIGHT requests are under way, so one busy client stays fair to the others of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from echelon.client.base import Client, Reply
from echelon.client.errors import Unreachable, error_of
from echelon.client.kubeconfig import Access, ConfigError, ExecPlugin
from echelon.client.rate import Rate

MAX_IN_FLIGHT = 64  # requests of one client; the server's own limit for all clients is 400 by default
MAX_READ_TRIES = 4  # a read that fails four times in a row is somebody else's decision
FIRST_RETRY_S = 0.05
REQUEST_TIMEOUT_S = 60.0  # the server ends ordinary requests after 60 s itself
CONNECT_TIMEOUT_S = 10.0
TOKEN_FILE_AGE = timedelta(seconds=60)  # rotated tokens are picked up within a minute, as kubectl does
EXEC_TIMEOUT_S = 60.0
SILENCE_S = (
    150.0  # of a watch: servers send a bookmark every minute; two missed mean nobody is there any more
)
# after 15 idle seconds the other side is asked every 5; what it does not acknowledge for 30 s has not arrived
KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
RETRYABLE = frozenset({429, 502, 503, 504})


def ssl_context(access: Access) -> ssl.SSLContext | None:
    """Build the TLS side of an access: whom to trust and which certificate to show."""
    if not access.server.startswith("https"):
        return None
    context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate and access.client_key:
        load_certificate(context, access.client_certificate, access.client_key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Give a context a certificate held in memory; OpenSSL only reads files, so one lives for a moment."""
    handle, path = tempfile.mkstemp(prefix="echelon-")
    try:
        os.fchmod(handle, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()


class Credentials:
    """The Authorization header of an access, kept fresh."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._token = access.token
        self._fresh_until = datetime.max.replace(tzinfo=UTC)
        if access.token_file or access.exec_plugin:
            self._fresh_until = datetime.min.replace(tzinfo=UTC)
        self._lock = asyncio.Lock()

    async def headers(self) -> list[tuple[str, str]]:
        """Return the headers that say who we are (a list: a user may be impersonated with several groups)."""
        access = self.access
        headers = []
        if access.impersonate:
            headers.append(("Impersonate-User", access.impersonate))
            headers += [("Impersonate-Group", group) for group in access.impersonate_groups]
        if access.username:
            headers.append(("Authorization", aiohttp.encode_basic_auth(access.username, access.password)))
            return headers
        async with self._lock:
            if datetime.now(UTC) >= self._fresh_until:
                await self._refresh()
        if self._token:
            headers.append(("Authorization", f"Bearer {self._token}"))
        return headers

    def distrust(self) -> None:
        """Fetch the credentials anew before the next request: the server refused them."""
        if self.access.token_file or self.access.exec_plugin:
            self._fresh_until = datetime.min.replace(tzinfo=UTC)

    async def _refresh(self) -> None:
        now = datetime.now(UTC)
        if self.access.token_file:
            self._token = Path(self.access.token_file).read_text().strip()  # noqa: ASYNC240 - a tiny local file
            self._fresh_until = now + TOKEN_FILE_AGE
        elif self.access.exec_plugin:
            status = await run_exec_plugin(self.access.exec_plugin)
            self._token = status.get("token") or ""
            expires = status.get("expirationTimestamp")
            self._fresh_until = (
                datetime.fromisoformat(expires) - timedelta(seconds=10)
                if expires
                else datetime.max.replace(tzinfo=UTC)
            )


async def run_exec_plugin(plugin: ExecPlugin) -> dict[str, Any]:
    """Run a credential plugin and return the status of the ExecCredential it prints."""
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise ConfigError(
            f"cannot run the credential plugin {plugin.command}: {error.strerror}{hint}"
        ) from error
    output, _ = await asyncio.wait_for(process.communicate(), EXEC_TIMEOUT_S)
    if process.returncode:
        raise ConfigError(
            f"the credential plugin {plugin.command} failed with exit code {process.returncode}"
        )
    try:
        return dict(json.loads(output)["status"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the credential plugin {plugin.command} printed no ExecCredential") from error


class HttpTransport:
    """Carries requests over HTTP(S)."""

    def __init__(self, access: Access, *, user_agent: str = "echelon", rate: Rate | None = None) -> None:
        self.access = access
        self._rate = rate
        self._credentials = Credentials(access)
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._ssl = ssl_context(access)
        self._session: aiohttp.ClientSession | None = None
        self._user_agent = user_agent

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._ssl if self._ssl is not None else True, socket_factory=attentive_socket
                ),
                headers=[("User-Agent", self._user_agent), *self.access.headers],
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S),
                proxy=self.access.proxy_url or None,
                read_bufsize=2**20,
            )
        return self._session

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request; reads are tried again within bounds."""
        tries = MAX_READ_TRIES if method == "GET" else 1
        for attempt in range(1, tries + 1):
            wait_s = FIRST_RETRY_S * 4 ** (attempt - 1)
            try:
                async with self._slots:
                    reply = await self._once(method, path, headers, body)
            except Unreachable:
                if attempt == tries:
                    raise
            else:
                if reply.status == 401:
                    self._credentials.distrust()
                if reply.status not in RETRYABLE or attempt == tries:
                    return reply
                asked = reply.headers.get("retry-after", "")
                wait_s = float(asked) if asked.isdigit() else wait_s
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def _once(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        if self._rate is not None:
            await self._rate.wait()
        everything = [*headers.items(), *await self._credentials.headers()]
        try:
            async with self._open().request(
                method, self.access.server + path, headers=everything, data=body, **self._server_name()
            ) as answer:
                content = await answer.read()
                return Reply(
                    answer.status, {key.lower(): value for key, value in answer.headers.items()}, content
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(
                f"{method} {self.access.server}: {str(error) or type(error).__name__}"
            ) from error

    def _server_name(self) -> dict[str, Any]:
        return {"server_hostname": self.access.server_name} if self.access.server_name else {}

    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a GET as they come; a broken stream raises Unreachable."""
        if self._rate is not None:
            await self._rate.wait()
        everything = [*headers.items(), *await self._credentials.headers()]
        forever = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=SILENCE_S)
        try:
            async with self._open().get(
                self.access.server + path, headers=everything, timeout=forever, **self._server_name()
            ) as answer:
                if answer.status >= 400:
                    body = await answer.read()
                    raise error_of(
                        answer.status, body, {key.lower(): value for key, value in answer.headers.items()}
                    )
                async for line in lines(answer.content.iter_any()):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"watch {self.access.server}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(aiohttp.ClientError):
                await session.close()


def attentive_socket(info: tuple[Any, ...]) -> socket.socket:
    """Make a socket that notices within half a minute when the network swallows everything."""
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):  # each system has its own words for some of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


async def lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut a stream of pieces into lines; watch events may be longer than any buffer."""
    held: list[bytes] = []
    async for piece in pieces:
        parts = piece.split(b"\n")
        if len(parts) == 1:
            held.append(piece)
            continue
        held.append(parts[0])
        line = b"".join(held)
        if line:
            yield line
        for part in parts[1:-1]:
            if part:
                yield part
        held = [parts[-1]] if parts[-1] else []
    if held:
        yield b"".join(held)


def connect(
    access: Access, *, field_manager: str = "echelon", user_agent: str = "echelon", rate: Rate | None = None
) -> Client:
    """Return a client over HTTP."""
    return Client(HttpTransport(access, user_agent=user_agent, rate=rate), field_manager=field_manager)
