"""Runs the oracle: real Kubernetes control planes on loopback, without containers.

    python3 tools/real/lab.py up [--members N] [--nodes K] [--dir DIR]
    python3 tools/real/lab.py down | status | kubeconfig | build
    python3 tools/real/lab.py kill|start|pause|resume COMPONENT
    python3 tools/real/lab.py agents up|down|status    the product's own processes, see agents.py

``up`` builds what is missing, starts one hub and N members (see plan.py), waits until each of them
is usable, and prints the path of one kubeconfig with the contexts ``hub``, ``member1``, ... It can be
repeated: what runs is left alone, what died is started again, and more members can be added.
``down`` ends exactly the processes that this lab started and removes its directory.

Only the standard library is used, so that it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import build
import plan
from agents import Agents, AgentsError
from procs import Processes
from rest import Rest

KEEPER = "keeper"
KEEPER_INTERVAL_S = 5.0
POLL_S = 0.05


class LabError(Exception):
    """The lab cannot do what was asked; the message is for the person who asked."""


@dataclass(frozen=True)
class State:
    """What a lab remembers between commands."""

    members: int
    ports: dict[str, int]
    release: str


def default_dir() -> Path:
    """Returns the directory of the lab that is meant when none is named: $ECHELON_LAB, else one in the cache."""
    return Path(os.environ.get("ECHELON_LAB") or build.find_cache() / "lab")


class Lab:
    """One lab in one directory."""

    def __init__(self, directory: Path) -> None:
        """Takes the directory, which need not exist yet."""
        self.dir = directory.resolve()
        self.processes = Processes(self.dir)
        self._state_file = self.dir / "state.json"

    # State

    def load(self) -> State:
        """Returns what is remembered; raises LabError when there is no lab."""
        try:
            kept = json.loads(self._state_file.read_text())
        except OSError:
            raise LabError(f"no lab in {self.dir}; start one with: lab.py up") from None
        return State(kept["members"], kept["ports"], kept["release"])

    def _prepare(self, members: int) -> State:
        """Makes or extends the remembered state, the certificates and the kubeconfigs."""
        release = str(build.find_release())
        self.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        ports: dict[str, int] = {}
        if self._state_file.exists():
            old = self.load()
            members, release, ports = max(members, old.members), old.release, dict(old.ports)
        missing = [name for name in plan.port_names(members) if name not in ports]
        ports.update(zip(missing, find_free_ports(len(missing)), strict=True))
        state = State(members, ports, release)
        text = json.dumps({"members": members, "ports": ports, "release": release}, indent=1)
        self._state_file.write_text(text)
        self._make_certificates(state)
        self._write_kubeconfigs(state)
        return state

    def layout(self, state: State) -> plan.Layout:
        """Returns where the files and ports of this lab are."""
        bare = plan.Layout(self.dir, Path(state.release) / "bin", state.ports)
        return replace(bare, audit=bare.audit_policy.exists())

    def _make_certificates(self, state: State) -> None:
        """Makes the certificates that are missing."""
        asked = {
            "dir": str(self.dir / "pki"),
            "hosts": plan.HOSTS,
            "certs": plan.certificates(),
        }
        maker = Path(state.release) / "bin" / build.certs_name()
        done = subprocess.run(
            [str(maker)], input=json.dumps(asked), text=True, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise LabError(f"cannot make certificates: {done.stderr.strip()}")

    # Kubeconfigs

    @property
    def kubeconfig(self) -> Path:
        """Returns the path of the kubeconfig for people and tests."""
        return self.dir / "kubeconfig.yaml"

    def _write_kubeconfigs(self, state: State) -> None:
        """Writes one kubeconfig for people, and one per component that talks to a plane."""
        layout = self.layout(state)
        planes = plan.planes_of(state.members)
        urls = {plane: layout.url(f"{plane}/apiserver") for plane in planes}
        write_private(self.kubeconfig, render_kubeconfig(layout, urls, "admin"))
        for plane in planes:
            for agent in plan.agents_of(plane):
                path = layout.kubeconfig(plane, agent)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_private(path, render_kubeconfig(layout, {plane: urls[plane]}, agent))

    def client(self, plane: str, state: State | None = None) -> Rest:
        """Returns an administrator's client of one plane."""
        layout = self.layout(state or self.load())
        pki = self.dir / "pki"
        name = f"{plane}/apiserver"
        if name not in layout.ports:
            raise LabError(f"no plane {plane!r}")
        return Rest(layout.url(name), pki / "ca.crt", pki / "admin.crt", pki / "admin.key")

    # Life

    def up(self, members: int, nodes: int, *, audit: bool = False) -> dict[str, float]:
        """Starts what does not run and waits until it is usable; returns seconds by step."""
        if not build.is_built():
            build.build()
        began = time.monotonic()
        state = self._prepare(members)
        if audit:
            self.layout(state).audit_policy.write_text(plan.AUDIT_POLICY)
        components = {c.name: c for c in plan.plan_lab(self.layout(state), state.members)}
        took = {"prepared": time.monotonic() - began}
        self._start_keeper()
        self._start_and_wait(components["etcd"])
        took["etcd"] = time.monotonic() - began
        planes = plan.planes_of(state.members)
        with ThreadPoolExecutor(len(planes)) as pool:
            ready = pool.map(lambda plane: self._up_plane(plane, components, nodes, state), planes)
            took.update({plane: at - began for plane, at in zip(planes, ready, strict=True)})
        took["all"] = time.monotonic() - began
        return took

    def _up_plane(self, plane: str, components: dict[str, plan.Component], nodes: int, state: State) -> float:
        """Starts one plane; returns the clock's reading when it was usable."""
        self._start_and_wait(components[f"{plane}/apiserver"])
        agents = [components[f"{plane}/{agent}"] for agent in plan.agents_of(plane)]
        for agent in agents:
            self.processes.start(agent.name, agent.argv)
        if plan.is_member(plane):
            self._wait(f"{plane}: nodes", lambda: self._make_nodes(plane, nodes, state))
        for agent in agents:
            self._wait_healthy(agent)
        client = self.client(plane, state)
        self._wait(f"{plane}: default service account", lambda: has_default_account(client))
        if plan.is_member(plane):
            self._wait(f"{plane}: ready nodes", lambda: count_ready_nodes(client) >= nodes)
        return time.monotonic()

    def _make_nodes(self, plane: str, count: int, state: State) -> bool:
        """Creates the simulated nodes that are missing; False while the server is not ready for that."""
        client = self.client(plane, state)
        for number in range(1, count + 1):
            answer = client.send("POST", "/api/v1/nodes", simulated_node(f"node{number}"))
            if answer.code >= 500:
                return False
            if answer.code != 409:
                answer.ok()
        return True

    def _start_and_wait(self, component: plan.Component) -> None:
        """Starts one component and waits until it is healthy."""
        self.processes.start(component.name, component.argv)
        self._wait_healthy(component)

    def _wait_healthy(self, component: plan.Component) -> None:
        """Waits until a component answers; says why when it ended instead."""
        pki = self.dir / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))

        def is_healthy() -> bool:
            if self.processes.find(component.name) is None:
                tail = self.processes.tail(component.name)
                raise LabError(f"{component.name} ended; the end of its log:\n{tail}")
            return answers(component.health.url, context)

        self._wait(component.name, is_healthy, component.health.timeout_s)

    def _wait(self, what: str, is_done: Any, limit_s: float = 120.0) -> None:
        """Waits until a condition holds; raises LabError after the limit."""
        end = time.monotonic() + limit_s
        while not is_done():
            if time.monotonic() > end:
                raise LabError(f"{what}: not ready after {limit_s:.0f} s; see {self.dir / 'logs'}")
            time.sleep(POLL_S)

    def _start_keeper(self) -> None:
        """Starts the process that keeps the logs bounded."""
        argv = [sys.executable, str(Path(__file__).resolve()), "keep-logs", "--dir", str(self.dir)]
        self.processes.start(KEEPER, argv)

    def keep_logs(self) -> None:
        """Trims the logs until the lab is gone; runs as the keeper process."""
        while self._state_file.exists():
            self.processes.trim_logs()
            time.sleep(KEEPER_INTERVAL_S)

    def down(self, keep_data: bool) -> None:
        """Ends the lab's processes, those that depend on others first; removes its directory."""
        state = self.load()
        Agents(self).down()
        names = [c.name for c in plan.plan_lab(self.layout(state), state.members)]
        agents = [name for name in names if "/" in name and not name.endswith("/apiserver")]
        servers = [name for name in names if name.endswith("/apiserver")]
        for group in (agents, servers, ["etcd", KEEPER]):
            self.processes.stop(group)
        if not keep_data:
            shutil.rmtree(self.dir)

    def component(self, name: str) -> plan.Component:
        """Returns one component; raises LabError with the names that exist."""
        state = self.load()
        components = {c.name: c for c in plan.plan_lab(self.layout(state), state.members)}
        if name not in components:
            raise LabError(f"no component {name!r}; there are: {', '.join(components)}")
        return components[name]

    def start(self, name: str) -> float:
        """Starts one component and waits until it is healthy; returns the seconds it took."""
        began = time.monotonic()
        self._start_and_wait(self.component(name))
        return time.monotonic() - began

    def status(self) -> list[dict[str, Any]]:
        """Returns one row per component: name, pid, port, whether it is healthy, memory."""
        state = self.load()
        pki = self.dir / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        rows = []
        for component in plan.plan_lab(self.layout(state), state.members):
            pid = self.processes.find(component.name)
            healthy = pid is not None and answers(component.health.url, context)
            rows.append(
                {
                    "name": component.name,
                    "pid": pid,
                    "port": state.ports[component.name],
                    "healthy": healthy,
                    "rss_mib": read_rss_mib(pid) if pid else None,
                }
            )
        return rows


