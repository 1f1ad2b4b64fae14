"""Who did what, as the embedded hub notes it; `tests/real/test_authors.py` asks a real API server the same."""

import pytest

from echelon.api.own import EVICTIONS
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.client.errors import ApiError
from echelon.hub.call import User
from echelon.install.authors import NEWER_KINDS
from echelon.install.manifests import hub_policies
from tests.install.test_policies import manifest
from tests.world import namespace, world

NOTE = "echelon.dev/requester"
RUN = {"placementName": "p", "resourceSnapshotIndex": "1", "stagedRolloutStrategyName": "s"}
MASTERS = ("system:masters", "system:authenticated")


@pytest.fixture
def w():
    with world(21) as made:
        yield made


class Hub:
    """A hub with the policies of an installation but without the engine, and people who may do everything."""

    def __init__(self, w):
        self.w = w

    async def begin(self, without=frozenset()):
        from echelon.api import builtin
        from echelon.api.registry import resource_of

        await self.w.install()
        hub = self.w.client()
        await hub.create(builtin.NAMESPACES, namespace("team"))
        for one in hub_policies("fleet-system"):
            if one["kind"] not in without and "reading" not in one["metadata"]["name"]:
                await hub.create(resource_of(one), one)

    def as_(self, user):
        return self.w.client(User(user, MASTERS))

    async def approve(self, user, scope, name="a", generation=1, status="True", **more):
        condition = {
            "type": "Approved",
            "status": status,
            "reason": "r",
            "message": "somebody else: yes",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": generation,
        }
        await self.write_status(user, scope, {"conditions": [condition], **more}, name)

    async def write_status(self, user, scope, status, name="a"):
        space = "team" if scope is NAMESPACED else None
        await self.as_(user).patch(scope.approval, name, space, {"status": status}, subresource="status")

    async def approver(self, scope, name="a"):
        space = "team" if scope is NAMESPACED else None
        found = await self.as_("ann").get(scope.approval, name, space)
        return found.status.approved_by.username if found.status and found.status.approved_by else None


TAKEN = {
    "type": "ApprovalAccepted",
    "status": "True",
    "reason": "r",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
SCOPES = pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED], ids=["cluster", "namespaced"])


def run(w, scenario, **options):
    async def whole():
        hub = Hub(w)
        await hub.begin(**options)
        await scenario(hub)

    w.run(whole())


async def ask(hub, scope, name="a"):
    body = manifest(scope.approval, name, {"parentStageRollout": "r", "targetStage": "s"})
    await hub.as_("engine").create(scope.approval, body, "team" if scope is NAMESPACED else None)


@SCOPES
def test_who_approved_is_noted_by_the_server_whatever_the_body_says(w, scope):
    async def scenario(hub):
        await ask(hub, scope)
        await hub.approve("ann", scope, approvedBy={"username": "bob"})
        assert await hub.approver(scope) == "ann"
        await hub.write_status("eve", scope, {"approvedBy": {"username": "eve"}})
        assert await hub.approver(scope) == "ann"
        await hub.write_status("eve", scope, {"approvedBy": None})
        assert await hub.approver(scope) == "ann"
        await hub.approve("eve", scope)
        assert await hub.approver(scope) == "ann", "an approval that is given is not given again"

    run(w, scenario)


@SCOPES
def test_nobody_is_noted_where_nothing_is_approved(w, scope):
    async def scenario(hub):
        await ask(hub, scope)
        await hub.write_status("eve", scope, {"approvedBy": {"username": "ann"}})
        assert await hub.approver(scope) is None
        await hub.approve("eve", scope, generation=7)
        assert await hub.approver(scope) is None, "an approval at another generation does not count"
        await hub.approve("ann", scope)
        assert await hub.approver(scope) == "ann", "who makes it count gives it"
        await hub.approve("ann", scope, status="False")
        assert await hub.approver(scope) is None
        await hub.approve("bob", scope)
        assert await hub.approver(scope) == "bob"

    run(w, scenario)


@SCOPES
def test_from_the_moment_a_run_takes_an_approval_its_approver_stays(w, scope):
    async def scenario(hub):
        await ask(hub, scope)
        await hub.approve("ann", scope)
        await hub.write_status("engine", scope, {"conditions": [TAKEN]})
        assert await hub.approver(scope) == "ann"
        await hub.write_status("eve", scope, {"approvedBy": {"username": "eve"}, "conditions": []})
        assert await hub.approver(scope) == "ann"

    run(w, scenario)


@SCOPES
def test_who_writes_a_runs_answer_by_hand_is_noted_as_well(w, scope):
    async def scenario(hub):
        await ask(hub, scope)
        await hub.write_status("eve", scope, {"conditions": [TAKEN]})
        assert await hub.approver(scope) == "eve"

    run(w, scenario)


@SCOPES
def test_who_asked_for_a_run_is_noted_and_who_stopped_it(w, scope):
    space = "team" if scope is NAMESPACED else None

    async def scenario(hub):
        body = manifest(scope.run, "r", {**RUN, "state": "Run"})
        body["metadata"]["annotations"] = {NOTE: "bob", "mine": "x"}
        made = await hub.as_("ann").create(scope.run, body, space)
        assert made.metadata.annotations == {NOTE: "ann", "mine": "x"}

        async def patch(user, body):
            found = await hub.as_(user).patch(scope.run, "r", space, body)
            return found.metadata.annotations.get(NOTE)

        assert await patch("bob", {"metadata": {"labels": {"a": "b"}}}) == "ann"
        assert await patch("bob", {"metadata": {"annotations": None}}) == "ann"
        with pytest.raises(ApiError, match="is written by the API server only"):
            await patch("bob", {"metadata": {"annotations": {NOTE: "bob"}}})
        assert await patch("bob", {"spec": {"state": "Stop"}}) == "bob"
        engine = "system:serviceaccount:fleet-system:echelon-hub-agent"
        assert await patch(engine, {"spec": {"state": "Run"}}) == "bob", "the engine asks for nothing"

    run(w, scenario)


@SCOPES
def test_who_placed_something_is_noted_and_who_evicted_it(w, scope):
    async def scenario(hub):
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "app"}
        body = manifest(scope.placement, "p", {"resourceSelectors": [selector]})
        made = await hub.as_("ann").create(scope.placement, body, "team" if scope is NAMESPACED else None)
        assert made.metadata.annotations == {NOTE: "ann"}
        body = manifest(EVICTIONS, "e", {"placementName": "p", "clusterName": "c"})
        made = await hub.as_("bob").create(EVICTIONS, body)
        assert made.metadata.annotations == {NOTE: "bob"}

    run(w, scenario)


def test_where_the_server_cannot_note_it_nobody_can_write_another_name(w):
    async def scenario(hub):
        body = manifest(CLUSTER.run, "r", RUN)
        body["metadata"]["annotations"] = {NOTE: "bob"}
        with pytest.raises(ApiError, match="is written by the API server only"):
            await hub.as_("ann").create(CLUSTER.run, body)
        del body["metadata"]["annotations"]
        await hub.as_("ann").create(CLUSTER.run, body)
        await ask(hub, CLUSTER)
        with pytest.raises(ApiError, match=r"status.approvedBy is written by the API server only"):
            await hub.approve("eve", CLUSTER, approvedBy={"username": "ann"})
        await hub.approve("eve", CLUSTER)
        assert await hub.approver(CLUSTER) is None

    run(w, scenario, without=NEWER_KINDS)
