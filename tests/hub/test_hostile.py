"""Requests made to hurt: small ones that ask for a lot of time or memory are refused, or served at once."""

import asyncio
import json
import time

import pytest

from echelon.hub import crd_cost, watch
from echelon.hub import server as server_module
from echelon.hub.body import decode_yaml
from echelon.hub.status import StatusError
from tests.hub.serve import client, hub, served, world  # noqa: F401
from tests.hub.test_bad_input import CM, send
from tests.hub.test_server import raw, trusting
from tests.hub.widgets import CRDS, GROUP, widget_crd

BOMBS = f"{GROUP}/namespaces/default/bombs"
LONG_S = 10
"""Each of these took from 15 seconds to for ever; now fractions of one, and the machine may be busy."""


def laughs(form):
    """Nine levels of nine aliases: 400 million values."""
    lines = ["a0: &a0 " + ("{x: y}" if "<<" in form else "[x,x,x,x,x,x,x,x,x]")]
    for level in range(1, 9):
        lines.append(f"a{level}: &a{level} " + form % ",".join([f"*a{level - 1}"] * 9))
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (laughs("[%s]"), "document contains excessive aliasing"),
        (laughs("{<<: [%s]}"), "document contains excessive aliasing"),
        (b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b",".join([b"*a"] * 99) + b"]", "excessive aliasing"),
        (b"a: &a [*a]", "anchor value contains itself"),
        (b"- " * 100_000, "exceeded max depth"),
        (b"- a\n" * 700_000, "values"),
    ],
    ids=["list", "merge", "text", "cycle", "deep", "many"],
)
def test_a_yaml_bomb_is_refused_before_it_goes_off(text, why):
    began = time.process_time()
    with pytest.raises(StatusError, match=why) as refused:
        decode_yaml(text)
    assert refused.value.code == 400
    assert time.process_time() - began < LONG_S


def test_aliases_that_say_little_are_read():
    text = b"a: &a {x: 1}\nb: *a\nc: {<<: *a, y: [" + b",".join([b"*a"] * 200) + b"]}"
    read = decode_yaml(text)
    assert read["b"] == {"x": 1}
    assert read["c"]["x"] == 1
    assert len(read["c"]["y"]) == 200


def definition(schema):
    crd = widget_crd()
    crd["metadata"]["name"] = "bombs.test.io"
    crd["spec"]["names"] = {"plural": "bombs", "kind": "Bomb", "listKind": "BombList", "singular": "bomb"}
    schema = {"type": "object", "properties": {"spec": schema}}
    crd["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    ]
    return crd


def post(path, body):
    return "POST", path, {}, "application/json", json.dumps(body).encode(), ""


def bomb(spec):
    return post(BOMBS, {"apiVersion": "test.io/v1", "kind": "Bomb", "metadata": {"name": "a"}, "spec": spec})


def rule(text):
    return {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": text}]}


def defaulted(depth):
    if not depth:
        return {"type": "string", "default": "x"}
    below = {f"p{number}": defaulted(depth - 1) for number in range(10)}
    return {"type": "object", "default": {}, "properties": below}


def one_of(count):
    branches = [{"required": [f"k{number}"]} for number in range(count)]
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "oneOf": branches}


NUMBERS = list(range(20_000))
OVER = "cost"


@pytest.mark.parametrize(
    ("schema", "spec", "code", "says"),
    [
        (rule("self.map(a, self).flatten().size() > 0"), NUMBERS, 422, OVER),
        (rule("self.map(a, self) == self.map(b, self)"), NUMBERS, 422, OVER),
        (
            rule("[dyn(1), dyn(self.map(a, self))] == [dyn(1), dyn(self.map(a, self))]"),
            NUMBERS,
            422,
            OVER,
        ),
        (rule("self.map(a, self).distinct().size() > 0"), NUMBERS, 422, OVER),
        (rule("self.all(x, self.sort().size() > 0)"), NUMBERS, 422, OVER),
        ({"type": "array", "items": defaulted(3)}, [{}] * 50_000, 500, "request is too large"),
        (one_of(3_000), {f"k{number}": 1 for number in range(20_000)}, 422, "one and only one"),
        ({"type": "array", "items": {"type": "string"}}, [1] * 50_000, 422, "must be of type string"),
    ],
    ids=["flatten", "equal", "dyn", "distinct", "sort", "defaults", "oneOf", "causes"],
)
async def test_a_definition_cannot_make_the_hub_work_for_ever(hub, monkeypatch, schema, spec, code, says):
    for budget in ("PER_RULE", "PER_DEFINITION"):  # as if nobody had estimated what the rules cost
        monkeypatch.setattr(crd_cost, budget, 2**63)
    status, body, _ = await send(hub, post(CRDS, definition(schema)))
    assert status == 201, body
    began = time.process_time()
    status, body, _ = await send(hub, bomb(spec))
    assert (status, says in body.decode()) == (code, True), body[:500]
    assert time.process_time() - began < LONG_S
    assert len(body) < 1_000_000


async def test_thousands_of_field_managers_are_joined_at_once(hub):
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    managers = [
        {**entry, "manager": f"m{number}", "fieldsV1": {"f:data": {f"f:{number}": {}}}}
        for number in range(15_000)
    ]
    began = time.process_time()
    status, body, _ = await send(hub, post(CM, {"metadata": {"name": "a", "managedFields": managers}}))
    assert status == 201
    assert len(json.loads(body)["metadata"]["managedFields"]) <= 11
    assert time.process_time() - began < LONG_S


async def test_a_quota_of_a_thousand_names_costs_each_write_little(hub):
    hard = {f"count/x{number}.y.z": "1" for number in range(3_000)}
    path = "/api/v1/namespaces/default/resourcequotas"
    assert (await send(hub, post(path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})))[0] == 201
    began = time.process_time()
    for number in range(3):
        assert (await send(hub, post(CM, {"metadata": {"name": f"a{number}"}})))[0] == 201
    assert time.process_time() - began < LONG_S


