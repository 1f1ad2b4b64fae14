"""Discovery: equal to what a real kube-apiserver without extensions answered, and following definitions."""

import asyncio
import json
from pathlib import Path

import pytest

from echelon.hub import discovery, local
from echelon.hub.call import ADMIN, Request
from tests.hub.serve import client, hub, world  # noqa: F401

RECORDED = json.loads((Path(__file__).parents[1] / "conformance" / "recorded" / "discovery.json").read_text())
MAX_ROUNDS = 1000
"""Turns of the loop that the hub gets to clean up after a definition."""
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLE = {
    "metadata": {"name": "apples.docs.io"},
    "spec": {
        "group": "docs.io",
        "scope": "Namespaced",
        "names": {
            "kind": "Apple",
            "plural": "apples",
            "singular": "apple",
            "shortNames": ["ap"],
            "categories": ["fruit", "all"],
        },
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"},
                },
            }
            for name in ("v1beta1", "v1")
        ],
    },
}


async def ask(hub, path, accept="application/json", **headers):
    response = await hub.handle(Request("GET", path, {}, {"accept": accept, **headers}, b"", ADMIN))
    is_json = response.body and response.content_type.startswith("application/json")
    return response, json.loads(response.body) if is_json else None


@pytest.mark.parametrize("path", ["/apis", "/apis/apps", "/api/v1", "/apis/apps/v1", "/apis/autoscaling"])
async def test_plain_documents_equal_the_recorded_ones(hub, path):
    _, found = await ask(hub, path)
    assert found == RECORDED[path]


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_documents_equal_the_recorded_ones(hub, path):
    response, found = await ask(hub, path, AGGREGATED)
    assert found == RECORDED[f"{path} aggregated"]
    assert response.content_type == AGGREGATED
    again, body = await ask(hub, path, AGGREGATED, **{"if-none-match": dict(response.headers)["ETag"]})
    assert (again.status, body) == (304, None)


async def test_a_definition_appears_and_disappears(hub, client):
    await client.raw("POST", CRDS, APPLE)
    _, group = await ask(hub, "/apis/docs.io")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    _, listed = await ask(hub, "/apis/docs.io/v1beta1")
    names = [row["name"] for row in listed["resources"]]
    assert names == ["apples", "apples/status", "apples/scale"]
    assert listed["resources"][0]["storageVersionHash"] == "UJIw54QQRtw="
    assert listed["resources"][0]["verbs"] == list(discovery.CUSTOM_VERBS)
    _, aggregated = await ask(hub, "/apis", AGGREGATED)
    last = aggregated["items"][-1]
    assert last["metadata"]["name"] == "docs.io"
    assert last["versions"][0]["resources"][0] == {
        "resource": "apples",
        "responseKind": {"group": "docs.io", "version": "v1", "kind": "Apple"},
        "scope": "Namespaced",
        "singularResource": "apple",
        "verbs": list(discovery.CUSTOM_VERBS),
        "shortNames": ["ap"],
        "categories": ["fruit", "all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "docs.io", "version": "v1", "kind": "Apple"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }
    await client.raw("DELETE", f"{CRDS}/apples.docs.io")
    for _ in range(MAX_ROUNDS):
        gone, _ = await ask(hub, "/apis/docs.io/v1")
        if gone.status == 404:
            break
        await asyncio.sleep(0)
    assert gone.status == 404


async def test_clusters_with_the_same_definitions_share_one_document(hub):
    for name in ("member1", "member2"):
        await local.client(hub, cluster=name).raw("POST", CRDS, APPLE)
    first, _ = await ask(hub, "/clusters/member1/apis", AGGREGATED)
    second, _ = await ask(hub, "/clusters/member2/apis", AGGREGATED)
    plain, _ = await ask(hub, "/apis", AGGREGATED)
    assert first.body is second.body
    assert first.body != plain.body


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["v1beta1", "v1", "v2alpha1", "v2"], ["v2", "v1", "v1beta1", "v2alpha1"]),
        (["foo", "v10", "v9"], ["v10", "v9", "foo"]),
    ],
)
def test_versions_are_ordered_by_maturity_then_age(given, ordered):
    assert sorted(given, key=discovery.version_order) == ordered
