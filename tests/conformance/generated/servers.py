"""One API server as the generator sees it: requests over one connection, and a watch for each collection."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from tests.conformance.endpoint import Endpoint, exchange

Json = dict[str, Any]
NO_ANSWER = 0
PATIENCE_S = 20.0
BROKEN = (http.client.HTTPException, ConnectionError)


class Server:
    """One API server, over one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.connection = endpoint.connect()
        self.streams: dict[str, Stream] = {}

    def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Json]:
        """Send a request; return the code and the document."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": "generated", "Accept": "application/json", "Content-Type": media}
        for _ in range(2):  # the first attempt may meet a connection that was closed since
            try:
                reply = exchange(self.connection, method, self.endpoint.target(path), data, headers)
            except BROKEN:
                self.connection.close()
                self.connection = self.endpoint.connect()
                continue
            try:
                return reply.code, json.loads(reply.body)
            except ValueError:
                return reply.code, {"text": reply.body.decode(errors="replace")}
        return NO_ANSWER, {}

    def stream(self, path: str) -> Stream:
        """Return the watch of a path, opened when it is first asked for or has ended."""
        found = self.streams.get(path)
        if found is None or found.ended:
            revision = self.ask("GET", path)[1]["metadata"]["resourceVersion"]
            found = self.streams[path] = Stream(self.endpoint, path, revision)
        return found


class Stream:
    """A watch that is read in the background; its events are kept until a sequence takes them."""

    def __init__(self, endpoint: Endpoint, path: str, revision: str) -> None:
        self.ended = False
        self._events: list[Json] = []
        self._told = threading.Condition()
        connection = endpoint.connect()
        join = "&" if "?" in path else "?"
        target = endpoint.target(f"{path}{join}watch=true&resourceVersion={revision}")
        connection.request("GET", target, headers={"Accept": "application/json"})
        threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: http.client.HTTPConnection) -> None:
        assert connection.sock is not None
        connection.sock.settimeout(None)  # nothing happens for long on collections nobody writes to
        try:
            for line in connection.getresponse():
                with self._told:
                    self._events.append(json.loads(line))
                    self._told.notify_all()
        except (*BROKEN, OSError, ValueError):
            pass
        with self._told:
            self.ended = True
            self._told.notify_all()

    def take(self, names: set[str], last: str) -> list[Json]:
        """Return the events of some objects since the last time, once another object has ended."""
        end = time.monotonic() + PATIENCE_S
        with self._told:
            while not any(_is_end(event, last) for event in self._events) and not self.ended:
                if not self._told.wait(max(0.0, end - time.monotonic())):
                    raise TimeoutError(f"the watch never told of {last}")
            taken, self._events = self._events, []
        return [event for event in taken if _name(event) in names]


def _name(event: Json) -> str:
    return str((event["object"].get("metadata") or {}).get("name"))


def _is_end(event: Json, name: str) -> bool:
    return event["type"] == "DELETED" and _name(event) == name
