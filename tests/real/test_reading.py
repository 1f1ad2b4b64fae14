"""Who may place what, decided by a real API server with the author's own rights; and who asked is noted by it."""

import json
import subprocess
import time

import pytest
import yaml

from echelon.install.authors import requester
from echelon.install.manifests import hub_definitions
from echelon.install.reading import MAX_ASKED, reading
from tests.live import KUBECTL
from tests.real.lab import lab

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
KINDS = [("", "ConfigMap"), ("", "Secret"), ("", "Service"), ("apps", "Deployment"), ("batch", "Job")]
KINDS += [("networking.k8s.io", "Ingress"), ("networking.k8s.io", "NetworkPolicy"), ("batch", "CronJob")]
REQUESTER = "echelon.dev/requester"


class Hub:
    """A real hub with the policies, Ann who is admin of team-a, and Bob who may only write placements."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig

    def kubectl(self, *words, stdin="", user=None):
        as_user = ["--as", user] if user else []
        command = [KUBECTL, "--kubeconfig", self.kubeconfig, "--context", "hub", *as_user, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        return done.returncode == 0, done.stdout + done.stderr

    def apply(self, *objects, user=None):
        words = ["apply", "-f", "-"] if user else ["apply", "--server-side", "-f", "-"]
        return self.kubectl(*words, stdin=yaml.safe_dump_all(objects), user=user)

    def place(self, user, *selectors, namespace=None, name="p"):
        kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": meta}
        where = ["-n", namespace] if namespace else []
        self.kubectl("delete", kind, name, *where, "--ignore-not-found")
        return self.apply({**body, "spec": {"resourceSelectors": list(selectors)}}, user=user)

    def requester(self):
        _, text = self.kubectl("get", "crp", "p", "-o", "json")
        return json.loads(text)["metadata"].get("annotations", {}).get(REQUESTER)


def role_binding(name, role, *users, namespace=None):
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group} for user in users],
    }


def in_force(made):
    """Tell whether the policies judge and note; a server needs a moment to know new definitions and policies."""
    refused = "may place only what they may read" in made.place("bob", namespace_selector("team-b"))[1]
    return refused and made.place(None, namespace_selector("team-b"))[0] and made.requester() is not None


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("reading"))
    made = Hub(lab("up", "--members", "0", "--dir", folder).splitlines()[-1])
    rules = [{"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"]}]
    placer = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "placer"},
        "rules": rules,
    }
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("team-a", "team-b")
    ]
    rights = [
        role_binding("placer", "placer", "ann", "bob"),
        role_binding("ann", "admin", "ann", namespace="team-a"),
    ]
    try:
        ok, said = made.apply(*hub_definitions(), *reading(), *requester(), placer, *spaces, *rights)
        assert ok, said
        deadline = time.monotonic() + 60
        while not in_force(made):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield made
    finally:
        lab("down", "--dir", folder)


def namespace_selector(name, **more):
    return {"group": "", "version": "v1", "kind": "Namespace", "name": name, **more}


def selector(group, kind, **more):
    return {"group": group, "version": "v1", "kind": kind, **more}


def test_an_author_places_the_namespace_he_may_read_and_no_other(hub):
    ok, said = hub.place("ann", namespace_selector("team-a"))
    assert ok, said
    assert hub.requester() == "ann"
    ok, said = hub.place("ann", namespace_selector("team-b"))
    assert not ok
    assert "ann may place only what they may read: get or list is missing for one of Namespace" in said
    ok, said = hub.place("ann", selector("rbac.authorization.k8s.io", "ClusterRole", name="admin"))
    assert not ok
    assert "ClusterRole" in said


def test_selectors_inside_a_namespace_are_asked_for_there(hub):
    narrow = namespace_selector("team-a", selectionScope="NamespaceWithResourceSelectors")
    assert hub.place("ann", narrow, selector("apps", "Deployment"))[0]
    assert not hub.place("bob", narrow, selector("apps", "Deployment"))[0]
    assert hub.place("ann", *(selector(g, k) for g, k in KINDS), namespace="team-a")[0]
    ok, said = hub.place("bob", selector("", "ConfigMap"), namespace="team-a")
    assert not ok
    assert "one of ConfigMap in namespace team-a" in said


def test_one_object_needs_the_right_to_get_just_that(hub):
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "one"},
        "rules": rules,
    }
    hub.apply(role, role_binding("one", "one", "bob", namespace="team-a"))
    assert hub.place("bob", selector("", "ConfigMap", name="one"), namespace="team-a")[0]
    assert not hub.place("bob", selector("", "ConfigMap", name="two"), namespace="team-a")[0]


def test_many_objects_of_a_kind_are_one_question_and_many_kinds_too_many(hub):
    hundred = [selector("", "ConfigMap", name=f"c{number}") for number in range(100)]
    ok, said = hub.place("ann", *hundred, namespace="team-a")
    assert ok, said
    kinds = [*KINDS, ("", "ServiceAccount")]
    assert len(kinds) == MAX_ASKED + 1
    ok, said = hub.place("ann", *(selector(g, k) for g, k in kinds), namespace="team-a")
    assert not ok
    assert f"at most {MAX_ASKED} different kinds and namespaces" in said
    assert hub.place(None, *(selector(g, k) for g, k in kinds), namespace="team-a")[0], "admins are not asked"


def test_who_asked_cannot_be_written_by_hand_and_moves_with_the_spec(hub):
    assert hub.place("ann", namespace_selector("team-a"))[0]
    ok, said = hub.kubectl("annotate", "crp", "p", f"{REQUESTER}=bob", "--overwrite", user="ann")
    assert not ok
    assert "is written by the API server only" in said
    assert hub.kubectl("annotate", "crp", "p", "mine=x", user="ann")[0]
    assert hub.requester() == "ann"
    patch = '{"spec":{"revisionHistoryLimit":5}}'
    assert hub.kubectl("patch", "crp", "p", "--type", "merge", "-p", patch, user="bob")[0]
    assert hub.requester() == "bob"


def test_selectors_that_stay_are_not_asked_about_again(hub):
    assert hub.place(None, namespace_selector("team-b"))[0]
    patch = '{"spec":{"revisionHistoryLimit":7}}'
    assert hub.kubectl("patch", "crp", "p", "--type", "merge", "-p", patch, user="ann")[0]
