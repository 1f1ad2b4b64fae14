"""Chaos on the lab: staged runs go on while processes are killed, networks cut and stores full, at random.

    ./dev python tools/real/chaos.py [--seconds 120] [--seed 1] [--replicas 2] [--objects 0] [--fakes 0] [--strike KIND]

Each round changes an application, makes a staged run of the new version and waits for it, while fate strikes (fate.py).
Checked all the time: a stage never starts before the one before it has succeeded, and never more clusters are being
updated than allowed. Checked in the end of each round: the run succeeded, and every member runs the new version and
has every object. --objects places that many ConfigMaps beside the application; --fakes adds members that a process of
their own plays. Prints figures, and every broken invariant; the exit code says whether there was one.
"""

from __future__ import annotations

import argparse
import http.client
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import MEMBERS as MEMBER_CLUSTERS
from agents import Agents
from application import MAX_CONCURRENCY, NAME, config_map, deployment, placement, staged_run, strategy
from fate import KINDS, Fate
from lab import Lab, LabError, default_dir
from rest import Rest, RestError

Json = dict[str, Any]
FLEET = "/apis/placement.kubernetes-fleet.io/v1beta1"
RUNS = f"{FLEET}/clusterstagedupdateruns"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
CONFIG_MAPS = f"/api/v1/namespaces/{NAME}/configmaps"
ROUND_LIMIT_S = 300.0
OBJECT_LIMIT_S = 0.15  # for each object on each member: many objects are many requests
FAKE_LIMIT_S = 3.0  # for each pretended member: a tenth of them at a time
ARRIVAL_LIMIT_S = 90.0
SEEN_S = 1.0  # until a change has reached the engine's caches
LOOK_EVERY_S = 0.3
MERGE = {"Content-Type": "application/merge-patch+json"}
TROUBLE = (OSError, http.client.HTTPException, RestError, ValueError)


