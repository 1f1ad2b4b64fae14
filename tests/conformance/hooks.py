"""A webhook server of one sequence: answers as the sequence says, and keeps what it was asked.

Both servers under test call it over loopback and trust it by its own authority. Each entry of ``hooks`` in a
sequence is one address, ``$hook/<name>``:

    hooks: {careful: {response: {allowed: false}}, slow: {delay: 3}, odd: {text: no json}, conv: {convert: true}}

README.md describes the keys.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import tempfile
import threading
import time
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from echelon.hub.certificates import Authority
from tests.conformance.conversion import converted

Json = dict[str, Any]
CONTROLLERS = ("system:serviceaccount:kube-system:", "system:kube-controller-manager")
NOT_KEPT = ("ready", "kube-root-ca.crt", "default")
"""Objects that only find out whether a server calls the webhook already, and those a namespace is born with."""

TRUSTED, OTHER = (Authority.make(datetime.now(UTC)) for _ in range(2))


def bundle(authority: Authority) -> str:
    """Returns an authority's certificate as it stands in a configuration."""
    return base64.b64encode(authority.pair.certificate).decode()


def variables(hooks: Hooks) -> dict[str, str]:
    """Returns what a sequence calls its webhooks and their authorities."""
    return {"hook": hooks.url, "ca": bundle(TRUSTED), "otherca": bundle(OTHER)}


class Hooks:
    """A webhook server on a free port of loopback."""

    def __init__(self, behaviours: Json) -> None:
        self.behaviours = behaviours
        self.asked: dict[str, list[Json]] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hooks = self
        self._server.daemon_threads = True
        self._server.socket = _context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def told(self, name: str) -> list[Json]:
        """Returns what an address was asked since the last look."""
        return self.asked.pop(name, [])

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()


@cache
def _context() -> ssl.SSLContext:
    """Returns what the server shows its clients."""
    pair = TRUSTED.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file.name)
    return context


class _Server(ThreadingHTTPServer):
    """A server that knows whose it is and says nothing of clients that leave."""

    hooks: Hooks

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keeps quiet: clients that do not trust the server, or time out, are part of the game."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Answers a review."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = self.path.partition("?")[0].strip("/")
        behaviour = self.server.hooks.behaviours.get(name)
        review = json.loads(body)
        request = review.get("request") or {}
        if behaviour is None:
            self._say(404, b"nothing here")
            return
        if not _of_no_interest(request):
            self.server.hooks.asked.setdefault(name, []).append(review)
        time.sleep(behaviour.get("delay", 0))
        if "text" in behaviour or "code" in behaviour:
            self._say(behaviour.get("code", 200), behaviour.get("text", "").encode())
            return
        response = _converting(behaviour, request) if "convert" in behaviour else _admitting(behaviour)
        said = {"apiVersion": review["apiVersion"], "kind": review["kind"], **behaviour.get("review", {})}
        said["response"] = {"uid": request.get("uid"), **response}
        self._say(200, json.dumps(said).encode())

    def _say(self, code: int, body: bytes) -> None:
        """Sends an answer; a client that has given up does not hear it."""
        with contextlib.suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Says nothing."""


def _of_no_interest(request: Json) -> bool:
    """Tells whether a review is about what a cluster does by itself, or a try whether the webhook is called."""
    asker = (request.get("userInfo") or {}).get("username", "")
    return request.get("name") in NOT_KEPT or asker.startswith(CONTROLLERS)


def _admitting(behaviour: Json) -> Json:
    """Returns an answer to an admission review; patches are written as operations and sent encoded."""
    response = {"allowed": True, **behaviour.get("response", {})}
    if isinstance(response.get("patch"), list):
        response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        response.setdefault("patchType", "JSONPatch")
    return response


def _converting(behaviour: Json, request: Json) -> Json:
    """Returns an answer to a conversion review; `convert` may say how to spoil it."""
    wanted = request["desiredAPIVersion"]
    objects = [converted(obj, wanted, behaviour["convert"]) for obj in request["objects"]]
    response = {"result": {"status": "Success"}, "convertedObjects": objects}
    return response | behaviour.get("response", {})
