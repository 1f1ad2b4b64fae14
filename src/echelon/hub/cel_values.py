"""The values CEL computes with, and what equality and order mean for them.

Integers, doubles, strings, bytes, booleans, null, lists and maps are Python's own;
this module adds those Python lacks: unsigned integers, nanosecond times and
durations, optionals, types and the opaque values of the Kubernetes libraries.

What it must never do: confuse `true` with `1` (Python does) or let a value grow
beyond 64 bits silently.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from echelon.hub.gotext import INT64_MAX, INT64_MIN

UINT64_MAX = 2**64 - 1
NANOS = 1_000_000_000
NO_OVERLOAD = "no such overload"


class CelError(Exception):
    """An expression that has no value: the text is what kube-apiserver would report."""


class UInt(int):
    """An unsigned 64-bit integer; arithmetic checks its range."""

    __slots__ = ()


class Duration:
    """A length of time in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not INT64_MIN <= nanos <= INT64_MAX:
            raise CelError("integer overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Duration and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Duration) -> bool:
        return self.nanos <= other.nanos


MIN_TIME_S, MAX_TIME_S = -62135596800, 253402300799
"""Years 1 to 9999, the range of a protobuf timestamp."""


class Timestamp:
    """A point in time in nanoseconds since 1970."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not MIN_TIME_S * NANOS <= nanos < (MAX_TIME_S + 1) * NANOS:
            raise CelError("timestamp overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Timestamp and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Timestamp) -> bool:
        return self.nanos <= other.nanos

    def utc(self) -> dt.datetime:
        """Return the whole second in UTC."""
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.nanos // NANOS)


class TypeValue:
    """A type as a value, as `type(1)` returns it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is TypeValue and self.name == other.name

    def __hash__(self) -> int:
        return hash(("type", self.name))


class Maybe:
    """An optional value; `NONE` is the one without."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not Maybe or self is NONE or other is NONE:
            return self is other
        return equal(self.value, other.value)

    def __hash__(self) -> int:
        return hash(("optional", repr(self.value)))


NONE = Maybe(None)

NUMBERS = frozenset((int, float, UInt))
_ATOMS = frozenset((str, bool, bytes, type(None)))


def equal(left: Any, right: Any) -> bool:
    """Tell whether two values are equal; values of different kinds never are, numbers compare by value."""
    kind, other = left.__class__, right.__class__
    if kind is other and kind in _ATOMS:
        return bool(left == right)
    if kind in NUMBERS:
        return other in NUMBERS and bool(left == right)
    if kind is not other:
        return False
    if kind is list:
        return len(left) == len(right) and all(map(equal, left, right))
    if kind is dict:
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def key_of(value: Any) -> Any:
    """Return a hashable stand-in: two values have the same one exactly if they are equal."""
    kind = value.__class__
    if kind is bool:
        return bool, value
    if kind is list:
        return list, tuple(map(key_of, value))
    if kind is dict:
        return dict, frozenset((key_of(key), key_of(item)) for key, item in value.items())
    return value


def contains(values: list[Any], value: Any) -> bool:
    """Tell whether a list has an item equal to the value."""
    if value.__class__ is str:
        return value in values
    return any(equal(value, item) for item in values)


def lookup(values: dict[Any, Any], key: Any) -> Any:
    """Return what a map has under a key, or `lookup` itself as a mark for nothing."""
    kind = key.__class__
    if kind is float and not key.is_integer():
        return lookup
    if kind is str or kind in NUMBERS:
        return values.get(key, lookup)
    if kind is bool:
        found = values.get(key, lookup)
        # True and 1 are one key to Python; a CEL map has either kind of key.
        return found if found is lookup or any(name is key for name in values) else lookup
    raise CelError(NO_OVERLOAD)


_TYPE_NAMES = {
    int: "int",
    UInt: "uint",
    float: "double",
    bool: "bool",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Maybe: "optional_type",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type, as CEL calls it."""
    return _TYPE_NAMES.get(value.__class__) or str(value.__class__.cel_type)


def check_int(value: int) -> int:
    """Return an integer that fits 64 bits, or fail."""
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise CelError("integer overflow")


def check_uint(value: int) -> UInt:
    """Return an unsigned integer that fits 64 bits, or fail."""
    if 0 <= value <= UINT64_MAX:
        return UInt(value)
    raise CelError("unsigned integer overflow")


_UNIT_NANOS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}
_DURATION = re.compile(r"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)\Z", re.ASCII)
_DURATION_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_duration(text: str) -> Duration:
    """Parse Go's duration notation, `1h30m`."""
    if text in ("0", "+0", "-0"):
        return Duration(0)
    match = _DURATION.match(text)
    if match is None:
        from echelon.hub.gotext import quote  # noqa: PLC0415 - only to word the error

        raise CelError(f"time: invalid duration {quote(text)}")
    nanos = 0
    for whole, fraction, unit in _DURATION_PART.findall(match[2]):
        scale = _UNIT_NANOS[unit]
        nanos += int(whole or 0) * scale
        if fraction:
            nanos += int(fraction) * scale // 10 ** len(fraction)
    return Duration(-nanos if match[1] == "-" else nanos)


