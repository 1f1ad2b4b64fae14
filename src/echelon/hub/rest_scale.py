"""The scale subresource: one number of an object, read and written apart from the rest."""

from __future__ import annotations

from typing import Any

from echelon.hub.apply import ApplyConflict, apply, wrong_type
from echelon.hub.body import decode_json, decode_object, decode_yaml, expect_kind_as, media_type
from echelon.hub.call import Call, Response, View
from echelon.hub.gotext import bad_value
from echelon.hub.negotiate import document, form_of
from echelon.hub.patch import json_patch, merge_patch
from echelon.hub.rest_write import change_entry, expect_name
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
MAX_REPLICAS = 2**31 - 1


def _paths(call: Call) -> Any:
    return call.kind.scale_paths or BUILT_IN


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def scale_of(call: Call, obj: Json) -> Json:
    """Return the Scale of an object."""
    paths = _paths(call)
    replicas = _at(obj, paths["specReplicasPath"])
    if replicas is None and call.kind.custom:
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
    return await _write(call, lambda _old: scale)


async def patch_scale(call: Call) -> Response:
    """Answer PATCH."""
    media = media_type(call)
    if media == "application/json-patch+json":
        operations = decode_json(call.request.body)
        return await _write(call, lambda old: json_patch(old, operations))
    if media in {"application/merge-patch+json", "application/strategic-merge-patch+json"}:
        document_ = decode_json(call.request.body)
        return await _write(call, lambda old: merge_patch(old, document_))
    if media == "application/apply-patch+yaml":
        return await _apply(call, decode_yaml(call.request.body, "error encoding patch"))
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


async def _apply(call: Call, applied: Any) -> Response:
    """Answer an apply: of the Scale's one field, owned as a field of the object."""
    if not isinstance(applied, dict) or (applied.get("apiVersion"), applied.get("kind")) != (
        VERSION,
        "Scale",
    ):
        raise wrong_type(applied if isinstance(applied, dict) else {})
    form = form_of(call)
    manager, force, kind = call.option("fieldManager"), call.flag("force"), call.kind
    call.view = View(lambda obj: scale_of(call, obj), lambda obj, scale: _with_replicas(call, obj, scale))

    def change(old: Json) -> Json:
        wanted = _with_replicas(call, old, applied)
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


async def _write(call: Call, change: Any) -> Response:
    form = form_of(call)
    call.view = View(lambda obj: scale_of(call, obj), lambda obj, scale: _with_replicas(call, obj, scale))
    after = await change_entry(call, lambda old: _with_replicas(call, old, change(scale_of(call, old))))
    return document(scale_of(call, call.kind.read(after)), 200, form)


def _with_replicas(call: Call, old: Json, scale: Any) -> Json:
    if not isinstance(scale, dict):
        raise bad_request("the patch does not leave an object")
    meta = scale.get("metadata") or {}
    expect_name(call, meta)
    given = meta.get("resourceVersion")
    if given and given != old["metadata"]["resourceVersion"]:
        raise conflict(call.kind.group, call.kind.plural, call.name)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas > MAX_REPLICAS:
        message = f"Invalid value: {bad_value(replicas)}: json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32"
        raise invalid(
            "autoscaling",
            "Scale",
            "",
            [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}],
        )
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
