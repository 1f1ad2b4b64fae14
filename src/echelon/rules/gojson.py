"""JSON and texts exactly as Go programs write them.

What it decides: the bytes of `encoding/json` (sorted keys, `<`, `>`, `&`
escaped, Go's float format), the SHA-256 over them, and `fmt`'s `%v` of a
decoded JSON value. Hashes on snapshots, Works and applied objects and the
values in drift reports are compared with what other programs wrote, so one
different byte would look like a change.

What it must never do: accept what JSON cannot hold (NaN), or change its input.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

JSON = Any

_encode = msgspec.json.Encoder(order="sorted").encode
_encode_as_is = msgspec.json.Encoder().encode

_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
"""Characters that occur only inside strings, so replacing them in the whole text is safe."""


def encode(value: JSON, *, sort_keys: bool = True) -> bytes:
    """Encode like Go's json.Marshal; without sorting, keys keep their order like struct fields do."""
    plain = _floats_as_text(value)
    text = _encode(plain) if sort_keys else _encode_as_is(plain)
    for char, escape in _ESCAPED:
        if char in text:
            text = text.replace(char, escape)
    return text


def sha256_hex(value: JSON, *, sort_keys: bool = True) -> str:
    """Return the lower-hex SHA-256 of the encoding."""
    return hashlib.sha256(encode(value, sort_keys=sort_keys)).hexdigest()


def _floats_as_text(value: JSON) -> JSON:
    if type(value) is float:
        return msgspec.Raw(json_float(value).encode())
    if type(value) is dict:
        return {key: _floats_as_text(item) for key, item in value.items()} if _has_float(value) else value
    if type(value) is list:
        return [_floats_as_text(item) for item in value] if _has_float(value) else value
    return value


def _has_float(value: JSON) -> bool:
    kind = type(value)
    if kind is dict:
        return any(map(_has_float, value.values()))
    if kind is list:
        return any(map(_has_float, value))
    return kind is float


def _digits(value: float) -> tuple[str, str, int]:
    """Split into sign, shortest digits without leading zeros, and the exponent of the first digit."""
    if not math.isfinite(value):
        raise ValueError("JSON has no NaN and no infinity")
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).rstrip("0")
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits[leading:] or "0", point - leading - 1 if digits.strip("0") else 0


def json_float(value: float) -> str:
    """Write a float as encoding/json does: plain digits between 1e-6 and 1e21."""
    sign, digits, exponent = _digits(value)
    if -6 <= exponent < 21:
        return sign + _plain(digits, exponent)
    return sign + _scientific(digits, exponent, width=1)


def format_float(value: float) -> str:
    """Write a float as fmt's %v does: plain digits between 1e-4 and 1e+06."""
    sign, digits, exponent = _digits(value)
    if -4 <= exponent < 6:
        return sign + _plain(digits, exponent)
    return sign + _scientific(digits, exponent, width=2)


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def _scientific(digits: str, exponent: int, *, width: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def format_value(value: JSON) -> str:
    """Write a decoded JSON value as fmt's %v does: `map[a:1 b:[x y]]`, `<nil>`, `true`."""
    if value is None:
        return "<nil>"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is float:
        return format_float(value)
    if type(value) is dict:
        return "map[" + " ".join(f"{key}:{format_value(value[key])}" for key in sorted(value)) + "]"
    if type(value) is list:
        return "[" + " ".join(map(format_value, value)) + "]"
    return str(value)