_LOOSE_NANOS = {
    **_UNIT_NANOS,
    **dict.fromkeys(("nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("micro", "micros", "microsecond", "microseconds"), 1000),
    **dict.fromkeys(("milli", "millis", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), NANOS),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60 * NANOS),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), 3600 * NANOS),
    **dict.fromkeys(("d", "day", "days"), 86400 * NANOS),
    **dict.fromkeys(("w", "wk", "week", "weeks"), 7 * 86400 * NANOS),
}
_LOOSE = re.compile(r"\s*(\d+)\s*([A-Za-zµμ]+)", re.ASCII)


def parse_loose_duration(text: str) -> Duration:
    """Parse what the schema format `duration` admits: Go's notation, and `1 day` or `2w`."""
    try:
        return parse_duration(text)
    except CelError:
        parts = _LOOSE.findall(text)
        if not parts or any(unit.lower() not in _LOOSE_NANOS for _, unit in parts):
            raise
        return Duration(sum(int(amount) * _LOOSE_NANOS[unit.lower()] for amount, unit in parts))


def format_duration(value: Duration) -> str:
    """Print a duration as CEL's `string()` does: seconds with a fraction."""
    sign, nanos = ("-", -value.nanos) if value.nanos < 0 else ("", value.nanos)
    seconds, rest = divmod(nanos, NANOS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?([Zz]|[+-]\d{2}:\d{2})\Z",
    re.ASCII,
)


def parse_time(text: str) -> Timestamp:
    """Parse an RFC 3339 time."""
    match = _TIME.match(text)
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301 - one way out for both kinds of bad times
        moment = dt.datetime(*map(int, match.group(1, 2, 3, 4, 5, 6)), tzinfo=dt.UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        raise CelError(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None
    seconds = int((moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds())
    zone = match[8]
    if zone not in "Zz":
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        seconds += offset if zone[0] == "-" else -offset
    return Timestamp(seconds * NANOS + int((match[7] or "0").ljust(9, "0")[:9]))


def parse_date(text: str) -> Timestamp:
    """Parse a calendar date as midnight UTC."""
    return parse_time(f"{text}T00:00:00Z")


def format_time(value: Timestamp) -> str:
    """Print a time in RFC 3339 with as many digits of the second as it has."""
    rest = value.nanos % NANOS
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{value.utc().strftime('%Y').zfill(4)}{value.utc().strftime('-%m-%dT%H:%M:%S')}{fraction}Z"


def succeeds(make: Callable[..., Any]) -> Callable[..., bool]:
    """Return the test whether making a value would succeed: `isIP` of `ip`."""

    def check(*args: Any) -> bool:
        try:
            make(*args)
        except CelError:
            return False
        return True

    return check
