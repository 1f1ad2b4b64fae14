"""Admission webhooks: called over TLS, may change, refuse, warn, or be away."""

import base64
import json
import ssl
from datetime import UTC, datetime

import pytest
from aiohttp import web

from echelon.client.errors import ApiError, Invalid
from echelon.hub.certificates import Authority
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import MERGE, ask

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CM = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


class Hook:
    """A webhook server: `answer` says what to do with a request; everything asked is kept."""

    def __init__(self):
        self.asked = []
        self.answer = lambda _request: {"allowed": True}
        self.url = ""
        self.ca = b""

    async def handle(self, incoming):
        review = await incoming.json()
        request = review["request"]
        self.asked.append(request)
        made = self.answer(request)
        response = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
        return web.json_response({**response, "response": {"uid": request["uid"], **made}})


@pytest.fixture
async def hook(tmp_path):
    made = Hook()
    authority = Authority.make(datetime.now(UTC))
    pair = authority.server()
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    runner = web.ServerRunner(web.Server(made.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    made.url, made.ca = f"https://127.0.0.1:{port}/hook", authority.pair.certificate
    yield made
    await runner.cleanup()


def configuration(hook, kind="Validating", **more):
    one = {
        "name": "check.test.io",
        "clientConfig": {"url": hook.url, "caBundle": base64.b64encode(hook.ca).decode()},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **more,
    }
    plural = f"{kind.lower()}webhookconfigurations"
    body = {"metadata": {"name": "hooks"}, "webhooks": [one]}
    return f"{ADMISSION}/{plural}", body


def cm(name, **data):
    return {"metadata": {"name": name}, "data": data}


async def test_a_validating_webhook_sees_the_write_and_may_refuse_it(hook, api):
    await api("POST", *configuration(hook))
    await api("POST", CM, cm("a", k="v"))
    [asked] = hook.asked
    assert asked["operation"] == "CREATE"
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (asked["namespace"], asked["name"], asked["dryRun"]) == ("default", "a", False)
    assert asked["object"]["data"] == {"k": "v"}
    assert asked["userInfo"]["username"] == "admin"
    hook.answer = lambda _request: {"allowed": False, "status": {"message": "not today"}}
    with pytest.raises(ApiError) as caught:
        await api("PATCH", CM + "/a", {"data": {"k": "w"}}, MERGE)
    assert caught.value.code == 400
    assert str(caught.value) == 'admission webhook "check.test.io" denied the request: not today'
    assert hook.asked[-1]["oldObject"]["data"] == {"k": "v"}
    assert (await api("GET", CM + "/a"))["data"] == {"k": "v"}


async def test_a_mutating_webhook_changes_what_is_stored(hook, api):
    patch = [{"op": "add", "path": "/data/added", "value": "by the webhook"}]
    coded = base64.b64encode(json.dumps(patch).encode()).decode()
    hook.answer = lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": coded}
    await api("POST", *configuration(hook, "Mutating"))
    made = await api("POST", CM, cm("a", k="v"))
    assert made["data"] == {"k": "v", "added": "by the webhook"}


async def test_a_webhook_that_is_away_refuses_or_lets_pass_as_it_is_configured(hook, api):
    path, body = configuration(hook)
    body["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/gone"
    await api("POST", path, body)
    with pytest.raises(ApiError) as caught:
        await api("POST", CM, cm("a"))
    assert caught.value.code == 500
    assert 'failed calling webhook "check.test.io": failed to call webhook: Post' in str(caught.value)
    ignoring = [{**body["webhooks"][0], "failurePolicy": "Ignore"}]
    await api("PATCH", path + "/hooks", {"webhooks": ignoring}, MERGE)
    await api("POST", CM, cm("a"))


async def test_a_webhook_nobody_vouches_for_is_not_called(hook, api):
    path, body = configuration(hook)
    del body["webhooks"][0]["clientConfig"]["caBundle"]
    await api("POST", path, body)
    with pytest.raises(ApiError, match="failed calling webhook"):
        await api("POST", CM, cm("a"))
    assert not hook.asked


async def test_only_what_the_rules_selectors_and_conditions_name_is_asked_about(hook, api):
    only = {"objectSelector": {"matchLabels": {"ask": "yes"}}}
    condition = {"matchConditions": [{"name": "not-free", "expression": "request.name != 'free'"}]}
    await api("POST", *configuration(hook, **only, **condition))
    await api("POST", CM, cm("a"))
    await api(
        "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "a", "labels": {"ask": "yes"}}}
    )
    await api("POST", CM, {"metadata": {"name": "free", "labels": {"ask": "yes"}}})
    assert not hook.asked
    await api("POST", CM, {"metadata": {"name": "b", "labels": {"ask": "yes"}}})
    assert len(hook.asked) == 1


async def test_a_webhook_with_side_effects_is_not_configured_at_all(hook, api):
    with pytest.raises(Invalid, match="sideEffects: Unsupported value"):
        await api("POST", *configuration(hook, sideEffects="Some"))


async def test_an_answer_that_is_none_is_a_failure(hook, api):
    await api("POST", *configuration(hook))
    hook.answer = lambda _request: {"allowed": True, "uid": "another"}
    with pytest.raises(ApiError, match="expected response"):
        await api("POST", CM, cm("a"))
