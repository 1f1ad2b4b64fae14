"""What the API server costs: gets, lists and durable, validated patches, with TLS and RBAC on.

Run `./dev bench hub`, and `./dev bench hub --real` beside the real kube-apiserver and etcd of the lab (./dev real up).
The caller is a service account with a token and a role, so nothing is skipped. CPU seconds of the server process per
request are the stable figure; rates and latencies depend on how busy the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from echelon.api.crds import crds
from echelon.api.own import CLUSTER_PLACEMENTS
from tools.bench import _scale

SPACE, ACCOUNT = "bench", "caller"
OBJECTS = 500
TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parents[2]
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
READY_LIMIT_S = 60.0
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass
class Figures:
    """What one line of the bench measured."""

    name: str
    requests: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    latencies: list[float] = field(default_factory=list)
    delivered: int = 0

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the server per request."""
        return self.cpu_s / self.requests * 1e6

    def quantile_ms(self, part: float) -> float:
        """A latency in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000

    def row(self) -> dict[str, Any]:
        """Everything as plain numbers."""
        return {
            "requests": self.requests,
            "cpu_us": round(self.cpu_us, 1),
            "per_core_s": round(1e6 / self.cpu_us) if self.cpu_s else 0,
            "per_s": round(self.requests / self.took_s),
            "p50_ms": round(self.quantile_ms(0.5), 2),
            "p99_ms": round(self.quantile_ms(0.99), 2),
            "watch_events": self.delivered,
            "us_per_event": round(self.cpu_s / self.delivered * 1e6, 1) if self.delivered else 0,
        }


class Server:
    """A server under test: how to reach it, and the processes whose CPU counts."""

    def __init__(self, name: str, kubeconfig: Path, pids: list[int]) -> None:
        self.name, self.pids = name, pids
        config = yaml.safe_load(kubeconfig.read_text())
        entry = next(each for each in config["contexts"] if each["name"] == "hub")["context"]
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == entry["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == entry["user"])
        self.url = cluster["server"].rstrip("/")
        self.tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
        self.admin_tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
        self.admin_headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        if "client-certificate-data" in user or "client-certificate" in user:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
                pair.write(_text(user, "client-certificate") + "\n" + _text(user, "client-key"))
                pair.flush()
                self.admin_tls.load_cert_chain(pair.name)

    def cpu_s(self) -> float:
        """CPU seconds the server's processes have used."""
        total = 0
        for pid in self.pids:
            parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(parts[11]) + int(parts[12])
        return total / TICKS

    def rss_mib(self) -> int:
        """Memory of the server's processes."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def _text(holder: dict[str, str], name: str) -> str:
    if f"{name}-data" in holder:
        return base64.b64decode(holder[f"{name}-data"]).decode()
    return Path(holder[name]).read_text()


@contextmanager
def embedded(folder: Path | None = None, members: int = 0) -> Iterator[tuple[Server, float]]:
    """Start the embedded hub, durable, in a folder of its own if none is given; say how long it took to be ready."""
    with tempfile.TemporaryDirectory(prefix="bench-hub-") as scratch:
        kubeconfig = Path(scratch) / "kubeconfig"
        argv = [sys.executable, "-m", "echelon.hub", "--data", str(folder or scratch)]
        argv += ["--kubeconfig", str(kubeconfig), "--members", str(members)]
        began = time.perf_counter()
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("ready"):
                raise RuntimeError("the hub did not start")
            took = time.perf_counter() - began
            yield Server("echelon", kubeconfig, [process.pid]), took
        finally:
            process.terminate()
            process.wait(READY_LIMIT_S)


def real() -> Server:
    """The lab's real API server and its etcd."""
    lab = [sys.executable, str(ROOT / "tools/real/lab.py")]
    status = subprocess.run([*lab, "status", *_lab_dir()], capture_output=True, text=True, check=True).stdout
    pids = [int(line.split()[2]) for line in status.splitlines() if re.match(r"(etcd|hub/apiserver)\s", line)]
    where = subprocess.run(
        [*lab, "kubeconfig", *_lab_dir()], capture_output=True, text=True, check=True
    ).stdout
    return Server("kube-apiserver + etcd", Path(where.strip()), pids)


def _lab_dir() -> list[str]:
    return ["--dir", os.environ["ECHELON_LAB"]] if os.environ.get("ECHELON_LAB") else []


class Caller:
    """One session against a server."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server, self.session = server, session

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] = JSON) -> bytes:
        """Send a request; anything but success ends the bench."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.request(method, self.server.url + path, data=data, headers=headers) as answer:
            read = await answer.read()
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {read[:300]!r}")
            return read


