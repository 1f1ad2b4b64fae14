"""PATCH: the four patch types, all ending in one changed object.

Chooses by content type, applies the patch to the newest state, and hands the
result to the same way an update takes.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import conform
from echelon.hub.body import decode_json, decode_yaml, expect_kind, media_type
from echelon.hub.call import Call, Response
from echelon.hub.gotext import quote
from echelon.hub.patch import json_patch, merge_patch
from echelon.hub.rest_apply import serve_apply
from echelon.hub.rest_write import change_object
from echelon.hub.status import StatusError, bad_request, invalid, not_found
from echelon.rules import gojson

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
        document = _decode(call)
        return await change_object(call, lambda old: _shaped(call, merge_patch(old, document)))
    if media == JSON_PATCH:
        operations = _decode(call)
        return await change_object(call, lambda old: _shaped(call, json_patch(old, operations)))
    if media == STRATEGIC_PATCH and not call.kind.custom:
        from echelon.hub.strategic import strategic_merge  # noqa: PLC0415 - built-in kinds only

        document = _decode(call)
        schema = call.kind.schema
        return await change_object(call, lambda old: _shaped(call, strategic_merge(old, document, schema)))
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _decode(call: Call) -> Any:
    try:
        return decode_json(call.request.body)
    except StatusError as error:
        raise bad_request("invalid JSON patch") from error


def _shaped(call: Call, result: Any) -> Json:
    if not isinstance(result, dict):
        raise bad_request("the patch does not leave an object")
    patched: Json = dict(result)  # what is checked and completed below must not be the stored object
    text = None if call.kind.custom else dict(patched)
    try:
        expect_kind(patched, call.kind.api_version, call.kind.kind)
        conform.shape(call, patched)
    except StatusError as error:
        if text is None or error.code != 400:
            raise
        raise _undecodable(call, text, error.message) from None
    return patched


def _undecodable(call: Call, patched: Json, why: str) -> StatusError:
    """Answer that what a patch leaves of a built-in kind cannot be read any more."""
    prefix = f'{call.kind.kind} in version "{call.kind.version}" cannot be handled as a {call.kind.kind}: '
    shown = gojson.encode(patched).decode()
    message = f"Invalid value: {quote(shown)}: {why.removeprefix(prefix)}"
    return invalid("", "", "", [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}])


def missing(call: Call) -> Exception:
    """Return the error of patching what does not exist."""
    return not_found(call.kind.group, call.kind.plural, call.name)
