"""How soon a change flows again after something was away: from the API's return to the object on the members.

    ./dev python tools/real/recovery.py [--dir DIR] [--times 5] [--away 2 --away 30] [--strike KIND]

One ConfigMap is placed on every member. Something is killed (or cut off) and started again some seconds later. Timed
are: until every API server says it is ready, and from then until a change made on the hub is on every member.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agents import Agents
from application import Json
from chaos import FLEET, MERGE, TROUBLE
from lab import Lab, default_dir

NAME = "recovery"
CONFIG_MAP = f"/api/v1/namespaces/{NAME}/configmaps/settings"
LIMIT_S = 240.0
LOOK_EVERY_S = 0.05
# every change becomes a version at once, so that nothing but the recovery is measured
AT_ONCE = ("--resource-changes-collection-duration=0s", "--resource-snapshot-creation-minimum-interval=0s")


class Recovery:
    """One lab, struck on purpose."""

    def __init__(self, lab: Lab, agents: Agents) -> None:
        self.lab, self.agents = lab, agents
        self.number = int(time.time())
        self.planes = ["hub", *agents.members]

    def until(self, what: str, ask: Callable[[], bool]) -> float:
        """Ask until it is so; returns the seconds it took."""
        began = time.monotonic()
        while time.monotonic() - began < LIMIT_S:
            try:
                if ask():
                    return time.monotonic() - began
            except TROUBLE:
                pass
            time.sleep(LOOK_EVERY_S)
        raise SystemExit(f"{what}: not within {LIMIT_S:.0f} s")

    def send(self, plane: str, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """Ask one plane, without waiting long for a hung server."""
        client = self.lab.client(plane)
        client.timeout_s = 2.0
        try:
            answer = client.send(method, path, body, MERGE if method == "PATCH" else None)
            return answer.code, answer.json()
        finally:
            client.close()

    def prepare(self) -> None:
        """Place the object."""
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": NAME}
        rolling = {"maxUnavailable": "100%", "unavailablePeriodSeconds": 0}
        placed: Json = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "metadata": {"name": NAME},
            "spec": {"resourceSelectors": [selector], "strategy": {"rollingUpdate": rolling}},
        }
        self.send("hub", "POST", "/api/v1/namespaces", {"metadata": {"name": NAME}})
        self.send("hub", "POST", CONFIG_MAP.removesuffix("/settings"), {"metadata": {"name": "settings"}})
        self.send("hub", "POST", f"{FLEET}/clusterresourceplacements", placed)
        self.flows()

    def flows(self) -> float:
        """Change the object on the hub; returns the seconds until it is on every member."""
        self.number += 1
        value = str(self.number)
        began = time.monotonic()
        body = {"data": {"v": value}}
        self.until("a change on the hub", lambda: self.send("hub", "PATCH", CONFIG_MAP, body)[0] == 200)
        for member in self.agents.members:
            self.until(f"the change on {member}", lambda member=member: self.value(member) == value)
        return time.monotonic() - began

    def value(self, member: str) -> str:
        """Return what a member has."""
        return str(self.send(member, "GET", CONFIG_MAP)[1].get("data", {}).get("v", ""))

    def is_ready(self) -> bool:
        """Tell whether every API server says so."""
        for plane in self.planes:
            client = self.lab.client(plane)
            client.timeout_s = 2.0
            if client.get("/readyz").code != 200:
                return False
        return True

    def strike(self, kind: str, away_s: float) -> None:
        """Take something away for a while."""
        if kind == "hub agent":
            for name in [name for name in self.agents.names() if name.startswith("hub-")]:
                self.agents.processes.kill(name)
        elif kind == "network":
            for name in self.agents.links():
                self.agents.processes.send(name, signal.SIGSTOP)
        else:
            self.lab.processes.kill(kind)
        time.sleep(away_s)
        if kind == "network":
            for name in self.agents.links():
                self.agents.processes.send(name, signal.SIGCONT)
        elif kind != "hub agent":
            component = self.lab.component(kind)
            self.lab.processes.start(component.name, component.argv)
        self.tend()

    def tend(self) -> bool:
        """Start agents that have ended, as a kubelet does."""
        for name in self.agents.names():
            if self.agents.processes.find(name) is None:
                self.agents.start(name)
        return True

    def measure(self, kind: str, away_s: float, times: int) -> tuple[list[float], list[float]]:
        """Strike some times; returns how long the APIs took to come back, and from then on the change."""
        back, flowing = [], []
        for _ in range(times):
            self.strike(kind, away_s)
            back.append(self.until("the API servers", lambda: self.tend() and self.is_ready()))
            flowing.append(self.flows())
            self.flows()
        return back, flowing


KINDS = ("hub agent", "network", "member1/apiserver", "hub/apiserver", "etcd")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=default_dir())
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--away", type=float, action="append", help="seconds; 2 and 30 by default")
    parser.add_argument("--strike", action="append", choices=KINDS)
    options = parser.parse_args()
    lab = Lab(options.dir)
    lab.up(3, 3)
    agents = Agents(lab)
    agents.up(2, "5m", relayed=True, hub_flags=AT_ONCE)
    recovery = Recovery(lab, agents)
    try:
        recovery.prepare()
        calm = [recovery.flows() for _ in range(10)]
        print(f"undisturbed: a change is on every member after {statistics.median(calm):.2f} s")
        print("| away | for | API servers ready after, median (max) | then a change on every member after |")
        print("|---|---|---|---|")
        for away_s in options.away or [2.0, 30.0]:
            for kind in options.strike or KINDS:
                back, flowing = recovery.measure(kind, away_s, options.times)
                print(f"| {kind} | {away_s:.0f} s | {_told(back)} | {_told(flowing)} |", flush=True)
    finally:
        agents.down()
    return 0


def _told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s ({max(seconds):.1f})"


if __name__ == "__main__":
    sys.exit(main())