async def prepare(server: Server) -> str:
    """Create definitions, objects, an account and its role; return the account's token."""
    connector = aiohttp.TCPConnector(ssl=server.admin_tls, limit=16)
    async with aiohttp.ClientSession(connector=connector, headers=server.admin_headers) as session:
        admin = Caller(server, session)
        for definition in crds([CLUSTER_PLACEMENTS]):
            await quietly(
                admin.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            )
        await quietly(admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}}))
        await eventually(lambda: admin.ask("DELETE", MAPS))
        await eventually(lambda: admin.ask("DELETE", PLACEMENTS))
        for number in range(OBJECTS):
            await eventually(lambda number=number: admin.ask("POST", MAPS, config_map(number)))
        for number in range(16):
            await eventually(lambda number=number: admin.ask("POST", PLACEMENTS, placement(number)))
        accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        await quietly(admin.ask("POST", accounts, {"metadata": {"name": ACCOUNT}}))
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rules = [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": ["placement.kubernetes-fleet.io"],
                "resources": ["clusterresourceplacements"],
                "verbs": ["get", "list", "watch", "patch"],
            },
        ]
        await quietly(
            admin.ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": "bench"}, "rules": rules})
        )
        binding = {
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SPACE}],
        }
        await quietly(admin.ask("POST", f"{rbac}/clusterrolebindings", binding))
        token = await admin.ask("POST", f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 3600}})
        return str(json.loads(token)["status"]["token"])


async def quietly(asked: Awaitable[bytes]) -> None:
    """Do what may have been done by an earlier run."""
    try:
        await asked
    except RuntimeError as error:
        if " 409 " not in str(error):
            raise


async def eventually(ask: Callable[[], Awaitable[bytes]]) -> None:
    """Ask again while a new definition or namespace is not served yet."""
    until = time.monotonic() + READY_LIMIT_S
    while True:
        try:
            await quietly(ask())
        except RuntimeError as error:
            if " 404 " not in str(error) or time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def config_map(number: int) -> dict[str, Any]:
    """An object of 2 KB."""
    return {
        "metadata": {"name": f"map-{number:04}", "labels": {"n": str(number % 10)}},
        "data": {"text": "x" * 1700},
    }


def placement(number: int) -> dict[str, Any]:
    """An object of about 2 KB whose schema has rules in CEL."""
    selectors = [
        {"group": "apps", "version": "v1", "kind": "Deployment", "name": f"deployment-{each}"}
        for each in range(12)
    ]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": f"placement-{number}"},
        "spec": {
            "resourceSelectors": selectors,
            "policy": {
                "placementType": "PickN",
                "numberOfClusters": 3,
                "tolerations": [{"key": "a", "operator": "Exists"}],
            },
            "revisionHistoryLimit": 10,
        },
    }


Step = Callable[[Caller, int], Awaitable[Any]]


async def get_one(caller: Caller, number: int) -> None:
    """GET an object of 2 KB."""
    await caller.ask("GET", f"{MAPS}/map-{number % OBJECTS:04}")


async def list_all(caller: Caller, _number: int) -> None:
    """LIST all objects from the server's memory."""
    await caller.ask("GET", f"{MAPS}?resourceVersion=0")


async def patch_one(caller: Caller, number: int) -> None:
    """PATCH an object that is validated by schema and rules."""
    change = b'{"spec":{"revisionHistoryLimit":%d}}' % (number // 16 % 900 + 1)
    await caller.ask("PATCH", f"{PLACEMENTS}/placement-{number % 16}", change, MERGE)


async def at_a_rate(caller: Caller, name: str, step: Step, rate: float, seconds: float) -> Figures:
    """Have so many requests fall due each second, over as many connections as at full load; waiting for one counts."""
    found = Figures(name)
    free = asyncio.Semaphore(16)
    cpu, began = caller.server.cpu_s(), time.perf_counter()

    async def one(number: int, due: float) -> None:
        async with free:
            await step(caller, number)
        found.latencies.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(number, due))
    found.took_s = time.perf_counter() - began
    found.cpu_s = caller.server.cpu_s() - cpu
    found.requests = len(found.latencies)
    return found


async def watcher(caller: Caller, counted: list[int], ready: asyncio.Event) -> None:
    """Read a watch and count its events."""
    url = f"{caller.server.url}{PLACEMENTS}?watch=1&resourceVersion=0"
    async with caller.session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as stream:
        ready.set()
        async for chunk in stream.content.iter_any():
            counted[0] += chunk.count(b"\n")


