"""MutatingAdmissionPolicies: what no sequence recorded from a real server shows: their order, webhooks, what is shared."""

import base64
import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.client.errors import ApiError
from echelon.hub.policy_objects import Built, NotBuilt, configuration, operations
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.test_webhooks import configuration as webhook
from tests.hub.test_webhooks import hook  # noqa: F401
from tests.hub.widgets import MERGE, WIDGETS, ask, install, widget

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


async def change(api, name, expression, reinvocation="Never", **rule):
    on = {"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"], **rule}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    if expression.startswith("["):
        mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    spec = {"matchConstraints": {"resourceRules": [on]}, "mutations": [mutation]}
    spec["reinvocationPolicy"] = reinvocation
    await api("POST", f"{ADMISSION}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    await api("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", binding)


def append(letter):
    return f"Object{{data: {{'t': (has(object.data.t) ? object.data.t : '') + '{letter}'}}}}"


def cm(name, **data):
    return {"metadata": {"name": name}, "data": data}


async def test_policies_run_in_the_order_of_their_names(api):
    for name in ("c", "a", "b"):
        await change(api, name, append(name))
    assert (await api("POST", CM, cm("x", k="v")))["data"] == {"k": "v", "t": "abc"}


async def test_webhooks_see_what_policies_made_and_policies_are_asked_again_after_webhooks(hook, api):
    patch = [{"op": "add", "path": "/data/hook", "value": "x"}]
    coded = base64.b64encode(json.dumps(patch).encode()).decode()
    hook.answer = lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": coded}
    await api("POST", *webhook(hook, "Mutating"))
    first = "Object{data: {'seen': has(object.data.hook) ? 'hook' : 'no hook'}}"
    await change(api, "a", first, "IfNeeded")
    made = await api("POST", CM, cm("x", k="v"))
    assert hook.asked[0]["object"]["data"] == {"k": "v", "seen": "no hook"}
    assert "uid" not in hook.asked[0]["object"]["metadata"]
    assert made["data"] == {"k": "v", "seen": "hook", "hook": "x"}
    assert len(hook.asked) == 1, "a webhook that does not ask for it has one turn"


async def test_a_webhook_that_asks_for_it_has_another_turn_after_a_policy(hook, api):
    await api("POST", *webhook(hook, "Mutating", reinvocationPolicy="IfNeeded"))
    await change(api, "a", append("x"), "IfNeeded")
    made = await api("POST", CM, cm("x", k="v"))
    assert made["data"]["t"] == "xx"
    assert [asked["object"]["data"]["t"] for asked in hook.asked] == ["x", "xx"]


async def test_what_one_object_got_is_not_shared_with_the_next(api):
    await change(api, "a", "Object{metadata: Object.metadata{labels: {'a': 'b'}}}")
    await api("POST", CM, cm("x"))
    await api("PATCH", CM + "/x", {"metadata": {"labels": {"more": "c"}}}, MERGE)
    assert (await api("POST", CM, cm("y")))["metadata"]["labels"] == {"a": "b"}


async def test_spec_is_out_of_reach_on_status_and_status_elsewhere(client, api):
    await install(client)
    both = "[JSONPatch{op: 'add', path: '/spec/size', value: 7}, JSONPatch{op: 'add', path: '/status', value: {'phase': 'mine'}}]"
    await change(api, "a", both, apiGroups=["test.io"], resources=["widgets", "widgets/status"])
    made = await api("POST", WIDGETS, widget("w"))
    assert made["spec"]["size"] == 7
    assert "status" not in made
    await api("DELETE", f"{ADMISSION}/mutatingadmissionpolicies/a")
    await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": 1}}, MERGE)
    await change(api, "b", both, apiGroups=["test.io"], resources=["widgets/status"])
    made = await api("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": "theirs"}}, MERGE)
    assert (made["spec"]["size"], made["status"]) == (1, {"phase": "mine"})


async def test_a_generation_counts_what_a_policy_changed_in_the_spec(client, api):
    await install(client)
    await api("POST", WIDGETS, widget("w"))
    await change(api, "a", "Object{spec: Object.spec{size: 9}}", apiGroups=["test.io"], resources=["widgets"])
    made = await api("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert (made["spec"]["size"], made["metadata"]["generation"]) == (9, 2)
    first, again = [await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": size}}, MERGE) for size in (3, 4)]
    assert again["metadata"]["generation"] == 2
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"], (
        "nothing is different"
    )


async def test_policies_and_webhook_configurations_are_never_changed(api):
    await change(
        api, "a", "Object{metadata: Object.metadata{labels: {'a': 'b'}}}", apiGroups=["*"], resources=["*"]
    )
    found = await api("PATCH", f"{ADMISSION}/mutatingadmissionpolicies/a", {"metadata": {}}, MERGE)
    assert "labels" not in found["metadata"]
    await api("DELETE", f"{ADMISSION}/mutatingadmissionpolicies/a")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.builds(
            Built,
            st.sampled_from(["Object", "Object.a", "Object.a.b"]),
            st.dictionaries(st.sampled_from("ab"), inner),
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from("ab"), VALUES))
def test_whatever_an_expression_builds_is_json_or_refused(fields):
    for make in (
        lambda: configuration(Built("Object", fields)),
        lambda: operations([Built("JSONPatch", {"op": "add", "path": "/x", "value": fields})]),
    ):
        with contextlib.suppress(NotBuilt):
            json.dumps(make())


async def test_an_expression_that_makes_no_sense_refuses_and_nothing_else(api):
    await change(api, "a", "[JSONPatch{op: 'add', path: '', value: object}]")
    with pytest.raises(ApiError) as caught:
        await api("POST", CM, cm("x"))
    assert caught.value.code == 403
