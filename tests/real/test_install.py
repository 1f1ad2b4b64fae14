"""Installing, upgrading and uninstalling on a real API server: by Helm with the charts, and by `echelon install`.

The lab has no images to pull, so the Deployments' pods do not run; agents run beside it as processes, with tokens of the
service accounts that were installed and so with exactly the rights of the installation.
"""

import json
from pathlib import Path

import pytest
import yaml
from tools.clients.__main__ import HELM, go_tool

from tests.live import Live
from tests.real.lab import ROOT, lab

pytestmark = [pytest.mark.real, pytest.mark.kubectl, pytest.mark.timeout(900)]  # Helm is built the first time
SPACE = "fleet-system"
HUB = ["echelon-hub", "charts/echelon-hub"]
MEMBER = ["echelon-member", "charts/echelon-member", "--set", "member=member1"]
OURS = "app.kubernetes.io/part-of=echelon"
RIGHTS = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts"
POLICIES = "validatingadmissionpolicies,validatingadmissionpolicybindings"
# what rendering without a server takes the server to be
SERVED = ["--kube-version=1.37.0", "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]
APPLICATION = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: green}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: shop}]
  strategy: {type: External}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: careful}
spec: {stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}
"""
RUN = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: %s}
spec: {placementName: shop, stagedRolloutStrategyName: careful, state: Run}
"""


class Cluster(Live):
    """A hub and a member of their own, with Helm."""

    def helm(self, *words: str, context: str = "hub", ok: bool = True) -> str:
        where = ["--kube-context", context, "--namespace", SPACE]
        return self.run(go_tool(HELM), *words, *where, ok=ok)

    def install(self, *words: str, context: str = "hub") -> str:
        return self.echelon(*words, "--kubeconfig", str(self.kubeconfig), "--context", context)

    def names(self, kinds: str, context: str = "hub") -> set[str]:
        return set(self.kubectl("get", kinds, "-A", "-l", OURS, "-o", "name", context=context).split())

    def agents(self, word: str) -> None:
        more = ["--installed"] if word == "up" else []
        lab("agents", word, *more, "--dir", str(self.data))

    def rolls_out(self, run: str, colour: str) -> str:
        """Make a run, approve it, wait for its end; returns what kubectl shows of it."""
        self.kubectl(
            "patch", "configmap", "settings", "-n", "shop", "-p", json.dumps({"data": {"colour": colour}})
        )
        self.apply(RUN % run)
        self.until(lambda: run in self.kubectl("get", "careq", "-o", "name"), f"{run} asks for an approval")
        self.install("approve", run, "-m", "looks right", "--yes")
        self.wait(f"csur/{run}", "Succeeded")
        told = ["get", "configmap", "settings", "-n", "shop", "-o", "jsonpath={.data.colour}"]
        assert self.kubectl(*told, context="member1") == colour
        return self.kubectl("get", "csur", run)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("install") / "lab"
    go_tool(HELM)
    kubeconfig = Path(lab("up", "--members", "1", "--dir", str(folder)).splitlines()[-1])
    try:
        yield Cluster(folder, kubeconfig)
    finally:
        lab("down", "--dir", str(folder))


def charted(*words: str) -> list[str]:
    """A chart's release with its path from the root."""
    return [str(ROOT / word) if word.startswith("charts/") else word for word in words]


@pytest.mark.parametrize("chart", [HUB, MEMBER], ids=["hub", "member"])
def test_a_chart_renders_exactly_what_echelon_install_applies(chart, cluster):
    cluster.run(go_tool(HELM), "lint", "--strict", *charted(*chart)[1:])
    rendered = cluster.helm("template", *charted(*chart), *SERVED)
    ours = ["--print", "--name=member1"] if chart is MEMBER else ["--print"]
    printed = cluster.echelon("install", chart[0].removeprefix("echelon-"), *ours)
    assert by_name(rendered, without="annotations") == by_name(printed, without="annotations")


