"""Errors of the API as types, each carrying the server's own Status; and errors of the way to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from echelon.rules.refusals import without_objects


class Unreachable(Exception):
    """No answer: the connection could not be made, broke, or timed out. The request may have been carried out."""


class ApiError(Exception):
    """The server answered with an error; `status` is its Status object (or one made from a plain answer).

    The text of the error can be shown and logged: objects that the server quotes are left out of it.
    """

    def __init__(self, code: int, status: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        super().__init__(without_objects(status.get("message") or f"the server answered {code}"))
        self.code = code
        self.status = status
        self.reason: str = status.get("reason") or ""
        self.retry_after_s = retry_after_s

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The field-level causes the server named, if any."""
        return list((self.status.get("details") or {}).get("causes") or [])


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the server does not know who asks."""


class Forbidden(ApiError):
    """403: not allowed to do this."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object changed since it was read (or another rule of the server stands against it)."""


class AlreadyExists(Conflict):
    """409, reason AlreadyExists: an object of that name is there."""


class Expired(ApiError):
    """410: the revision or continue token is too old."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema."""


class TooManyRequests(ApiError):
    """429: the server asks to come back later."""


class ServerError(ApiError):
    """5xx: the server failed; worth another try."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(code: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """Make the typed error of an answer; a body that is no Status becomes one."""
    try:
        status = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        text = body[:500].decode("utf-8", "replace").strip()  # enough to say what a proxy answered
        status = {"kind": "Status", "status": "Failure", "code": code, "message": text or f"HTTP {code}"}
    retry_after = headers.get("retry-after", "")
    retry_after_s = float(retry_after) if retry_after.isdigit() else None
    if code == 409 and status.get("reason") == "AlreadyExists":
        return AlreadyExists(code, status, retry_after_s)
    kind = _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    return kind(code, status, retry_after_s)