def read_rss_mib(pid: int) -> int | None:
    """Returns a process's resident memory where the kernel shows it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(found[0]) // 1024 if found else None


def find_free_ports(count: int) -> list[int]:
    """Returns ports that nobody listens on; all are held open together so that none repeats."""
    held = []
    try:
        for _ in range(count):
            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            held.append(sock)
        return [sock.getsockname()[1] for sock in held]
    finally:
        for sock in held:
            sock.close()


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text)


def _embed(path: str) -> str:
    """Returns a file's content as kubeconfigs embed it."""
    return base64.b64encode(Path(path).read_bytes()).decode()


def render_kubeconfig(layout: plan.Layout, urls: dict[str, str], user: str) -> str:
    """Renders a kubeconfig with one context per plane, all as one user."""
    lines = ["apiVersion: v1", "kind: Config", f"current-context: {next(iter(urls))}", "clusters:"]
    authority = _embed(layout.cert("ca"))
    for plane, url in urls.items():
        lines += [f"- name: {plane}", "  cluster:", f"    server: {url}"]
        lines += [f"    certificate-authority-data: {authority}"]
    lines.append("contexts:")
    for plane in urls:
        lines += [f"- name: {plane}", f"  context: {{cluster: {plane}, user: {user}}}"]
    lines += ["users:", f"- name: {user}", "  user:"]
    lines += [f"    client-certificate-data: {_embed(layout.cert(user))}"]
    lines += [f"    client-key-data: {_embed(layout.key(user))}", ""]
    return "\n".join(lines)


