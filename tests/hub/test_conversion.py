"""Versions of definitions: what the one that is stored becomes in the others, and what is remembered of it."""

import json

import pytest

from echelon.client.errors import ApiError
from echelon.hub import local, seen
from echelon.hub.store import Entry
from echelon.hub.world import SeededWorld
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import MERGE, ask

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def definition(*versions, **spec):
    names = {"plural": "things", "kind": "Thing"}
    made = {"group": "x.io", "scope": "Cluster", "names": names, "versions": list(versions), **spec}
    return {"metadata": {"name": "things.x.io"}, "spec": made}


def version(name, *, storage=False, schema=ANYTHING):
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def thing(name, version="v1", **spec):
    return {"apiVersion": f"x.io/{version}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_what_an_older_version_and_schema_stored_is_right_after_a_restart_too(tmp_path):
    hub = local.start(tmp_path, world=SeededWorld(1))
    api = local.client(hub)
    await ask(api, "POST", CRDS, definition(version("v1beta1", storage=True), version("v1")))
    await ask(api, "POST", "/apis/x.io/v1beta1/things", thing("a", "v1beta1", kept="x", gone="y"))
    known = {"type": "object", "properties": {"kept": {"type": "string"}, "new": {"default": 5}}}
    known["properties"]["new"]["type"] = "integer"
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": known}}}
    versions = [version("v1beta1", schema=schema), version("v1", storage=True, schema=schema)]
    await ask(api, "PATCH", f"{CRDS}/things.x.io", {"spec": {"versions": versions}}, MERGE)
    await hub.close()
    hub = local.start(tmp_path, world=SeededWorld(2))
    api = local.client(hub)
    for name in ("v1", "v1beta1"):
        [found] = (await ask(api, "GET", f"/apis/x.io/{name}/things"))["items"]
        assert found["apiVersion"] == f"x.io/{name}"
        assert found["spec"] == {"kept": "x", "new": 5}
    await hub.close()


async def test_a_conversion_webhook_nobody_answers_at_fails_the_request_and_nothing_else(client):
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/none"}}
    spec = {"conversion": {"strategy": "Webhook", "webhook": hook}}
    await ask(client, "POST", CRDS, definition(version("v1", storage=True), version("v2"), **spec))
    await ask(client, "POST", "/apis/x.io/v1/things", thing("a"))
    with pytest.raises(ApiError, match=r"conversion webhook for x\.io/v1, Kind=Thing failed") as caught:
        await ask(client, "GET", "/apis/x.io/v2/things")
    assert caught.value.code == 500
    lines = client.transport.stream("/apis/x.io/v2/things?watch=1&resourceVersion=1", {})
    told = json.loads(await anext(aiter(lines)))
    assert told["type"] == "ERROR"
    assert told["object"]["message"].startswith("conversion webhook for x.io/v1, Kind=Thing failed")
    await ask(client, "DELETE", f"{CRDS}/things.x.io")


def test_what_is_remembered_of_conversions_has_a_limit(monkeypatch):
    monkeypatch.setattr(seen, "MAX_REMEMBERED_BYTES", 100)
    known = seen.Remembered()
    for rev in range(1, 6):
        known.keep((None, "hub", "a", rev), Entry("a", rev, b"x" * 40))
    assert [known.get((None, "hub", "a", rev)) is not None for rev in range(1, 6)] == [False] * 3 + [True] * 2