async def test_a_watcher_of_large_objects_that_does_not_keep_up_is_dropped(hub, client, monkeypatch):
    monkeypatch.setattr(watch, "MAX_QUEUED_BYTES", 5_000)
    table = hub.store.table("hub", "/configmaps")
    watcher = watch.Watcher(table, "", None)
    for number in range(5):
        await client.raw("POST", CM, {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 1_000}})
    assert watcher.closed
    assert 0 < len(watcher.queue) < 5


async def wait_for(condition):
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to be so")


ADMIN = b"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"


async def token_of(server):
    """Return a token that may do everything."""
    from echelon.hub import local

    admin = local.client(server.hub)
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    await admin.raw("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    return json.loads(await admin.raw("POST", path, {"spec": {}}))["status"]["token"].encode()


async def connected(server, kubeconfig):
    return await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting(kubeconfig))


async def test_the_watch_of_a_client_that_left_is_forgotten_at_once(served):
    server, kubeconfig = served
    token = await token_of(server)
    reader, writer = await connected(server, kubeconfig)
    writer.write(ADMIN % (b"/apis/apps/v1/deployments?watch=1&resourceVersion=1", token))
    assert b" 200 " in await reader.readline()
    assert server.hub.metrics.watches == 1
    writer.close()
    await wait_for(lambda: server.hub.metrics.watches == 0)


async def test_half_sent_bodies_are_counted_while_they_come(served, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_WAITING_BYTES", 100_000)
    server, kubeconfig = served
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" % CM.encode()
    first, one = await connected(server, kubeconfig)
    one.write(head + b"x" * 80_000)
    await wait_for(lambda: server._body_bytes >= 80_000)
    second, two = await connected(server, kubeconfig)
    two.write(head + b"x" * 80_000)
    assert b" 429 " in await asyncio.wait_for(second.readline(), 5)
    for writer in (one, two):
        writer.close()
    await wait_for(lambda: server._body_bytes == 0)
    first.feed_eof()


async def test_a_body_that_never_ends_is_given_up(served, monkeypatch):
    monkeypatch.setattr(server_module, "BODY_S", 0.05)
    server, kubeconfig = served
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n{" % CM.encode()
    answer = await raw(server, trusting(kubeconfig), head)
    assert b" 408 " in answer.split(b"\r\n", 1)[0]


async def test_a_compressed_body_is_not_inflated(served):
    import gzip

    server, kubeconfig = served
    token = await token_of(server)
    body = gzip.compress(b'{"metadata":{"name":"a"}}')
    head = (
        b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Encoding: gzip\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    )
    answer = await raw(server, trusting(kubeconfig), head % (CM.encode(), token, len(body)) + body)
    assert b" 400 " in answer.split(b"\r\n", 1)[0]


async def test_an_answer_that_nobody_takes_is_given_up(served, monkeypatch):
    monkeypatch.setattr(server_module, "TAKEN_S", 0.2)
    monkeypatch.setattr(server_module, "MAX_ANSWER_BYTES", 1_000_000)
    server, kubeconfig = served
    token = await token_of(server)
    from echelon.hub import local

    for number in range(16):
        await local.client(server.hub).raw(
            "POST", CM, {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 1_000_000}}
        )
    reader, writer = await connected(server, kubeconfig)
    reader._transport.pause_reading()
    writer.write(ADMIN % (CM.encode(), token))
    await wait_for(lambda: server._answer_bytes > 0)
    other, second = await connected(server, kubeconfig)
    second.write(ADMIN % (CM.encode(), token))
    assert b" 429 " in await asyncio.wait_for(other.readline(), 5)
    await wait_for(lambda: server._answer_bytes == 0)
    for each in (writer, second):
        each.close()
