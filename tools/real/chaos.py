"""Chaos on the lab: staged runs go on while processes are killed and members cut off at random.

    ./dev python tools/real/chaos.py [--seconds 120] [--seed 1] [--replicas 2]

Each round changes an application, makes a staged run of the new version and waits for it. Meanwhile hub agents, member
agents, API servers and etcd are killed with SIGKILL and members' API servers frozen; what died is started again a moment
later. Checked all the time: a stage never starts before the one before it has succeeded, and never more clusters are
being updated than allowed. Checked in the end of each round: the run succeeded and every member runs the new version.
Prints figures, and every broken invariant; the exit code says whether there was one.
"""

from __future__ import annotations

import argparse
import http.client
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import MEMBERS as MEMBER_CLUSTERS
from agents import Agents
from lab import Lab, LabError, default_dir
from rest import Rest, RestError

Json = dict[str, Any]
FLEET = "/apis/placement.kubernetes-fleet.io/v1beta1"
RUNS = f"{FLEET}/clusterstagedupdateruns"
NAME = "chaos"
MAX_CONCURRENCY = 1
ROUND_LIMIT_S = 240.0
PAUSE_S = (8.0, 14.0)  # between two strokes of fate: control planes need a few seconds to come back
DEAD_S = 2.0  # until somebody starts again what was killed
FROZEN_S = 6.0
SEEN_S = 1.0  # until a change has reached the engine's caches
KINDS = ["hub agent", "member agent", "API server", "etcd", "frozen member"]
MERGE = {"Content-Type": "application/merge-patch+json"}
TROUBLE = (OSError, http.client.HTTPException, RestError, ValueError)


@dataclass
class Report:
    """What happened."""

    seconds: list[float] = field(default_factory=list)
    strokes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


class Chaos:
    """One lab under fire."""

    def __init__(self, lab: Lab, agents: Agents, chance: random.Random, kinds: list[str]) -> None:
        self.lab, self.agents, self.chance, self.kinds = lab, agents, chance, kinds
        self.report = Report()
        self._next = 0.0
        self._mend_at = float("inf")
        self._frozen: dict[str, float] = {}

    def client(self, plane: str) -> Rest:
        """Returns a client that does not wait long for a frozen server."""
        made = self.lab.client(plane)
        made.timeout_s = 5.0
        return made

    # Fate

    def strike(self) -> None:
        """Kills or freezes something when it is time to; starts again what lies about dead."""
        now = time.monotonic()
        for name, until in list(self._frozen.items()):
            if now > until:
                self.lab.processes.send(name, signal.SIGCONT)
                del self._frozen[name]
        if now > self._mend_at:
            self._mend_at = float("inf")
            self.mend()
        if now < self._next:
            return
        self._mend_at = now + DEAD_S
        self._next = now + self.chance.uniform(*PAUSE_S)
        members = self.agents.members
        kind = self.chance.choice(self.kinds)
        if kind == "hub agent":
            self.agents.processes.kill(
                self.chance.choice([n for n in self.agents.names() if n.startswith("hub-")])
            )
        elif kind == "member agent":
            self.agents.processes.kill(self.chance.choice(members))
        elif kind == "API server":
            self.lab.processes.kill(f"{self.chance.choice(['hub', *members])}/apiserver")
        elif kind == "etcd":
            self.lab.processes.kill("etcd")
        else:
            name = f"{self.chance.choice(members)}/apiserver"
            if self.lab.processes.send(name, signal.SIGSTOP):
                self._frozen[name] = now + FROZEN_S
        self.report.strokes[kind] += 1

    def mend(self) -> None:
        """Starts everything that has died, as whoever runs it in earnest would."""
        for row in self.lab.status():
            if row["pid"] is None:
                component = self.lab.component(row["name"])
                self.lab.processes.start(component.name, component.argv)
        for name in self.agents.names():
            if self.agents.processes.find(name) is None:
                self.agents.start(name)

    def calm(self) -> None:
        """Lets everything run again."""
        for name in self._frozen:
            self.lab.processes.send(name, signal.SIGCONT)
        self._frozen.clear()
        self.mend()

    # Work

    def until(
        self, what: str, ask: Callable[[], Any], limit_s: float = ROUND_LIMIT_S, *, fire: bool = True
    ) -> Any:
        """Asks until there is an answer, while fate strikes; None, and a broken promise, when there never is."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if fire:
                self.strike()
            try:
                found = ask()
            except TROUBLE:
                found = None
            if found:
                return found
            time.sleep(0.3)
        self.report.broken.append(f"{what}: not within {limit_s:.0f} s")
        return None

    def make(self, path: str, body: Json) -> None:
        """Creates an object, however often that takes."""

        def ask() -> bool:
            answer = self.client("hub").send("POST", path, body)
            return answer.code == 409 or bool(answer.ok())

        self.until(f"create {path}", ask, fire=False)

    def prepare(self) -> None:
        """Makes the application, its placement and a strategy of two stages."""
        for member in self.agents.members:
            stage = "canary" if member == "member1" else "prod"
            self.until(
                f"label {member}",
                lambda member=member, stage=stage: (
                    self.client("hub")
                    .send(
                        "PATCH", f"{MEMBER_CLUSTERS}/{member}", {"metadata": {"labels": {NAME: stage}}}, MERGE
                    )
                    .ok()
                ),
                fire=False,
            )
        self.make("/api/v1/namespaces", {"metadata": {"name": NAME}})
        self.make(f"/apis/apps/v1/namespaces/{NAME}/deployments", deployment("v0"))
        self.make(f"{FLEET}/clusterresourceplacements", placement())
        self.make(f"{FLEET}/clusterstagedupdatestrategies", strategy())

    def round(self, number: int) -> None:
        """Rolls one version out."""
        began = time.monotonic()
        version = f"v{number}-{int(began)}"
        path = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
        self.until("change", lambda: self.client("hub").send("PATCH", path, deployment(version), MERGE).ok())
        time.sleep(SEEN_S)
        run = f"{NAME}-{int(began * 1000)}"
        self.make(RUNS, staged_run(run))
        done = self.until(f"run {run}", lambda: self.finished(run))
        if done is None:
            return
        if done != "True":
            self.report.broken.append(f"run {run} did not succeed")
        self.calm()
        for member in self.agents.members:
            self.until(
                f"{member} runs {version}", lambda member=member: self.runs(member, version), 90.0, fire=False
            )
        self.report.seconds.append(time.monotonic() - began)

    def finished(self, run: str) -> str | None:
        """Checks the promises about a run under way; returns how it ended once it has."""
        status = self.client("hub").get(f"{RUNS}/{run}").ok().json().get("status", {})
        self.report.broken += [f"{run}: {wrong}" for wrong in broken_promises(status)]
        return state_of(status, "Succeeded")

    def runs(self, member: str, version: str) -> bool:
        """Tells whether a member's deployment is of a version and available."""
        path = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
        found = self.client(member).get(path).ok().json()
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        return image.endswith(f":{version}") and state_of(found.get("status", {}), "Available") == "True"


