"""TokenRequest: a service account asks for a token, for an audience and a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from echelon.hub import managed
from echelon.hub.body import decode_object, expect_kind_as
from echelon.hub.call import Call, Response
from echelon.hub.gotext import quote
from echelon.hub.negotiate import document
from echelon.hub.status import StatusError, bad_request, conflict, invalid, not_found
from echelon.hub.world import rfc3339

Json = dict[str, Any]

MIN_S, DEFAULT_S, MAX_S = 600, 3600, 1 << 32
GROUP_VERSION = "authentication.k8s.io/v1"
BINDABLE = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets"}


async def token_request(call: Call) -> Response:
    """Issue a token."""
    obj = decode_object(call)
    expect_kind_as(obj, GROUP_VERSION, "TokenRequest")
    spec = obj.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request(
            "json: cannot unmarshal into Go struct field TokenRequest.spec of type v1.TokenRequestSpec"
        )
    entry = call.table.head(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    named = (obj.get("metadata") or {}).get("name")
    if named and named != call.name:
        message = f"Invalid value: {quote(named)}: must match the service account name if specified"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "metadata.name"}
        raise invalid("authentication.k8s.io", "TokenRequest", call.name, [cause])
    seconds = spec.get("expirationSeconds", DEFAULT_S)
    _check(seconds, spec.get("audiences") or [])
    world, tokens = call.hub.world, call.hub.tokens
    now = world.now()
    audiences = spec.get("audiences") or [tokens.issuer(call.cluster.name)]
    expires = now + timedelta(seconds=seconds)
    private: Json = {"namespace": call.namespace, "serviceaccount": {"name": call.name, "uid": entry.uid}}
    bound = spec.get("boundObjectRef")
    if bound:
        private.update(_bound(call, bound))
    claims = {
        "aud": audiences,
        "exp": int(expires.timestamp()),
        "iat": int(now.timestamp()),
        "jti": world.uuid(),
        "kubernetes.io": private,
        "nbf": int(now.timestamp()),
        "sub": f"system:serviceaccount:{call.namespace}:{call.name}",
    }
    made: Json = {
        "kind": "TokenRequest",
        "apiVersion": GROUP_VERSION,
        "metadata": {
            "name": call.name,
            "namespace": call.namespace,
            "uid": entry.uid,
            "creationTimestamp": rfc3339(now),
        },
        "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
    }
    tracked = {"metadata": made["metadata"], "spec": {**spec, "expirationSeconds": seconds}}
    managed.track_as(call, tracked, GROUP_VERSION)
    made["metadata"] = tracked["metadata"]
    made["status"] = {
        "token": tokens.issue(call.cluster.name, claims),
        "expirationTimestamp": rfc3339(expires),
    }
    return document(made, 201)


def _check(seconds: Any, audiences: Any) -> None:
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise bad_request(
            "json: cannot unmarshal into Go struct field TokenRequestSpec.spec.expirationSeconds of type int64"
        )
    if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
        raise bad_request(
            "json: cannot unmarshal into Go struct field TokenRequestSpec.spec.audiences of type []string"
        )
    why = ""
    if seconds < MIN_S:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_S:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        message = f"Invalid value: {seconds}: {why}"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "spec.expirationSeconds"}
        raise invalid("authentication.k8s.io", "TokenRequest", "", [cause])


def _bound(call: Call, ref: Any) -> Json:
    plural = BINDABLE.get((ref.get("apiVersion", ""), ref.get("kind", ""))) if isinstance(ref, dict) else None
    if plural is None:
        given = ref if isinstance(ref, dict) else {}
        version = str(given.get("apiVersion") or "")
        what = f"{version if '/' in version else '/' + version}, Kind={given.get('kind') or ''}"
        raise bad_request(f"cannot bind token to object of type {what}")
    name, uid = ref.get("name", ""), ref.get("uid", "")
    entry = call.hub.store.table(call.cluster.name, f"/{plural}").head(f"{call.namespace}/{name}")
    if entry is None:
        raise not_found("", plural, name)
    if uid and uid != entry.uid:
        why = f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        error: StatusError = conflict("", ref["kind"], name, why)
        raise error
    return {plural[:-1]: {"name": name, "uid": entry.uid}}
