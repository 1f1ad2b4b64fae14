"""The `Status` objects a Kubernetes API server answers with, word for word.

One function a situation. It must never invent wording: kubectl, client-go and
people's scripts match on these texts.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class StatusError(Exception):
    """An answer that is not success; carries the Status the client will see."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers: dict[str, str] = {}
        self.list_meta: Json = {}
        """Metadata of the Status: a continue token that still works."""

    def body(self) -> Json:
        """Return the Status object."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def qualified(group: str, plural: str) -> str:
    """Return `plural.group`, the way messages name a resource."""
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, kind: str, **more: Any) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def not_found(group: str, plural: str, name: str) -> StatusError:
    """Answer that the object does not exist."""
    return StatusError(
        404, "NotFound", f'{qualified(group, plural)} "{name}" not found', _details(name, group, plural)
    )


def no_such_resource() -> StatusError:
    """Answer that nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str, *, ending: bool = False) -> StatusError:
    """Answer that the name is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    if ending:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, _details(name, group, plural))


def generated_name_taken(group: str, plural: str, name: str, *, ending: bool = False) -> StatusError:
    """Answer that the generated name was taken: the client may try again."""
    del ending
    message = f'{qualified(group, plural)} "{name}" already exists, the server was not able to generate a unique name for the object'
    return StatusError(409, "AlreadyExists", message, _details(name, group, plural, retryAfterSeconds=1))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> StatusError:
    """Answer that the write was based on an old or other object."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(name, group, plural))


def bad_request(message: str) -> StatusError:
    """Answer that the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    """Answer that the resource does not do this verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def unsupported_media_type(accepted: list[str]) -> StatusError:
    """Answer that the body's content type is not understood."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(offered: list[str]) -> StatusError:
    """Answer that none of the accepted media types is offered."""
    message = "only the following media types are accepted: " + ", ".join(offered)
    return StatusError(406, "NotAcceptable", message)


def invalid(group: str, kind: str, name: str, causes: list[Json]) -> StatusError:
    """Answer that the object breaks its schema or rules."""
    texts = [
        f"{cause['field']}: {cause['message']}" if cause.get("field") else cause["message"]
        for cause in causes
    ]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {listed}'
    if not texts:
        message = f'{qualified(group, kind)} "{name}" is invalid'
    return StatusError(422, "Invalid", message, _details(name, group, kind, causes=causes))


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """Answer that the caller may not, or that admission refused."""
    what = qualified(group, plural)
    message = f'{what} "{name}" is forbidden: {why}' if name else f"{what} is forbidden: {why}"
    if not what:
        message = f"forbidden: {why}"
    return StatusError(403, "Forbidden", message, _details(name, group, plural))


def unauthorized() -> StatusError:
    """Answer that the credentials are not accepted."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> StatusError:
    """Answer that the revision asked for is no longer kept."""
    return StatusError(410, "Expired", message)


def gone(message: str) -> StatusError:
    """Answer that the revision to watch from is no longer kept."""
    return StatusError(410, "Gone", message)


def future_revision(asked: int, current: int) -> StatusError:
    """Answer that the revision asked for does not exist yet."""
    error = StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
    error.headers["Retry-After"] = "1"
    return error


def too_large(limit: int) -> StatusError:
    """Answer that the body exceeds the limit."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_slow() -> StatusError:
    """Answer that a body did not arrive in time."""
    return StatusError(408, "Timeout", "Timeout: request did not complete within the allotted timeout")


def too_many_requests() -> StatusError:
    """Answer that the hub is busy; the client should wait and come again."""
    error = StatusError(
        429, "TooManyRequests", "Too many requests, please try again later.", {"retryAfterSeconds": 1}
    )
    error.headers["Retry-After"] = "1"
    return error


def internal(message: str) -> StatusError:
    """Answer that the hub itself failed."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]}
    )


def unavailable(message: str) -> StatusError:
    """Answer that the hub cannot serve for the moment."""
    error = StatusError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})
    error.headers["Retry-After"] = "1"
    return error
