"""The HTTP transport against a real TLS hub on loopback: verbs, errors, watches, credentials."""

import asyncio
import json
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from echelon.api.builtin import CONFIG_MAPS
from echelon.client import http, kubeconfig
from echelon.client.errors import AlreadyExists, NotFound, Unauthorized, Unreachable
from echelon.hub.certificates import Authority
from tests.hub.serve import served  # noqa: F401 - a fixture

BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}


@pytest.fixture
async def client(served):
    made = http.connect(kubeconfig.load(str(served[1])))
    yield made
    await made.close()


async def test_the_verbs_arrive_and_errors_are_typed(client):
    await client.create(CONFIG_MAPS, BODY, "default")
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, BODY, "default")
    await client.patch(CONFIG_MAPS, "a", "default", {"data": {"k": "2"}})
    assert (await client.get(CONFIG_MAPS, "a", "default"))["data"] == {"k": "2"}
    await client.delete(CONFIG_MAPS, "a", "default")
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await client.get(CONFIG_MAPS, "a", "default")


async def test_a_watch_brings_changes_as_they_happen(client):
    version = (await client.list(CONFIG_MAPS, "default")).resource_version
    events = client.watch(CONFIG_MAPS, "default", resource_version=version)
    first = asyncio.ensure_future(anext(events))
    await client.create(CONFIG_MAPS, BODY, "default")
    event = await asyncio.wait_for(first, 5)
    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "a")
    await events.aclose()


async def test_an_object_larger_than_any_buffer_survives_a_watch(client):
    version = (await client.list(CONFIG_MAPS, "default")).resource_version
    events = client.watch(CONFIG_MAPS, "default", resource_version=version)
    first = asyncio.ensure_future(anext(events))
    large = "x" * 900_000
    await client.create(CONFIG_MAPS, {**BODY, "data": {"k": large}}, "default")
    event = await asyncio.wait_for(first, 5)
    assert event.object["data"]["k"] == large
    await events.aclose()


async def test_an_unknown_token_is_refused(served):
    access = kubeconfig.load(str(served[1]))
    stranger = http.connect(kubeconfig.Access(server=access.server, ca=access.ca, token="not-a-token"))
    with pytest.raises(Unauthorized):
        await stranger.list(CONFIG_MAPS, "default")
    await stranger.close()


async def test_a_server_nobody_trusts_is_not_talked_to(served):
    access = kubeconfig.load(str(served[1]))
    careful = http.connect(kubeconfig.Access(server=access.server))
    with pytest.raises(Unreachable, match="certificate"):
        await careful.list(CONFIG_MAPS, "default")
    await careful.close()


async def test_a_server_that_is_gone_is_named(unused_tcp_port):
    lost = http.connect(kubeconfig.Access(server=f"http://127.0.0.1:{unused_tcp_port}"))
    with pytest.raises(Unreachable, match=f"127.0.0.1:{unused_tcp_port}"):
        await lost.list(CONFIG_MAPS, "default")
    await lost.close()


async def test_a_watch_on_which_nobody_speaks_any_more_ends(monkeypatch):
    monkeypatch.setattr(http, "SILENCE_S", 0.1)

    async def says_one_thing(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(says_one_thing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lost = http.HttpTransport(kubeconfig.Access(server=f"http://127.0.0.1:{port}"))
    lines = lost.stream("/api/v1/configmaps?watch=1", {})
    assert await anext(lines) == b"{}"
    with pytest.raises(Unreachable):
        await asyncio.wait_for(anext(lines), 5)
    await lost.close()
    server.close()
    await server.wait_closed()


async def test_a_connection_notices_a_network_that_swallows_everything(unused_tcp_port):
    made = http.attentive_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", unused_tcp_port)))
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    for name, value in http.KEEP_ALIVE.items():
        assert (
            not hasattr(socket, name) or made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
        )
    made.close()


async def test_a_rotated_token_file_is_read_again_after_a_refusal(tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    credentials = http.Credentials(kubeconfig.Access(server="https://x", token_file=str(file)))
    assert await credentials.headers() == [("Authorization", "Bearer old")]
    file.write_text("new")
    credentials.distrust()
    assert await credentials.headers() == [("Authorization", "Bearer new")]


async def test_an_exec_plugin_is_asked_for_a_token(tmp_path):
    plugin = tmp_path / "login"
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    access = kubeconfig.Access(server="https://x", exec_plugin=kubeconfig.ExecPlugin(command=str(plugin)))
    assert await http.Credentials(access).headers() == [("Authorization", "Bearer from-plugin")]


async def test_a_missing_exec_plugin_says_how_to_get_it():
    missing = kubeconfig.ExecPlugin(command="no-such-plugin", install_hint="install it from your cloud")
    access = kubeconfig.Access(server="https://x", exec_plugin=missing)
    with pytest.raises(kubeconfig.ConfigError, match="install it from your cloud"):
        await http.Credentials(access).headers()


async def test_impersonation_names_user_and_groups():
    access = kubeconfig.Access(server="https://x", impersonate="jane", impersonate_groups=("a", "b"))
    assert await http.Credentials(access).headers() == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    ]


def test_private_keys_never_stay_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = Authority.make(datetime.now(UTC)).client("jane", ())
    access = kubeconfig.Access(server="https://x", client_certificate=pair.certificate, client_key=pair.key)
    assert http.ssl_context(access) is not None
    assert list(Path(tmp_path).iterdir()) == []