def simulated_node(name: str) -> dict[str, Any]:
    """Returns a node that kwok animates."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
    }


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Tells whether an address answers 200."""
    try:
        with urllib.request.urlopen(url, context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def has_default_account(client: Rest) -> bool:
    """Tells whether pods can be created yet: they need their namespace's service account."""
    return client.get("/api/v1/namespaces/default/serviceaccounts/default").code == 200


def count_ready_nodes(client: Rest) -> int:
    """Counts the nodes that are ready and not tainted by the controllers any more."""
    count = 0
    for node in client.get("/api/v1/nodes").ok().json()["items"]:
        conditions = node.get("status", {}).get("conditions", [])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        count += ready and not node["spec"].get("taints")
    return count


def make_parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    parser = argparse.ArgumentParser(description="Real Kubernetes control planes on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--dir", type=Path, default=default_dir(), help="the lab's directory")
    up = commands.add_parser("up", parents=[where], help="start a hub and members")
    up.add_argument("--members", type=int, default=0)
    up.add_argument("--nodes", type=int, default=3, help="simulated nodes per member")
    down = commands.add_parser("down", parents=[where], help="end the lab")
    down.add_argument("--keep-data", action="store_true", help="up continues with the same data")
    commands.add_parser("kubeconfig", parents=[where], help="print the kubeconfig's path")
    status = commands.add_parser("status", parents=[where], help="list the components")
    status.add_argument("--json", action="store_true")
    commands.add_parser("build", help="build the binaries into the cache")
    for name, text in (
        ("kill", "end a component as a crash would"),
        ("start", "start a component again"),
        ("pause", "freeze a component, as a hung or cut off one"),
        ("resume", "let a frozen component go on"),
    ):
        command = commands.add_parser(name, parents=[where], help=text)
        command.add_argument("component")
    agents = commands.add_parser("agents", parents=[where], help="run the product's agents on the lab")
    agents.add_argument("action", choices=["up", "down", "status"])
    agents.add_argument("--replicas", type=int, default=1, help="hub agents; one of them works")
    agents.add_argument("--stuck-after", default="5m")
    agents.add_argument("--installed", action="store_true", help="use the installation that is there")
    commands.add_parser("keep-logs", parents=[where])
    return parser


def show_status(lab: Lab, as_json: bool) -> None:
    """Prints the components."""
    rows = [*lab.status(), *Agents(lab).status()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        state = "healthy" if row["healthy"] else "unhealthy" if row["pid"] else "not running"
        print(
            f"{row['name']:<28}{row['port']:<8}{row['pid'] or '-'!s:<10}{state:<14}"
            f"{row.get('rss_mib') or read_rss_mib(row['pid'] or 0) or '-'} MiB"
        )


def find_processes(lab: Lab, name: str) -> tuple[Processes, str]:
    """Returns who keeps a component's process, and under which name; agents are named agents/NAME."""
    if name.startswith("agents/"):
        agents = Agents(lab)
        own = name.removeprefix("agents/")
        if own not in agents.names():
            raise LabError(f"no agent {own!r}; there are: {', '.join(agents.names()) or 'none'}")
        return agents.processes, own
    lab.component(name)
    return lab.processes, name


def run_agents(lab: Lab, options: argparse.Namespace) -> None:
    """Starts, ends or lists the product's agents."""
    agents = Agents(lab)
    if options.action == "up":
        took = agents.up(options.replicas, options.stuck_after, installed=options.installed)
        print(f"joined after {took:.1f} s")
    elif options.action == "down":
        agents.down()
    else:
        for row in agents.status():
            print(
                f"{row['name']:<28}{row['port']:<8}{row['pid'] or '-'!s:<10}{'ready' if row['healthy'] else 'not ready'}"
            )


def signal_component(lab: Lab, command: str, name: str) -> None:
    """Kills, freezes or resumes one component or agent."""
    processes, own = find_processes(lab, name)
    if command == "kill":
        done = processes.kill(own)
    else:
        number = signal.SIGSTOP if command == "pause" else signal.SIGCONT
        done = processes.send(own, number)
    if not done:
        raise LabError(f"{name} is not running")


def run(options: argparse.Namespace) -> None:
    """Carries out one command."""
    if options.command == "build":
        print(build.build())
        return
    lab = Lab(options.dir)
    if options.command == "up":
        took = lab.up(options.members, options.nodes)
        print("ready: " + ", ".join(f"{name} {s:.1f} s" for name, s in took.items()), file=sys.stderr)
        print(lab.kubeconfig)
    elif options.command == "down":
        lab.down(options.keep_data)
    elif options.command == "kubeconfig":
        lab.load()
        print(lab.kubeconfig)
    elif options.command == "status":
        show_status(lab, options.json)
    elif options.command == "keep-logs":
        lab.keep_logs()
    elif options.command == "agents":
        run_agents(lab, options)
    elif options.command == "start" and options.component.startswith("agents/"):
        Agents(lab).start(find_processes(lab, options.component)[1])
    elif options.command == "start":
        print(f"{options.component} healthy after {lab.start(options.component):.1f} s")
    else:
        signal_component(lab, options.command, options.component)


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    try:
        run(make_parser().parse_args(argv))
    except (LabError, AgentsError, build.BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
