"""What a member's identity may do on a real hub: its own desk, and nothing else."""

import json
from pathlib import Path

import pytest

from tests.live import Live
from tests.real.lab import kubeconfig, lab, live  # noqa: F401 - fixtures

pytestmark = [pytest.mark.real, pytest.mark.kubectl]
ITS_DESK = {
    "events": {"create", "get", "patch"},
    "leases.coordination.k8s.io": {"create", "get", "update"},
    "works.placement.kubernetes-fleet.io": {"get", "list", "watch", "patch", "update"},
    "works.placement.kubernetes-fleet.io/status": {"get", "patch", "update"},
    "internalmemberclusters.cluster.kubernetes-fleet.io": {"get", "list", "watch"},
    "internalmemberclusters.cluster.kubernetes-fleet.io/status": {"get", "patch", "update"},
}
WORKS = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-member1/works"
EVERYBODY = {  # what Kubernetes gives to all who are authenticated
    "selfsubjectreviews.authentication.k8s.io": {"create"},
    "selfsubjectaccessreviews.authorization.k8s.io": {"create"},
    "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
    "clustertrustbundles.certificates.k8s.io": {"get", "list", "watch"},
}


@pytest.fixture
def member(live: Live) -> Live:
    """The hub as member1's agent reaches it."""
    folder = Path(lab("kubeconfig")).parent / "agents"
    return Live(live.data, folder / "member1.kubeconfig")


def rights(member: Live, namespace: str) -> dict[str, set[str]]:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    said = member.kubectl("create", "--validate=false", "-f", "-", "-o", "json", stdin=json.dumps(review))
    found: dict[str, set[str]] = {}
    for rule in json.loads(said)["status"]["resourceRules"]:
        assert not rule.get("resourceNames")
        for group in rule.get("apiGroups", [""]):
            for resource in rule["resources"]:
                base, _, sub = resource.partition("/")
                name = f"{base}.{group}" if group else base
                found.setdefault(f"{name}/{sub}" if sub else name, set()).update(rule["verbs"])
    return found


def test_at_its_own_desk_a_member_has_exactly_what_it_needs(member: Live) -> None:
    assert rights(member, "fleet-member-member1") == ITS_DESK | EVERYBODY


@pytest.mark.parametrize("namespace", ["fleet-member-member2", "fleet-system", "kube-system", "default"])
def test_elsewhere_a_member_has_what_everybody_has(member: Live, namespace: str) -> None:
    assert rights(member, namespace) == EVERYBODY


@pytest.mark.parametrize(
    "words",
    [
        ["get", "works", "-n", "fleet-member-member2"],
        ["get", "works", "-A"],
        ["get", "memberclusters"],
        ["get", "secrets", "-n", "fleet-member-member1"],
        ["get", "configmaps", "-n", "default"],
        ["delete", "--raw", f"{WORKS}/whatever"],
        [
            "patch",
            "internalmemberclusters",
            "member2",
            "-n",
            "fleet-member-member2",
            "--type=merge",
            "-p",
            "{}",
        ],
        ["create", "namespace", "mine"],
        ["create", "token", "echelon-hub-agent", "-n", "fleet-system"],
    ],
    ids=" ".join,
)
def test_a_member_is_refused(member: Live, words: list[str]) -> None:
    assert "Forbidden" in member.kubectl(*words, ok=False) or "forbidden" in member.kubectl(*words, ok=False)


def test_a_member_cannot_give_itself_work(member: Live) -> None:
    work = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "Work",
        "metadata": {"name": "mine", "namespace": "fleet-member-member1"},
        "spec": {"workload": {"manifests": []}},
    }
    assert "forbidden" in member.kubectl(
        "create", "--validate=false", "-f", "-", stdin=json.dumps(work), ok=False
    )
