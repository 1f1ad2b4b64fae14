"""Calling the webhooks of others: one review posted over TLS, one answer, bounded in time and size.

What it decides: how a webhook is reached and trusted, and in which words it could not be. What it
must never do: know what is asked, or judge an answer beyond its being a review of the kind sent.
"""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from echelon.hub.kinds import encode

if TYPE_CHECKING:
    import aiohttp

Json = dict[str, Any]

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer that are read: a patch of a large object, or some hundred converted ones, and no more."""

MAX_TRUSTED = 200
"""Authorities remembered, parsed; definitions and configurations that name more are rare."""

_READS_AS = {dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "bool"}
_NO_HEAD = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct "
    '{{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)
_SERVER_ERROR = 'an error on the server ("unknown") has prevented the request from succeeding'
_STATUS_TEXTS = {404: "the server could not find the requested resource", 401: "Unauthorized"}


class HookError(Exception):
    """The webhook could not be called, or what it said is no review."""


class HookClient:
    """Posts reviews; keeps connections and parsed authorities."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._trust: dict[str, ssl.SSLContext] = {}

    async def review(self, config: Json, review: Json, timeout_s: int) -> Json:
        """Post a review to the webhook of a `clientConfig` and return the one it answers with."""
        url = f"{_url(config)}?timeout={timeout_s}s"
        return _same_review(_decoded(await self._post(url, config, review, timeout_s)), review)

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, url: str, config: Json, review: Json, timeout_s: int) -> bytes:
        import aiohttp  # noqa: PLC0415 - most hubs have no webhooks

        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                url,
                data=encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(config),
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
            ) as reply:
                body = bytearray()
                async for piece in reply.content.iter_any():
                    body += piece
                    if len(body) > MAX_ANSWER:
                        raise HookError(f'Post "{url}": the answer is larger than {MAX_ANSWER} bytes')
                if reply.status != 200:
                    raise HookError(_STATUS_TEXTS.get(reply.status, _SERVER_ERROR))
                return bytes(body)
        except TimeoutError:
            raise HookError(f'Post "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HookError(f'Post "{url}": {_why(error)}') from None

    def _context(self, config: Json) -> ssl.SSLContext:
        bundle = config.get("caBundle") or ""
        context = self._trust.get(bundle)
        if context is None:
            try:
                pem = base64.b64decode(bundle).decode() if bundle else None
                context = ssl.create_default_context(cadata=pem)
            except (ValueError, ssl.SSLError) as error:
                raise HookError(f"unable to load root certificates: {error}") from None
            if len(self._trust) >= MAX_TRUSTED:
                self._trust.clear()
            self._trust[bundle] = context
        return context


def _url(config: Json) -> str:
    url = config.get("url") or ""
    if not url:
        service = config.get("service") or {}
        where = f"{service.get('namespace', '')}/{service.get('name', '')}"
        raise HookError(
            f"service {where} cannot be reached: this hub has no service network, use clientConfig.url"
        )
    if urlsplit(url).scheme != "https":
        raise HookError(f"{url} is no https address")
    return str(url)


def _why(error: Exception) -> str:
    """Word a failed connection as Go does."""
    import aiohttp  # noqa: PLC0415 - most hubs have no webhooks

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = error.certificate_error
        known = isinstance(found, ssl.SSLCertVerificationError) and found.verify_code in _UNKNOWN_AUTHORITY
        why = "certificate signed by unknown authority" if known else str(found)
        return f"tls: failed to verify certificate: x509: {why}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error)


_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""OpenSSL's codes of certificates whose issuer is not known, or is the certificate itself."""


def _decoded(body: bytes) -> Any:
    """Read an answer: JSON, or text, which is one string of YAML."""
    try:
        return msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body.decode(errors="replace")


def _same_review(answer: Any, review: Json) -> Json:
    """Return an answer that is a review of the kind sent, or says of itself nothing."""
    if not isinstance(answer, dict):
        raise HookError(_NO_HEAD.format(_READS_AS.get(type(answer), "null")))
    version, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if kind and kind != review["kind"]:
        if kind == "Status":  # which every group knows
            short = str(version).rpartition("/")[2]
            raise HookError(f"converting ({short}.{kind}) to ({short}.{review['kind']}): unknown conversion")
        raise HookError(_unregistered(kind, version))
    if version and version != review["apiVersion"]:
        raise HookError(_unregistered(review["kind"], version))
    return answer


def _unregistered(kind: Any, version: Any) -> str:
    return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
