"""OpenAPI: what kubectl reads to explain, validate and apply."""

import json
import re
from collections import OrderedDict

import pytest

from echelon.api.crds import crds
from echelon.hub import local, openapi
from echelon.hub.call import ADMIN, Request
from tests.hub.serve import client, hub, world  # noqa: F401

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FLEET = "/openapi/v3/apis/placement.kubernetes-fleet.io/v1beta1"


async def ask(hub, path, **headers):
    path, _, text = path.partition("?")
    query = dict(part.split("=", 1) for part in text.split("&")) if text else {}
    query = {name: [value] for name, value in query.items()}
    response = await hub.handle(Request("GET", path, query, headers, b"", ADMIN))
    return response, json.loads(response.body) if response.body else None


async def install(client):
    for definition in crds():
        await client.raw("POST", CRDS, definition)


def refs(node):
    return re.findall(r'"\$ref":"#/[a-z/]+/([^"]+)"', json.dumps(node, separators=(",", ":")))


async def test_every_group_and_version_has_its_document(hub):
    _, index = await ask(hub, "/openapi/v3")
    assert {"api/v1", "apis/apps/v1", "apis/autoscaling/v2", "version"} <= index["paths"].keys()
    for name, entry in index["paths"].items():
        response, document = await ask(hub, entry["serverRelativeURL"])
        assert response.status == 200, name
        assert dict(response.headers)["Cache-Control"] == "public, immutable" or not document["paths"]
        missing = set(refs(document)) - document["components"]["schemas"].keys()
        assert not missing, name


async def test_an_operation_names_its_kind_and_the_parameters_clients_look_for(hub):
    _, document = await ask(hub, "/openapi/v3/apis/apps/v1")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {
        parameter["name"] for parameter in patch["parameters"]
    }
    schema = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert schema["x-kubernetes-patch-merge-key"] == "name"


async def test_definitions_are_documented_with_their_descriptions(hub, client):
    await install(client)
    _, document = await ask(hub, FLEET)
    run = document["components"]["schemas"]["io.kubernetes-fleet.placement.v1beta1.ClusterStagedUpdateRun"]
    state = run["properties"]["spec"]["properties"]["state"]
    assert state["description"]
    assert {"Initialize", "Run", "Stop"} <= set(state["enum"])
    assert not set(refs(document)) - document["components"]["schemas"].keys()


async def test_an_unchanged_document_is_not_sent_again(hub, client):
    first, _ = await ask(hub, "/openapi/v3/apis/apps/v1")
    etag = dict(first.headers)["ETag"]
    again, body = await ask(hub, "/openapi/v3/apis/apps/v1", **{"if-none-match": etag})
    assert (again.status, body) == (304, None)
    _, before = await ask(hub, "/openapi/v3")
    await install(client)
    _, after = await ask(hub, "/openapi/v3")
    name = "apis/apps/v1"
    assert before["paths"][name] == after["paths"][name]
    assert "apis/placement.kubernetes-fleet.io/v1beta1" in after["paths"].keys() - before["paths"].keys()


async def test_clusters_with_the_same_definitions_share_the_bytes(hub):
    for name in ("member1", "member2"):
        await install(local.client(hub, cluster=name))
    one, _ = await ask(hub, f"/clusters/member1{FLEET}")
    two, _ = await ask(hub, f"/clusters/member2{FLEET}")
    assert one.body is two.body


async def test_kept_documents_have_a_limit(hub, monkeypatch):
    monkeypatch.setattr(openapi, "MAX_KEPT_BYTES", 1)
    monkeypatch.setattr(openapi, "_kept", OrderedDict())
    await ask(hub, "/openapi/v3/apis/apps/v1")
    await ask(hub, "/openapi/v3/apis/batch/v1")
    assert len(openapi._kept) == 1


@pytest.mark.parametrize("definition", ["io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod"])
async def test_version_2_says_the_same_in_its_own_form(hub, definition):
    _, document = await ask(hub, "/openapi/v2")
    assert document["swagger"] == "2.0"
    spec = document["definitions"][definition]["properties"]["spec"]
    assert spec["$ref"].startswith("#/definitions/io.k8s.api.")
    assert not set(refs(document)) - document["definitions"].keys()


async def test_schemas_of_schemas_keep_their_odd_names(hub):
    _, document = await ask(hub, "/openapi/v3/apis/apiextensions.k8s.io/v1")
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    assert {"$ref", "allOf", "not", "nullable"} <= document["components"]["schemas"][name][
        "properties"
    ].keys()
