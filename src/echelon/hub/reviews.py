"""Questions about access that store nothing: who am I, may I, may they, what may I, whose token is this."""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub import conform, managed
from echelon.hub.access_rules import Attributes, Rule
from echelon.hub.body import decode_object, expect_kind
from echelon.hub.call import Call, Response, User
from echelon.hub.gotext import quote
from echelon.hub.kinds import encode
from echelon.hub.negotiate import document
from echelon.hub.rules_text import attributes_text
from echelon.hub.status import bad_request, invalid
from echelon.hub.tokens import BadToken
from echelon.hub.world import rfc3339

Json = dict[str, Any]

ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def _read(call: Call) -> Json:
    obj = decode_object(call)
    expect_kind(call, obj)
    conform.shape(call, obj)
    if call.kind.namespaced:
        obj["metadata"]["namespace"] = call.namespace
    else:
        obj["metadata"].pop("namespace", None)
    return obj


def _answer(call: Call, obj: Json, status: Json, *, tracked: bool = True) -> Response:
    if tracked:
        managed.track(call, None, obj)
    head = {"kind": call.kind.kind, "apiVersion": call.kind.api_version, "metadata": obj["metadata"]}
    return document({**head, **({"spec": obj["spec"]} if "spec" in obj else {}), "status": status}, 201)


def user_info(user: User) -> Json:
    """Return a user as the API shows it."""
    info: Json = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info


async def self_subject(call: Call) -> Response:
    """Answer who asks."""
    obj = _read(call)
    meta = {"creationTimestamp": rfc3339(call.hub.world.now())}
    status = {"userInfo": user_info(call.request.user)}
    return _answer(call, {**obj, "metadata": meta}, status, tracked=False)


async def self_access(call: Call) -> Response:
    """Answer whether the caller may."""
    obj = _read(call)
    return _answer(call, obj, _decide(call, call.request.user, _attributes(call, obj.get("spec") or {})))


async def subject_access(call: Call) -> Response:
    """Answer whether somebody may."""
    obj = _read(call)
    spec = obj.get("spec") or {}
    causes = _spec_causes(spec) + _nameless_causes(call, obj)
    if not spec.get("user") and not spec.get("groups"):
        message = 'Invalid value: "": at least one of user or group must be specified'
        causes.append({"reason": "FieldValueInvalid", "message": message, "field": "spec.user"})
    if causes:
        raise invalid("authorization.k8s.io", "", "", causes)
    user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
    return _answer(call, obj, _decide(call, user, _attributes(call, spec)))


async def local_access(call: Call) -> Response:
    """Answer whether somebody may in one namespace."""
    obj = _read(call)
    spec = obj.get("spec") or {}
    causes: list[Json] = []
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != call.namespace:
        message = f'Invalid value: "{resource.get("namespace", "")}": must match metadata.namespace'
        field = "spec.resourceAttributes.namespace"
        causes.append({"reason": "FieldValueInvalid", "message": message, "field": field})
    if spec.get("nonResourceAttributes") is not None:
        message = f"Invalid value: {attributes_text(spec['nonResourceAttributes'])}: disallowed on this kind of request"
        causes.append(
            {"reason": "FieldValueInvalid", "message": message, "field": "spec.nonResourceAttributes"}
        )
    if not spec.get("user") and not spec.get("groups"):
        message = 'Invalid value: "": at least one of user or group must be specified'
        causes.append({"reason": "FieldValueInvalid", "message": message, "field": "spec.user"})
    if causes:
        raise invalid("authorization.k8s.io", "", "", causes)
    user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
    return _answer(call, obj, _decide(call, user, _attributes(call, spec)))


def _nameless_causes(call: Call, obj: Json) -> list[Json]:
    """Refuse metadata: a question about access has no name."""
    if not obj["metadata"]:
        return []
    tracked = {**obj, "metadata": dict(obj["metadata"])}
    managed.track(call, None, tracked)
    for entry in tracked["metadata"].get("managedFields") or ():
        entry["fieldsV1"] = msgspec.Raw(msgspec.json.encode(entry["fieldsV1"], order="sorted"))
    shown = encode(tracked["metadata"]).decode()
    message = f"Invalid value: {shown}: must be empty"
    return [{"reason": "FieldValueInvalid", "message": message, "field": "metadata"}]


def _spec_causes(spec: Json) -> list[Json]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) != (path is None):
        return _selector_causes(resource or {})
    seen = "null" if path is None else attributes_text(path)
    return [{"reason": "FieldValueInvalid", "message": f"Invalid value: {seen}: {ONE_OF}", "field": "spec"}]


def _selector_causes(resource: Json) -> list[Json]:
    """Refuse selectors that are said twice."""
    causes = []
    for name in ("fieldSelector", "labelSelector"):
        given = resource.get(name) or {}
        raw = given.get("rawSelector")
        if raw and given.get("requirements"):
            message = f"Invalid value: {quote(raw)}: may not specified at the same time as requirements"
            field = f"spec.resourceAttributes.{name}.rawSelector"
            causes.append({"reason": "FieldValueInvalid", "message": message, "field": field})
    return causes


def _attributes(call: Call, spec: Json) -> Attributes:
    causes = _spec_causes(spec)
    if causes:
        raise invalid(call.kind.group, "", "", causes)
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    wanted = spec["resourceAttributes"]
    return Attributes(
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _decide(call: Call, user: User, wanted: Attributes) -> Json:
    allowed, reason = call.cluster.access.explain(user, wanted)
    status: Json = {"allowed": allowed}
    if reason:
        status["reason"] = reason
    return status


async def self_rules(call: Call) -> Response:
    """Answer everything the caller may in a namespace."""
    obj = _read(call)
    namespace = (obj.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, _ = call.cluster.access.rules_of(call.request.user, namespace)
    resources = [_shown(rule, "resources", "apiGroups", "resourceNames") for rule in rules if rule.resources]
    paths = [_shown(rule, "nonResourceURLs") for rule in rules if rule.urls]
    if "system:masters" in call.request.user.groups:
        resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    status = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    return _answer(call, {"metadata": {}, "spec": {}}, status, tracked=False)


def _shown(rule: Rule, *names: str) -> Json:
    wire = rule.wire()
    return {name: wire[name] for name in ("verbs", *names) if name in wire}


async def token_review(call: Call) -> Response:
    """Answer whose token it is."""
    obj = _read(call)
    spec = obj.get("spec") or {}
    token = spec.get("token", "")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    wanted = spec.get("audiences") or []
    known = call.hub.tokens.known.get(token)
    if known is not None:
        return _answer(call, obj, {"authenticated": True, "user": user_info(known), "audiences": wanted})
    try:
        user, audiences = call.hub.tokens.review(call.cluster.name, token, wanted)
    except BadToken as error:
        text = str(error)
        shown = text if text == "invalid bearer token" else f"[invalid bearer token, {text}]"
        return _answer(call, obj, {"user": {}, "error": shown})
    return _answer(call, obj, {"authenticated": True, "user": user_info(user), "audiences": audiences})
