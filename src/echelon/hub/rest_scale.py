"""The scale subresource: one number of an object, read and written apart from the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.hub import builtins, builtins_decode, metadata
from echelon.hub.apply import ApplyConflict, apply, wrong_type
from echelon.hub.body import decode_json, decode_object, decode_yaml, expect_kind_as, media_type
from echelon.hub.call import Call, Response, View
from echelon.hub.gotext import quote
from echelon.hub.kinds import encode
from echelon.hub.metadata import OTHER_NAMESPACE
from echelon.hub.negotiate import document, form_of
from echelon.hub.patch import json_patch, merge_patch
from echelon.hub.rest_write import change_entry, expect_name, expect_revision, expect_uid
from echelon.hub.seen import seen
from echelon.hub.status import StatusError, bad_request, conflict, internal, invalid, not_found
from echelon.hub.world import rfc3339

Json = dict[str, Any]

BUILT_IN = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
VERSION = "autoscaling/v1"
DEFINITION = "io.k8s.api.autoscaling.v1.Scale"


def _paths(call: Call) -> Any:
    return call.kind.scale_paths or BUILT_IN


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def scale_of(call: Call, obj: Json, *, strict: bool = True) -> Json:
    """Return the Scale of an object; unless strict, one that has no number of replicas yet has none."""
    paths = _paths(call)
    replicas = _at(obj, paths["specReplicasPath"])
    if replicas is None and call.kind.custom and strict:
        raise internal(f'the spec replicas field "{paths["specReplicasPath"]}" does not exist')
    meta = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": _at(obj, paths["statusReplicasPath"]) or 0}
    selector = _selector(
        _at(obj, paths.get("labelSelectorPath") or "") if "labelSelectorPath" in paths else None
    )
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": VERSION,
        "metadata": {name: meta[name] for name in names if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector(given: Any) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return ""
    plain = given.get("matchLabels") if "matchLabels" in given or "matchExpressions" in given else given
    parts = [f"{key}={value}" for key, value in sorted((plain or {}).items())]
    for one in given.get("matchExpressions") or ():
        key, values = one.get("key", ""), ",".join(sorted(one.get("values") or ()))
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(shown.get(one.get("operator", ""), f"!{key}"))
    return ",".join(parts)


async def get_scale(call: Call) -> Response:
    """Answer GET."""
    entry = call.table.live.get(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    obj = call.kind.read((await seen(call, entry)).body)
    return document(scale_of(call, obj), 200, form_of(call))


async def put_scale(call: Call) -> Response:
    """Answer PUT."""
    scale = decode_object(call)
    expect_kind_as(scale, VERSION, "Scale")
    problem = _problem(scale)
    if problem and call.kind.custom:
        raise bad_request('no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"')
    if problem:
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {problem}')
    _expect_here(call, scale["metadata"])
    return await _write(call, lambda _old: scale)


async def patch_scale(call: Call) -> Response:
    """Answer PATCH."""
    media = media_type(call)
    if media == "application/json-patch+json":
        operations = decode_json(call.request.body)
        return await _write(call, lambda old: _checked(json_patch(old, operations)))
    if media in {"application/merge-patch+json", "application/strategic-merge-patch+json"}:
        document_ = decode_json(call.request.body)
        return await _write(call, lambda old: _checked(merge_patch(old, document_)))
    if media == "application/apply-patch+yaml":
        return await _apply(call, decode_yaml(call.request.body, "error encoding patch"))
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _view(call: Call) -> View:
    """Return how admission sees the write of a Scale."""
    return View(
        lambda obj: scale_of(call, obj, strict=False),
        lambda obj, scale: _with_replicas(call, obj, _checked(scale)),
    )


async def _apply(call: Call, applied: Any) -> Response:
    """Answer an apply: of the Scale's one field, owned as a field of the object."""
    if not isinstance(applied, dict) or (applied.get("apiVersion"), applied.get("kind")) != (
        VERSION,
        "Scale",
    ):
        raise wrong_type(applied if isinstance(applied, dict) else {})
    form = form_of(call)
    manager, force, kind = call.option("fieldManager"), call.flag("force"), call.kind
    call.view = _view(call)

    def change(old: Json) -> Json:
        wanted = _with_replicas(call, old, _checked(applied))
        path = _paths(call)["specReplicasPath"].strip(".").split(".")
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": call.name}}
        part = _set(head, path, _at(wanted, ".".join(path)))
        now = rfc3339(call.hub.world.now())
        try:
            return apply(old, part, manager, force, kind.schema, now, kind.api_version, "scale", {})
        except ApplyConflict as conflict:
            raise _as_scale(conflict) from None

    after = await change_entry(call, change, "Apply")
    return document(scale_of(call, call.kind.read(after)), 200, form)


def _as_scale(found: ApplyConflict) -> ApplyConflict:
    """Word conflicts in the fields of a Scale."""
    owners = [owner._replace(version=VERSION) if owner.version else owner for owner, _ in found.conflicts]
    return ApplyConflict([(owner, {"f:spec": {"f:replicas": {}}}) for owner in owners])


def _problem(scale: Json) -> str:
    """Say why something is no Scale; its metadata is completed."""
    try:
        metadata.shape(scale)
    except StatusError as error:
        return error.message
    return builtins_decode.problem(builtins.schema_of(DEFINITION), scale, "Scale")


def _checked(patched: Any) -> Json:
    """Refuse what a patch leaves if it is no Scale any more."""
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    scale = dict(patched)
    problem = _problem(scale)
    if problem:
        message = f"Invalid value: {quote(encode(patched).decode())}: {problem}"
        raise invalid("", "", "", [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}])
    return scale


async def _write(call: Call, change: Callable[[Json], Json]) -> Response:
    form = form_of(call)
    call.view = _view(call)
    after = await change_entry(
        call, lambda old: _with_replicas(call, old, change(scale_of(call, old, strict=False)))
    )
    return document(scale_of(call, call.kind.read(after)), 200, form)


def _expect_here(call: Call, meta: Json) -> None:
    expect_name(call, meta)
    if meta.get("namespace") and meta["namespace"] != call.namespace:
        raise bad_request(OTHER_NAMESPACE)


def _with_replicas(call: Call, old: Json, scale: Json) -> Json:
    meta = scale["metadata"]
    _expect_here(call, meta)
    expect_uid(call, meta, old["metadata"])
    given = meta.get("resourceVersion")
    if given and given != old["metadata"]["resourceVersion"]:
        expect_revision(given)
        raise conflict(call.kind.group, call.kind.plural, call.name)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    path = _paths(call)["specReplicasPath"]
    if replicas < 0 and call.kind.custom:
        message = f"Invalid value: {replicas}: should be a non-negative integer"
        causes = [{"reason": "FieldValueInvalid", "message": message, "field": path}]
        raise invalid(call.kind.group, call.kind.kind, call.name, causes)
    if replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        causes = [{"reason": "FieldValueInvalid", "message": message, "field": "spec.replicas"}]
        raise invalid("autoscaling", "Scale", call.name, causes)
    return _set(old, path.strip(".").split("."), replicas)


def _set(obj: Json, path: list[str], value: int) -> Json:
    if len(path) == 1:
        return {**obj, path[0]: value}
    inner = obj.get(path[0])
    return {**obj, path[0]: _set(inner if isinstance(inner, dict) else {}, path[1:], value)}
