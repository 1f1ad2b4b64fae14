"""A small custom kind for tests: spec and status, scale, lists of each kind."""

import json

GROUP = "/apis/test.io/v1"
WIDGETS = f"{GROUP}/namespaces/default/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def text():
    return {"type": "string"}


SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "color": text(),
        "replicas": {"type": "integer"},
        "tags": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": text(), "count": {"type": "integer"}},
            },
        },
    },
}
STATUS = {"type": "object", "properties": {"phase": text(), "replicas": {"type": "integer"}}}


def widget_crd(**more):
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.io"},
        "spec": {
            "group": "test.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version],
            **more,
        },
    }


def widget(name, **spec):
    return {"apiVersion": "test.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def install(client):
    await client.raw("POST", CRDS, widget_crd())


async def ask(client, method, path, body=None, media="application/json"):
    """Send a request and decode the answer."""
    return json.loads(await client.raw(method, path, body, media))
