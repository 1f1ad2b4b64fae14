"""RBAC: who may do what, and in which words the rest is refused."""

import json

import pytest

from echelon.client.errors import ApiError, Forbidden
from echelon.hub import local
from echelon.hub.call import ANONYMOUS, User
from tests.hub.serve import client, hub, world  # noqa: F401

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CM = "/api/v1/namespaces/default/configmaps"
JANE = User("jane", ("dev", "system:authenticated"))


@pytest.fixture
def jane(hub):
    return local.client(hub, JANE)


def role(kind, name, *rules):
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": rules,
    }


def binding(kind, name, role_kind, role_name, *subjects):
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": [
            {"kind": subject[0], "apiGroup": "rbac.authorization.k8s.io", "name": subject[1]}
            if subject[0] != "ServiceAccount"
            else {"kind": subject[0], "namespace": subject[1], "name": subject[2]}
            for subject in subjects
        ],
    }


READ = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}


async def refused(client, method, path, body=None):
    with pytest.raises(Forbidden) as caught:
        await client.raw(method, path, body)
    return str(caught.value)


async def test_nobody_may_anything_without_a_binding(jane):
    assert await refused(jane, "GET", CM) == (
        'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" '
        'in the namespace "default"'
    )


async def test_a_refusal_names_the_object_and_the_cluster_scope(jane):
    assert await refused(jane, "GET", RBAC + "/clusterroles/x") == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: User "jane" cannot get resource "clusterroles" '
        'in API group "rbac.authorization.k8s.io" at the cluster scope'
    )


async def test_what_does_not_exist_is_refused_before_it_is_not_found(jane, client):
    assert 'cannot list resource "x" in API group "foo"' in await refused(jane, "GET", "/apis/foo/v1/x")
    with pytest.raises(ApiError) as caught:
        await client.raw("GET", "/apis/foo/v1/x")
    assert caught.value.code == 404


async def test_a_refused_path_is_named(jane):
    assert await refused(jane, "GET", "/metrics") == 'forbidden: User "jane" cannot get path "/metrics"'


async def test_everybody_may_ask_for_the_version_and_only_the_known_for_the_apis(hub):
    anonymous = local.client(hub, ANONYMOUS)
    await anonymous.raw("GET", "/version")
    await anonymous.raw("GET", "/livez")
    assert 'User "system:anonymous" cannot get path "/apis"' in await refused(anonymous, "GET", "/apis")
    await local.client(hub, JANE).raw("GET", "/apis")


@pytest.mark.parametrize("subject", [("User", "jane"), ("Group", "dev")])
async def test_a_role_binding_counts_in_its_namespace_only(client, jane, subject):
    await client.raw("POST", RBAC + "/namespaces/default/roles", role("Role", "read", READ))
    await client.raw(
        "POST",
        RBAC + "/namespaces/default/rolebindings",
        binding("RoleBinding", "b", "Role", "read", subject),
    )
    await jane.raw("GET", CM)
    await refused(jane, "POST", CM, {"metadata": {"name": "a"}})
    await refused(jane, "GET", "/api/v1/namespaces/kube-system/configmaps")
    await refused(jane, "GET", "/api/v1/configmaps")


async def test_a_cluster_role_bound_in_a_namespace_counts_there(client, jane):
    bound = binding("RoleBinding", "b", "ClusterRole", "view", ("User", "jane"))
    await client.raw("POST", RBAC + "/namespaces/default/rolebindings", bound)
    await jane.raw("GET", CM)
    await refused(jane, "GET", "/api/v1/namespaces/kube-system/configmaps")


async def test_a_cluster_role_binding_counts_everywhere_in_its_own_cluster(hub, client, jane):
    bound = binding("ClusterRoleBinding", "b", "ClusterRole", "cluster-admin", ("User", "jane"))
    await client.raw("POST", RBAC + "/clusterrolebindings", bound)
    await jane.raw("GET", "/api/v1/configmaps")
    await refused(local.client(hub, JANE, "member1"), "GET", "/api/v1/configmaps")


async def test_a_service_account_is_a_subject(hub, client):
    robot = User("system:serviceaccount:default:robot", ("system:authenticated",))
    bound = binding("RoleBinding", "b", "ClusterRole", "view", ("ServiceAccount", "default", "robot"))
    await client.raw("POST", RBAC + "/namespaces/default/rolebindings", bound)
    await local.client(hub, robot).raw("GET", CM)


async def test_names_in_a_rule_limit_it_to_these_objects(client, jane):
    rule = {**READ, "resourceNames": ["mine"]}
    await client.raw("POST", RBAC + "/clusterroles", role("ClusterRole", "r", rule))
    await client.raw(
        "POST",
        RBAC + "/clusterrolebindings",
        binding("ClusterRoleBinding", "b", "ClusterRole", "r", ("User", "jane")),
    )
    await client.raw("POST", CM, {"metadata": {"name": "mine"}})
    await jane.raw("GET", CM + "/mine")
    await refused(jane, "GET", CM + "/yours")
    await refused(jane, "GET", CM)


async def test_a_change_of_role_or_binding_counts_at_once(client, jane):
    await client.raw("POST", RBAC + "/clusterroles", role("ClusterRole", "r", READ))
    bound = binding("ClusterRoleBinding", "b", "ClusterRole", "r", ("User", "jane"))
    await client.raw("POST", RBAC + "/clusterrolebindings", bound)
    await jane.raw("GET", CM)
    merge = "application/merge-patch+json"
    await client.raw("PATCH", RBAC + "/clusterroles/r", {"rules": []}, merge)
    await refused(jane, "GET", CM)
    await client.raw("PATCH", RBAC + "/clusterroles/r", {"rules": [READ]}, merge)
    await jane.raw("GET", CM)
    await client.raw("DELETE", RBAC + "/clusterrolebindings/b")
    await refused(jane, "GET", CM)


async def test_a_bound_role_that_does_not_exist_is_named(client, jane):
    bound = binding("ClusterRoleBinding", "b", "ClusterRole", "nowhere", ("User", "jane"))
    await client.raw("POST", RBAC + "/clusterrolebindings", bound)
    assert (await refused(jane, "GET", CM)).endswith(
        ': RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found'
    )


async def test_a_cluster_is_born_with_the_roles_of_a_real_one(client):
    roles = json.loads(await client.raw("GET", RBAC + "/clusterroles"))["items"]
    named = {item["metadata"]["name"]: item for item in roles}
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user"} <= named.keys()
    assert named["system:aggregate-to-view"]["metadata"]["labels"] == {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        "rbac.authorization.k8s.io/aggregate-to-view": "true",
    }
