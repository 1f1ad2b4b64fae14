"""Whatever comes in, a Status goes out: no failure of the hub, no hang, nothing lost."""

import asyncio
import json
from urllib.parse import parse_qs, quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.hub import local
from echelon.hub.body import MAX_BODY
from echelon.hub.call import ADMIN, Request
from tests.hub.inputs import LANGUAGES
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import CRDS, GROUP, widget, widget_crd

CM = "/api/v1/namespaces/default/configmaps"
HUB_FAILED = b"the hub failed to serve the request"

WORDS = st.sampled_from(
    [
        *(
            "api",
            "apis",
            "v1",
            "v2",
            "namespaces",
            "default",
            "configmaps",
            "pods",
            "widgets",
            "test.io",
            "a",
            "b",
        ),
        *(
            "status",
            "scale",
            "log",
            "eviction",
            "token",
            "watch",
            "clusters",
            "member1",
            "apps",
            "deployments",
        ),
        *("", ".", "..", "%2e%2e", "%2F", "%00", "a%20b", "ü", "x" * 300, "version", "metrics", "openapi"),
        *("customresourcedefinitions", "apiextensions.k8s.io", "rbac.authorization.k8s.io", "clusterroles"),
    ]
)
VALUES = st.sampled_from(
    [
        *(
            "",
            "1",
            "0",
            "-1",
            "abc",
            "99999999999999999999",
            "true",
            "false",
            "All",
            "Strict",
            "Warn",
            "x=y",
            "x in (",
            "!",
        ),
        *(
            "metadata.name=a",
            "spec.x=1",
            "Exact",
            "NotOlderThan",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
            "\x00",
            "é",
            "a" * 200,
        ),
    ]
)
NAMES = st.sampled_from(
    [
        *(
            "watch",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "labelSelector",
            "fieldSelector",
        ),
        *(
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "propagationPolicy",
            "gracePeriodSeconds",
            "pretty",
        ),
        *("sendInitialEvents", "container", "tailLines", "orphanDependents", "includeObject"),
    ]
)
MEDIA = st.sampled_from(
    [
        *(
            "application/json",
            "application/yaml",
            "application/merge-patch+json",
            "application/json-patch+json",
        ),
        *("application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", ";;", ""),
        "application/vnd.kubernetes.protobuf",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8))
