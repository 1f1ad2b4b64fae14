"""Built-in kinds from protocol buffers: the form in which kubectl and client-go send them.

What it does: turns such a body into the JSON object it stands for, by the field numbers in `data/wire.json`
(see tools/real/wire.py). Answers stay JSON; clients that send this form accept it.

What it must never do: fail other than with `ValueError`, whatever the bytes, or read beyond them.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.hub.gotypes import Fields, go_types

PROTOBUF_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode(body: bytes) -> dict[str, Any]:
    """Return the object of a body; ValueError when it is none, or of a kind that has no such form."""
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message")
    envelope = _gather(body[len(MAGIC) :])
    about = _gather(_last(envelope, 1, b""))
    api_version, kind = (_last(about, number, b"").decode() for number in (1, 2))
    wire = go_types()
    name = wire.kinds.get(f"{api_version}/{kind}") or (
        wire.kinds["v1/DeleteOptions"] if kind == "DeleteOptions" else ""
    )
    if not name:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"apiVersion": api_version, "kind": kind, **_message(wire.types, name, _last(envelope, 2, b""), 0)}


def _gather(data: bytes) -> dict[int, list[Any]]:
    """Read the fields of one message: integers as such, everything else as bytes."""
    found: dict[int, list[Any]] = {}
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        form = key & 7
        value: Any
        if form == _VARINT:
            value, at = _varint(data, at)
        else:
            if form == _BYTES:
                size, at = _varint(data, at)
            elif form in {_FIXED64, _FIXED32}:
                size = 8 if form == _FIXED64 else 4
            else:
                raise ValueError(f"proto: illegal wireType {form}")
            if at + size > end:
                raise ValueError("unexpected EOF")
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise ValueError("proto: integer overflow")


def _last(found: dict[int, list[Any]], number: int, default: Any) -> Any:
    """Return the last value of a field; a value of another form than the default's is refused."""
    value = found[number][-1] if number in found else default
    if type(value) is not type(default):
        raise ValueError(f"proto: wrong wireType for field {number}")
    return value


def _message(types: dict[str, Fields], name: str, data: bytes, depth: int) -> dict[str, Any]:
    """Read a message as the JSON object it stands for; unknown fields are passed over."""
    if depth > MAX_DEPTH:
        raise ValueError("proto: message nests too deeply")
    fields = types[name]
    made: dict[str, Any] = {}
    for number, values in _gather(data).items():
        if str(number) not in fields:
            continue
        key, code = fields[str(number)].name, fields[str(number)].code
        if code[0] == "^":
            made.update(_message(types, code[2:], _bytes(values[-1]), depth + 1))
        elif code[0] == "[":
            made[key] = [_value(types, code[1:], one, depth) for one in _unpacked(code[1:], values)]
        elif code[0] == "{":
            made[key] = dict(_entry(types, code[1:], _bytes(one), depth) for one in values)
        else:
            value = _value(types, code.removeprefix("*"), values[-1], depth)
            # A field that is no pointer is always sent: its zero says that nothing was said.
            if code[0] in "*@" or value not in (None, "", 0, False):
                made[key] = value
    return made


def _unpacked(code: str, values: list[Any]) -> list[Any]:
    """Split lists of integers that were sent as one value."""
    if code not in {"i", "b"} or all(isinstance(one, int) for one in values):
        return values
    numbers = []
    for one in values:
        at = 0
        while isinstance(one, bytes) and at < len(one):
            number, at = _varint(one, at)
            numbers.append(number)
    return numbers


def _entry(types: dict[str, Fields], code: str, data: bytes, depth: int) -> tuple[str, Any]:
    """Read one entry of a map."""
    found = _gather(data)
    empty: Any = 0 if code in {"i", "b"} else b""
    return _last(found, 1, b"").decode(), _value(types, code, found.get(2, [empty])[-1], depth)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("proto: wrong wireType")  # noqa: TRY004 - one kind of error for bad bytes
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("proto: wrong wireType")  # noqa: TRY004 - one kind of error for bad bytes
    return value - (1 << 64) if value >> 63 else value


def _value(types: dict[str, Fields], code: str, value: Any, depth: int) -> Any:
    """Read one value by its code."""
    first = code[0]
    if first == "i":
        return _integer(value)
    if first == "b":
        return bool(_integer(value))
    data = _bytes(value)
    if first == "@":
        return _message(types, code[1:], data, depth + 1)
    if first == "s":
        return data.decode()
    if first == "y":
        return base64.b64encode(data).decode()
    if first == "d":
        return struct.unpack("<d" if len(data) == 8 else "<f", data)[0]
    found = _gather(data)
    if first == "V":
        return [_value(types, code[1:], one, depth + 1) for one in found.get(1, [])]
    return _special(first, found)


def _special(code: str, found: dict[int, list[Any]]) -> Any:
    """Read a type that has a form of its own in JSON."""
    if code in {"T", "U"}:
        return _moment(found, micro=code == "U")
    if code == "Q":
        return _last(found, 1, b"").decode()
    if code == "I":
        return _last(found, 3, b"").decode() if _last(found, 1, 0) else _integer(_last(found, 2, 0))
    if code == "D":
        return f"{_integer(_last(found, 1, 0)) / 1e9:g}s"
    raw = _last(found, 1, b"")
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def _moment(found: dict[int, list[Any]], *, micro: bool) -> str | None:
    """Write a moment as JSON does; a zero moment is none."""
    seconds, nanos = _integer(_last(found, 1, 0)), _integer(_last(found, 2, 0))
    if not seconds and not nanos:
        return None
    try:
        at = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError("the moment is out of range") from None
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
