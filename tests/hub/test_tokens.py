"""Service accounts, tokens, access reviews, impersonation and escalation."""

import pytest

from echelon.client.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from echelon.hub import local
from echelon.hub.call import ANONYMOUS, Request, User
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.test_access import RBAC, READ, binding, role
from tests.hub.widgets import ask

SA = "/api/v1/namespaces/default/serviceaccounts"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, as_=client):
        return await ask(as_, method, path, body)

    return call


@pytest.fixture
async def token(api):
    await api("POST", SA, {"metadata": {"name": "robot"}})
    return (await api("POST", SA + "/robot/token", {"spec": {}}))["status"]["token"]


def bearer(hub, token, cluster="hub"):
    prefix = "" if cluster == "hub" else f"/clusters/{cluster}"
    return hub.authenticate(token, prefix + "/api")


async def test_a_token_stands_for_its_account_in_its_own_cluster_only(hub, token):
    user = bearer(hub, token)
    assert user.name == "system:serviceaccount:default:robot"
    assert user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )
    assert bearer(hub, token, "member1") is None
    assert bearer(hub, token[:-4] + "AAAA") is None
    assert bearer(hub, "nonsense") is None
    assert bearer(hub, "a.b.c") is None


async def test_a_token_ends_with_its_time(hub, world, token):
    world.advance(3599)
    assert bearer(hub, token)
    world.advance(2)
    assert bearer(hub, token) is None


async def test_a_token_ends_with_its_account(hub, api, token):
    await api("DELETE", SA + "/robot")
    assert bearer(hub, token) is None
    await api("POST", SA, {"metadata": {"name": "robot"}})
    assert bearer(hub, token) is None


async def test_a_token_for_another_audience_opens_nothing_here(hub, api, token):
    del token
    other = (await api("POST", SA + "/robot/token", {"spec": {"audiences": ["vault"]}}))["status"]["token"]
    assert bearer(hub, other) is None
    review = {"spec": {"token": other, "audiences": ["vault", "x"]}}
    status = (await api("POST", AUTHENTICATION + "/tokenreviews", review))["status"]
    assert status["authenticated"]
    assert status["audiences"] == ["vault"]


async def test_a_token_lasts_ten_minutes_at_least(api, token):
    del token
    with pytest.raises(Invalid, match="may not specify a duration less than 10 minutes"):
        await api("POST", SA + "/robot/token", {"spec": {"expirationSeconds": 599}})
    with pytest.raises(NotFound):
        await api("POST", SA + "/nobody/token", {"spec": {}})


async def test_a_bad_token_is_reviewed_as_such(api):
    status = (await api("POST", AUTHENTICATION + "/tokenreviews", {"spec": {"token": "x"}}))["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(BadRequest, match="token is required"):
        await api("POST", AUTHENTICATION + "/tokenreviews", {"spec": {}})


async def test_everybody_may_ask_who_they_are(hub, api):
    jane = local.client(hub, User("jane", ("dev", "system:authenticated")))
    answer = await api("POST", AUTHENTICATION + "/selfsubjectreviews", {}, as_=jane)
    assert answer["status"]["userInfo"] == {"username": "jane", "groups": ["dev", "system:authenticated"]}
    with pytest.raises(Forbidden):
        await api("POST", AUTHENTICATION + "/selfsubjectreviews", {}, as_=local.client(hub, ANONYMOUS))


def asked(user=None, **attributes):
    spec = {"resourceAttributes": attributes}
    return {"spec": {**spec, "user": user} if user else spec}


async def test_an_access_review_answers_what_a_request_would(hub, api):
    jane = local.client(hub, User("jane", ("system:authenticated",)))
    mine = AUTHORIZATION + "/selfsubjectaccessreviews"
    wanted = {"namespace": "default", "verb": "list", "resource": "configmaps"}
    assert (await api("POST", mine, asked(**wanted), as_=jane))["status"] == {"allowed": False}
    await api("POST", RBAC + "/clusterroles", role("ClusterRole", "r", READ))
    bound = binding("RoleBinding", "b", "ClusterRole", "r", ("User", "jane"))
    await api("POST", RBAC + "/namespaces/default/rolebindings", bound)
    because = 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "r" to User "jane"'
    expected = {"allowed": True, "reason": because}
    assert (await api("POST", mine, asked(**wanted), as_=jane))["status"] == expected
    theirs = AUTHORIZATION + "/subjectaccessreviews"
    assert (await api("POST", theirs, asked("jane", **wanted)))["status"] == expected
    local_ = AUTHORIZATION + "/namespaces/default/localsubjectaccessreviews"
    assert (await api("POST", local_, asked("jane", **wanted)))["status"] == expected
    with pytest.raises(Invalid, match="must match"):
        await api("POST", local_, asked("jane", **{**wanted, "namespace": "other"}))
    with pytest.raises(Invalid, match="exactly one of nonResourceAttributes or resourceAttributes"):
        await api("POST", mine, {"spec": {}}, as_=jane)
    with pytest.raises(Invalid, match="at least one of user or group must be specified"):
        await api("POST", theirs, asked(**wanted))
    with pytest.raises(Forbidden):
        await api("POST", theirs, asked("jane", **wanted), as_=jane)


async def test_the_rules_of_a_namespace_are_told(hub, api):
    jane = local.client(hub, User("jane", ("system:authenticated",)))
    await api("POST", RBAC + "/namespaces/default/roles", role("Role", "r", READ))
    bound = binding("RoleBinding", "b", "Role", "r", ("User", "jane"))
    await api("POST", RBAC + "/namespaces/default/rolebindings", bound)
    path = AUTHORIZATION + "/selfsubjectrulesreviews"
    status = (await api("POST", path, {"spec": {"namespace": "default"}}, as_=jane))["status"]
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]} in status[
        "resourceRules"
    ]
    assert any("/api" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert status["incomplete"] is False


async def act(hub, who, path, **headers):
    """GET with impersonation headers; return the status code and the message."""
    import json

    named = {f"impersonate-{name.replace('_', '-')}": value for name, value in headers.items()}
    answer = await hub.handle(Request("GET", path, {}, named, b"", who))
    body = await local.whole(answer)
    return answer.status, json.loads(body).get("message", "")


async def test_acting_as_somebody_else_needs_the_right_to(hub, api):
    from echelon.hub.call import ADMIN

    jane = User("jane", ("system:authenticated",))
    assert await act(hub, jane, CM, user="root") == (
        403,
        'users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope',
    )
    assert (await act(hub, ADMIN, CM, user="jane"))[0] == 403
    assert (await act(hub, ADMIN, CM, user="jane", group="system:masters"))[0] == 200
    assert (await act(hub, ADMIN, CM, group="x"))[0] == 400
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["viewer"]}
    await api("POST", RBAC + "/clusterroles", role("ClusterRole", "act", rule))
    await api(
        "POST",
        RBAC + "/clusterrolebindings",
        binding("ClusterRoleBinding", "a", "ClusterRole", "act", ("User", "jane")),
    )
    await api(
        "POST",
        RBAC + "/clusterrolebindings",
        binding("ClusterRoleBinding", "v", "ClusterRole", "view", ("User", "viewer")),
    )
    assert (await act(hub, jane, CM, user="viewer"))[0] == 200
    assert (await act(hub, jane, CM, user="viewer", group="system:masters"))[0] == 403