KEYS = st.sampled_from(
    [
        *(
            "metadata",
            "spec",
            "status",
            "apiVersion",
            "kind",
            "name",
            "labels",
            "finalizers",
            "ownerReferences",
            "data",
        ),
        *(
            "managedFields",
            "rules",
            "subjects",
            "roleRef",
            "replicas",
            "containers",
            "template",
            "$patch",
            "x",
            "uid",
        ),
        *(
            "resourceVersion",
            "versions",
            "schema",
            "openAPIV3Schema",
            "properties",
            "parts",
            "op",
            "path",
            "value",
        ),
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)
NAMED = st.builds(
    lambda body, name, kind: {**body, **kind, "metadata": {"name": name, **(body.get("metadata_") or {})}},
    st.dictionaries(KEYS, JSON, max_size=4),
    st.sampled_from(["a", "b", "B", ""]),
    st.sampled_from(
        [
            {},
            {"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "test.io/v1", "kind": "Widget"},
            {"apiVersion": "apps/v1", "kind": "Deployment"},
        ]
    ),
)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=30),
    JSON.map(lambda value: json.dumps(value).encode()),
    NAMED.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"{", b"[" * 5000, b'{"a":' * 2000, b"\xff\xfe", b"a: &a [*a]", b"- " * 3000, b"null", b"%"]
    ),
)
PLACES = st.sampled_from(
    [
        *(
            CM,
            CM + "/a",
            CM + "/b",
            f"{GROUP}/namespaces/default/widgets",
            f"{GROUP}/namespaces/default/widgets/a",
        ),
        *(f"{GROUP}/namespaces/default/widgets/a/scale", f"{GROUP}/namespaces/default/widgets/a/status"),
        *("/apis/apps/v1/namespaces/default/deployments", "/apis/apps/v1/namespaces/default/deployments/a"),
        *(
            "/api/v1/namespaces/default/pods",
            "/api/v1/namespaces/default/pods/a/eviction",
            CRDS,
            CRDS + "/a.test.io",
        ),
        *("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces", "/api/v1/namespaces/x"),
        *("/api/v1/namespaces/default/serviceaccounts/default/token", "/api/v1/namespaces/default/secrets"),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    ]
)
PATHS = st.one_of(PLACES, st.lists(WORDS, max_size=8).map(lambda parts: "/" + "/".join(parts)))
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO"])
REQUESTS = st.tuples(
    METHODS,
    PATHS,
    st.dictionaries(NAMES, VALUES, max_size=3),
    MEDIA,
    BODIES,
    st.sampled_from(["", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml"]),
)


async def send(hub, request):
    method, path, options, media, body, accept, *more = request
    query = parse_qs(
        "&".join(f"{name}={quote(value)}" for name, value in options.items()), keep_blank_values=True
    )
    headers = {"content-type": media, "accept": accept, **(more[0] if more else {})}
    answer = await asyncio.wait_for(hub.handle(Request(method, path, query, headers, body, ADMIN)), 10)
    if isinstance(answer.body, bytes | list):
        return answer.status, await local.whole(answer), answer.content_type
    await answer.body.aclose()
    return answer.status, b"", answer.content_type


async def sequence(requests):
    hub = local.start(members=1)
    try:
        created = await send(
            hub, ("POST", CRDS, {}, "application/json", json.dumps(widget_crd()).encode(), "")
        )
        assert created[0] == 201
        marker = json.dumps({"metadata": {"name": "marker", "namespace": "kube-system"}}).encode()
        await send(
            hub, ("POST", "/api/v1/namespaces/kube-system/configmaps", {}, "application/json", marker, "")
        )
        for request in requests:
            status, body, content_type = await send(hub, request)
            assert HUB_FAILED not in body, (request, body)
            assert 200 <= status < 600
            if status >= 400 and content_type == "application/json" and body:
                shown = json.loads(body)
                assert shown["kind"] == "Status", (request, body)
                assert shown["code"] == status
                assert shown["message"]
        status, _, _ = await send(
            hub, ("GET", "/api/v1/namespaces/kube-system/configmaps/marker", {}, "", b"", "")
        )
        assert status == 200
    finally:
        await hub.close()


@settings(max_examples=150, deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=12))
def test_any_sequence_of_requests_is_answered(requests):
    asyncio.run(sequence(requests))


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_written_in_a_language_of_its_own_is_answered(language, data):
    asyncio.run(sequence(data.draw(LANGUAGES[language])))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
        (b'{"metadata":{"name":"a"},"data":{"x":"' + b"y" * (MAX_BODY + 1) + b'"}}', 413),
        (b'{"metadata":{"name":"a","annotations":{"x":"' + b"y" * 300_000 + b'"}}}', 422),
        (b"", 400),
        (b"\x00", 400),
    ],
)
async def test_absurd_bodies_are_refused(hub, body, code):
    status, _, _ = await send(hub, ("POST", CM, {}, "application/json", body, ""))
    assert status == code


async def test_an_object_too_large_for_the_log_is_refused_and_the_old_one_stays(hub):
    await send(hub, ("POST", CRDS, {}, "application/json", json.dumps(widget_crd()).encode(), ""))
    path = f"{GROUP}/namespaces/default/widgets"
    made = json.dumps(widget("a", color="small")).encode()
    assert (await send(hub, ("POST", path, {}, "application/json", made, "")))[0] == 201
    large = json.dumps({"spec": {"color": "x" * 1_600_000}}).encode()
    status, body, _ = await send(hub, ("PATCH", path + "/a", {}, "application/merge-patch+json", large, ""))
    assert (status, json.loads(body)["message"]) == (500, "etcdserver: request is too large")
    status, body, _ = await send(hub, ("GET", path + "/a", {}, "", b"", ""))
    assert json.loads(body)["spec"] == {"color": "small"}


@pytest.mark.parametrize(
    "patch", [[{"op": "remove", "path": "/kind"}], [{"op": "replace", "path": "/kind", "value": 5}]]
)
async def test_a_patch_that_leaves_no_kind_is_refused(hub, patch):
    await send(hub, ("POST", CRDS, {}, "application/json", json.dumps(widget_crd()).encode(), ""))
    path = f"{GROUP}/namespaces/default/widgets"
    await send(hub, ("POST", path, {}, "application/json", json.dumps(widget("a")).encode(), ""))
    status, body, _ = await send(
        hub, ("PATCH", path + "/a", {}, "application/json-patch+json", json.dumps(patch).encode(), "")
    )
    assert status in {400, 422}, body