def state_of(status: Json, condition: str) -> str | None:
    """Returns a condition's status."""
    return next((one["status"] for one in status.get("conditions", []) if one["type"] == condition), None)


def broken_promises(status: Json) -> list[str]:
    """Returns what a run's status shows that may never be."""
    wrong = []
    before_succeeded = True
    for stage in status.get("stagesStatus", []):
        clusters = stage.get("clusters", [])
        started = [one for one in clusters if state_of(one, "Started") == "True"]
        updating = [one for one in started if state_of(one, "Succeeded") is None]
        if started and not before_succeeded:
            wrong.append(f"stage {stage['stageName']} started before the one before it had succeeded")
        if len(updating) > MAX_CONCURRENCY:
            wrong.append(f"stage {stage['stageName']} updates {len(updating)} clusters at once")
        before_succeeded = state_of(stage, "Succeeded") == "True"
    return wrong


def deployment(version: str) -> Json:
    """Returns the application."""
    template = {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "app", "image": f"example.com/app:{version}"}]},
    }
    selector = {"matchLabels": {"app": NAME}}
    return {"metadata": {"name": NAME}, "spec": {"replicas": 2, "selector": selector, "template": template}}


def _fleet(kind: str, name: str, spec: Json) -> Json:
    """Returns an object of the fleet's."""
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def placement() -> Json:
    """Returns the placement on all members."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": NAME}
    return _fleet(
        "ClusterResourcePlacement", NAME, {"resourceSelectors": [selector], "strategy": {"type": "External"}}
    )


def strategy() -> Json:
    """Returns two stages, one cluster at a time."""
    stages = [
        {"name": stage, "labelSelector": {"matchLabels": {NAME: stage}}, "maxConcurrency": MAX_CONCURRENCY}
        for stage in ("canary", "prod")
    ]
    return _fleet("ClusterStagedUpdateStrategy", NAME, {"stages": stages})


def staged_run(name: str) -> Json:
    """Returns a run of what is there now: its snapshot is taken when it begins."""
    spec = {
        "placementName": NAME,
        "stagedRolloutStrategyName": NAME,
        "state": "Run",
    }
    return _fleet("ClusterStagedUpdateRun", name, spec)


def main() -> int:
    """Brings everything up, lets it burn for a while, and tells."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=default_dir())
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--strike", action="append", choices=KINDS, help="what is struck; everything by default"
    )
    options = parser.parse_args()
    lab = Lab(options.dir)
    try:
        lab.up(max(3, lab.load().members if lab.kubeconfig.exists() else 3), 3)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    agents = Agents(lab)
    agents.up(options.replicas, "5m")
    chaos = Chaos(lab, agents, random.Random(options.seed), options.strike or KINDS)
    chaos.prepare()
    end = time.monotonic() + options.seconds
    number = 0
    while time.monotonic() < end and not chaos.report.broken:
        number += 1
        chaos.round(number)
    chaos.calm()
    agents.down()
    return tell(chaos.report)


def tell(report: Report) -> int:
    """Prints the figures; returns 1 when a promise was broken."""
    strokes = ", ".join(f"{count} x {what}" for what, count in sorted(report.strokes.items()))
    print(
        f"{len(report.seconds)} runs finished; struck {sum(report.strokes.values())} times: {strokes or 'nothing'}"
    )
    if report.seconds:
        middle = statistics.median(report.seconds)
        print(
            f"seconds per round: {min(report.seconds):.1f} to {max(report.seconds):.1f}, median {middle:.1f}"
        )
    for wrong in dict.fromkeys(report.broken):
        print(f"BROKEN {wrong}")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
