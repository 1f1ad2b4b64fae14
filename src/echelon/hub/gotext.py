"""Renders values the way Go prints them, because error texts of Kubernetes contain them.

What it must never do: guess for values that do not come from JSON.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_SHORT_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_HTML = re.compile(r"[<>&\u2028\u2029]")


def quote(text: str) -> str:
    """Quote as Go's `%q`: printable characters stay, the others are escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted_char, text)) + '"'


def _quoted_char(char: str) -> str:
    short = _SHORT_ESCAPES.get(char)
    if short is not None:
        return short
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_text(value: Any) -> str:
    """Print a JSON value as Go's `%v` prints what it was decoded into."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else number(value)


def number(value: float) -> str:
    """Print a number as Go's `%v`: integers plainly, floats shortest, with exponent from 1e6 or below 1e-4."""
    if value.__class__ is int and INT64_MIN <= value <= INT64_MAX:
        return str(value)
    return _float(float(value))


def _float(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN is the one value unequal to itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    sign, digits, point = _digits(value)
    exponent = point - 1
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return sign + digits + "0" * (point - len(digits))
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _digits(value: float) -> tuple[str, str, int]:
    """Return sign, significant digits, and the position of the decimal point in them."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    return ("-" if value < 0 else ""), stripped.rstrip("0") or "0", point


def json_text(value: Any) -> str:
    """Encode as Go's `json.Marshal`: sorted keys, `2` for 2.0, and `<`, `>`, `&` escaped."""
    text = msgspec.json.encode(_whole(value), order="deterministic").decode()
    return _HTML.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _whole(value: Any) -> Any:
    """Replace floats that Go prints as integers."""
    if value.__class__ is dict:
        return {name: _whole(item) for name, item in value.items()}
    if value.__class__ is list:
        return [_whole(item) for item in value]
    if value.__class__ is float and value.is_integer() and abs(value) < 1e21:
        return msgspec.Raw(str(int(value)).encode())
    return value


def bad_value(value: Any) -> str:
    """Print the offending value of a field error."""
    kind = value.__class__
    if kind is str:
        return quote(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is float:
        return number(value)
    return json_text(value)
