"""Text functions of CEL: core, the strings extension, and Kubernetes' regular expressions.

What it must never do: match with an engine that can take exponential time.
"""

from __future__ import annotations

import math
from typing import Any

from echelon.hub import regex
from echelon.hub.cel_closures import OVER_LIMIT
from echelon.hub.cel_operators import text_of_float
from echelon.hub.cel_overloads import function, method
from echelon.hub.cel_types import BOOL, DYN, INT, STRING, list_of
from echelon.hub.cel_values import (
    CelError,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    format_duration,
    format_time,
    type_name,
)

_STRINGS = list_of(STRING)


def _matches(text: str, pattern: str) -> bool:
    return regex.search(_checked(pattern))(text)


def _checked(pattern: str) -> str:
    problem = regex.problem(pattern)
    if problem is not None:
        raise CelError(problem)
    return pattern


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return regex.find_all(_checked(pattern), text, limit)


def _at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        if start < 0 or part:
            raise CelError(f"index out of range: {start}")
        return start
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


MAX_TEXT = 10_000_000
"""Characters of a text that functions may build; more would be an attack on memory."""


def _bounded(size: int) -> None:
    if size > MAX_TEXT:
        raise CelError(OVER_LIMIT)


def _joined(items: list[str], by: str = "") -> str:
    _bounded(sum(map(len, items)) + len(by) * len(items))
    return by.join(items)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    _bounded(len(text) + text.count(old) * len(new))
    return text.replace(old, new, limit if limit >= 0 else -1)


def _split(text: str, by: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if by:
        return text.split(by, limit - 1 if limit > 0 else -1)
    chars = list(text)
    return chars if limit < 0 or len(chars) <= limit else [*chars[: limit - 1], "".join(chars[limit - 1 :])]


def _lower(text: str) -> str:
    return text.translate(_LOWER)


def _upper(text: str) -> str:
    return text.translate(_UPPER)


_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
_SPACE = "".join(
    map(chr, (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029))
) + ("\u202f\u205f\u3000")
_QUOTED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}


def _quote(text: str) -> str:
    escaped = {**_QUOTED, "\\": r"\\", '"': r"\""}
    return '"' + "".join(escaped.get(char, char) for char in text) + '"'


MAX_PRECISION = 1000
"""Digits after the point that `format` prints at most."""


def format_text(template: str, values: list[Any]) -> str:
    """Fill a template: `'%s is %d'.format([a, b])`."""
    out: list[str] = []
    at, used, size = 0, 0, 0
    while at < len(template):
        char = template[at]
        at += 1
        if char != "%":
            out.append(char)
            continue
        if at >= len(template):
            raise CelError("unexpected end of string")
        if template[at] == "%":
            out.append("%")
            at += 1
            continue
        precision, at = _precision(template, at)
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        out.append(_clause(template[at : at + 1], values[used], precision))
        size += len(out[-1])
        _bounded(size)
        used += 1
        at += 1
    return "".join(out)


def _precision(template: str, at: int) -> tuple[int | None, int]:
    if template[at : at + 1] != ".":
        return None, at
    end = at + 1
    while end < len(template) and template[end].isdecimal():
        end += 1
    precision = int(template[at + 1 : end] or "0")
    if precision > MAX_PRECISION:
        raise CelError(f"precision {precision} is beyond {MAX_PRECISION}")
    return precision, end


def _clause(letter: str, value: Any, precision: int | None) -> str:
    if letter == "s":
        return shown(value)
    if letter == "d" and value.__class__ in (int, UInt):
        return str(int(value))
    if letter in ("d", "f", "e") and value.__class__ is float and not math.isfinite(value):
        return _special(value)
    if letter in ("f", "e") and value.__class__ in (int, UInt, float):
        places = 6 if precision is None else precision
        return f"{float(value):.{places}{letter}}"
    if letter == "b" and value.__class__ in (int, UInt, bool):
        return format(int(value), "b")
    if letter == "o" and value.__class__ in (int, UInt):
        return format(int(value), "o")
    if letter in ("x", "X"):
        text = _hex(value)
        if text is not None:
            return text if letter == "x" else text.upper()
    if letter not in "sdfebxXo":
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    raise CelError(f"error during formatting: {_CLAUSES[letter]} clause cannot be used on {type_name(value)}")


_CLAUSES = {
    "d": "integer",
    "f": "fixed-point",
    "e": "scientific",
    "b": "binary",
    "o": "octal",
    "x": "hex",
    "X": "hex",
}


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _hex(value: Any) -> str | None:
    if value.__class__ in (int, UInt):
        return format(int(value), "x")
    if value.__class__ is str:
        return str(value.encode().hex())
    return str(value.hex()) if value.__class__ is bytes else None


def shown(value: Any) -> str:
    """Print a value as the clause %s does."""
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is float:
        return text_of_float(value) if math.isfinite(value) else _special(value)
    if kind is list:
        return "[" + ", ".join(map(shown, value)) + "]"
    if kind is dict:
        pairs = sorted((shown(key), shown(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if kind is bytes:
        return str(value.decode("utf-8", "replace"))
    if isinstance(value, Timestamp):
        return format_time(value)
    if isinstance(value, Duration):
        return format_duration(value)
    return value.name if isinstance(value, TypeValue) else str(value)


def _register() -> None:
    function("matches", (STRING, STRING), BOOL, _matches)
    method("matches", (STRING, STRING), BOOL, _matches)
    method("contains", (STRING, STRING), BOOL, lambda text, part: part in text)
    method("startsWith", (STRING, STRING), BOOL, str.startswith)
    method("endsWith", (STRING, STRING), BOOL, str.endswith)
    method("find", (STRING, STRING), STRING, lambda text, pattern: regex.find(_checked(pattern), text))
    method("findAll", (STRING, STRING), _STRINGS, _find_all)
    method("findAll", (STRING, STRING, INT), _STRINGS, _find_all)
    method("charAt", (STRING, INT), STRING, _at)
    method("indexOf", (STRING, STRING), INT, _index_of)
    method("indexOf", (STRING, STRING, INT), INT, _index_of)
    method("lastIndexOf", (STRING, STRING), INT, _last_index_of)
    method("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of)
    method("lowerAscii", (STRING,), STRING, _lower)
    method("upperAscii", (STRING,), STRING, _upper)
    method("replace", (STRING, STRING, STRING), STRING, _replace)
    method("replace", (STRING, STRING, STRING, INT), STRING, _replace)
    method("split", (STRING, STRING), _STRINGS, _split)
    method("split", (STRING, STRING, INT), _STRINGS, _split)
    method("substring", (STRING, INT), STRING, _substring)
    method("substring", (STRING, INT, INT), STRING, _substring)
    method("trim", (STRING,), STRING, lambda text: text.strip(_SPACE))
    method("join", (_STRINGS,), STRING, _joined)
    method("join", (_STRINGS, STRING), STRING, _joined)
    method("format", (STRING, list_of(DYN)), STRING, format_text)
    function("strings.quote", (STRING,), STRING, _quote)


_register()
