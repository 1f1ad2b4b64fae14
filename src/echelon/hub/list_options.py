"""The options of lists and watches: revisions, pages and continue tokens, checked in the server's words."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from echelon.hub.call import Call
from echelon.hub.gotext import quote
from echelon.hub.jsontext import json_problem
from echelon.hub.kinds import encode
from echelon.hub.status import bad_request, future_revision, invalid

Json = dict[str, Any]

MAX_PAGE = 10_000
"""Objects in one page at most, whatever the client asks."""

MATCH = "resourceVersionMatch"
NOT_OLDER, EXACT = "NotOlderThan", "Exact"


class Token(msgspec.Struct):
    """What a continue token says: the revision of the list and the key to go on from."""

    v: str = ""
    rv: int = 0
    start: str = ""


def write_token(rev: int, start: str) -> str:
    """Encode a continue token."""
    return base64.urlsafe_b64encode(encode(Token("meta.k8s.io/v1", rev, start))).decode().rstrip("=")


def read_token(text: str) -> Token:
    """Decode a continue token."""
    why = "invalid continue token: continue key is not valid: "
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"{why}illegal base64 data at input byte 0") from None
    try:
        token = msgspec.json.decode(raw, type=Token)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise bad_request(why + json_problem(raw)) from None
    if token.v != "meta.k8s.io/v1":
        raise bad_request(f"{why}server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise bad_request(f"{why}incorrect encoded start resourceVersion (version {token.v})")
    if not token.start:
        raise bad_request(f"{why}encoded start key empty (version {token.v})")
    if ".." in token.start.split("/"):
        raise bad_request(why + token.start)
    return token


def check(call: Call, *, watching: bool) -> None:
    """Refuse combinations of options that make no sense."""
    asked, how = call.option("resourceVersion"), call.option(MATCH)
    send = "sendInitialEvents" in call.request.query
    if watching and call.option("continue"):
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        raise invalid("meta.k8s.io", "ListOptions", "", [_cause("FieldValueForbidden", why)])
    if not how and not send:
        return
    causes = _initial_causes(how, watching=watching) if send else []
    if how and not (send and watching):
        causes += _match_causes(call, asked, how, watching=watching)
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def _cause(reason: str, message: str, field: str = MATCH) -> Json:
    return {"reason": reason, "message": message, "field": field}


def _initial_causes(how: str, *, watching: bool) -> list[Json]:
    if not watching:
        why = "Forbidden: sendInitialEvents is forbidden for list"
        return [_cause("FieldValueForbidden", why, "sendInitialEvents")]
    if how == NOT_OLDER:
        return []
    why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    causes = [_cause("FieldValueForbidden", why)]
    if how:
        text = f'Unsupported value: {quote(how)}: supported values: "NotOlderThan"'
        causes.append(_cause("FieldValueNotSupported", text))
    return causes


def _match_causes(call: Call, asked: str, how: str, *, watching: bool) -> list[Json]:
    if watching:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes = [_cause("FieldValueForbidden", why)]
        if how != NOT_OLDER:
            text = f'Unsupported value: {quote(how)}: supported values: "NotOlderThan"'
            causes.append(_cause("FieldValueNotSupported", text))
        return causes
    causes = []
    if not asked:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(_cause("FieldValueForbidden", why))
    if call.option("continue"):
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        causes.append(_cause("FieldValueForbidden", why))
    if how not in {EXACT, NOT_OLDER}:
        text = f'Unsupported value: {quote(how)}: supported values: "Exact", "NotOlderThan", ""'
        causes.append(_cause("FieldValueNotSupported", text))
    elif how == EXACT and asked == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(_cause("FieldValueForbidden", why))
    return causes


def revision(call: Call, asked: str, prefix: str = "") -> int:
    """Read a resourceVersion parameter and refuse the future."""
    if not asked.isdecimal() or len(asked) > 19:
        raise bad_request(f"{prefix}strconv.ParseUint: parsing {quote(asked)}: invalid syntax")
    rev = int(asked)
    if rev > call.hub.store.committed:
        raise future_revision(rev, call.hub.store.committed)
    return rev


def list_revision(call: Call, asked: str) -> int:
    """Read the resourceVersion of a list."""
    prefix = f"invalid resource version: resourceVersion: Invalid value: {quote(asked)}: "
    return revision(call, asked, prefix)


def page_limit(call: Call) -> int:
    """Return how many objects a page may hold, 0 for all; who takes any revision gets all at once."""
    if call.option("resourceVersion") == "0" and not call.option("continue"):
        _number(call, "limit")
        return 0
    return min(max(_number(call, "limit"), 0), MAX_PAGE)


def timeout(call: Call) -> int:
    """Return how many seconds the client wants an answer to take at most, 0 for any."""
    return _number(call, "timeoutSeconds")


def _number(call: Call, option: str) -> int:
    text = call.option(option)
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax") from None
