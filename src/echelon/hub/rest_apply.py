"""Server-side apply: PATCH with a configuration instead of a change.

Creates what does not exist; otherwise merges the configuration into the newest
state and takes the same way to the store as every other write.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import conform
from echelon.hub.apply import apply, wrong_type
from echelon.hub.call import Call, Response
from echelon.hub.kind_rules import CREATE_ON_UPDATE
from echelon.hub.managed import reset_of
from echelon.hub.patch import go_kind
from echelon.hub.rest_write import change_object, create_object, nameless
from echelon.hub.status import bad_request, conflict, not_found
from echelon.hub.world import rfc3339

Json = dict[str, Any]


async def serve_apply(call: Call, applied: Any) -> Response:
    """Answer an apply patch."""
    manager = call.option("fieldManager")
    entry = call.table.head(call.key)
    if entry is None and call.subresource and call.kind.resource not in CREATE_ON_UPDATE:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    if applied is None:
        applied = {}
    if not isinstance(applied, dict):
        raise bad_request(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{go_kind(applied)} into Go value of type map[string]interface {{}}"
        )
    if applied.get("kind") != call.kind.kind:
        raise wrong_type(applied)
    _expect_name(call, applied.get("metadata"))
    force = call.flag("force")

    def merged(live: Json | None) -> Json:
        return apply(
            live,
            applied,
            manager,
            force,
            call.kind.schema,
            rfc3339(call.hub.world.now()),
            call.kind.api_version,
            call.subresource,
            reset_of(call),
            call.elsewhere,
        )

    if entry is None:
        return await _create(call, merged(None))

    def change(live: Json) -> Json:
        result = merged(live)
        conform.shape(call, result, applied=True)
        return result

    return await change_object(call, change, "Apply")


def _expect_name(call: Call, meta: Any) -> None:
    """Refuse a configuration of another object than the path's."""
    name = meta.get("name") if isinstance(meta, dict) else None
    if not name:
        raise nameless(call)
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


async def _create(call: Call, obj: Json) -> Response:
    meta = obj.get("metadata")
    meta = obj["metadata"] = dict(meta) if isinstance(meta, dict) else {}
    if meta.get("uid"):
        raise conflict(
            call.kind.group,
            call.kind.plural,
            call.name,
            f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found",
        )
    meta.pop("resourceVersion", None)
    meta.setdefault("name", call.name)
    return await create_object(call, obj, "Apply")
