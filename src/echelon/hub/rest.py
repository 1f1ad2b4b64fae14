"""Which verb is served by which function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from echelon.hub import options, rest_pods, reviews
from echelon.hub.call import Call, Response
from echelon.hub.health import page_not_found
from echelon.hub.rest_delete import delete, delete_collection
from echelon.hub.rest_namespaces import finalize
from echelon.hub.rest_patch import patch
from echelon.hub.rest_read import get, list_objects
from echelon.hub.rest_scale import get_scale, patch_scale, put_scale
from echelon.hub.rest_watch import watch
from echelon.hub.rest_write import create, need, update
from echelon.hub.status import method_not_allowed, no_such_resource, not_found
from echelon.hub.token_request import token_request

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


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
SPECIAL: dict[tuple[str, str, str], Callable[[Call], Awaitable[Response]]] = {
    (f"{_AUTHENTICATION}/selfsubjectreviews", "", "create"): reviews.self_subject,
    (f"{_AUTHENTICATION}/tokenreviews", "", "create"): reviews.token_review,
    (f"{_AUTHORIZATION}/selfsubjectaccessreviews", "", "create"): reviews.self_access,
    (f"{_AUTHORIZATION}/subjectaccessreviews", "", "create"): reviews.subject_access,
    (f"{_AUTHORIZATION}/localsubjectaccessreviews", "", "create"): reviews.local_access,
    (f"{_AUTHORIZATION}/selfsubjectrulesreviews", "", "create"): reviews.self_rules,
    ("/serviceaccounts", "token", "create"): token_request,
    ("/namespaces", "finalize", "update"): finalize,
    ("/pods", "binding", "create"): rest_pods.bind,
    ("/pods", "eviction", "create"): rest_pods.evict,
    ("/pods", "log", "get"): rest_pods.log,
}
"""By resource, subresource and verb: what is not a plain read or write of an object."""

SCALE: dict[str, Callable[[Call], Awaitable[Response]]] = {
    "get": get_scale,
    "update": put_scale,
    "patch": patch_scale,
}
NODE_ONLY = frozenset({"exec", "attach", "portforward", "proxy"})


def named_right(call: Call) -> bool:
    """Say whether the path names an object where the verb needs one, and only there."""
    if call.verb in {"update", "patch"}:
        return bool(call.name)
    if call.verb == "create":
        return bool(call.name) == bool(call.subresource) and bool(call.namespace or not call.kind.namespaced)
    return call.verb != "deletecollection" or bool(call.namespace or not call.kind.namespaced)


async def serve(call: Call) -> Response:
    """Answer a request about objects."""
    verb = call.verb
    handler = _VERBS.get(verb)
    if handler is None:
        raise method_not_allowed()
    if call.subresource and (
        call.subresource not in call.kind.subresources or (call.rest and call.subresource != "proxy")
    ):
        raise (
            not_found(call.kind.group, call.kind.plural, call.name)
            if call.kind.custom
            else no_such_resource()
        )
    if call.name and not call.subresource and call.kind.verbs == ("create",):
        raise no_such_resource()
    need(call, verb)
    if not named_right(call):
        if call.kind.custom and call.kind.namespaced and not call.namespace:
            return page_not_found()
        raise method_not_allowed()
    if call.request.query or verb == "patch":
        options.check(call)
    if call.kind.deprecation:
        call.warnings.append(call.kind.deprecation)
    special = SPECIAL.get((call.kind.resource, call.subresource, verb))
    if special is None and call.subresource:
        if call.subresource == "scale":
            special = SCALE[verb]
        elif call.subresource in NODE_ONLY:
            special = rest_pods.no_node
    if special is not None:
        return await special(call)
    if not call.kind.stored:
        raise method_not_allowed()
    return await handler(call)