async def load(caller: Caller, name: str, step: Step, clients: int, seconds: float) -> Figures:
    """Keep some clients busy for a while."""
    found = Figures(name)
    numbers = iter(range(10**9))
    for _ in range(clients):
        await step(caller, next(numbers))
    cpu, began = caller.server.cpu_s(), time.perf_counter()

    async def client() -> None:
        while time.perf_counter() - began < seconds:
            at = time.perf_counter()
            await step(caller, next(numbers))
            found.latencies.append(time.perf_counter() - at)

    await asyncio.gather(*(client() for _ in range(clients)))
    found.took_s = time.perf_counter() - began
    found.cpu_s = caller.server.cpu_s() - cpu
    found.requests = len(found.latencies)
    return found


async def measure(server: Server, seconds: float, watchers: int, many: int) -> dict[str, Any]:
    """Measure every line against one server."""
    token = await prepare(server)
    lines: list[Figures] = []
    connector = aiohttp.TCPConnector(ssl=server.tls, limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        caller = Caller(server, session)
        lines.append(await load(caller, "get 2 KB", get_one, 16, seconds))
        lines.append(await load(caller, f"list {OBJECTS} x 2 KB", list_all, 4, seconds))
        lines.append(await load(caller, "patch, 0 watchers", patch_one, 16, seconds))
        counted: list[int] = [0]
        async with watching(caller, watchers, counted):
            lines.append(await load(caller, f"patch, {watchers} watchers", patch_one, 16, seconds))
            await asyncio.sleep(0.5)
            lines[-1].delivered = counted[0]
            half = lines[-1].requests / lines[-1].took_s / 2
            lines.append(await at_a_rate(caller, "the same at half that rate", patch_one, half, seconds))
            lines.append(
                await load(caller, f"patch by one client, {watchers} watchers", patch_one, 1, seconds / 2)
            )
        rss = server.rss_mib()
        async with watching(caller, many, counted):
            kib = (server.rss_mib() - rss) * 1024 / max(many, 1)
            lines.append(await load(caller, f"patch, {many:,} watchers", patch_one, 4, seconds))
            await asyncio.sleep(2)
            lines[-1].delivered = counted[0]
    rows = {line.name: line.row() for line in lines}
    return {"lines": rows, "rss_mib": server.rss_mib(), "kib_per_watcher": round(kib, 1)}


@asynccontextmanager
async def watching(caller: Caller, count: int, counted: list[int]) -> AsyncIterator[None]:
    """Have so many watches open, and count what they are told meanwhile."""
    tasks = []
    for _ in range(count):
        ready = asyncio.Event()
        tasks.append(asyncio.create_task(watcher(caller, counted, ready)))
        await ready.wait()
    await asyncio.sleep(0.5)
    counted[0] = 0
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def shown(results: dict[str, dict[str, Any]]) -> str:
    """Print results as a table, servers side by side."""
    out = []
    for name, result in results.items():
        ready = f", ready in {result['ready_s']} s" if "ready_s" in result else ""
        kib = result["kib_per_watcher"]
        out.append(f"{name}: {result['rss_mib']} MiB{ready}, {kib} KiB for each of many watchers")
        out += [
            f"  {line:36} {row['cpu_us']:>9} us CPU/request  {row['per_core_s']:>6} per core-s  {row['per_s']:>6}/s  "
            f"p50 {row['p50_ms']:>7} ms  p99 {row['p99_ms']:>7} ms"
            + (
                f"  {row['watch_events']} events, {row['us_per_event']} us CPU/event"
                if row["watch_events"]
                else ""
            )
            for line, row in result["lines"].items()
        ]
        out += [f"  {line:50} {row}" for line, row in result.get("starts", {}).items()]
    names = list(results)
    if len(names) == 2:
        out.append("work per core, embedded : real")
        here, there = (results[name]["lines"] for name in names)
        out += [f"  {line:36} {there[line]['cpu_us'] / here[line]['cpu_us']:.1f} : 1" for line in here]
    return "\n".join(out)


def main(arguments: list[str] | None = None) -> int:
    """Measure the embedded hub and, if asked, the real API server beside it."""
    parser = argparse.ArgumentParser(prog="./dev bench hub", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each line")
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--many", type=int, default=1_000, help="watchers of the line with many")
    parser.add_argument("--scale", action="store_true", help="also start with a million objects (minutes)")
    parser.add_argument(
        "--real", action="store_true", help="also the lab's kube-apiserver; --dir by ECHELON_LAB"
    )
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    results: dict[str, dict[str, Any]] = {}
    with embedded() as (server, ready_s):
        results[server.name] = asyncio.run(measure(server, chosen.seconds, chosen.watchers, chosen.many))
        results[server.name]["ready_s"] = round(ready_s, 2)
    results[server.name]["starts"] = (
        dict(_scale.starts(embedded, million=chosen.scale)) if chosen.many else {}
    )
    if chosen.real:
        there = real()
        results[there.name] = asyncio.run(measure(there, chosen.seconds, chosen.watchers, chosen.many))
    print(json.dumps(results, indent=2) if chosen.json else shown(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
