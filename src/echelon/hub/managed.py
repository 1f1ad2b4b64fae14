"""Who set which field: managedFields on every write.

The meeting point of the request path and the pure algebra in `apply.py`. Decides
who the manager is and which fields an endpoint cannot set; never how sets merge.
"""

from __future__ import annotations

from typing import Any

from echelon.hub.apply import (
    RESET_FOR_CR_STATUS,
    RESET_FOR_STATUS,
    RESET_STATUS,
    manager_name,
    track_update,
)
from echelon.hub.call import Call
from echelon.hub.fieldset import FieldSet
from echelon.hub.seen import in_version
from echelon.hub.shape import shape_of
from echelon.hub.typed import compare
from echelon.hub.world import rfc3339

Json = dict[str, Any]

_NOTHING: FieldSet = {}
_RESET: dict[str, FieldSet] = {
    "apps/deployments": {**RESET_FOR_STATUS, "f:metadata": {"f:labels": {}}},
    "apiregistration.k8s.io/apiservices": RESET_FOR_CR_STATUS,
}
"""What a write to the status puts back, of kinds that put back more than others."""


def reset_of(call: Call) -> FieldSet:
    """Return the fields this endpoint puts back to what they were, so that nobody comes to own them."""
    if call.subresource == "status":
        return RESET_FOR_CR_STATUS if call.kind.custom else _RESET.get(call.kind.resource, RESET_FOR_STATUS)
    return RESET_STATUS if call.kind.has_status else _NOTHING


async def look_elsewhere(call: Call, old: Json, new: Json) -> bool:
    """Work out what a write means in the other versions that managers wrote in; say whether there are any.

    Needed only where a webhook converts: elsewhere the same field has the same name in every version.
    """
    kind = call.kind
    if kind.conversion is None:
        return False
    found = {}
    for entry in old["metadata"].get("managedFields") or ():
        version = entry["apiVersion"]
        other = kind.versions.get(version.rpartition("/")[2])
        if version != kind.api_version and version not in found and other is not None:
            was, now = await in_version(call, old, other), await in_version(call, new, other)
            found[version] = compare(was, now, shape_of(other.schema))
    call.elsewhere = found
    return bool(found)


def track(call: Call, old: Json | None, new: Json) -> None:
    """Record in `new` which fields this write's manager now owns."""
    kind = call.kind
    manager = manager_name(call.option("fieldManager"), call.request.headers.get("user-agent", ""))
    now = rfc3339(call.hub.world.now())
    if call.subresource == "scale":
        assert old is not None
        if _is_counted(call, old):
            was, now_is = _without_zero(call, old), _without_zero(call, new)
            tracked = track_update(
                was, now_is, manager, kind.schema, None, kind.api_version, "scale", reset={}
            )
            new["metadata"] = tracked["metadata"]
        return
    tracked = track_update(
        old,
        new,
        manager,
        kind.schema,
        now,
        kind.api_version,
        call.subresource,
        reset=reset_of(call),
        elsewhere=call.elsewhere,
    )
    new["metadata"] = tracked["metadata"]


def _replicas(call: Call) -> list[str]:
    path = (call.kind.scale_paths or {}).get("specReplicasPath", ".spec.replicas")
    return path.strip(".").split(".")


def _without_zero(call: Call, obj: Json) -> Json:
    """Return an object as its Scale tells of it: a count of zero is not there."""
    made = holder = dict(obj)
    *way, last = _replicas(call)
    for part in way:
        holder[part] = dict(holder.get(part) or {})
        holder = holder[part]
    if not holder.get(last):
        holder.pop(last, None)
    return made


def _is_counted(call: Call, old: Json) -> bool:
    """Say whether somebody owns the number of replicas: only then it is noted who scales, without the time."""
    for entry in old["metadata"].get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for part in _replicas(call):
            fields = fields.get(f"f:{part}") if fields else None
        if fields is not None:
            return True
    return False


def track_as(call: Call, new: Json, api_version: str) -> None:
    """Record the manager of an object that is no object of the call's kind, such as a TokenRequest."""
    manager = manager_name(call.option("fieldManager"), call.request.headers.get("user-agent", ""))
    now = rfc3339(call.hub.world.now())
    tracked = track_update(None, new, manager, None, now, api_version, call.subresource, reset=_NOTHING)
    new["metadata"] = tracked["metadata"]
