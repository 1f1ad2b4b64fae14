"""From the bytes of a request to a decoded object.

Bad JSON, bad UTF-8, absurd nesting and unknown media types become the Status
that kube-apiserver would answer; nothing here can make the hub fail or hang.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from echelon.hub import protobuf
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

_ALIAS = re.compile(rb"(^|[\s\[{,:-])\*[A-Za-z0-9_-]+")


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
    """Decode the first YAML document of a body; anchors are refused when they could multiply."""
    before = f"{failing}: " if failing else ""
    if len(_ALIAS.findall(body)) > 100:
        raise bad_request(f"{before}yaml: document contains excessive aliasing")
    try:
        value = _first(body)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"{before}yaml: {_yaml_problem(error)}") from None
    if isinstance(value, dict | list):
        check_depth(body, value)
        try:
            return msgspec.json.decode(msgspec.json.encode(_named(value)))
        except (TypeError, ValueError, RecursionError) as error:
            raise bad_request(f"{before}{error}") from None
    return value


def _first(body: bytes) -> Any:
    """Read the first document; what follows it is nobody's."""
    loader = _Loader(body)
    try:
        return loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
    finally:
        loader.dispose()


def _named(value: Any) -> Any:
    """Return YAML with text for names: `yes: 1` is a field called true in JSON."""
    if isinstance(value, dict):
        return {
            str(key).lower() if isinstance(key, bool) else key: _named(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return value


def _yaml_problem(error: Exception) -> str:
    """Say where and why a text is no YAML."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        # A scanner has not yet counted the line it stumbled in; a parser has.
        line = mark.line + 1 if isinstance(error, yaml.scanner.ScannerError) else max(mark.line, 1)
        return f"line {line}: {getattr(error, 'problem', '')}"
    return str(error).splitlines()[0] if str(error) else "cannot be read"


class _Loader(yaml.CSafeLoader):
    """A safe loader that leaves timestamps and the old booleans of YAML 1.1 to JSON's rules."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


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
