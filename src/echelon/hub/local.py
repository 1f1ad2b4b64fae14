"""The hub inside the caller's own process: no sockets, no TLS, the same handler.

`start` gives a running hub; `Hub.handle` answers requests; `client` gives the
project's own client over it. Bytes are shared, not copied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs

from echelon.client.base import Client, Reply
from echelon.client.errors import error_of
from echelon.hub.app import Hub
from echelon.hub.call import ADMIN, Request, Response, User
from echelon.hub.route import HUB
from echelon.hub.world import World


def start(data: Path | None = None, *, world: World | None = None, members: int = 0) -> Hub:
    """Return a hub, in memory unless a folder is given; must run on the loop that will use it."""
    hub = Hub(world)
    if data is not None:
        hub.open(data)
    for number in range(1, members + 1):
        hub.add_cluster(f"member{number}")
    return hub


def client(hub: Hub, user: User = ADMIN, cluster: str = HUB, *, field_manager: str = "echelon") -> Client:
    """Return a client of one logical cluster, acting as a user."""
    return Client(LocalTransport(hub, user, cluster), field_manager=field_manager)


class LocalTransport:
    """Carries a client's requests to a hub in the same process."""

    def __init__(self, hub: Hub, user: User = ADMIN, cluster: str = HUB) -> None:
        self._hub = hub
        self._user = user
        self._prefix = "" if cluster == HUB else f"/clusters/{cluster}"

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        path, _, query = path.partition("?")
        lowered = {name.lower(): value for name, value in headers.items()}
        parsed = parse_qs(query, keep_blank_values=True) if query else {}
        return await self._hub.handle(
            Request(method, self._prefix + path, parsed, lowered, body or b"", self._user)
        )

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """Send one request and return the whole answer."""
        response = await self._ask(method, path, headers, body)
        answer = {name.lower(): value for name, value in response.headers}
        return Reply(response.status, answer, await whole(response))

    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """GET and yield the lines of the answer."""
        response = await self._ask("GET", path, headers, None)
        if response.status != 200:
            raise error_of(response.status, await whole(response), dict(response.headers))
        if isinstance(response.body, bytes | list):
            pieces = [response.body] if isinstance(response.body, bytes) else response.body
            for line in b"".join(pieces).splitlines():
                yield line
            return
        stream = response.body
        try:
            async for piece in stream:
                for line in piece.splitlines():
                    yield line
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Nothing to let go of."""


async def whole(response: Response) -> bytes:
    """Return the body of a response in one piece."""
    if isinstance(response.body, bytes):
        return response.body
    if isinstance(response.body, list):
        return b"".join(response.body)
    return b"".join([piece async for piece in response.body])
