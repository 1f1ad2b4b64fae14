"""The product's own processes on a lab: a hub agent (or several) and one agent per member.

    python3 tools/real/lab.py agents up [--replicas N] [--stuck-after 5m]
    python3 tools/real/lab.py agents down | status

They run outside the clusters, with the identities and rights that `echelon install` gives, and nothing more:
a service account token of the hub agent, one per member on the hub, one of the member agent on its member.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plan
from procs import Processes
from rest import Rest

if TYPE_CHECKING:
    from lab import Lab

NAMESPACE = "fleet-system"
HUB_AGENT, MEMBER_AGENT = "echelon-hub-agent", "echelon-member-agent"
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
TOKEN_S = 24 * 3600
JOIN_LIMIT_S = 120.0
POLL_S = 0.1
LINK, FAKES = "link-", "fakes"
ROOT = Path(__file__).resolve().parents[2]
RELAY = Path(__file__).resolve().parent / "relay.py"


class AgentsError(Exception):
    """The agents cannot be brought up; the message is for the person who asked."""


class Agents:
    """The agents of one lab."""

    def __init__(self, lab: Lab) -> None:
        """Takes the lab, which must be up."""
        self.lab = lab
        self.dir = lab.dir / "agents"
        self.processes = Processes(self.dir)
        self.relayed = self.installed = False
        self.members = [plane for plane in plan.planes_of(lab.load().members) if plan.is_member(plane)]

    # Life

    def up(
        self,
        replicas: int,
        stuck_after: str,
        labels: dict[str, dict[str, str]] | None = None,
        *,
        relayed: bool = False,
        installed: bool = False,
        hub_flags: tuple[str, ...] = (),
    ) -> float:
        """Installs, starts, and waits until all members have joined; returns the seconds it took.

        Relayed agents reach every API server through a process of their own, see relay.py. What is installed already
        (by Helm, for example) is not installed again: the agents then have the rights they find.
        """
        began = time.monotonic()
        self.relayed, self.installed = relayed, installed
        self.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._install("hub", "hub", "--stuck-after", stuck_after)
        hub = self.lab.client("hub")
        for number in range(replicas):
            name = f"hub-{number}"
            self._write_kubeconfig(name, {"hub": (HUB_AGENT, NAMESPACE)})
            where = ("--kubeconfig", self._config(name))
            self._start(name, "hub-agent", *where, "--stuck-after", stuck_after, *hub_flags)
        for member in self.members:
            self._up_member(hub, member, (labels or {}).get(member, {}))
        self._wait_joined(hub)
        return time.monotonic() - began

    def _up_member(self, hub: Rest, member: str, labels: dict[str, str]) -> None:
        """Installs one member, lets it into the fleet and starts its agent."""
        self._install("member", member, "--name", member)
        _make(hub, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": member}})
        _make(hub, MEMBERS, member_cluster(member, labels))
        self._write_kubeconfig(member, {"hub": (member, NAMESPACE), member: (MEMBER_AGENT, NAMESPACE)})
        config = self._config(member)
        self._start(
            member,
            "member-agent",
            *("--name", member, "--kubeconfig", config, "--context", "hub"),
            *("--member-kubeconfig", config, "--member-context", member),
        )

    def pretend(self, count: int, labels: dict[str, str]) -> None:
        """Starts the process that plays members, and waits until all of them have joined."""
        argv = [sys.executable, "-m", "tools.bench.real.fakes", "--count", str(count)]
        argv += ["--kubeconfig", str(self.lab.kubeconfig)]
        argv += [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]
        self._arguments(FAKES).write_text(json.dumps(argv))
        self.start(FAKES)
        hub = self.lab.client("hub")
        end = time.monotonic() + JOIN_LIMIT_S
        while count_joined(hub) < count + len(self.members):
            if self.processes.find(FAKES) is None or time.monotonic() > end:
                raise AgentsError(f"{count} members did not join\n{self.processes.tail(FAKES)}")
            time.sleep(1.0)

    def _install(self, what: str, context: str, *more: str) -> None:
        """Runs `echelon install` against one plane."""
        if self.installed:
            return
        argv = [
            *_echelon(),
            "install",
            what,
            "--kubeconfig",
            str(self.lab.kubeconfig),
            "--context",
            context,
            *more,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AgentsError(f"echelon install {what} in {context}: {(done.stderr or done.stdout).strip()}")

    def _start(self, name: str, command: str, *options: str) -> None:
        """Starts an agent; its port for health and metrics stays the same over restarts."""
        port = self._port(name)
        probes = ["--health-probe-bind-address", f"127.0.0.1:{port}", "--log-json"]
        self._arguments(name).write_text(json.dumps([*_echelon(), command, *options, *probes]))
        self.start(name)

    def start(self, name: str) -> None:
        """Starts an agent (or a link) again as it was started before."""
        self.processes.start(name, json.loads(self._arguments(name).read_text()), ROOT)

    def down(self) -> None:
        """Ends the agents and their links; what they made stays in the clusters."""
        self.processes.stop([*self.names(), *self.links(), FAKES])

    def names(self) -> list[str]:
        """Names the agents that were ever started."""
        stems = (path.stem for path in self.dir.glob("*.args"))
        return sorted(stem for stem in stems if stem != FAKES and not stem.startswith(LINK))

    def links(self) -> list[str]:
        """Names the relays between agents and API servers."""
        return sorted(path.stem for path in self.dir.glob(f"{LINK}*.args"))

    def status(self) -> list[dict[str, Any]]:
        """Returns one row per agent: name, pid, port, whether it is ready."""
        rows = []
        for name in self.names():
            pid = self.processes.find(name)
            port = self._port(name)
            rows.append(
                {"name": f"agents/{name}", "pid": pid, "port": port, "healthy": bool(pid) and is_ready(port)}
            )
        return rows

    # Files

    def _arguments(self, name: str) -> Path:
        """Returns where an agent's command line is kept."""
        return self.dir / f"{name}.args"

    def _config(self, name: str) -> str:
        """Returns the path of an agent's kubeconfig."""
        return str(self.dir / f"{name}.kubeconfig")

    def _port(self, name: str) -> int:
        """Returns the port of an agent or a link, chosen once."""
        from lab import find_free_ports  # noqa: PLC0415 - lab imports this module

        kept = self.dir / f"{name}.port"
        if not kept.exists():
            kept.write_text(str(find_free_ports(1)[0]))
        return int(kept.read_text())

    def _write_kubeconfig(self, name: str, accounts: dict[str, tuple[str, str]]) -> None:
        """Writes a kubeconfig with one context per plane, each as a service account of that plane."""
        layout = self.lab.layout(self.lab.load())
        authority = base64.b64encode(Path(layout.cert("ca")).read_bytes()).decode()
        clusters, contexts, users = [], [], []
        for plane, (account, namespace) in accounts.items():
            token = issue_token(self.lab.client(plane), account, namespace)
            port = layout.ports[f"{plane}/apiserver"]
            url = f"https://127.0.0.1:{self._link(name, plane, port) if self.relayed else port}"
            clusters.append(
                {"name": plane, "cluster": {"server": url, "certificate-authority-data": authority}}
            )
            users.append({"name": f"{plane}-{account}", "user": {"token": token}})
            contexts.append({"name": plane, "context": {"cluster": plane, "user": f"{plane}-{account}"}})
        document = {"apiVersion": "v1", "kind": "Config", "current-context": next(iter(accounts))}
        document |= {"clusters": clusters, "contexts": contexts, "users": users}
        path = Path(self._config(name))
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))

    def _link(self, name: str, plane: str, target: int) -> int:
        """Starts the relay between an agent and a plane; returns its port."""
        link = f"{LINK}{name}-{plane}"
        port = self._port(link)
        argv = [sys.executable, str(RELAY), str(port), f"127.0.0.1:{target}"]
        self._arguments(link).write_text(json.dumps(argv))
        self.start(link)
        return port

    def _wait_joined(self, hub: Rest) -> None:
        """Waits until the hub has heard of every member; says who is missing."""
        end = time.monotonic() + JOIN_LIMIT_S
        while True:
            missing = [name for name in self.members if not has_joined(hub, name)]
            dead = [name for name in self.names() if self.processes.find(name) is None]
            if not missing:
                return
            if dead or time.monotonic() > end:
                tails = "\n".join(self.processes.tail(name) for name in dead or missing[:1])
                raise AgentsError(
                    f"not joined: {', '.join(missing)}; ended: {', '.join(dead) or 'none'}\n{tails}"
                )
            time.sleep(POLL_S)


