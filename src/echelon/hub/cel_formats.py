"""Kubernetes' CEL libraries of texts with a shape: named formats and semantic versions.

What it must never do: look anything up; everything here is text.
"""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any

from echelon.hub.cel_overloads import function, method, opaque
from echelon.hub.cel_types import BOOL, INT, STRING, list_of, optional_of
from echelon.hub.cel_values import NONE, CelError, Maybe, succeeds
from echelon.hub.gotext import quote
from echelon.hub.schema_formats import string_format

_LABEL_1123 = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


class Format:
    """A named format, which tells what is wrong with a text."""

    __slots__ = ("advice", "most", "name", "pattern")
    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, pattern: str, most: int, advice: str) -> None:
        self.name, self.pattern, self.most, self.advice = name, re.compile(pattern + r"\Z"), most, advice

    def problems(self, text: str) -> list[str]:
        """Return what is wrong, nothing if the text has the format."""
        found = []
        if len(text) > self.most:
            found.append(f"must be no more than {self.most} characters")
        known = string_format(self.name) if self.pattern.pattern == r"\Z" else None
        if known is not None:
            if not known(text):
                found.append(self.advice)
        elif not self.pattern.match(text):
            found.append(self.advice)
        return found


def _formats() -> dict[str, Format]:
    label = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        f"'{_LABEL_1123}')"
    )
    subdomain = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        f"'{_LABEL_1123}(\\.{_LABEL_1123})*')"
    )
    label_1035 = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
        "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    )
    qualified = (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )
    value = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
        "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
    prefixed = rf"({_LABEL_1123}(\.{_LABEL_1123})*/)?{_QUALIFIED}"
    rows = [
        Format("dns1123Label", _LABEL_1123, 63, label),
        Format("dns1123Subdomain", rf"{_LABEL_1123}(\.{_LABEL_1123})*", 253, subdomain),
        Format("dns1035Label", r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, label_1035),
        Format("qualifiedName", prefixed, 317, qualified),
        Format("dns1123LabelPrefix", rf"{_LABEL_1123}-?", 63, label),
        Format("dns1123SubdomainPrefix", rf"{_LABEL_1123}(\.{_LABEL_1123})*-?", 253, subdomain),
        Format("dns1035LabelPrefix", r"[a-z]([-a-z0-9]*[a-z0-9])?-?", 63, label_1035),
        Format("labelValue", rf"({_QUALIFIED})?", 63, value),
        Format("uri", "", 2**31, "invalid URI for request"),
        Format("uuid", "", 2**31, "does not match the UUID format"),
        Format("byte", "", 2**31, "invalid base64"),
        Format("date", "", 2**31, "invalid date"),
        Format("datetime", "", 2**31, "invalid datetime"),
    ]
    return {row.name: row for row in rows}


def _named(name: str) -> Maybe:
    found = FORMATS.get(name)
    return Maybe(found) if found is not None else NONE


def _validate(format_: Format, text: str) -> Maybe:
    problems = format_.problems(text)
    return Maybe(problems) if problems else NONE


FORMATS = _formats()


def _named_formats() -> None:
    kind = opaque("kubernetes.NamedFormat", Format)
    function("format.named", (STRING,), optional_of(kind), _named)
    method("validate", (kind, STRING), optional_of(list_of(STRING)), _validate)
    for name, value in FORMATS.items():
        function(f"format.{name}", (), kind, lambda value=value: value)


@total_ordering
class Semver:
    """A semantic version."""

    __slots__ = ("core", "pre", "text")
    cel_type = "kubernetes.Semver"

    def __init__(self, text: str, core: tuple[int, ...], pre: str) -> None:
        self.text, self.core, self.pre = text, core, pre

    def key(self) -> tuple[Any, ...]:
        """Return what versions are ordered by: a release comes after its pre-releases."""
        parts = [
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.pre.split(".") if part
        ]
        return self.core, not self.pre, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key() == other.key()

    def __lt__(self, other: Semver) -> bool:
        return self.key() < other.key()

    def __hash__(self) -> int:
        return hash((self.core, self.pre))


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\Z",
    re.ASCII,
)


def _semver(text: str, normalize: bool = False) -> Semver:
    if normalize:
        core, sep, rest = re.match(r"v?([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        numbers = [part.lstrip("0") or "0" for part in core.split(".")] if core else []
        text = ".".join([*numbers, *["0"] * (3 - len(numbers))]) + sep + rest
    found = _SEMVER.match(text)
    if found is None:
        raise CelError(
            f"No Major.Minor.Patch elements found in {quote(text)}" if text.count(".") < 2 else text
        )
    return Semver(text, tuple(int(found[at]) for at in (1, 2, 3)), found[4] or "")


def _semvers() -> None:
    kind = opaque("kubernetes.Semver", Semver)
    for params in ((STRING,), (STRING, BOOL)):
        function("semver", params, kind, _semver)
        function("isSemver", params, BOOL, succeeds(_semver))
    for at, name in enumerate(("major", "minor", "patch")):
        method(name, (kind,), INT, lambda value, at=at: value.core[at])
    method("isLessThan", (kind, kind), BOOL, lambda a, b: a < b)
    method("isGreaterThan", (kind, kind), BOOL, lambda a, b: a > b)
    method("compareTo", (kind, kind), INT, lambda a, b: (a > b) - (a < b))


_named_formats()
_semvers()
