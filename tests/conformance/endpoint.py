"""Reaching one API server: address, trust and identity, and single requests over http.client.

The suite judges the product's server, so it uses none of the product's client code.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Endpoint:
    """One API server; the URL may end in a path below which the server is found."""

    url: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    token: str | None = None

    def connect(self, *, as_nobody: bool = False) -> http.client.HTTPConnection:
        """Opens a connection, without the client certificate when asked as nobody."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "127.0.0.1", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.ca_file is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file and not as_nobody:
            context.load_cert_chain(self.cert_file, self.key_file)
        return http.client.HTTPSConnection(host, port, context=context, timeout=TIMEOUT_S)

    def target(self, path: str) -> str:
        """Returns a request's target: the path below the URL's own path."""
        return urlsplit(self.url).path.rstrip("/") + path


@dataclass
class Reply:
    """A server's answer; ``headers`` keeps repeated ones, such as Warning, in order."""

    code: int
    headers: list[tuple[str, str]]
    body: bytes = b""

    def all(self, name: str) -> list[str]:
        """Returns all values of a header."""
        return [value for key, value in self.headers if key.lower() == name]

    def content_type(self) -> str:
        """Returns the content type, empty where the server sent none."""
        return ", ".join(self.all("content-type"))


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes | None,
    headers: dict[str, str],
) -> Reply:
    """Sends one request and reads its whole answer."""
    try:
        connection.request(method, target, body=body, headers=headers)
    except (BrokenPipeError, ConnectionResetError):
        # A server may answer and close before it has read all of a body that is too large.
        if connection.sock is None:
            raise
    got = connection.getresponse()
    reply = Reply(got.status, got.getheaders(), got.read())
    if reply.all("content-encoding") == ["gzip"]:
        reply.body = gzip.decompress(reply.body)
    return reply


@dataclass
class Kubeconfig:
    """Reads endpoints from a kubeconfig; keeps embedded credentials in files while it is open."""

    path: Path
    _files: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="conformance-")
    )

    def endpoint(self, context: str | None = None) -> Endpoint:
        """Returns the endpoint of a context, the current one when none is named."""
        document = yaml.safe_load(self.path.read_text())
        name = context or document["current-context"]
        chosen = _named(document["contexts"], name)["context"]
        cluster = _named(document["clusters"], chosen["cluster"])["cluster"]
        user = _named(document["users"], chosen["user"])["user"]
        return Endpoint(
            cluster["server"],
            self._file(cluster, "certificate-authority"),
            self._file(user, "client-certificate"),
            self._file(user, "client-key"),
            user.get("token"),
        )

    def close(self) -> None:
        """Removes the credentials' files."""
        self._files.cleanup()

    def _file(self, source: dict[str, Any], key: str) -> str | None:
        """Returns the path of a credential that is named or embedded."""
        if f"{key}-data" in source:
            data = base64.b64decode(source[f"{key}-data"])
            path = Path(self._files.name) / f"{key}-{abs(hash(data))}"
            path.touch(mode=0o600)
            path.write_bytes(data)
            return str(path)
        named = source.get(key)
        return str(self.path.parent / named) if named else None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Returns the entry of a name."""
    found: Iterator[dict[str, Any]] = (entry for entry in entries if entry["name"] == name)
    entry = next(found, None)
    if entry is None:
        raise KeyError(f"the kubeconfig has no {name!r}")
    return entry