@dataclass
class Report:
    """What happened."""

    seconds: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Chaos:
    """One lab under fire."""

    def __init__(self, lab: Lab, agents: Agents, fate: Fate, objects: int, fakes: int) -> None:
        self.lab, self.agents, self.fate = lab, agents, fate
        self.objects, self.fakes = objects, fakes
        self.limit_s = ROUND_LIMIT_S + OBJECT_LIMIT_S * objects * len(agents.members) + FAKE_LIMIT_S * fakes
        self.report = Report()

    def client(self, plane: str) -> Rest:
        """Returns a client that does not wait long for a frozen server."""
        made = self.lab.client(plane)
        made.timeout_s = 5.0
        return made

    def until(
        self, what: str, ask: Callable[[], Any], limit_s: float = ROUND_LIMIT_S, *, fire: bool = True
    ) -> Any:
        """Asks until there is an answer, while fate strikes; None, and a broken promise, when there never is."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if fire:
                self.fate.pass_by()
            else:
                self.fate.tend()
            try:
                found = ask()
            except TROUBLE:
                found = None
            if found:
                return found
            time.sleep(LOOK_EVERY_S)
        self.report.broken.append(f"{what}: not within {limit_s:.0f} s")
        return None

    def make(self, path: str, body: Json) -> None:
        """Creates an object, however often that takes."""

        def ask() -> bool:
            answer = self.client("hub").send("POST", path, body)
            return answer.code == 409 or bool(answer.ok())

        self.until(f"create {path}", ask, fire=False)

    def change(self, path: str, body: Json, *, fire: bool = True) -> None:
        """Changes an object, however often that takes."""
        self.until(
            f"change {path}", lambda: self.client("hub").send("PATCH", path, body, MERGE).ok(), fire=fire
        )

    def prepare(self) -> None:
        """Makes the application, its placement and a strategy."""
        for member in self.agents.members:
            stage = "canary" if member == "member1" else "prod"
            self.change(f"{MEMBER_CLUSTERS}/{member}", {"metadata": {"labels": {NAME: stage}}}, fire=False)
        self.make("/api/v1/namespaces", {"metadata": {"name": NAME}})
        self.make(f"/apis/apps/v1/namespaces/{NAME}/deployments", deployment("v0"))
        for number in range(self.objects):
            self.make(CONFIG_MAPS, config_map(number, "v0"))
        self.make(f"{FLEET}/clusterresourceplacements", placement())
        wanted = strategy(bool(self.fakes))
        self.make(f"{FLEET}/clusterstagedupdatestrategies", wanted)
        self.change(f"{FLEET}/clusterstagedupdatestrategies/{NAME}", {"spec": wanted["spec"]}, fire=False)

    def round(self, number: int) -> None:
        """Rolls one version out."""
        began = time.monotonic()
        version = f"v{number}-{int(began)}"
        self.change(DEPLOYMENT, deployment(version))
        if self.objects:
            changed = number % self.objects
            self.change(f"{CONFIG_MAPS}/settings{changed:04}", config_map(changed, version))
        time.sleep(SEEN_S)
        run = f"{NAME}-{int(began * 1000)}"
        self.make(RUNS, staged_run(run))
        done = self.until(f"run {run}", lambda: self.finished(run), self.limit_s)
        if done is None:
            return
        if done != "True":
            self.report.broken.append(f"run {run} did not succeed")
        self.fate.calm()
        for member in self.agents.members:
            self.until(
                f"{member} has {version}",
                lambda member=member: self.has(member, number, version),
                ARRIVAL_LIMIT_S,
                fire=False,
            )
        self.report.seconds.append(time.monotonic() - began)

    def finished(self, run: str) -> str | None:
        """Checks the promises about a run under way; returns how it ended once it has."""
        status = self.client("hub").get(f"{RUNS}/{run}").ok().json().get("status", {})
        self.report.broken += [f"{run}: {wrong}" for wrong in broken_promises(status)]
        return "False" if state_of(status, "Initialized") == "False" else state_of(status, "Succeeded")

    def has(self, member: str, number: int, version: str) -> bool:
        """Tells whether a member's application is of a version and available, and every object is there."""
        client = self.client(member)
        found = client.get(DEPLOYMENT).ok().json()
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        if not image.endswith(f":{version}") or state_of(found.get("status", {}), "Available") != "True":
            return False
        if not self.objects:
            return True
        held = {
            one["metadata"]["name"]: one.get("data", {})
            for one in client.get(CONFIG_MAPS).ok().json()["items"]
        }
        wanted = [config_map(index, "")["metadata"]["name"] for index in range(self.objects)]
        changed = wanted[number % self.objects]
        return all(name in held for name in wanted) and held[changed].get("version") == version


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
        most = MAX_CONCURRENCY if stage["stageName"] != "fake" else max(1, len(clusters) // 10)
        if started and not before_succeeded:
            wrong.append(f"stage {stage['stageName']} started before the one before it had succeeded")
        if len(updating) > most:
            wrong.append(f"stage {stage['stageName']} updates {len(updating)} clusters at once")
        before_succeeded = state_of(stage, "Succeeded") == "True"
    return wrong


def read_options() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=default_dir())
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--objects", type=int, default=0, help="objects in the placement beside the application"
    )
    parser.add_argument("--fakes", type=int, default=0, help="members played by one process")
    parser.add_argument(
        "--strike", action="append", choices=list(KINDS), help="what is struck; everything by default"
    )
    return parser.parse_args()


def main() -> int:
    """Brings everything up, lets it burn for a while, and tells."""
    options = read_options()
    lab = Lab(options.dir)
    try:
        lab.up(max(3, lab.load().members if lab.kubeconfig.exists() else 3), 3)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    agents = Agents(lab)
    agents.up(options.replicas, "5m", relayed=True)
    if options.fakes:
        agents.pretend(options.fakes, {NAME: "fake"})
    fate = Fate(lab, agents, random.Random(options.seed), options.strike)
    chaos = Chaos(lab, agents, fate, options.objects, options.fakes)
    try:
        chaos.prepare()
        end = time.monotonic() + options.seconds
        number = 0
        while time.monotonic() < end and not chaos.report.broken:
            number += 1
            chaos.round(number)
        fate.calm()
    finally:
        agents.down()
    return tell(chaos.report, fate)


def tell(report: Report, fate: Fate) -> int:
    """Prints the figures; returns 1 when a promise was broken."""
    strokes = ", ".join(f"{count} x {what}" for what, count in sorted(fate.strokes.items()))
    total = sum(fate.strokes.values())
    print(f"{len(report.seconds)} runs finished; struck {total} times: {strokes or 'nothing'}")
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
