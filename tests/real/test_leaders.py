"""Two hub agents under load: whichever way the leader goes, the other goes on where it was, and nothing is lost."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.live import Live
from tests.real.lab import kubeconfig, lab  # noqa: F401 - a fixture

pytestmark = [pytest.mark.real, pytest.mark.kubectl, pytest.mark.timeout(300)]
RUNS = 6
MEMBERS = ("member1", "member2", "member3")
FLEET = "placement.kubernetes-fleet.io/v1beta1"
LEASE_S, RETRY_S, SLACK_S = 15.0, 2.0, 8.0  # slack: other people's work on this machine


class Pair(Live):
    """A hub with two agents."""

    def rows(self) -> dict[int, str]:
        """The hub agents that run, by pid."""
        told = json.loads(lab("status", "--json"))
        return {
            row["pid"]: row["name"] for row in told if row["name"].startswith("agents/hub-") and row["pid"]
        }

    def leader(self) -> int:
        """The pid of whoever holds the lease; 0 when nobody does."""
        told = self.kubectl("get", "lease", "echelon-hub-agent", "-n", "fleet-system", "-o", "json")
        holder = json.loads(told)["spec"].get("holderIdentity") or ""
        return int(holder.rpartition("_")[2] or 0)

    def rolls_out(self, name: str) -> list[str]:
        """Begin runs of many placements at once; returns their names."""
        stages = [
            {"name": member, "labelSelector": {"matchLabels": {"leaders": member}}, "maxConcurrency": 1}
            for member in MEMBERS
        ]
        objects = [of("ClusterStagedUpdateStrategy", "leaders", {"stages": stages})]
        for number in range(RUNS):
            space = f"leaders{number}"
            selector = {"group": "", "version": "v1", "kind": "Namespace", "name": space}
            spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
            objects += [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}},
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "settings", "namespace": space},
                    "data": {"run": name},
                },
                of("ClusterResourcePlacement", space, spec),
            ]
        for number in range(RUNS):
            spec = {
                "placementName": f"leaders{number}",
                "stagedRolloutStrategyName": "leaders",
                "state": "Run",
            }
            objects.append(of("ClusterStagedUpdateRun", f"{name}-{number}", spec))
        self.apply(yaml.safe_dump_all(objects))
        return [f"{name}-{number}" for number in range(RUNS)]

    def run_of(self, name: str) -> dict:
        return json.loads(self.kubectl("get", "csur", name, "-o", "json")).get("status", {})

    def is_under_way(self, run: str) -> bool:
        """Tell whether a run has begun with clusters and is not through with them."""
        clusters = [one for stage in self.run_of(run).get("stagesStatus", []) for one in stage["clusters"]]
        started = [one for one in clusters if is_true(one, "Started")]
        return bool(started) and not all(is_true(one, "Succeeded") for one in clusters)

    def is_complete(self, run: str) -> None:
        """Assert that a run went through its stages one after the other, once each, and everything arrived."""
        self.wait(f"csur/{run}", "Succeeded")
        stages = self.run_of(run)["stagesStatus"]
        assert [stage["stageName"] for stage in stages] == list(MEMBERS)
        assert all(
            [one["clusterName"] for one in stage["clusters"]] == [stage["stageName"]] for stage in stages
        )
        ends = [stage["endTime"] for stage in stages]
        starts = [stage["startTime"] for stage in stages]
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
        space, value = f"leaders{run.rpartition('-')[2]}", run.rpartition("-")[0]
        for member in MEMBERS:
            told = ["get", "cm", "settings", "-n", space, "-o", "jsonpath={.data.run}"]
            assert self.kubectl(*told, context=member) == value


def of(kind: str, name: str, spec: dict) -> dict:
    return {"apiVersion": FLEET, "kind": kind, "metadata": {"name": name}, "spec": spec}


def is_true(status: dict, condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions", []))


@pytest.fixture(scope="module")
def pair(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    lab("agents", "up", "--replicas", "2")
    made = Pair(tmp_path_factory.mktemp("leaders"), kubeconfig)
    for member in MEMBERS:
        made.kubectl("label", "membercluster", member, f"leaders={member}", "--overwrite")
    yield made
    lab("agents", "down")


def test_one_of_two_replicas_leads_and_both_are_up(pair: Pair) -> None:
    pair.until(lambda: pair.leader() in pair.rows(), "a leader that lives")
    assert len(pair.rows()) == 2


@pytest.mark.parametrize(
    ("how", "within_s"),
    [(signal.SIGKILL, LEASE_S + RETRY_S + SLACK_S), (signal.SIGTERM, RETRY_S + SLACK_S)],
    ids=["killed", "stopped"],
)
def test_a_leader_that_goes_mid_run_loses_nothing(pair: Pair, how: signal.Signals, within_s: float) -> None:
    runs = pair.rolls_out(how.name.lower())
    pair.until(lambda: any(pair.is_under_way(run) for run in runs), "a run under way")
    gone = pair.leader()
    os.kill(gone, how)
    began = time.monotonic()
    pair.until(lambda: pair.leader() not in {0, gone}, "another leader")
    took_s = time.monotonic() - began
    assert pair.leader() in pair.rows()
    assert took_s < within_s
    for run in runs:
        pair.is_complete(run)
    name = next(name for name in ("agents/hub-0", "agents/hub-1") if name not in pair.rows().values())
    lab("start", name)
    assert len(pair.rows()) == 2
