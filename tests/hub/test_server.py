"""The server on the wire: TLS, certificates, tokens, garbage, and leaving."""

import asyncio
import base64
import contextlib
import json
import ssl
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509

from echelon.client.http import connect
from echelon.client.kubeconfig import load
from echelon.hub.certificates import RENEW_AFTER_DAYS, Authority
from tests.hub.serve import served  # noqa: F401

CM = "/api/v1/namespaces/default/configmaps"


def trusting(kubeconfig):
    document = yaml.safe_load(kubeconfig.read_text())
    ca = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=ca)


async def raw(server, context, *pieces, pause=0.0):
    """Send bytes over TLS and return whatever comes back until the server has said its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
            return await asyncio.wait_for(reader.read(65536), 3)
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


GARBAGE = [
    (b"\x00\x01\x02\x03\r\n\r\n",),
    (b"GET / HTTP/9.9\r\n\r\n",),
    (b"GET " + b"/a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",),
    (b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",),
    (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",),
    (b"POST " + CM.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",),
    (b"POST " + CM.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",),
    (b"GET /%ff%fe?%ff=%00&&&===&a=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",),
    (b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n",),
    (b"GE", b"T /ver", b"sion HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    (b"GET /version?" + b"&".join(b"a%d=1" % n for n in range(500)) + b" HTTP/1.1\r\nHost: x\r\n\r\n",),
]


async def test_garbage_on_the_wire_hurts_nobody(served):
    server, kubeconfig = served
    context = trusting(kubeconfig)
    client = connect(load(str(kubeconfig)))
    for pieces in GARBAGE:
        answer = await raw(server, context, *pieces)
        assert b" 500 " not in answer.split(b"\r\n", 1)[0], pieces
        await client.raw("GET", "/version")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await client.raw("GET", "/version")
    await client.transport.close()


async def test_a_body_that_comes_slowly_does_not_hold_others_up(served):
    server, kubeconfig = served
    head = b"POST " + CM.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
    slow = [asyncio.create_task(raw(server, trusting(kubeconfig), head, pause=2)) for _ in range(20)]
    await asyncio.sleep(0.2)
    client = connect(load(str(kubeconfig)))
    await asyncio.wait_for(client.raw("GET", CM), 2)
    await client.transport.close()
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_client_certificate_names_its_bearer(served, tmp_path):
    server, kubeconfig = served
    pair = server.hub.authority.client("jane", ("dev",))
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = trusting(kubeconfig)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    request = b"GET " + CM.encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await raw(server, context, request)
    assert b'User \\"jane\\" cannot list resource' in answer


def test_certificates_are_renewed_before_they_end(tmp_path):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    authority = Authority.load(tmp_path, start)
    context = authority.context(tmp_path)
    first = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    later = start + timedelta(days=RENEW_AFTER_DAYS)
    assert first.not_valid_after_utc > later
    authority.renew(context, tmp_path, later)
    second = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    assert second.not_valid_after_utc == first.not_valid_after_utc + timedelta(days=RENEW_AFTER_DAYS)
    assert x509.load_pem_x509_certificate(authority.client("a").certificate).not_valid_after_utc > (
        first.not_valid_after_utc
    )


async def test_a_token_on_the_wire_is_checked(served):
    server, kubeconfig = served
    context = trusting(kubeconfig)
    line = b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
    assert b" 401 " in await raw(server, context, line % b"nonsense")
    admin = connect(load(str(kubeconfig)))
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = json.loads(await admin.raw("POST", path, {"spec": {}}))["status"]["token"]
    assert b" 200 " in await raw(server, context, line % token.encode())
    await admin.transport.close()


@pytest.mark.kubectl
async def test_kubectl_can_ask_what_it_may_do_and_who_it_is(served):
    _, kubeconfig = served

    async def kubectl(*words):
        process = await asyncio.create_subprocess_exec(
            *("kubectl", "--kubeconfig", str(kubeconfig), *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    assert (await kubectl("auth", "can-i", "delete", "pods"))[1] == "yes\n"
    code, out, _ = await kubectl("auth", "can-i", "delete", "pods", "--as", "jane")
    assert (code, out) == (1, "no\n")
    assert "admin" in (await kubectl("auth", "whoami"))[1]
    assert (await kubectl("create", "token", "default"))[1].count(".") == 2
    code, out, err = await kubectl("get", "pods", "--as", "jane")
    assert 'User "jane" cannot list resource "pods"' in err
