"""PATCH: the four patch types, all ending in one changed object.

Chooses by content type, applies the patch to the newest state, and hands the
result to the same way an update takes.
"""

from __future__ import annotations

import re
from typing import Any

from echelon.hub import conform
from echelon.hub.body import decode_json, decode_yaml, expect_kind, media_type
from echelon.hub.call import Call, Response
from echelon.hub.gotext import go_text, quote
from echelon.hub.kinds import encode
from echelon.hub.patch import json_patch, merge_patch
from echelon.hub.rest_apply import serve_apply
from echelon.hub.rest_write import change_object
from echelon.hub.status import StatusError, bad_request, invalid, not_found, unsupported_media_type
from echelon.rules import gojson

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"
_META_ORDER = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
]
_UNMARSHAL = re.compile(
    r"^json: cannot unmarshal (\w+)(?: \S+)? into Go (?:struct field|value) .*of type (\S+)$"
)
_KINDS = {"number": "int64", "object": "map", "array": "slice"}


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
        return await change_object(
            call, lambda old: _shaped(call, strategic_merge(old, document, schema), document)
        )
    if media == STRATEGIC_PATCH:
        raise unsupported_media_type([JSON_PATCH, MERGE_PATCH, APPLY_YAML])
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _decode(call: Call) -> Any:
    try:
        return decode_json(call.request.body)
    except StatusError as error:
        raise bad_request("invalid JSON patch") from error


def _shaped(call: Call, result: Any, strategic: Any = None) -> Json:
    if not isinstance(result, dict):
        raise bad_request("the patch does not leave an object")
    patched: Json = dict(result)  # what is checked and completed below must not be the stored object
    if call.kind.custom:
        _expect_custom(call, patched)
    text = dict(patched)
    try:
        expect_kind(call, patched)
        conform.shape(call, patched)
    except StatusError as error:
        if error.code != 400:
            raise
        raise _undecodable(text, strategic, error.message) from None
    return patched


def _expect_custom(call: Call, patched: Json) -> None:
    """Refuse a patch that leaves a custom resource without a kind, or of another version."""
    version = patched.get("apiVersion")
    if not patched.get("kind"):
        text = gojson.encode(patched).decode()
        message = f"Invalid value: {quote(text)}: Object 'Kind' is missing in '{text}'"
        raise invalid("", "", "", [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}])
    if isinstance(version, str) and version and version != call.kind.api_version:
        message = f"Invalid value: {quote(version)}: must be {call.kind.api_version}"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "apiVersion"}
        raise invalid(call.kind.group, call.kind.kind, call.name, [cause])


def _undecodable(patched: Json, strategic: Any, why: str) -> StatusError:
    """Answer that what a patch leaves of a built-in kind cannot be read any more; a strategic one is shown itself."""
    why = conform.HANDLED.sub("", why)
    if strategic is None:
        meta = patched.get("metadata")
        if isinstance(meta, dict):
            patched = {**patched, "metadata": {key: meta[key] for key in sorted(meta, key=_meta_order)}}
        shown = encode({key: patched[key] for key in sorted(patched)}).decode()
    else:
        shown = go_text(strategic)
        why = _UNMARSHAL.sub(_converting, why)
    message = f"Invalid value: {quote(shown)}: {why}"
    return invalid("", "", "", [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}])


def _meta_order(key: str) -> int:
    """Return where a field of the metadata stands among the others."""
    return _META_ORDER.index(key) if key in _META_ORDER else len(_META_ORDER)


def _converting(found: re.Match[str]) -> str:
    """Word a wrong type as the converter of strategic patches does."""
    given, wanted = found[1], found[2]
    if wanted.startswith("[]"):
        return f"cannot restore slice from {_KINDS.get(given, given)}"
    if wanted.startswith("map["):
        return f"cannot restore map from {_KINDS.get(given, given)}"
    return f"cannot convert {_KINDS.get(given, given)} to {wanted}"


def missing(call: Call) -> Exception:
    """Return the error of patching what does not exist."""
    return not_found(call.kind.group, call.kind.plural, call.name)
