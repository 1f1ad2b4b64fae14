"""String formats of OpenAPI schemas, with the leniencies of kube-apiserver.

What it decides: whether a string has a format (`date-time`, `byte`, `duration`, ...).
Formats not in `FORMATS` are not checked at all, as in kube-apiserver.

What it must never do: raise; a strange string simply lacks the format.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

from echelon.hub import regex

_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})\Z", re.DOTALL)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_GO_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+\Z", re.ASCII)
_LOOSE_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_LOOSE_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_LOOSE_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OCTET = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)


def is_date(text: str) -> bool:
    """Tell whether the text is a calendar date `2006-01-02`."""
    match = _DATE.match(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        dt.date(year or 4, month, day)  # Go has a year 0, which is a leap year like 4
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def is_date_time(text: str) -> bool:
    """Tell whether the text is an RFC 3339 time; any case of `T` and `Z`, no leap second."""
    date, t, clock = text.lower().partition("t")
    if not t or not is_date(date):
        return False
    match = _CLOCK.match(clock.split("t")[0])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def is_duration(text: str) -> bool:
    """Tell whether Go or the looser `3 days` notation reads the text as a duration."""
    if text in ("0", "+0", "-0") or _GO_DURATION.match(text):
        return True
    for _, unit in _LOOSE_DURATION.findall(text):
        lowered = unit.lower()
        if lowered in _LOOSE_UNITS or lowered.startswith(_LOOSE_PREFIXES):
            return True
    return False


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII | flags)
    return lambda text: compiled.match(text) is not None


def _is_ip(text: str, version: int) -> bool:
    if version == 4:
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))  # leading zeros are tolerated
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


def _is_ipv4(text: str) -> bool:
    # An IPv6 address that ends in dotted form counts, as in kube-apiserver.
    return "." in text and (_is_ip(text, 4) or _is_ip(text, 6))


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdecimal() or len(bits) > 3:
        return False
    return (_is_ip(address, 4) and int(bits) <= 32) or (_is_ip(address, 6) and int(bits) <= 128)


def _is_hostname(text: str) -> bool:
    return (
        len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
        and regex.search(HOSTNAME)(text)
    )


def _is_request_uri(text: str) -> bool:
    if (
        not text
        or any(char < " " or char == "\x7f" for char in text)
        or _BAD_ESCAPE.search(text.split("?", 1)[0])
    ):
        return False
    if text.startswith("/") or text == "*":
        return True
    scheme, colon, rest = text.partition(":")
    return bool(colon) and _URI_SCHEME.match(scheme) is not None and (rest.startswith("/") or bool(rest))


def _is_email(text: str) -> bool:
    return (
        re.fullmatch(
            r"(?:[^<>@]*<)?[^\s<>@,;:\"()\[\]\\]+(?<!\.)@[^\s<>@,;:\"()\[\]\\.][^\s<>@,;:\"()\[\]\\]*>?", text
        )
        is not None
    )


def _weighted(text: str, weights: tuple[int, ...], modulus: int) -> bool:
    total = sum(
        weight * (10 if char == "X" else int(char)) for weight, char in zip(weights, text, strict=True)
    )
    return total % modulus == 0


def _is_isbn10(text: str) -> bool:
    plain = text.replace("-", "").replace(" ", "")
    return re.fullmatch(r"[0-9]{9}[0-9X]", plain) is not None and _weighted(plain, tuple(range(1, 11)), 11)


def _is_isbn13(text: str) -> bool:
    plain = text.replace("-", "").replace(" ", "")
    return re.fullmatch(r"[0-9]{13}", plain) is not None and _weighted(plain, (1, 3) * 6 + (1,), 10)


_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})\Z",
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if _CARD.match(digits) is None:
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matches(
        rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}\Z",
        re.IGNORECASE,
    )


_ANY4 = "[0-9a-f]{4}"
_VARIANT = "[89ab][0-9a-f]{3}"
_SHORT_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"

FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}\Z"),
    "uri": _is_request_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": lambda text: ":" in text and _is_ip(text, 6),
    "cidr": _is_cidr,
    "mac": _matches(
        r"(?:[0-9a-fA-F]{2}([:-])[0-9a-fA-F]{2}(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2}|(?:\1[0-9a-fA-F]{2}){14})?"
        r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?)\Z",
    ),
    "uuid": _uuid(_ANY4, _ANY4),
    "uuid3": _uuid("3[0-9a-f]{3}", _ANY4),
    "uuid4": _uuid("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-f]{3}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}\Z"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})\Z"),
    "rgbcolor": _matches(rf"rgb\(\s*{_OCTET}\s*,\s*{_OCTET}\s*,\s*{_OCTET}\s*\)\Z"),
    "byte": _matches(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\Z"),
    "password": lambda _: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and regex.search(f"^{_SHORT_NAME}$")(text),
    "k8slongname": lambda text: (
        len(text) <= 253 and regex.search(rf"^{_SHORT_NAME}(\.{_SHORT_NAME})*$")(text)
    ),
}
"""Format (without its dashes) to predicate."""


def string_format(name: str) -> Callable[[str], bool] | None:
    """Return the check of a string format, or None if it is not one that is checked."""
    return FORMATS.get(name.replace("-", "")) if name else None