def by_name(text: str, without: str) -> dict[tuple[str, str], dict]:
    found = {}
    for one in yaml.safe_load_all(text):
        if one is None or one["kind"] == "Namespace":  # Helm makes it itself
            continue
        one["metadata"].pop(without, None)
        found[one["kind"], one["metadata"]["name"]] = one
    return found


def test_without_the_members_name_the_chart_says_what_is_missing(cluster):
    said = cluster.helm("template", *charted(*MEMBER[:2]), *SERVED, ok=False)
    assert "set member to the name of the MemberCluster" in said


def test_a_staged_run_is_made_approved_and_finished_with_the_rights_of_the_charts_only(cluster):
    cluster.helm("install", *charted(*HUB), "--create-namespace")
    cluster.helm("install", *charted(*MEMBER), "--create-namespace", context="member1")
    assert "echelon-hub-agent" in cluster.kubectl("get", "deploy", "-n", SPACE)
    assert "echelon-member-agent" in cluster.kubectl("get", "deploy", "-n", SPACE, context="member1")
    cluster.agents("up")
    cluster.apply(APPLICATION)
    shown = cluster.rolls_out("first", "blue")
    assert "first" in shown


def test_an_upgrade_changes_the_agent_and_keeps_every_object(cluster):
    before = identity(cluster)
    cluster.helm("upgrade", *charted(*HUB), "--set", "stuckAfter=1m", "--set", "replicas=3")
    deployment = json.loads(cluster.kubectl("get", "deploy", "echelon-hub-agent", "-n", SPACE, "-o", "json"))
    assert "--stuck-after=1m" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert deployment["spec"]["replicas"] == 3
    assert identity(cluster) == before
    cluster.rolls_out("second", "red")


def test_uninstalling_the_charts_leaves_definitions_and_objects(cluster):
    cluster.agents("down")
    before = identity(cluster)
    cluster.helm("uninstall", "echelon-hub")
    cluster.helm("uninstall", "echelon-member", context="member1")
    assert cluster.names(f"{RIGHTS},{POLICIES},deployments") == set()
    assert cluster.names(f"{RIGHTS},deployments", "member1") == set()
    assert identity(cluster) == before
    assert "appliedworks" in cluster.kubectl("get", "crd", "-o", "name", context="member1")
    assert "settings" in cluster.kubectl("get", "cm", "-n", "shop", context="member1")


def test_echelon_install_goes_on_where_helm_ended(cluster):
    before = identity(cluster)
    cluster.install("install", "hub")
    cluster.install("install", "member", "--name", "member1", context="member1")
    assert identity(cluster) == before
    cluster.agents("up")
    cluster.rolls_out("third", "white")


def test_installing_again_upgrades_and_leaves_alone_what_others_set(cluster):
    cluster.kubectl("annotate", "deploy", "echelon-hub-agent", "-n", SPACE, "team=ops")
    before = identity(cluster)
    cluster.install("install", "hub", "--stuck-after", "7m", "--replicas", "1")
    deployment = json.loads(cluster.kubectl("get", "deploy", "echelon-hub-agent", "-n", SPACE, "-o", "json"))
    assert "--stuck-after=7m" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert deployment["metadata"]["annotations"]["team"] == "ops"
    assert identity(cluster) == before


def test_echelon_uninstall_leaves_definitions_and_objects(cluster):
    cluster.agents("down")
    before = identity(cluster)
    said = cluster.install("uninstall", "hub")
    assert "Deployment echelon-hub-agent" in said
    cluster.install("uninstall", "member", context="member1")
    assert cluster.names(f"{RIGHTS},{POLICIES},deployments") == set()
    assert cluster.names(f"{RIGHTS},deployments", "member1") == set()
    assert identity(cluster) == before


def identity(cluster: Cluster) -> set[str]:
    """Which definitions and which of everybody's objects there are, by uid."""
    kinds = "crd,crp,csus,csur,careq,memberclusters"
    told = cluster.kubectl("get", kinds, "-o", "jsonpath={range .items[*]}{.metadata.uid} {end}")
    return set(told.split())
