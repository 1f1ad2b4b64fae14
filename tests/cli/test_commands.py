"""The command line as people use it, against a served hub, in both scopes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli import program
from tests.live import ECHELON, Live, live  # noqa: F401 - a fixture

SCOPES = pytest.mark.parametrize("space", ["", "shop"], ids=["cluster", "namespaced"])


class Shop:
    """An application, its placement and strategy in one scope, on the running sandbox."""

    def __init__(self, live: Live, space: str, name: str):
        self.live, self.name = live, name
        self.n = ("-n", space) if space else ()
        self.space = space
        self.kinds = {
            "placement": "ResourcePlacement" if space else "ClusterResourcePlacement",
            "strategy": "StagedUpdateStrategy" if space else "ClusterStagedUpdateStrategy",
            "run": "StagedUpdateRun" if space else "ClusterStagedUpdateRun",
        }

    def manifest(self, kind, name, spec):
        meta = {"name": name} | ({"namespace": self.space} if self.space else {})
        group = "placement.kubernetes-fleet.io/v1beta1"
        return {"apiVersion": group, "kind": self.kinds[kind], "metadata": meta, "spec": spec}

    def settings(self, colour):
        where = self.space or self.name
        meta = {"name": f"{self.name}-settings", "namespace": where}
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"colour": colour}},
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": meta,
                "stringData": {"password": f"s3cret-{colour}"},
            },
        ]

    def begin(self):
        selectors = (
            [
                {"group": "", "version": "v1", "kind": kind, "name": f"{self.name}-settings"}
                for kind in ("ConfigMap", "Secret")
            ]
            if self.space
            else [{"group": "", "version": "v1", "kind": "Namespace", "name": self.name}]
        )
        stages = [
            {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}}},
            {
                "name": "prod",
                "labelSelector": {"matchLabels": {"stage": "prod"}},
                "maxConcurrency": 2,
                "beforeStageTasks": [{"type": "Approval"}],
            },
        ]
        placement = {"resourceSelectors": selectors, "strategy": {"type": "External"}}
        self.apply(*self.settings("green"))
        if self.space:
            for member in ("member1", "member2", "member3"):
                self.live.kubectl("create", "namespace", self.space, context=member, ok=None)
        self.apply(
            self.manifest("placement", self.name, placement),
            self.manifest("strategy", self.name, {"stages": stages}),
        )

    def apply(self, *manifests):
        self.live.apply(yaml.safe_dump_all(manifests))

    def run(self, name, state="Run", **more):
        spec = {"placementName": self.name, "stagedRolloutStrategyName": self.name, "state": state} | more
        self.apply(self.manifest("run", name, spec))

    def echelon(self, *arguments, code=0):
        return echelon(self.live, *arguments, *self.n, code=code)


def echelon(live, *arguments, code=0, stdin=""):
    done = program.run(arguments, live.environment, stdin)
    assert done.returncode == code, (arguments, done)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module", autouse=True)
def labels(live):
    live.kubectl("label", "membercluster", "member1", "stage=canary")
    live.kubectl("label", "membercluster", "member2", "member3", "stage=prod")


@SCOPES
def test_a_run_from_plan_to_history(live, space):
    shop = Shop(live, space, f"main{space}")
    shop.begin()
    kind = "sur" if space else "csur"

    # nothing is there yet
    said = shop.echelon("get", "run", "v1", code=1).stderr
    assert f'{shop.kinds["run"]} "v1" not found' in said

    # a plan from a file, then the run, which waits to be started
    spec = {"placementName": shop.name, "stagedRolloutStrategyName": shop.name}
    text = yaml.safe_dump(shop.manifest("run", "v1", spec))
    plan = echelon(live, "plan", "-f", "-", *shop.n, stdin=text).stdout
    assert "1. canary: 1 cluster, 1 at a time\n     member1" in plan
    assert "approval before it" in plan
    assert "+ ConfigMap" in plan
    assert "nothing was written" in plan
    shop.echelon("get", "run", "v1", code=1)
    live.apply(text)
    live.until(lambda: "not started" in shop.echelon("get", "run", "v1").stdout, "planned")
    assert "its state is Initialize" in shop.echelon("diagnose", "v1").stdout

    # started, it comes to the approval
    assert "Watch it: echelon watch v1" in shop.echelon("start", "v1", "-m", "monday").stdout
    lines = shop.echelon("watch", "v1", "--until", "approval", "--timeout", "30s").stdout
    assert 'approval before "prod" (1/3 done)' in lines
    assert shop.echelon("get", f"{kind}/v1").stdout.startswith(f"v1 ({kind}")

    # everybody is told what waits
    assert "v1" in shop.echelon("approvals").stdout
    assert "v1-before-prod" in shop.echelon("approvals", "-o", "name").stdout
    view = json.loads(shop.echelon("get", "run", "v1", "-o", "json").stdout)
    assert (view["version"], view["state"], view["stages"][0]["letters"]) == (1, "waiting", "D")
    assert yaml.safe_load(shop.echelon("get", "run", "v1", "-o", "yaml").stdout)["name"] == "v1"
    assert shop.echelon("status", "v1", "--watch=false").stdout.startswith("v1 waiting ")
    assert "3. removed from" not in shop.echelon("plan", "v1").stdout

    # an approval needs a reason, a stage that exists, and somebody to ask
    assert "say why" in shop.echelon("approve", "v1", code=2).stderr
    assert 'has no stage "world"' in shop.echelon("approve", "v1/world", "-m", "x", "-y", code=1).stderr
    assert "add --yes" in shop.echelon("approve", "v1", "-m", "x", code=2).stderr
    done = shop.echelon("approve", "v1/prod", "-m", "canary looks good", "--yes")
    assert "done so far: canary 1/1" in done.stderr
    assert "v1-before-prod approved by" in done.stdout
    request = json.loads(
        live.kubectl("get", "areq" if space else "careq", "v1-before-prod", *shop.n, "-o", "json")
    )
    approved = next(one for one in request["status"]["conditions"] if one["type"] == "Approved")
    assert approved["observedGeneration"] == request["metadata"]["generation"]
    assert approved["message"].endswith(": canary looks good")
    assert shop.echelon("status", "v1", "--timeout", "30s").stdout.endswith("(3/3 done)\n")
    assert "is over" in shop.echelon("stop", "v1", "-m", "late", code=1).stderr

    # the next version, and back
    shop.apply(*shop.settings("blue"))
    assert (
        "/data/colour: green -> blue"
        in echelon(live, "plan", "-f", "-", *shop.n, stdin=text.replace("v1\n", "c2\n")).stdout
    )
    shop.run("c2")
    shop.echelon("watch", "c2", "--until", "stage=canary", "--timeout", "30s")
    diff = shop.echelon("diff", shop.name, "0", "1", code=1).stdout
    assert "/data/colour: green -> blue" in diff
    assert "s3cret" not in diff
    assert "(secret) " in diff
    shop.echelon("diff", shop.name, "1", "1", code=0)
    shop.echelon("diff", shop.name, "0", "9", code=2)
    history = shop.echelon("history", shop.name).stdout
    assert "1 (latest)" in history
    assert "v1 succeeded" in history
    assert "c2 waiting" in history

    # stop and resume
    assert "2 is told" not in shop.echelon("stop", "c2", "-m", "lunch").stdout
    shop.echelon("watch", "c2", "--timeout", "30s", code=5)
    assert "lunch" in shop.echelon("diagnose", "c2").stdout
    assert "is stopped; let it go on" in shop.echelon("start", "c2", code=1).stderr
    shop.echelon("resume", "c2")
    shop.echelon("watch", "c2", "--until", "approval", "--timeout", "30s")

    # rollback is a new run, shown first; it takes the cluster that c2 had changed
    dry = shop.echelon("rollback", shop.name, "--dry-run")
    assert "/data/colour: blue -> green" in dry.stderr
    assert "add --yes" in shop.echelon("rollback", shop.name, code=2).stderr
    made = shop.echelon("rollback", shop.name, "-m", "blue is ugly", "--yes").stdout
    back = f"{shop.name}-rollback-0"
    assert back in made
    shop.echelon("watch", back, "--until", "approval", "--timeout", "30s")
    shop.echelon("approve", back, "-m", "back", "-y")
    shop.echelon("watch", back, "--timeout", "30s")
    shop.echelon("watch", "c2", code=3)
    assert f"run {back} moved member1" in shop.echelon("diagnose", "c2").stdout
    runs = shop.echelon("runs").stdout
    assert runs.index(back) < runs.index("v1 ")


def test_a_bad_version_is_stuck_explained_and_ended_by_exit_codes(live):
    shop = Shop(live, "", "bad")
    shop.begin()
    pod = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "x", "image": "x:missing"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": pod}
    shop.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "x", "namespace": "bad"},
            "spec": spec,
        }
    )
    shop.run("bad1")
    said = shop.echelon("watch", "bad1", "--fail-on-stuck", "--timeout", "30s", code=4).stdout
    assert 'the image "x:missing" cannot be pulled' in said
    told = json.loads(shop.echelon("diagnose", "bad1", "-o", "json").stdout)
    assert told["findings"][0]["cause"] == "image-pull"
    assert told["findings"][0]["clusters"] == ["member1"]
    assert "member1" in shop.echelon("diagnose", "bad1", "member1").stdout
    assert "is not in a stage" in shop.echelon("diagnose", "bad1", "member9", code=1).stderr
    assert "not available yet" in shop.echelon("diagnose", "bad1", "--no-members").stdout
    assert "was not done in time" in shop.echelon("watch", "bad1", "--timeout", "1s", code=6).stderr
    stopping = shop.echelon("stop", "bad1", "-m", "bad").stdout
    assert "1 cluster(s) finish first: member1" in stopping


def test_what_would_be_refused_is_refused_on_paper(live):
    shop = Shop(live, "", "paper")
    shop.begin()
    spec = {"placementName": "nowhere", "stagedRolloutStrategyName": "paper"}
    done = echelon(live, "plan", "-f", "-", stdin=yaml.safe_dump(shop.manifest("run", "p", spec)), code=1)
    assert "REFUSED: parent placement not found." in done.stdout
    wrong = shop.manifest("run", "p", spec | {"state": "Go"})
    said = echelon(live, "plan", "-f", "-", stdin=yaml.safe_dump(wrong), code=1).stderr
    assert "Invalid enum value 'Go'" in said or "supported values" in said
    assert "0 staged update runs in the file" in echelon(live, "plan", "-f", "-", stdin="a: b", code=1).stderr
    assert "cannot read nofile.yaml" in echelon(live, "plan", "-f", "nofile.yaml", code=1).stderr
    assert "name a run, or a file" in echelon(live, "plan", code=2).stderr


def test_the_syntax_of_the_peers_plugin(live):
    live.kubectl("delete", "crp", "--all")  # a drain is blocked by what was never rolled out
    shop = Shop(live, "", "peer")
    shop.begin()
    shop.run("peer1")
    shop.echelon("watch", "peer1", "--until", "approval", "--timeout", "30s")
    common = ("--hub-cluster-context", "hub")
    said = echelon(live, "approve", "careq", *common, "--name", "peer1-before-prod").stdout
    assert said == 'ClusterApprovalRequest "peer1-before-prod" approved successfully\n'
    request = json.loads(live.kubectl("get", "careq", "peer1-before-prod", "-o", "json"))
    approved = next(one for one in request["status"]["conditions"] if one["type"] == "Approved")
    assert (approved["reason"], approved["message"]) == (
        "ClusterApprovalRequestApproved",
        "ClusterApprovalRequest has been approved",
    )
    wrong = echelon(live, "approve", "careq", *common, "--name", "x", "-n", "y", code=2).stderr
    assert "clusterapprovalrequest is cluster-scoped and does not accept a namespace" in wrong
    wrong = echelon(live, "approve", "areq", *common, "--name", "x", code=2).stderr
    assert "namespace is required for approvalrequest (use --namespace or -n flag)" in wrong
    assert (
        'unsupported resource kind "pod"'
        in echelon(live, "approve", "pod", *common, "--name", "x", code=2).stderr
    )
    shop.echelon("watch", "peer1", "--timeout", "30s")
    said = echelon(live, "draincluster", *common, "--cluster-name", "member3", "--timeout", "30s").stdout
    assert "drain was successful for cluster member3" in said
    clusters = echelon(live, "clusters", "-l", "stage=prod").stdout
    assert [line.split()[-2] for line in clusters.splitlines()[1:]] == ["no", "yes"]
    assert echelon(live, "uncordoncluster", *common, "--cluster-name", "member3").stdout == (
        "uncordoned member cluster member3\n"
    )
    assert "was not cordoned" in echelon(live, "uncordon", "member3").stdout


def test_a_drain_that_a_budget_blocks_says_so(live):
    shop = Shop(live, "", "kept")
    shop.begin()
    shop.run("kept1")
    shop.echelon("watch", "kept1", "--until", "approval", "--timeout", "30s")
    shop.apply(
        {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementDisruptionBudget",
            "metadata": {"name": "kept"},
            "spec": {"minAvailable": 3},
        }
    )
    done = echelon(live, "drain", "member1", code=1)
    assert "not evicted: kept: Eviction is blocked" in done.stderr
    assert "cordoned but not drained" in done.stderr
    echelon(live, "uncordon", "member1")


def test_mistakes_are_answered_with_what_to_do(live):
    for arguments, words, code in (
        (("watsh", "x"), "Did you mean 'watch'?", 2),
        (("watch", "a/b/c/d"), "is not RUN, RUN/STAGE, csur/RUN or sur/RUN", 2),
        (("watch", "sur/x"), "say which namespace with -n", 2),
        (("watch", "csur/x", "-n", "y"), "leave -n out", 2),
        (("watch", "x", "--until", "never"), "is not done, approval or stage=NAME", 2),
        (("get", "pod", "x"), "for other kinds use kubectl get", 2),
        (("runs", "-A", "-n", "x"), "leave -n out", 2),
        (("runs", "--context", "nowhere"), 'no context "nowhere"; there are: hub, member1', 1),
        (("runs", "--kubeconfig", "/nowhere"), "kubeconfig /nowhere does not exist", 1),
        (("diagnose", "crp/nowhere"), 'ClusterResourcePlacement "nowhere" not found', 1),
        (("drain", "member9"), 'MemberCluster "member9" not found; did you mean member', 1),
        (("history", "nowhere"), "not found", 1),
        (("status",), None, 0),
    ):
        done = echelon(live, *arguments, code=code)
        assert words is None or words in done.stderr, done.stderr
        assert words is None or done.stdout == "", "talk goes to stderr"


def test_who_owns_one_namespace_sees_its_runs_and_nothing_else(live):
    shop = Shop(live, "tenant", "tenant")
    shop.begin()
    shop.run("mine")
    rules = [
        {
            "apiGroups": ["placement.kubernetes-fleet.io"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    subject = {"kind": "User", "name": "tina", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    meta = {"name": "tenant", "namespace": "tenant"}
    rbac = "rbac.authorization.k8s.io/v1"
    shop.apply(
        {"apiVersion": rbac, "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        },
    )
    shop.echelon("watch", "mine", "--until", "approval", "--timeout", "30s", "--as", "tina")
    assert "mine" in shop.echelon("runs", "--as", "tina").stdout
    told = shop.echelon("diagnose", "mine", "--as", "tina").stdout
    assert "for an approval before stage prod" in told
    assert "left the fleet" not in told
    said = shop.echelon("approve", "mine", "-m", "me", "-y", "--as", "tina", code=1).stderr
    assert 'User "tina" cannot patch resource "approvalrequests/status"' in said
    said = echelon(live, "runs", "--as", "tina", code=1).stderr
    assert 'User "tina" cannot list resource "clusterstagedupdateruns"' in said
    assert "may not list memberclusters" in shop.echelon("plan", "mine", "--as", "tina", code=1).stderr


def test_a_hub_that_is_not_there_is_named(live, tmp_path):
    document = yaml.safe_load(live.kubeconfig.read_text())
    for one in document["clusters"]:
        one["cluster"]["server"] = "https://127.0.0.1:9"
    broken = tmp_path / "kubeconfig"
    broken.write_text(yaml.safe_dump(document))
    said = echelon(live, "runs", "--kubeconfig", str(broken), code=1).stderr
    assert "https://127.0.0.1:9" in said


def test_a_placement_nobody_rolls_out_is_explained(live):
    shop = Shop(live, "", "idle")
    shop.begin()
    live.until(lambda: "no run rolls it out" in shop.echelon("diagnose", "crp/idle").stdout, "told")


def test_kubectl_completes_the_words_of_the_plugin(live):
    def complete(*words):
        code = "import sys; from echelon.cli.complete import main; sys.argv[0] = 'kubectl_complete-echelon'; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            env=live.environment,
            check=True,
        )
        return done.stdout.split()

    assert complete("di") == ["diagnose", "diff", ":4"]
    assert "member2" in complete("drain", "")
    assert complete("drain", "--he") == [":4"]
    assert complete("watch", "--ti") == ["--timeout", ":4"]
    assert complete("history", "idl") == ["idle", ":4"]
    assert complete("nonsense", "") == [":4"]


def test_the_plugin_is_found_by_kubectl(live):
    environment = live.environment | {"PATH": f"{Path(ECHELON).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["kubectl", "echelon", "clusters", "-o", "name"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "membercluster.cluster.kubernetes-fleet.io/member1"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(live, shell):
    assert "_ECHELON_COMPLETE" in echelon(live, "completion", shell).stdout


def test_help_is_quick_and_imports_nothing_heavy(live):
    code = (
        "import sys\nfrom echelon.cli.main import echelon\n"
        "try:\n    echelon(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in ('aiohttp', 'msgspec', 'yaml', 'asyncio', 'rich') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
