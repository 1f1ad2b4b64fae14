"""Many writers, readers and watchers on few objects of a hub that is killed again and again: records what happened.

The choices come from a seed; the interleaving is the machine's own. So a history is kept, and judged as often as wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from dataclasses import dataclass
from random import Random
from typing import Any

from echelon.client.base import Client, Reply
from echelon.client.errors import ApiError, Unreachable
from tests.history.record import OK, REFUSED, History, Op, Session, State, Told
from tests.history.server import Process

SPACE = "history"
NAMES = tuple("abcdefgh")
PATIENCE = 2_000
"""Hundredths of a second that a watch may take to tell the last event."""
MERGE = "application/merge-patch+json"
KINDS = (
    "create",
    "create",
    "put",
    "put",
    "patch",
    "patch",
    "patch",
    "delete",
    "get",
    "get",
    "list",
    "pages",
    "past",
)
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REGISTERS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "registers.history.io"},
    "spec": {
        "group": "history.io",
        "scope": "Namespaced",
        "names": {
            "plural": "registers",
            "singular": "register",
            "kind": "Register",
            "listKind": "RegisterList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "data": {"type": "object", "additionalProperties": {"type": "string"}}
                        },
                    }
                },
            }
        ],
    },
}
CUSTOM = f"/apis/history.io/v1/namespaces/{SPACE}/registers"
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
MEMBER = f"/clusters/member1{MAPS}"
SCOPES = (MAPS, CUSTOM, MEMBER)


def state_of(obj: dict[str, Any]) -> State:
    """Return what a history keeps of an object."""
    meta = obj["metadata"]
    return State(
        meta.get("name", ""),
        int(meta["resourceVersion"]),
        meta.get("uid", ""),
        meta.get("labels") or {},
        obj.get("data") or {},
    )


@dataclass
class Recorder:
    """The history so far, and what the next request is numbered by."""

    history: History
    random: Random
    count: int = 0

    def now(self) -> float:
        """Return the one clock of all clients."""
        return asyncio.get_running_loop().time()

    def begin(self, client: str, kind: str, scope: str, name: str) -> Op:
        """Note a request before it is sent."""
        self.count += 1
        op = Op(client, kind, scope, name, self.now())
        self.history.ops.append(op)
        return op


class Writer:
    """One client that writes and reads as the dice fall; it remembers the last it saw of each object."""

    def __init__(self, name: str, recorder: Recorder, client: Client) -> None:
        self.name = name
        self.recorder = recorder
        self.transport = client.transport
        self.known: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Go on until the server is gone."""
        with contextlib.suppress(Unreachable):
            while True:
                await self.one()

    async def one(self) -> None:
        """Send one request and note its answer."""
        dice = self.recorder.random
        kind, scope, name = dice.choice(KINDS), dice.choice(SCOPES), dice.choice(NAMES)
        if kind in {"list", "pages", "past"}:
            await self.list_all(scope, kind)
            return
        op = self.recorder.begin(self.name, kind, scope, name)
        if kind in {"create", "put", "patch"}:
            op.token = f"{self.name}-{self.recorder.count}"
            op.data = {"token": op.token, self.name.rpartition("-")[2]: op.token}
            op.labels = {"l": dice.choice("xy")} if kind != "patch" or dice.random() < 0.3 else {}
        if kind == "put" or (kind in {"patch", "delete"} and dice.random() < 0.4):
            op.expect = self.known.get((scope, name), 1)
        self.answered(op, await self.send(op))

    async def send(self, op: Op) -> Reply:
        """Send a request for one object."""
        path = op.scope if op.kind == "create" else f"{op.scope}/{op.name}"
        if op.kind == "get":
            return await self.transport.send("GET", path, {}, None)
        if op.kind == "delete":
            asked = {"preconditions": {"resourceVersion": str(op.expect)}} if op.expect else {}
            return await self.transport.send("DELETE", path, JSON, json.dumps(asked).encode())
        meta: dict[str, Any] = {"labels": op.labels} if op.labels else {}
        if op.kind != "patch":
            meta["name"] = op.name
        if op.expect:
            meta["resourceVersion"] = str(op.expect)
        body: dict[str, Any] = {"metadata": meta, "data": op.data}
        if op.scope == CUSTOM and op.kind != "patch":
            body |= {"apiVersion": "history.io/v1", "kind": "Register"}
        method = {"create": "POST", "put": "PUT", "patch": "PATCH"}[op.kind]
        headers = {"Content-Type": MERGE} if op.kind == "patch" else JSON
        return await self.transport.send(method, path, headers, json.dumps(body).encode())

    def answered(self, op: Op, reply: Reply) -> None:
        """Note what came back."""
        op.end = self.recorder.now()
        found = json.loads(reply.body)
        if reply.status >= 400:
            op.outcome = REFUSED
            op.reason = (
                f"{reply.status} {found.get('reason')}" if reply.status >= 500 else found.get("reason", "")
            )
            return
        op.outcome = OK
        if op.kind == "delete":
            op.uid = found["details"]["uid"]
        else:
            op.seen = state_of(found)
            self.known[op.scope, op.name] = op.seen.rev

    async def list_all(self, scope: str, how: str) -> None:
        """List a collection: now, in pages, or as it was at a revision seen before."""
        dice = self.recorder.random
        op = self.recorder.begin(self.name, "list", scope, "")
        query = ""
        if how == "past" and self.known:
            op.expect = dice.choice(sorted(self.known.values()))
            query = f"?resourceVersion={op.expect}&resourceVersionMatch=Exact"
        elif how == "pages":
            query = "?limit=3"
        items: list[State] = []
        while True:
            reply = await self.transport.send("GET", scope + query, {}, None)
            found = json.loads(reply.body)
            if reply.status >= 400:
                op.outcome = REFUSED if reply.status != 410 else op.outcome  # too old: it told nothing
                op.reason = f"{reply.status} {found.get('reason')}"
                return
            op.rev = op.rev or int(found["metadata"]["resourceVersion"])
            items += [state_of(item) for item in found["items"]]
            token = found["metadata"].get("continue")
            if not token:
                break
            query = f"?limit=3&continue={token}"
        op.end, op.outcome, op.items = self.recorder.now(), OK, items


