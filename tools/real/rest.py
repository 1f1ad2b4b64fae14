"""A small blocking client for a Kubernetes API server, of the standard library alone.

The lab's tools talk to the oracle before anything of the product is installed, and must not test
the product with its own client; hence this one. It makes one connection per client object, sends
JSON, and returns status, headers and decoded body without interpreting them.
"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What a server said: status code, headers with lower-case names, and the body's bytes."""

    code: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Decodes the body; raises ValueError when it is not JSON."""
        return json.loads(self.body)

    def ok(self) -> Answer:
        """Returns itself when the code is 2xx, else raises with what the server said."""
        if not 200 <= self.code < 300:
            raise RestError(f"{self.code}: {self.body[:2000].decode(errors='replace')}")
        return self


class RestError(Exception):
    """The server refused a request that had to succeed."""


@dataclass
class Rest:
    """One connection to one server, with a client certificate; reconnects when it was closed."""

    url: str
    ca: Path
    cert: Path | None = None
    key: Path | None = None
    timeout_s: float = TIMEOUT_S
    _connection: http.client.HTTPSConnection | None = field(default=None, repr=False)

    def _connect(self) -> http.client.HTTPSConnection:
        """Opens a connection that trusts the lab's authority alone."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if self.cert is not None:
            context.load_cert_chain(str(self.cert), str(self.key))
        parts = urlsplit(self.url)
        return http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=context, timeout=self.timeout_s
        )

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Sends one request; a body that is not bytes is sent as JSON."""
        sent = {"Accept": "application/json", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        fresh = self._connection is None
        if self._connection is None:
            self._connection = self._connect()
        try:
            self._connection.request(method, path, body=body, headers=sent)
            got = self._connection.getresponse()
            data = got.read()
        except (http.client.HTTPException, OSError):
            self.close()
            # A kept connection may have been closed by the server in between; a new one has not.
            if fresh or method != "GET":
                raise
            return self.send(method, path, body, headers)
        return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, data)

    def get(self, path: str, accept: str = "application/json") -> Answer:
        """Sends a GET."""
        return self.send("GET", path, headers={"Accept": accept})
