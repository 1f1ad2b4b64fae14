"""How the embedded hub starts and rests with a lot in it: 100,000 objects, a million over 10,000 members, nothing.

The log is filled by the hub's own store, without HTTP; then the hub is started on it as a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from echelon.hub import local
from echelon.hub.entries import entry_of

BATCH = 10_000
IDLE_S = 10.0
Started = contextlib.AbstractContextManager[tuple[Any, float]]
"""What starts a hub on a folder: the server, and how long it took."""


async def fill(folder: Path, objects: int, members: int, chars: int) -> None:
    """Write objects of one kind, evenly over the members, or all into the hub's own cluster."""
    hub = local.start(folder, members=members)
    store = hub.store
    clusters = [f"member{number}" for number in range(1, members + 1)] or ["hub"]
    kind = hub.clusters["hub"].catalog.find("", "v1", "configmaps")
    assert kind is not None
    for number in range(objects):
        rev = store.next_revision()
        name, cluster = f"map-{number:07}", clusters[number % len(clusters)]
        meta = {
            "name": name,
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(rev),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"n": str(number % 10)},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": "x" * chars}}
        key = f"default/{name}"
        store.write(store.table(cluster, "/configmaps"), entry_of(key, rev, kind.write(body), meta), None)
        if number % BATCH == BATCH - 1:
            await store.durable(rev)
    await store.settled()
    await hub.close()


def line(server: Any, took_s: float) -> dict[str, Any]:
    """What a start has cost."""
    return {"ready_s": round(took_s, 2), "cpu_s": round(server.cpu_s(), 2), "rss_mib": server.rss_mib()}


def starts(start: Callable[..., Started], *, million: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Start the hub with nothing, with 100,000 objects of 2 KB, with 10,000 members, and with a million objects."""
    with start() as (server, took):
        empty = line(server, took)
    yield "start, empty", empty
    with start(members=10_000) as (server, took):
        found = line(server, took)
        before = server.cpu_s()
        time.sleep(IDLE_S)
        found["idle_cpu_us_per_member_s"] = round((server.cpu_s() - before) / IDLE_S / 10_000 * 1e6, 2)
        found["kib_per_member"] = round((found["rss_mib"] - empty["rss_mib"]) * 1024 / 10_000, 1)
    yield "start, 10,000 members", found
    filled: list[tuple[str, int, int, int]] = [("start, 100,000 x 2 KB", 100_000, 0, 1_700)]
    if million:
        filled.append(("start, 1,000,000 x 0.5 KB over 10,000 members", 1_000_000, 10_000, 250))
    for name, objects, members, chars in filled:
        with tempfile.TemporaryDirectory(prefix="bench-hub-") as folder:
            asyncio.run(fill(Path(folder), objects, members, chars))
            with start(folder=Path(folder), members=members) as (server, took):
                found = line(server, took)
                before = server.cpu_s()
                time.sleep(IDLE_S)
                found["idle_cpu_ms_per_s"] = round((server.cpu_s() - before) / IDLE_S * 1e3, 2)
        yield name, found
