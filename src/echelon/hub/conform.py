"""Make an object what its schema says: prune what is unknown, fill in defaults, list what is wrong.

The one place where the verbs meet the schema modules. Unknown fields become an
error, a warning or nothing, as the client's fieldValidation asks. What a client
sent is never answered with more than `MAX_WARNINGS` warnings.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from echelon.hub import (
    builtins_computed,
    builtins_decode,
    builtins_defaults,
    builtins_go,
    builtins_nulls,
    builtins_rules,
    metadata,
    schema,
)
from echelon.hub.call import Call
from echelon.hub.duplicates import doubled_fields, doubled_lines, in_order
from echelon.hub.gotext import go_text, quote
from echelon.hub.kinds import encode
from echelon.hub.status import StatusError, bad_request, internal

Json = dict[str, Any]
MODES = ("Ignore", "Warn", "Strict")
NULLS = (b"null", b"Null", b"NULL", b"~", b":\n", b"- \n", b"-\n", b'"copy"')
"""Without one of these a request makes no null; JSON knows the first and the last, which copies what is not there."""

MAX_WARNINGS = 20
"""Warning headers on one answer: enough to see the mistake, small enough for header limits."""

MAX_CAUSES = 1_000
"""Mistakes named in one refusal: a small body can hold a hundred thousand."""


def shape(call: Call, obj: Json, *, applied: bool = False) -> None:
    """Prune and default an object in place; of custom resources, an applied null is not the same as nothing."""
    mode = call.option("fieldValidation") or "Warn"
    if mode not in MODES:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{mode}": supported values: "Ignore", "Strict", "Warn"'
        )
    patched = _as_patched(call, obj) if mode == "Strict" and call.verb == "patch" else b""
    body = call.request.body
    nulls = not body.isascii() or any(word in body for word in NULLS)
    unknown = fit(call, obj, nulls=nulls, applied=applied)
    if len(obj["metadata"].get("ownerReferences") or ()) > 1:
        _once(call, obj["metadata"])
    if mode == "Strict" and call.kind.custom and call.kind.schema is not None:
        unknown += schema.buried(call.kind.schema, obj)
    found = _findings(call, unknown) if mode != "Ignore" else []
    if found:
        _report(call, mode, found, patched)


def _findings(call: Call, unknown: list[str]) -> list[str]:
    """Word what strict decoding finds: fields that nobody knows, and fields that are said twice."""
    body, media = call.request.body, call.request.headers.get("content-type", "")
    words = [f'unknown field "{path}"' for path in unknown]
    if "apply-patch" in media:
        return words
    if "yaml" in media:
        return doubled_lines(body) + words
    doubled = doubled_fields(body)
    if not doubled:
        return words
    if call.verb != "patch" and not call.kind.custom:
        return in_order(body, unknown, doubled)
    what = "json patch duplicate" if "json-patch" in media else "duplicate"
    return [f'{what} field "{path}"' for path in doubled] + words


def _once(call: Call, meta: Json) -> None:
    """Keep owners that are said twice once, and say so."""
    owners: list[Json] = []
    twice: list[str] = []
    for owner in meta["ownerReferences"]:
        if owner not in owners:
            owners.append(owner)
        elif owner["uid"] not in twice:
            twice.append(owner["uid"])
    if twice:
        meta["ownerReferences"] = owners
        call.warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
            "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(twice)
        )


def shape_mutated(call: Call, obj: Json) -> None:
    """Prune and default an object that a webhook has changed: it is never strict, and to blame itself."""
    try:
        fit(call, obj)
    except StatusError as error:
        raise internal(undecorated(error)) from None


def fit(call: Call, obj: Json, *, nulls: bool = True, applied: bool = False) -> list[str]:
    """Prune and default an object in place; return the unknown fields. Without nulls in it, that is quicker."""
    _meta, unknown = metadata.shape(obj, custom=call.kind.custom)
    kind, compiled = call.kind, call.kind.schema
    if compiled is not None:
        if kind.definition:
            builtins_decode.check(kind, compiled, obj)
            if nulls:
                builtins_nulls.fill(compiled, obj)
            unknown += schema.prune_in_order(compiled, obj)
        else:
            unknown += schema.prune(compiled, obj)
        kept = schema.refused_nulls(compiled, obj) if applied and kind.custom else []
        schema.apply_defaults(compiled, obj)
        for holder, name in kept:
            holder[name] = None
        if kind.definition:
            builtins_go.settle(kind.api_version, kind.kind, obj)
            builtins_computed.decoded(kind, obj)
    return unknown


HANDLED = re.compile(r'^\S+ in version "[^"]*" cannot be handled as a \S+: ')


def undecorated(error: StatusError) -> str:
    """Return what is wrong with an object that cannot be read, without saying what it should have been."""
    return HANDLED.sub("", error.message)


def settle(call: Call, obj: Json) -> None:
    """Write an object of a built-in kind as it is stored; who set what was noted as it was sent."""
    if call.kind.definition:
        builtins_go.forget_empty(call.kind.api_version, call.kind.kind, obj)
        builtins_defaults.canonical_amounts(call.kind.definition, obj)


def _as_patched(call: Call, obj: Json) -> bytes:
    """Print a patched object as the server does: of custom resources every map is sorted; or the strategic patch."""
    if "strategic" in call.request.headers.get("content-type", ""):
        return go_text(msgspec.json.decode(call.request.body)).encode()
    if call.kind.custom:
        return msgspec.json.encode(obj, order="sorted")
    return encode(dict(sorted(obj.items())))


def _report(call: Call, mode: str, found: list[str], patched: bytes) -> None:
    """Refuse or warn about what strict decoding found."""
    if mode == "Warn":
        call.warnings += found[:MAX_WARNINGS]
    if mode != "Strict":
        return
    lines = [text for text in found if text.startswith("line ")]
    rest = found[len(lines) :]
    if lines:
        rest.insert(0, "yaml: unmarshal errors:\n  " + "\n  ".join(lines))
    problem = "strict decoding error: " + ", ".join(rest)
    if not patched:
        raise builtins_decode.unreadable(call.kind, problem)
    message = f"Invalid value: {quote(patched.decode())}: {problem}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    raise StatusError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": [cause]})


def problems(call: Call, obj: Json, old: Json | None) -> list[dict[str, str]]:
    """Return everything that is wrong with an object."""
    kind, compiled = call.kind, call.kind.schema
    causes = metadata.problems(kind, obj["metadata"])
    if compiled is None:
        return causes
    if kind.definition:
        if call.subresource != "status" or old is None:
            causes += builtins_rules.problems(kind, compiled, obj, old)
        return causes
    if call.subresource == "status" and old is not None:
        found = schema.validate_status(compiled, obj, old)
    else:
        found = schema.validate(compiled, obj, old)
    causes += [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in found]
    return causes[:MAX_CAUSES]
