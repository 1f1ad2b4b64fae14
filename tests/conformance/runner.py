"""Runs sequences of requests against one server and returns its normalised answers.

    results = run(load_sequences(), endpoint)

Each sequence has its own namespace (made when it names ``$ns``) and its own ``$id`` for what has no
namespace, so that sequences run side by side and a server can be asked again and again. Nothing here
knows which server it is talking to. README.md describes the format of the sequences.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import json
import queue
import random
import re
import socket
import string
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import paths
from tests.conformance.endpoint import Endpoint, Reply, exchange
from tests.conformance.hooks import Hooks
from tests.conformance.hooks import variables as hook_variables
from tests.conformance.normal import Normaliser

Json = dict[str, Any]
SEQUENCES = Path(__file__).parent / "sequences"
UNTIL_LIMIT_S = 150.0  # a real server takes its time to empty a namespace
UNTIL_PAUSE_S = 0.05
PAUSED = 0.02  # of the patience with a server: one that acts at once needs no pause
COLLECT_LIMIT_S = 10.0
WORKERS = 8
MIN_NAMED_LENGTH = 8
PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
ACCEPTS = {
    "table": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "partial": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "partial-list": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "discovery": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
}
SHORT_PATHS = {
    "core": "/api/v1/namespaces/$ns",
    "cm": "/api/v1/namespaces/$ns/configmaps",
    "apps": "/apis/apps/v1/namespaces/$ns",
    "rbac": "/apis/rbac.authorization.k8s.io/v1",
    "crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "vaps": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "vapbs": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "vwhs": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "mwhs": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "authn": "/apis/authentication.k8s.io/v1",
    "authz": "/apis/authorization.k8s.io/v1",
    "fleet": "/apis/placement.kubernetes-fleet.io/v1beta1",
}
NAMESPACED = ("ns", "core", "cm", "apps")
KEPT_HEADERS = (
    "warning",
    "retry-after",
    "location",
    "www-authenticate",
    "content-encoding",
    "access-control-allow-origin",
)


class SequenceError(Exception):
    """A sequence could not be carried out; the server is not the one to blame."""


@dataclass(frozen=True)
class Sequence:
    """A named list of steps from one topic's file."""

    topic: str
    name: str
    steps: list[Json]
    cleanup: list[str] = field(default_factory=list)
    account: bool = False
    managed: bool = False
    crds: bool = False
    hooks: Json = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Returns the name under which answers are recorded."""
        return f"{self.topic}/{self.name}"


@dataclass
class Result:
    """A sequence's normalised answers, or why there are none."""

    sequence: Sequence
    answers: list[Json]
    error: str | None = None
    seconds: float = 0.0


def load_sequences(folder: Path = SEQUENCES) -> list[Sequence]:
    """Reads all sequences, in the order of files and entries."""
    found = []
    for file in sorted(folder.glob("*.yaml")):
        for entry in yaml.load(file.read_text(), Loader=_loader()):
            found.append(
                Sequence(
                    file.stem,
                    entry["name"],
                    entry["steps"],
                    entry.get("cleanup", []),
                    entry.get("account", False),
                    entry.get("managed", False),
                    entry.get("crds", False),
                    entry.get("hooks", {}),
                )
            )
    return found


def _loader() -> Any:
    """Returns the fast YAML loader where it is there."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run(
    sequences: Iterable[Sequence],
    endpoint: Endpoint,
    workers: int = WORKERS,
    until_s: float = UNTIL_LIMIT_S,
) -> list[Result]:
    """Runs sequences side by side; the results have the order of the sequences."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda sequence: run_one(sequence, endpoint, until_s), sequences))


def run_one(sequence: Sequence, endpoint: Endpoint, until_s: float = UNTIL_LIMIT_S) -> Result:
    """Runs one sequence; an exception becomes the result's error."""
    began = time.monotonic()
    runner = _Runner(endpoint, sequence, until_s)
    error = None
    try:
        runner.run()
    except (SequenceError, http.client.HTTPException, OSError, queue.Empty) as problem:
        error = f"{type(problem).__name__}: {problem}"
    finally:
        runner.close()
    return Result(sequence, runner.answers, error, time.monotonic() - began)


