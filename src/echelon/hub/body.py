"""From the bytes of a request to a decoded object.

Bad JSON, bad UTF-8, absurd nesting and unknown media types become the Status
that kube-apiserver would answer; nothing here can make the hub fail or hang.
"""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub import protobuf, yamltext
from echelon.hub.call import Call
from echelon.hub.gotext import quote
from echelon.hub.jsontext import json_problem
from echelon.hub.protobuf import PROTOBUF_TYPE
from echelon.hub.status import StatusError, bad_request, invalid, unsupported_media_type

MAX_BODY = 3 * 1024 * 1024
"""kube-apiserver's own limit for one request body."""

MAX_DEPTH = 250
"""Containers inside containers: deeper documents exist only to hurt."""

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
WRITE_TYPES = [JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE]
MAX_SHOWN = 30
"""Characters of an unreadable body that its refusal shows."""


def media_type(call: Call) -> str:
    """Return the body's content type without parameters."""
    return call.request.headers.get("content-type", "").partition(";")[0].strip().lower()


def decode_json(body: bytes) -> Any:
    """Decode a JSON document that may be anything, within bounds."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _decode_replaced(body)
    except RecursionError:
        raise bad_request("couldn't get version/kind; json parse error: exceeded max depth") from None
    check_depth(body, value)
    return value


def _decode_replaced(body: bytes) -> Any:
    """Decode what is JSON but for bytes that are no UTF-8; they become U+FFFD, as in Go."""
    text = body.decode(errors="replace").encode()
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request(f"couldn't get version/kind; json parse error: {json_problem(text)}") from None


def check_depth(body: bytes, value: Any) -> None:
    """Refuse documents that nest deeper than `MAX_DEPTH`."""
    if (
        not isinstance(value, dict | list)
        or body.count(b"{") + body.count(b"[") + body.count(b"- ") <= MAX_DEPTH
    ):
        return
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise bad_request("couldn't get version/kind; json parse error: exceeded max depth")


def decode_yaml(body: bytes, failing: str = "error converting YAML to JSON") -> Any:
    """Decode a YAML document."""
    try:
        value = yamltext.load(body)
    except ValueError as error:
        raise bad_request(f"{failing}: {error}" if failing else str(error)) from None
    check_depth(body, value)
    return value


def decode_document(call: Call) -> Any:
    """Decode a body by its content type."""
    kind = media_type(call)
    if kind in {"", JSON_TYPE}:
        return decode_json(call.request.body)
    if kind == YAML_TYPE:
        return decode_yaml(call.request.body, "")
    if kind == PROTOBUF_TYPE and not call.kind.custom:
        try:
            return protobuf.decode(call.request.body)
        except ValueError as error:
            raise bad_request(str(error)) from None
    raise unsupported_media_type(WRITE_TYPES[:2] if call.kind.custom else WRITE_TYPES)


def decode_object(call: Call) -> dict[str, Any]:
    """Decode the object in a create or update, and check that it is of the kind of its path."""
    try:
        value = decode_document(call)
    except StatusError as error:
        if error.code != 400:
            raise
        raise _unrecognized(call, error.message) from None
    if value is None and not call.kind.custom:
        value = {}
    if value is None or (call.kind.custom and isinstance(value, dict) and not value.get("kind")):
        raise _unrecognized(
            call, f"Object 'Kind' is missing in '{call.request.body.decode(errors='replace')}'"
        )
    if not isinstance(value, dict):
        raise _unrecognized(
            call,
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f'{_go_type(value)} into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }',
        )
    for field in ("apiVersion", "kind"):
        if value.get(field) is not None and not isinstance(value[field], str):
            raise _unrecognized(call, _not_text(field, value[field]))
    return value


def _unrecognized(call: Call, why: str) -> StatusError:
    body = call.request.body
    seen = "<empty>" if not body else body.hex()
    if body[:1] == b"{":
        seen = body.decode(errors="replace")
    if len(seen) > MAX_SHOWN:
        seen = f"{seen[:MAX_SHOWN]} ..."
    what = f"the object provided is unrecognized (must be of type {call.kind.kind})"
    return bad_request(f"{what}: {why} ({seen})")


def expect_kind(call: Call, obj: dict[str, Any]) -> None:
    """Check an object against its path, in the words that its kind's decoder has."""
    kind = call.kind
    if kind.custom:
        obj.setdefault("apiVersion", "")
        if obj["apiVersion"].__class__ is not str:
            raise _unrecognized(call, _not_text("apiVersion", obj["apiVersion"]))
        if not obj["apiVersion"]:
            what = f"does not match the expected API version ({kind.api_version})"
            raise bad_request(f"the API version in the data () {what}")
        if obj["apiVersion"] == kind.api_version and obj["kind"] != kind.kind:
            raise _other_kind(call, obj)
    given_version, given_kind = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if kind.custom or (given_version, given_kind) == (kind.api_version, kind.kind):
        expect_kind_as(obj, kind.api_version, kind.kind)
        return
    group, _, version = str(given_version).rpartition("/")
    why = f'no kind "{given_kind}" is registered for version "{given_version}" in scheme "pkg/runtime/scheme.go:111"'
    if call.cluster.catalog.of_kind(group, version, str(given_kind)) is not None:
        package = kind.group.partition(".")[0] or "core"
        why = f"converting ({version}.{given_kind}) to ({package}.{kind.kind}): unknown conversion"
    raise bad_request(f'{given_kind} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def expect_kind_as(obj: dict[str, Any], api_version: str, kind: str) -> None:
    """Check an object against the apiVersion and kind expected at its path; absent ones are filled in."""
    given_version = obj.get("apiVersion") or api_version
    given_kind = obj.get("kind") or kind
    if given_version != api_version:
        raise bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )
    if given_kind != kind:
        raise bad_request(f"the kind in the data ({given_kind}) does not match the expected kind ({kind})")
    obj["apiVersion"], obj["kind"] = api_version, kind


def _other_kind(call: Call, obj: dict[str, Any]) -> StatusError:
    """Answer that a custom resource says it is another one."""
    given, meta = str(obj["kind"]), obj.get("metadata")
    message = f"Invalid value: {quote(given)}: must be {call.kind.kind}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "kind"}
    return invalid(call.kind.group, given, meta.get("name", "") if isinstance(meta, dict) else "", [cause])


def _not_text(field: str, value: Any) -> str:
    return (
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{_go_type(value)} into Go struct field .{field} of type string"
    )


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list | dict):
        return "array" if isinstance(value, list) else "object"
    return "number" if value is not None else "null"
