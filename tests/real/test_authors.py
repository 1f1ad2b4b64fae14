"""Who did what, as a real API server notes it; the same rules as `tests/install/test_authors.py`, with kubectl."""

import json

import pytest

from echelon.install.authors import authors
from echelon.install.manifests import hub_definitions
from tests.install.test_authors import NOTE, TAKEN
from tests.real.lab import lab
from tests.real.test_reading import Hub as Kubectl
from tests.real.test_reading import role_binding

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
VERSION = "placement.kubernetes-fleet.io/v1beta1"
PEOPLE = ("ann", "bob", "eve")


class Hub(Kubectl):
    """A real hub with the policies, and people who may write everything of the fleet."""

    def make(self, user, kind, name, spec, **annotations):
        meta = {"name": name, "namespace": "team", "annotations": annotations}
        return self.apply({"apiVersion": VERSION, "kind": kind, "metadata": meta, "spec": spec}, user=user)

    def patch(self, user, kind, name, body, *more):
        words = ["patch", kind, name, "-n", "team", "--type", "merge", "-p", json.dumps(body), *more]
        return self.kubectl(*words, user=user)

    def patch_status(self, user, name, **status):
        return self.patch(user, "areq", name, {"status": status}, "--subresource", "status")

    def get(self, kind, name):
        _, text = self.kubectl("get", kind, name, "-n", "team", "-o", "json")
        return json.loads(text)

    def note(self, kind, name):
        return self.get(kind, name)["metadata"].get("annotations", {}).get(NOTE)

    def approver(self, name):
        return self.get("areq", name).get("status", {}).get("approvedBy", {}).get("username")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("authors"))
    made = Hub(lab("up", "--members", "0", "--dir", folder).splitlines()[-1])
    rules = [{"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "fleet"},
        "rules": rules,
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    try:
        rows = (*hub_definitions(), *authors(), role, role_binding("fleet", "fleet", *PEOPLE), space)
        ok, said = made.apply(*rows)
        assert ok, said
        until_in_force(made)
        yield made
    finally:
        lab("down", "--dir", folder)


def until_in_force(made):
    import time

    deadline = time.monotonic() + 60
    ask(made, "probe")
    while made.approver("probe") is None or made.note("sur", "probe") is None:
        assert time.monotonic() < deadline
        made.kubectl("delete", "areq,sur", "probe", "-n", "team", "--ignore-not-found")
        ask(made, "probe")
        made.patch_status("eve", "probe", conditions=[approved()])
        made.make("eve", "StagedUpdateRun", "probe", RUN)
        time.sleep(0.3)


RUN = {"placementName": "p", "resourceSnapshotIndex": "1", "stagedRolloutStrategyName": "s", "state": "Run"}


def ask(hub, name):
    hub.make(None, "ApprovalRequest", name, {"parentStageRollout": "r", "targetStage": "s"})


def approved(status="True", generation=1):
    return {**TAKEN, "type": "Approved", "status": status, "observedGeneration": generation}


def test_who_approved_is_noted_by_the_server_whatever_the_body_says(hub):
    ask(hub, "a")
    ok, said = hub.patch_status("ann", "a", conditions=[approved()], approvedBy={"username": "bob"})
    assert ok, said
    assert hub.approver("a") == "ann"
    assert hub.patch_status("eve", "a", approvedBy={"username": "eve"})[0]
    assert hub.approver("a") == "ann"
    assert hub.patch_status("eve", "a", approvedBy=None)[0]
    assert hub.approver("a") == "ann"
    assert hub.patch_status("engine-by-name", "a")[0] is False, "the others have no rights"


def test_the_note_follows_the_approval_until_a_run_has_taken_it(hub):
    ask(hub, "b")
    assert hub.patch_status("eve", "b", conditions=[approved(generation=7)])[0]
    assert hub.approver("b") is None
    assert hub.patch_status("ann", "b", conditions=[approved()])[0]
    assert hub.approver("b") == "ann"
    assert hub.patch_status("ann", "b", conditions=[approved("False")])[0]
    assert hub.approver("b") is None
    assert hub.patch_status("bob", "b", conditions=[approved()])[0]
    assert hub.patch_status("eve", "b", conditions=[approved(), TAKEN])[0]
    assert hub.patch_status("eve", "b", conditions=[approved("False"), TAKEN])[0]
    assert hub.approver("b") == "bob"


def test_who_asked_for_a_run_is_noted_and_who_stopped_it(hub):
    ok, said = hub.make("ann", "StagedUpdateRun", "r", RUN, **{NOTE: "bob"})
    assert ok, said
    assert hub.note("sur", "r") == "ann"
    assert hub.patch("bob", "sur", "r", {"metadata": {"annotations": None}})[0]
    assert hub.note("sur", "r") == "ann"
    ok, said = hub.patch("bob", "sur", "r", {"metadata": {"annotations": {NOTE: "bob"}}})
    assert not ok
    assert "is written by the API server only" in said
    assert hub.patch("bob", "sur", "r", {"spec": {"state": "Stop"}})[0]
    assert hub.note("sur", "r") == "bob"


def test_who_placed_and_who_evicted_is_noted(hub):
    selectors = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "x"}]
    ok, said = hub.make("ann", "ResourcePlacement", "p", {"resourceSelectors": selectors})
    assert ok, said
    assert hub.note("rp", "p") == "ann"
    kind = "ClusterResourcePlacementEviction"
    body = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": "e"}}
    ok, said = hub.apply({**body, "spec": {"placementName": "p", "clusterName": "c"}}, user="bob")
    assert ok, said
    assert hub.note(kind, "e") == "bob"