def _echelon() -> list[str]:
    """Returns the command line of the product in this environment."""
    return [sys.executable, "-m", "echelon.cli.main"]


def member_cluster(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Returns the MemberCluster that lets a member's service account in."""
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"identity": {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}},
    }


def _make(client: Rest, path: str, body: dict[str, Any]) -> None:
    """Creates an object unless it is there."""
    answer = client.send("POST", path, body)
    if answer.code != 409:
        answer.ok()


def issue_token(client: Rest, account: str, namespace: str) -> str:
    """Returns a token of a service account, which may still be on its way."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"
    _make(client, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": account}})
    body = {"spec": {"expirationSeconds": TOKEN_S}}
    token: str = client.send("POST", f"{path}/token", body).ok().json()["status"]["token"]
    return token


def count_joined(hub: Rest) -> int:
    """Counts the members that have joined; a server whose definitions are new cannot say yet."""
    answer = hub.get(MEMBERS)
    return sum(1 for row in answer.json()["items"] if is_joined(row)) if answer.code == 200 else 0


def has_joined(hub: Rest, name: str) -> bool:
    """Tells whether a member has joined and is ready to be scheduled to."""
    answer = hub.get(f"{MEMBERS}/{name}")
    return answer.code == 200 and is_joined(answer.json())


def is_joined(member: dict[str, Any]) -> bool:
    """Tells whether a MemberCluster says that it has joined."""
    conditions = member.get("status", {}).get("conditions", [])
    return any(one["type"] == "Joined" and one["status"] == "True" for one in conditions)


def is_ready(port: int) -> bool:
    """Tells whether an agent says it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
