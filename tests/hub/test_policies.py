"""ValidatingAdmissionPolicies: what they refuse, warn about and leave alone, in kube-apiserver's words."""

import json

import pytest

from echelon.client.errors import ApiError, Forbidden, Invalid
from echelon.hub import local
from echelon.hub.call import ADMIN, Request
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import MERGE, WIDGETS, ask, install, widget

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


def policy(*validations, rule=None, **more):
    rule = rule or {}
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["configmaps"],
        **rule,
    }
    spec = {"matchConstraints": {"resourceRules": [rules]}, "validations": list(validations), **more}
    return {"metadata": {"name": "p"}, "spec": spec}


def binding(*actions, **more):
    actions = list(actions or ("Deny",))
    return {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": actions, **more}}


async def enforce(api, *validations, bind=None, **more):
    await api("POST", POLICIES, policy(*validations, **more))
    await api("POST", BINDINGS, bind or binding())


def cm(name, labels=None, **data):
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


async def test_a_broken_rule_is_told_with_its_expression(api):
    await enforce(api, {"expression": "!has(object.data) || object.data.size() <= 1"})
    await api("POST", CM, cm("a", x="1"))
    with pytest.raises(Invalid) as caught:
        await api("POST", CM, cm("b", x="1", y="2"))
    assert str(caught.value) == (
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: !has(object.data) || object.data.size() <= 1"
    )
    with pytest.raises(Invalid):
        await api("PATCH", CM + "/a", {"data": {"y": "2"}}, MERGE)


async def test_a_rule_may_have_a_message_and_a_reason(api):
    await enforce(api, {"expression": "false", "message": "not here", "reason": "Forbidden"})
    with pytest.raises(Forbidden, match="denied request: not here"):
        await api("POST", CM, cm("a"))


async def test_a_message_may_be_an_expression(api):
    message = "'no ' + object.metadata.name + ' for ' + request.userInfo.username"
    await enforce(api, {"expression": "request.operation == 'DELETE'", "messageExpression": message})
    with pytest.raises(Invalid, match="denied request: no a for admin"):
        await api("POST", CM, cm("a"))


async def test_a_delete_is_judged_by_what_goes(api):
    await api("POST", CM, cm("keep"))
    await api("POST", CM, cm("a"))
    await enforce(api, {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'keep'"})
    await api("DELETE", CM + "/a")
    with pytest.raises(Invalid):
        await api("DELETE", CM + "/keep")
    with pytest.raises(Invalid):
        await api("DELETE", CM)
    await api("GET", CM + "/keep")


async def test_variables_are_worked_out_where_they_are_used(api):
    variables = [
        {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
        {"name": "twice", "expression": "variables.size * 2"},
        {"name": "never", "expression": "object.nope.nope == 'x'"},
    ]
    await enforce(api, {"expression": "variables.twice < 4 || variables.never"}, variables=variables)
    await api("POST", CM, cm("a", x="1"))
    with pytest.raises(Invalid, match="resulted in error: no such key: nope"):
        await api("POST", CM, cm("b", x="1", y="2"))


async def test_an_error_lets_pass_when_the_policy_says_so(api):
    await enforce(api, {"expression": "object.nope == 'x'"}, failurePolicy="Ignore")
    await api("POST", CM, cm("a"))


async def test_conditions_selectors_and_exclusions_narrow_what_is_judged(api):
    conditions = [{"name": "not-me", "expression": "!request.name.startsWith('free')"}]
    selector = {"objectSelector": {"matchLabels": {"judge": "yes"}}}
    bind = binding(matchResources={**selector, "namespaceSelector": {"matchExpressions": []}})
    await enforce(api, {"expression": "false"}, bind=bind, matchConditions=conditions)
    await api("POST", CM, cm("a"))
    await api("POST", CM, cm("free", {"judge": "yes"}))
    with pytest.raises(Invalid):
        await api("POST", CM, cm("b", {"judge": "yes"}))


async def test_a_warning_is_a_header_and_nothing_more(hub, api):
    await enforce(api, {"expression": "false", "message": "hm"}, bind=binding("Warn", "Audit"))
    headers = {"content-type": "application/json"}
    answer = await hub.handle(Request("POST", CM, {}, headers, json.dumps(cm("a")).encode(), ADMIN))
    assert answer.status == 201
    said = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': hm\""
    assert ("Warning", said) in answer.headers


async def test_parameters_come_from_objects(api):
    await api("POST", CM, cm("limits", most="1"))
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    rule = {"expression": "!has(object.data) || object.data.size() <= int(params.data.most)"}
    creates = {"operations": ["CREATE"]}
    await enforce(api, rule, bind=binding(paramRef=reference), paramKind=kind, rule=creates)
    await api("POST", CM, cm("a", x="1"))
    with pytest.raises(Invalid):
        await api("POST", CM, cm("b", x="1", y="2"))
    await api("DELETE", CM + "/limits")
    with pytest.raises(Invalid, match="no params found"):
        await api("POST", CM, cm("c"))


async def test_custom_resources_and_their_status_are_judged_apart(client, api):
    await install(client)
    rule = {"apiGroups": ["test.io"], "apiVersions": ["*"], "resources": ["widgets/status"]}
    await enforce(api, {"expression": "object.status.phase != 'Bad'"}, rule=rule)
    await api("POST", WIDGETS, widget("a"))
    await api("PATCH", WIDGETS + "/a/status", {"status": {"phase": "Good"}}, MERGE)
    with pytest.raises(Invalid):
        await api("PATCH", WIDGETS + "/a/status", {"status": {"phase": "Bad"}}, MERGE)


async def test_a_policy_is_in_force_as_long_as_its_binding_is_there(api):
    await api("POST", POLICIES, policy({"expression": "false"}))
    await api("POST", CM, cm("a"))
    await api("POST", BINDINGS, binding())
    with pytest.raises(Invalid):
        await api("POST", CM, cm("b"))
    await api("DELETE", BINDINGS + "/b")
    await api("POST", CM, cm("b"))


async def test_policies_of_one_cluster_do_not_concern_another(hub, api):
    await enforce(api, {"expression": "false"})
    await ask(local.client(hub, cluster="member1"), "POST", CM, cm("a"))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "foo.bar",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')",
        ),
        ("1", 'spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int'),
        ("variables.zz > 1", "ERROR: <input>:1:10: undefined field 'zz'"),
    ],
)
async def test_an_expression_that_makes_no_sense_is_refused(api, expression, message):
    with pytest.raises(ApiError) as caught:
        await api("POST", POLICIES, policy({"expression": expression}))
    assert caught.value.code == 422
    assert message in str(caught.value)
