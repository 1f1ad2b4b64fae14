"""Who may place what, as the embedded hub decides it; `tests/real/test_reading.py` asks a real API server the same."""

import pytest

from echelon.api import builtin
from echelon.api.registry import resource_of
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.client.errors import Forbidden
from echelon.hub.call import User
from echelon.install.reading import MAX_ASKED, reading
from tests.world import namespace, world

RBAC = "rbac.authorization.k8s.io"
KINDS = [("", "ConfigMap"), ("", "Secret"), ("", "Service"), ("apps", "Deployment"), ("batch", "Job")]
KINDS += [("networking.k8s.io", "Ingress"), ("networking.k8s.io", "NetworkPolicy"), ("batch", "CronJob")]


def role_binding(name, role, *users, kind="RoleBinding"):
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC} for user in users],
    }


def selector(group, kind, **more):
    return {"group": group, "version": "v1", "kind": kind, **more}


class Hub:
    """A hub with the policy, Ann who is admin of team-a, and Bob who may only write placements."""

    def __init__(self, w):
        self.w, self.hub, self.count = w, w.client(), 0

    async def begin(self):
        await self.w.install()
        for name in ("team-a", "team-b"):
            await self.hub.create(builtin.NAMESPACES, namespace(name))
        rules = [{"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"]}]
        placer = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "placer"},
            "rules": rules,
        }
        await self.hub.create(builtin.CLUSTER_ROLES, placer)
        everywhere = role_binding("placer", "placer", "ann", "bob", kind="ClusterRoleBinding")
        await self.hub.create(builtin.CLUSTER_ROLE_BINDINGS, everywhere)
        await self.hub.create(builtin.ROLE_BINDINGS, role_binding("ann", "admin", "ann"), "team-a")
        for manifest in reading():
            await self.hub.create(resource_of(manifest), manifest)

    async def place(self, user, *selectors, space=None):
        self.count += 1
        kind = (NAMESPACED if space else CLUSTER).placement
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": f"p{self.count}"}}
        who = self.w.client(User(user, ("system:authenticated",))) if user else self.hub
        return await who.create(kind, {**body, "spec": {"resourceSelectors": list(selectors)}}, space)

    async def refuses(self, user, *selectors, space=None):
        with pytest.raises(Forbidden) as caught:
            await self.place(user, *selectors, space=space)
        return str(caught.value)


@pytest.fixture
def hub():
    with world(3) as w:
        yield Hub(w)


def play(hub, scenario):
    async def whole():
        await hub.begin()
        await scenario()

    hub.w.run(whole())


def test_an_author_places_what_he_may_read_and_nothing_else(hub):
    async def scenario():
        await hub.place("ann", selector("", "Namespace", name="team-a"))
        said = await hub.refuses("ann", selector("", "Namespace", name="team-b"))
        assert "ann may place only what they may read: get or list is missing for one of Namespace" in said
        await hub.place("ann", *(selector(group, kind) for group, kind in KINDS), space="team-a")
        said = await hub.refuses("bob", selector("", "ConfigMap"), space="team-a")
        assert "one of ConfigMap in namespace team-a" in said
        await hub.place(None, selector("", "Namespace", name="team-b"))

    play(hub, scenario)


def test_there_is_a_limit_that_is_named(hub):
    async def scenario():
        kinds = [*KINDS, ("", "ServiceAccount")]
        assert len(kinds) == MAX_ASKED + 1
        said = await hub.refuses("ann", *(selector(group, kind) for group, kind in kinds), space="team-a")
        assert f"at most {MAX_ASKED} different kinds and namespaces" in said
        many = [selector("", "ConfigMap", name=f"c{number}") for number in range(20)]
        await hub.place("ann", *many, space="team-a")

    play(hub, scenario)


def test_a_placement_that_keeps_its_selectors_is_not_asked_about_again(hub):
    async def scenario():
        made = await hub.place(None, selector("", "Namespace", name="team-b"))
        bob = hub.w.client(User("bob", ("system:authenticated",)))
        changed = await bob.patch(CLUSTER.placement, made.name, None, {"spec": {"revisionHistoryLimit": 5}})
        assert changed.spec.revision_history_limit == 5
        other = {"spec": {"resourceSelectors": [selector("", "Namespace", name="team-a")]}}
        with pytest.raises(Forbidden):
            await bob.patch(CLUSTER.placement, made.name, None, other)

    play(hub, scenario)