JSON = {"Content-Type": "application/json"}


class Watching:
    """One client that watches a collection through all restarts, each time from where it was."""

    def __init__(self, name: str, recorder: Recorder, scope: str, rev: int, label: str = "") -> None:
        self.name = name
        self.recorder = recorder
        self.scope = scope
        self.rev = rev
        self.label = label
        self.steady = bool(rev) and not label
        """Whether it goes on from where it was for ever: somebody has to see everything."""
        self.session: Session | None = None

    async def run(self, client: Client) -> None:
        """Watch until the server is gone; now and then leave and come back."""
        dice = self.recorder.random
        with contextlib.suppress(Unreachable):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(dice.uniform(0.2, 3)):
                        await self.once(client)
                if not self.steady and dice.random() < 0.1:
                    self.rev = 0  # as a client that begins anew

    async def once(self, client: Client) -> None:
        """Open one watch and note what it tells until it ends."""
        session = Session(self.name, self.scope, self.rev, not self.rev, self.label)
        query = "?watch=1&allowWatchBookmarks=true"
        if self.rev:
            query += f"&resourceVersion={self.rev}&timeoutSeconds={self.recorder.random.randint(1, 3)}"
        else:
            query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        if self.label:
            query += f"&labelSelector=l%3D{self.label}"
        self.recorder.history.sessions.append(session)
        self.session = session
        async for line in client.transport.stream(self.scope + query, {}):
            self.note(session, json.loads(line))

    def note(self, session: Session, event: dict[str, Any]) -> None:
        """Keep one line of a watch."""
        obj, type_ = event["object"], event["type"]
        if type_ == "ERROR":
            assert obj["code"] == 410, event
            self.rev = 0
            return
        state = state_of(obj)
        if "k8s.io/initial-events-end" in (obj["metadata"].get("annotations") or {}):
            type_ = "SYNCED"
        session.told.append(Told(self.recorder.now(), type_, state))
        if self.rev or type_ == "SYNCED":
            self.rev = state.rev


async def record(process: Process, seed: int, rounds: int, writers: int, longest_s: float = 1.5) -> History:
    """Run the hub through many rounds of work, each but the last ended by a kill."""
    recorder = Recorder(History(0), Random(seed))
    watching: list[Watching] = []
    for round_ in range(rounds):
        client = await process.start()
        if not round_:
            await prepare(client, recorder)
            base = recorder.history.base
            watching += [
                Watching(f"all-{number}", recorder, scope, base) for number, scope in enumerate(SCOPES)
            ]
            watching += [
                Watching(f"x-{number}", recorder, scope, base, "x") for number, scope in enumerate(SCOPES)
            ]
        if round_ == rounds // 2:
            watching += [
                Watching(f"late-{number}", recorder, scope, 0) for number, scope in enumerate(SCOPES)
            ]
        crowd = [Writer(f"{round_}-{number}", recorder, client) for number in range(writers)]
        tasks = [asyncio.create_task(each.run()) for each in crowd]
        watches = [asyncio.create_task(each.run(client)) for each in watching]
        await asyncio.sleep(recorder.random.uniform(0.1, longest_s))
        if round_ == rounds - 1:
            await stop(tasks)
            await finish(client, recorder, watching)
        else:
            await process.kill(recorder.random.choice([signal.SIGKILL] * 5 + [signal.SIGTERM]))
        await stop(tasks + watches)
        await client.transport.close()
    return recorder.history


async def prepare(client: Client, recorder: Recorder) -> None:
    """Make the collections, and note what is there before the history begins."""
    await client.raw("POST", CRD_PATH, REGISTERS)
    for cluster in ("", "/clusters/member1"):
        await client.raw("POST", f"{cluster}/api/v1/namespaces", {"metadata": {"name": SPACE}})
    for scope in (MAPS, MEMBER):  # the hub's own map comes a moment later
        while True:
            with contextlib.suppress(ApiError):
                await client.raw("GET", f"{scope}/kube-root-ca.crt")
                break
    writer = Writer("first", recorder, client)
    for scope in SCOPES:
        await writer.list_all(scope, "list")
    recorder.history.base = min(op.rev for op in recorder.history.ops)


async def finish(client: Client, recorder: Recorder, watching: list[Watching]) -> None:
    """Look once more, and give every watch the time to tell everything up to there."""
    writer = Writer("last", recorder, client)
    for scope in SCOPES:
        op = recorder.begin(writer.name, "create", scope, "end")
        op.token = f"end-{recorder.count}"
        op.data, op.labels = {"token": op.token}, {"l": "x"}  # every watch has to tell of it
        writer.answered(op, await writer.send(op))
        await writer.list_all(scope, "list")
        assert op.seen is not None
        for each in (each for each in watching if each.scope == scope):
            for _ in range(PATIENCE):
                if each.rev >= op.seen.rev:
                    break
                await asyncio.sleep(0.01)
            if each.session is not None:
                each.session.until = op.seen.rev


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    """End tasks; what they were waiting for stays without an answer."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
