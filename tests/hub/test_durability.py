"""What was acknowledged is there after kill -9, and everything goes on from where it was."""

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from echelon.client.errors import ApiError, NotFound, Unreachable
from echelon.client.http import connect
from echelon.client.kubeconfig import load

CM = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
WRITERS = 8
READY_S = 20


class Process:
    """A hub in a process of its own, on one data folder."""

    def __init__(self, folder):
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.process = None

    async def start(self):
        command = (sys.executable, "-m", "echelon.hub", "--data", str(self.folder / "data"))
        self.process = await asyncio.create_subprocess_exec(
            *command, "--kubeconfig", str(self.kubeconfig), stdout=asyncio.subprocess.PIPE
        )
        line = await asyncio.wait_for(self.process.stdout.readline(), READY_S)
        assert line.startswith(b"ready: "), line
        return connect(load(str(self.kubeconfig)))

    async def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@pytest.fixture
async def process(tmp_path):
    made = Process(tmp_path)
    yield made
    if made.process is not None and made.process.returncode is None:
        await made.kill()


async def write_until_killed(client, number, acknowledged):
    """Create, change and delete; note what the server said yes to."""
    step = 0
    try:
        while True:
            step += 1
            name = f"w{number}-{step}"
            await client.raw("POST", CM, {"metadata": {"name": name}, "data": {"step": "0"}})
            acknowledged[name] = "0"
            if step % 3 == 0:
                acknowledged.pop(name)  # from here on it may be either
                await client.raw("DELETE", f"{CM}/{name}")
                acknowledged[name] = None
            else:
                acknowledged.pop(name)
                await client.raw("PATCH", f"{CM}/{name}", {"data": {"step": "1"}}, MERGE)
                acknowledged[name] = "1"
    except (Unreachable, ApiError, OSError):
        return


async def test_nothing_acknowledged_is_lost_by_kill_9(process):
    acknowledged = {}
    highest = 0
    for round_ in range(3):
        client = await process.start()
        state = json.loads(await client.raw("GET", CM))
        found = {item["metadata"]["name"]: (item.get("data") or {}).get("step") for item in state["items"]}
        assert {name: found.get(name) for name in acknowledged} == acknowledged
        assert int(state["metadata"]["resourceVersion"]) >= highest
        writers = [
            asyncio.create_task(write_until_killed(client, f"{round_}-{number}", acknowledged))
            for number in range(WRITERS)
        ]
        await asyncio.sleep(0.3 + 0.2 * round_)
        if round_ < 2:
            await process.kill()
        else:
            for writer in writers:
                writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        if round_ == 2:
            state = json.loads(await client.raw("GET", CM))
            highest = int(state["metadata"]["resourceVersion"])
        await client.transport.close()
    assert len(acknowledged) > 30
    assert highest > len(acknowledged)


class History:
    """What a client that watches through all restarts is told, checked as it comes."""

    def __init__(self):
        self.revision = 0
        self.objects = {}
        self.problems = []

    def told(self, event):
        meta = event["object"]["metadata"]
        revision, name, kind = int(meta["resourceVersion"]), meta.get("name"), event["type"]
        if revision <= self.revision and kind != "BOOKMARK":
            self.problems.append(f"{kind} {name} at {revision} after {self.revision}")
        self.revision = max(revision, self.revision)
        if kind == "BOOKMARK":
            return
        known = self.objects.get(name)
        if (kind == "ADDED") == (known is not None):
            self.problems.append(f"{kind} {name} at {revision}, known: {known}")
        if kind == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = (event["object"].get("data") or {}).get("step")

    async def follow(self, client):
        """Watch from where we were until the server goes."""
        path = f"{CM}?watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}"
        with contextlib.suppress(ApiError, Unreachable, OSError, ValueError):
            async for line in client.transport.stream(path, {}):
                self.told(json.loads(line))


async def test_a_watch_through_kills_tells_every_write_once_and_in_order(process):
    history, acknowledged = History(), {}
    for round_ in range(3):
        client = await process.start()
        if not round_:
            state = json.loads(await client.raw("GET", CM))
            history.revision = int(state["metadata"]["resourceVersion"])
            history.objects = {item["metadata"]["name"]: None for item in state["items"]}
        watching = asyncio.create_task(history.follow(client))
        writers = [
            asyncio.create_task(write_until_killed(client, f"{round_}-{number}", acknowledged))
            for number in range(WRITERS)
        ]
        await asyncio.sleep(0.5)
        if round_ < 2:
            await process.kill()
        else:
            for writer in writers:
                writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        if round_ == 2:
            state = json.loads(await client.raw("GET", CM))
            last = int(state["metadata"]["resourceVersion"])
            for _ in range(100):
                if history.revision >= last:
                    break
                await asyncio.sleep(0.05)
            watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.transport.close()
    assert history.problems == []
    steps = {item["metadata"]["name"]: (item.get("data") or {}).get("step") for item in state["items"]}
    steps["kube-root-ca.crt"] = history.objects["kube-root-ca.crt"]
    assert history.objects == steps
    assert len(history.objects) > 10


async def test_a_watch_goes_on_over_a_restart(process):
    client = await process.start()
    start = json.loads(await client.raw("GET", CM))["metadata"]["resourceVersion"]
    await client.raw("POST", CM, {"metadata": {"name": "before"}})
    await process.kill()
    await client.transport.close()
    client = await process.start()
    await client.raw("POST", CM, {"metadata": {"name": "after"}})
    seen = []
    async for line in client.transport.stream(f"{CM}?watch=1&resourceVersion={start}&timeoutSeconds=20", {}):
        event = json.loads(line)
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if len(seen) == 2:
            break
    assert seen == [("ADDED", "before"), ("ADDED", "after")]
    await client.transport.close()


async def test_what_was_half_done_is_finished_after_a_restart(process):
    client = await process.start()
    await client.raw("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    for number in range(200):
        await client.raw("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": f"c{number}"}})
    await client.raw("DELETE", "/api/v1/namespaces/team")
    await process.kill()
    await client.transport.close()
    client = await process.start()
    for _ in range(200):
        try:
            await client.raw("GET", "/api/v1/namespaces/team")
        except NotFound:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the namespace never went")
    await client.transport.close()


async def test_a_second_process_on_the_same_folder_is_refused(process):
    client = await process.start()
    command = (sys.executable, "-m", "echelon.hub", "--data", str(process.folder / "data"))
    second = await asyncio.create_subprocess_exec(
        *command, "--kubeconfig", str(process.folder / "other"), stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(second.communicate(), READY_S)
    assert second.returncode != 0
    assert b"is served by another process" in said
    await client.raw("GET", CM)
    await client.transport.close()
