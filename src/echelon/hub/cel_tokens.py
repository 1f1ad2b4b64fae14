"""Tokens of CEL: from text to words, numbers and strings.

What it decides: where a token ends, and which value a literal has.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from echelon.hub.cel_values import UINT64_MAX, UInt
from echelon.hub.gotext import INT64_MAX, INT64_MIN


class CelSyntaxError(Exception):
    """A problem at an offset of the text."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset = offset
        self.text = text


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
    |(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<string>(?:[rR][bB]|[bB][rR]|[rRbB])?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n\r])*'|"(?:\\.|[^"\\\n\r])*"))
    |(?P<rawstring>[rR][bB]?(?:'[^'\n\r]*'|"[^"\n\r]*"))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(
    r"(?:[rR][bB]?|[bB][rR])(?:'''(.*?)'''|\"\"\"(.*?)\"\"\"|'([^'\n\r]*)'|\"([^\"\n\r]*)\")", re.DOTALL
)


class Token(NamedTuple):
    """A lexical token; the end of the text has kind `end`."""

    kind: str
    text: str
    at: int


def tokens(source: str) -> list[Token]:
    """Split an expression into tokens."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        raw = _RAW.match(source, at)
        match = raw or _TOKEN.match(source, at)
        if match is None:
            raise CelSyntaxError(at, f"Syntax error: token recognition error at: '{source[at]}'")
        kind = "string" if raw else str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, match.group(), at))
        at = match.end()
    found.append(Token("end", "<EOF>", len(source)))
    return found


def literal(token: Token, *, negative: bool) -> Any:
    """Return the value of a literal."""
    text = token.text
    if token.kind == "string":
        return _string(token)
    if token.kind == "float":
        return -float(text) if negative else float(text)
    if token.kind == "uint":
        digits = text[:-1]
        value = int(digits, 16 if digits.startswith("0x") else 10)
        if value > UINT64_MAX:
            raise CelSyntaxError(token.at, "invalid uint literal")
        return UInt(value)
    value = int(text, 16 if text.startswith("0x") else 10)
    value = -value if negative else value
    if not INT64_MIN <= value <= INT64_MAX:
        raise CelSyntaxError(token.at, "invalid int literal")
    return value


_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)


def _string(token: Token) -> str | bytes:
    text = token.text
    prefix = re.match(r"[rRbB]*", text)
    assert prefix is not None
    flags = prefix.group().lower()
    text = text[len(flags) :]
    body = text[3:-3] if text[:3] in ('"""', "'''") and len(text) >= 6 else text[1:-1]
    is_bytes = "b" in flags
    if "r" in flags:
        return body.encode() if is_bytes else body
    parts: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[at : match.start()].encode("utf-8", "surrogatepass"))
        parts.append(_unescaped(match, token, is_bytes=is_bytes))
        at = match.end()
    parts.append(body[at:].encode("utf-8", "surrogatepass"))
    joined = b"".join(parts)
    return joined if is_bytes else joined.decode("utf-8", "replace")


def _unescaped(match: re.Match[str], token: Token, *, is_bytes: bool) -> bytes:
    simple, byte, short, long, octal, bad = match.groups()
    if simple is not None:
        return _SIMPLE[simple].encode()
    if bad is not None or (is_bytes and (short or long)):
        raise CelSyntaxError(token.at, f"unable to unescape string: {match.group()}")
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if byte or octal:
        return bytes([code]) if is_bytes else chr(code).encode()
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CelSyntaxError(token.at, "invalid unicode code point")
    return chr(code).encode()