class _Watch:
    """A watch that is read in the background until the sequence ends."""

    def __init__(
        self, connection: http.client.HTTPConnection, sock: socket.socket, reply: http.client.HTTPResponse
    ) -> None:
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self._connection, self._sock, self._reply = connection, sock, reply
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Reads lines until the server or the sequence ends the stream; None marks the end."""
        try:
            for line in iter(self._reply.readline, b""):
                self.lines.put(line)
        except (http.client.HTTPException, OSError, ValueError, AttributeError):
            pass
        self.lines.put(None)

    def close(self) -> None:
        """Ends the stream; the reader would hold a mere close back until the next line."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class _Runner:
    """Carries out one sequence."""

    def __init__(self, endpoint: Endpoint, sequence: Sequence, until_s: float) -> None:
        self._endpoint, self._sequence, self._until_s = endpoint, sequence, until_s
        token = "".join(random.choices(string.ascii_lowercase + string.digits, k=8))
        slug = re.sub(r"[^a-z0-9]+", "-", sequence.name.lower())[:30].strip("-")
        # The identifier starts with a letter and appears in no other word of an answer.
        self.variables = {"ns": f"c-{slug}-q{token}", "id": f"z{token}"}
        self._hooks = Hooks(sequence.hooks) if sequence.hooks else None
        if self._hooks is not None:
            self.variables |= hook_variables(self._hooks)
        self._normaliser = Normaliser(dict(self.variables))
        self.variables |= {name: self._fill(path) for name, path in SHORT_PATHS.items()}
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._watches: dict[str, _Watch] = {}
        self._has_namespace = False
        self.answers: list[Json] = []

    def run(self) -> None:
        """Carries out all steps."""
        if re.search(rf"\$({'|'.join(NAMESPACED)})\b", json.dumps(self._sequence.steps)):
            self._make_namespace()
        for number, step in enumerate(self._sequence.steps):
            try:
                answer = self._step(step)
            except SequenceError as problem:
                raise SequenceError(f"step {number}: {problem}") from problem
            if answer is not None:
                self.answers.append(answer)

    def close(self) -> None:
        """Removes what the sequence left behind; failures to do so are of no interest."""
        for watch in self._watches.values():
            watch.close()
        leftovers = [self._fill(path) for path in self._sequence.cleanup]
        if self._has_namespace:
            leftovers.append(f"/api/v1/namespaces/{self.variables['ns']}")
        for path in leftovers:
            try:
                self._send("DELETE", path, None, {}, "admin")
            except (http.client.HTTPException, OSError):
                self._connections.pop("admin", None)
        for connection in self._connections.values():
            connection.close()
        if self._hooks is not None:
            self._hooks.close()

    def _make_namespace(self) -> None:
        """Makes the sequence's namespace; pods also need its service account to appear."""
        name = self.variables["ns"]
        body = json.dumps({"metadata": {"name": name}}).encode()
        headers = {"Content-Type": "application/json"}
        reply = self._send("POST", "/api/v1/namespaces", body, headers, "admin")
        if reply.code != 201:
            raise SequenceError(f"no namespace: {reply.body[:300]!r}")
        self._has_namespace = True
        if self._sequence.account:
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            self._until(lambda: self._send("GET", path, None, {}, "admin"), {"code": 200})

    # Steps

    def _step(self, step: Json) -> Json | None:
        """Carries out one step; returns its normalised answer unless it is not to be compared."""
        if "pause" in step:
            time.sleep(min(step["pause"], self._until_s * PAUSED))
            return None
        if "collect" in step:
            return self._collect(step)
        if "asked" in step:
            return self._asked(step)
        method, _, path = self._fill(step["do"]).partition(" ")
        body, headers = self._body(step), self._headers(step, method)
        who = self._fill(step.get("as", "admin"))
        if "watch" in step:
            return self._open_watch(step, path, headers, who)

        def ask() -> Reply:
            return self._send(method, path, body, headers, who)

        reply = self._until(ask, self._fill(step["until"])) if "until" in step else ask()
        self._save(step, reply)
        if step.get("quiet"):
            if reply.code >= 400 and "until" not in step:
                raise SequenceError(f"{step['do']}: {reply.code} {reply.body[:500]!r}")
            return None
        return self._describe(step, reply)

    def _fill(self, value: Any) -> Any:
        """Puts the variables' values into strings; other dollar signs stay."""
        if isinstance(value, str):
            return re.sub(r"\$(\w+)", lambda found: self.variables.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {self._fill(key): self._fill(sub) for key, sub in value.items()}
        if isinstance(value, list):
            return [self._fill(sub) for sub in value]
        return value

    def _body(self, step: Json) -> bytes | None:
        """Returns the request's body: JSON, raw text, raw bytes, or much of it."""
        if "raw" in step:
            text: str = self._fill(step["raw"])
            return text.encode()
        if "raw_base64" in step:
            return base64.b64decode(step["raw_base64"])
        if "body" not in step:
            return None
        body = self._fill(copy.deepcopy(step["body"]))
        for path, size in step.get("inflate", {}).items():
            *parents, last = paths.split(path)
            paths.read(body, parents)[last] = "x" * size
        return json.dumps(body).encode()

    def _headers(self, step: Json, method: str) -> dict[str, str]:
        """Returns the request's headers."""
        accept = step.get("accept", "application/json")
        headers = {"Accept": ACCEPTS.get(accept, accept)}
        kind = step.get("type")
        if kind:
            headers["Content-Type"] = PATCH_TYPES.get(kind, kind)
        elif "body" in step or "raw" in step or "raw_base64" in step:
            headers["Content-Type"] = "application/json"
        headers.update(self._fill(step.get("headers", {})))
        return {key: value for key, value in headers.items() if value}

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str], who: str) -> Reply:
        """Sends a request as the administrator, as nobody, or with a bearer token."""
        nobody = who != "admin"
        if nobody and who != "nobody":
            headers = {**headers, "Authorization": f"Bearer {who}"}
        if who == "admin" and self._endpoint.token:
            headers = {**headers, "Authorization": f"Bearer {self._endpoint.token}"}
        connection = self._connections.get("nobody" if nobody else "admin")
        if connection is None:
            connection = self._endpoint.connect(as_nobody=nobody)
            self._connections["nobody" if nobody else "admin"] = connection
        target = self._endpoint.target(path)
        try:
            return exchange(connection, method, target, body, headers)
        except (http.client.HTTPException, OSError):
            self._connections.pop("nobody" if nobody else "admin").close()
            raise

    def _until(self, ask: Any, wanted: Json) -> Reply:
        """Asks again until the code or fields of the answer are as wanted."""
        end = time.monotonic() + self._until_s
        while True:
            reply: Reply = ask()
            if _matches(reply, wanted):
                return reply
            if time.monotonic() > end:
                raise SequenceError(f"never {wanted}; last {reply.code} {reply.body[:500]!r}")
            time.sleep(UNTIL_PAUSE_S)

    def _save(self, step: Json, reply: Reply) -> None:
        """Keeps values of an answer for later steps."""
        for name, path in step.get("save", {}).items():
            value = paths.read(json.loads(reply.body), path)
            if value is None:
                raise SequenceError(f"{path} is not in {reply.body[:500]!r}")
            self.variables[name] = str(value)
            # Resource versions and identifiers have names of their own in answers, and a short value
            # would be found inside words that have nothing to do with it.
            own = path.rpartition(".")[2] in ("resourceVersion", "uid", "continue")
            if not own and len(str(value)) >= MIN_NAMED_LENGTH:
                self._normaliser.variables[name] = str(value)

    def _describe(self, step: Json, reply: Reply) -> Json:
        """Returns a normalised answer, reduced to what the step wants compared."""
        answer: Json = {"code": reply.code, "type": reply.content_type()}
        for name in KEPT_HEADERS:
            if reply.all(name) and name not in step.get("drop", []):
                answer[name] = [self._normaliser.text(value) for value in reply.all(name)]
        try:
            body = json.loads(reply.body)
        except ValueError:
            body = None
        if body is None:
            answer["text"] = self._normaliser.text(reply.body.decode(errors="replace"))
        else:
            answer["body"] = self._reduce(step, self._normaliser.body(body))
        if step.get("compare") == "code":
            return {"code": reply.code}
        return answer

    def _reduce(self, step: Json, body: Any) -> Any:
        """Keeps only what a step wants compared; managed fields only where they are the topic."""
        if "only" in step:
            return {_label(path): paths.read(body, path) for path in step["only"]}
        for path in step.get("ignore", []):
            paths.remove(body, path)
        if not self._sequence.managed:
            _drop_managed_fields(body)
        return body

    # Watches

    def _open_watch(self, step: Json, path: str, headers: dict[str, str], who: str) -> Json | None:
        """Opens a watch; a refusal is an answer like any other."""
        connection = self._endpoint.connect(as_nobody=who != "admin")
        if who not in ("admin", "nobody"):
            headers = {**headers, "Authorization": f"Bearer {who}"}
        if who == "admin" and self._endpoint.token:
            headers = {**headers, "Authorization": f"Bearer {self._endpoint.token}"}
        connection.request("GET", self._endpoint.target(path), headers=headers)
        sock = connection.sock  # a reply that ends with its connection takes the socket over
        got = connection.getresponse()
        if got.status != 200:
            reply = Reply(got.status, got.getheaders(), got.read())
            connection.close()
            return self._describe(step, reply)
        self._watches[step["watch"]] = _Watch(connection, sock, got)
        return None

    def _collect(self, step: Json) -> Json:
        """Waits for a number of events of a watch, or for its end; returns them."""
        watch, wanted = self._watches[step["collect"]], step.get("events")
        events: list[Any] = []
        ended = False
        deadline = time.monotonic() + step.get("limit", COLLECT_LIMIT_S)
        while wanted is None or len(events) < wanted:
            try:
                line = watch.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if line is None:
                ended = True
                break
            event = json.loads(line)
            if event["type"] == "BOOKMARK" and step.get("skip_bookmarks", True):
                continue
            events.append(event)
        described = [self._reduce(step, self._normaliser.body(event)) for event in events]
        for event in events:
            self._save_event(step, event)
        return {"events": described} | ({"ended": True} if ended else {})

    def _asked(self, step: Json) -> Json | None:
        """Returns what a webhook of the sequence was asked since the last look."""
        assert self._hooks is not None
        told = self._hooks.told(step["asked"])[: step.get("first")]
        described = [self._reduce(step, self._normaliser.body(review)) for review in told]
        return None if step.get("quiet") else {"asked": described}

    def _save_event(self, step: Json, event: Json) -> None:
        """Keeps values of an event for later steps."""
        for name, path in step.get("save", {}).items():
            value = paths.read(event, path)
            if value is not None:
                self.variables[name] = str(value)


def _drop_managed_fields(value: Any) -> None:
    """Removes the managed fields of all objects in a body."""
    if isinstance(value, dict):
        meta = value.get("metadata")
        if isinstance(meta, dict):
            meta.pop("managedFields", None)
        for sub in value.values():
            _drop_managed_fields(sub)
    elif isinstance(value, list):
        for sub in value:
            _drop_managed_fields(sub)


def _label(path: paths.Path) -> str:
    """Names a path in recorded answers."""
    return path if isinstance(path, str) else " > ".join(str(step) for step in path)


def _matches(reply: Reply, wanted: Json) -> bool:
    """Tells whether an answer has the wanted code and fields."""
    try:
        body = json.loads(reply.body)
    except ValueError:
        body = None
    for path, value in wanted.items():
        got = reply.code if path == "code" else paths.read(body, path)
        # A list stands for "one of its members has this value".
        if got != value and not (isinstance(got, list) and value in got):
            return False
    return True
