"""Which verb is served by which function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from echelon.hub import options
from echelon.hub.call import Call, Response
from echelon.hub.rest_delete import delete, delete_collection
from echelon.hub.rest_patch import patch
from echelon.hub.rest_read import get, list_objects
from echelon.hub.rest_watch import watch
from echelon.hub.rest_write import create, need, update
from echelon.hub.status import method_not_allowed, no_such_resource

_VERBS = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


SPECIAL: dict[tuple[str, str], Callable[[Call], Awaitable[Response]]] = {}
"""By resource and subresource: what answers a create that stores nothing, such as an access review."""


async def serve(call: Call) -> Response:
    """Answer a request about objects."""
    verb = call.verb
    handler = _VERBS.get(verb)
    if handler is None:
        raise method_not_allowed(call.kind.group, call.kind.plural)
    if call.subresource and call.subresource not in call.kind.subresources:
        raise no_such_resource()
    need(call, verb)
    if call.request.query or verb == "patch":
        options.check(call)
    if call.kind.deprecation:
        call.warnings.append(call.kind.deprecation)
    special = SPECIAL.get((call.kind.resource, call.subresource))
    if special is not None and verb == "create":
        return await special(call)
    if not call.kind.stored:
        raise method_not_allowed(call.kind.group, call.kind.plural)
    return await handler(call)