async def test_nobody_gives_more_than_they_have(hub, api):
    jane = local.client(hub, User("jane", ("dev",)))
    maker = {
        "verbs": ["create", "update", "get"],
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
    }
    await api("POST", RBAC + "/namespaces/default/roles", role("Role", "maker", maker, READ))
    await api(
        "POST",
        RBAC + "/namespaces/default/rolebindings",
        binding("RoleBinding", "m", "Role", "maker", ("User", "jane")),
    )
    roles, bindings = RBAC + "/namespaces/default/roles", RBAC + "/namespaces/default/rolebindings"
    await api("POST", roles, role("Role", "same", READ), as_=jane)
    more = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    with pytest.raises(Forbidden) as caught:
        await api("POST", roles, role("Role", "more", more), as_=jane)
    assert str(caught.value) == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "jane" (groups=["dev"]) is attempting to grant '
        'RBAC permissions not currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )
    await api("POST", bindings, binding("RoleBinding", "ok", "Role", "same", ("User", "bob")), as_=jane)
    with pytest.raises(Forbidden, match="not currently held"):
        await api(
            "POST", bindings, binding("RoleBinding", "no", "ClusterRole", "edit", ("User", "jane")), as_=jane
        )
    with pytest.raises(ApiError) as absent:
        await api("POST", bindings, binding("RoleBinding", "no", "Role", "nope", ("User", "jane")), as_=jane)
    assert absent.value.code == 404
    bind = {
        "verbs": ["bind"],
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": ["edit"],
    }
    await api("POST", roles, role("Role", "binder", bind))
    await api("POST", bindings, binding("RoleBinding", "binder", "Role", "binder", ("User", "jane")))
    await api(
        "POST", bindings, binding("RoleBinding", "yes", "ClusterRole", "edit", ("User", "jane")), as_=jane
    )


async def test_cluster_roles_are_aggregated_by_label(hub, api):
    from tests.hub.serve import settle

    part = role("ClusterRole", "part", READ)
    part["metadata"]["labels"] = {"into": "whole"}
    whole = role("ClusterRole", "whole")
    whole["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"into": "whole"}}]}
    await api("POST", RBAC + "/clusterroles", whole)
    await api("POST", RBAC + "/clusterroles", part)
    await settle(hub)
    assert (await api("GET", RBAC + "/clusterroles/whole"))["rules"] == [READ]
    await api("DELETE", RBAC + "/clusterroles/part")
    await settle(hub)
    assert not (await api("GET", RBAC + "/clusterroles/whole")).get("rules")
