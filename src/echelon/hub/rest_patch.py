"""PATCH: the four patch types, all ending in one changed object.

Chooses by content type, applies the patch to the newest state, and hands the
result to the same way an update takes.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import conform
from echelon.hub.body import decode_json, decode_yaml, expect_kind, media_type
from echelon.hub.call import Call, Response
from echelon.hub.patch import json_patch, merge_patch
from echelon.hub.rest_apply import serve_apply
from echelon.hub.rest_write import change_object
from echelon.hub.status import StatusError, bad_request, not_found

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"


async def patch(call: Call) -> Response:
    """PATCH an object or one of its subresources."""
    media = media_type(call)
    if media == APPLY_YAML:
        return await serve_apply(call, decode_yaml(call.request.body, "error encoding patch"))
    if media == MERGE_PATCH:
        document = decode_json(call.request.body)
        return await change_object(call, lambda old: _shaped(call, merge_patch(old, document)))
    if media == JSON_PATCH:
        operations = decode_json(call.request.body)
        return await change_object(call, lambda old: _shaped(call, json_patch(old, operations)))
    if media == STRATEGIC_PATCH and not call.kind.custom:
        from echelon.hub.strategic import strategic_merge  # noqa: PLC0415 - built-in kinds only

        document = decode_json(call.request.body)
        schema = call.kind.schema
        return await change_object(call, lambda old: _shaped(call, strategic_merge(old, document, schema)))
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _shaped(call: Call, patched: Any) -> Json:
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    expect_kind(patched, call.kind.api_version, call.kind.kind)
    conform.shape(call, patched)
    return patched


def missing(call: Call) -> Exception:
    """Return the error of patching what does not exist."""
    return not_found(call.kind.group, call.kind.plural, call.name)
