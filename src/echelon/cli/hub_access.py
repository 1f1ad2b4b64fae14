"""How a member agent reaches its hub when the environment says it, in the peer's words, instead of a kubeconfig."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from echelon.client.kubeconfig import Access

SERVER, TOKEN_FILE = "HUB_SERVER_URL", "CONFIG_PATH"
KEY, CERTIFICATE = "IDENTITY_KEY", "IDENTITY_CERT"
CA_FILE, CA_TEXT = "CA_BUNDLE", "HUB_CERTIFICATE_AUTHORITY"
HEADERS = "HUB_KUBE_HEADER"


def access_from(env: Mapping[str, str], *, by_certificate: bool, insecure: bool) -> Access:
    """Return the access that the environment describes; what is missing is named."""
    from echelon.client.kubeconfig import Access

    common = Access(
        server=env[SERVER].rstrip("/"),
        context="hub",
        ca=None if insecure else _authority(env),
        insecure=insecure,
        headers=_headers(env.get(HEADERS, "")),
    )
    if by_certificate:
        certificate, key = (
            _content(_needed(env, name, "--use-ca-auth"), name) for name in (CERTIFICATE, KEY)
        )
        return _with(common, client_certificate=certificate, client_key=key)
    return _with(common, token_file=_needed(env, TOKEN_FILE, SERVER))


def _with(access: Access, **more: object) -> Access:
    import msgspec

    return msgspec.structs.replace(access, **more)


def _needed(env: Mapping[str, str], name: str, because: str) -> str:
    if not env.get(name):
        raise click.UsageError(f"{because} is given, so {name} must be set too (the path of a file)")
    return env[name]


def _content(path: str, name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{name}={path}: {error.strerror}") from error


def _authority(env: Mapping[str, str]) -> bytes | None:
    """Return whom to trust: one of a file and a text, or neither; set but empty is a mistake, not a wish."""
    given = [name for name in (CA_FILE, CA_TEXT) if name in env]
    if len(given) > 1:
        raise click.UsageError(f"only one of {CA_FILE} and {CA_TEXT} may be set")
    if not given:
        return None
    name = given[0]
    if not env[name]:
        raise click.UsageError(f"{name} is set but empty; unset it to trust the system's authorities")
    if name == CA_FILE:
        return _content(env[name], name)
    try:
        return base64.b64decode(env[name], validate=True)
    except binascii.Error as error:
        raise click.UsageError(f"{name} is not base64: {error}") from error


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    """Read header lines; those every request has anyway cannot be replaced."""
    found = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise click.UsageError(f"{HEADERS}: '{line}' is not 'Name: value'")
        if name.strip().lower() in {"authorization", "user-agent", "accept", "content-type"}:
            raise click.UsageError(f"{HEADERS}: {name.strip()} is set by the agent itself")
        found.append((name.strip(), value.strip()))
    return tuple(found)
