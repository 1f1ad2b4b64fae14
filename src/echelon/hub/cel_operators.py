"""Operators and conversions of core CEL, with their overflow and error rules.

What it must never do: let Python's own rules show: `True + True`, floor division,
unbounded integers and chained exceptions are none of CEL.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from echelon.hub.cel_overloads import function, method
from echelon.hub.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    FREE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    optional_of,
)
from echelon.hub.cel_values import (
    NANOS,
    NONE,
    CelError,
    Duration,
    Maybe,
    Timestamp,
    TypeValue,
    UInt,
    check_int,
    check_uint,
    contains,
    equal,
    format_duration,
    format_time,
    lookup,
    parse_duration,
    parse_time,
    type_name,
)
from echelon.hub.gotext import number


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return check_int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulus(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return (
        int(math.fmod(left, right)) if abs(left) < 2**53 and abs(right) < 2**53 else _big_modulus(left, right)
    )


def _big_modulus(left: int, right: int) -> int:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divide_floats(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))
    return left / right


def _uint(compute: Callable[[int, int], int]) -> Callable[[UInt, UInt], UInt]:
    return lambda left, right: check_uint(compute(int(left), int(right)))


def _unsigned_divide(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    return left // right


def _unsigned_modulus(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return left % right


def _arithmetic() -> None:
    for sign, compute in (("+", operator.add), ("-", operator.sub), ("*", operator.mul)):
        name = f"_{sign}_"
        function(name, (INT, INT), INT, lambda a, b, compute=compute: check_int(compute(a, b)))
        function(name, (UINT, UINT), UINT, _uint(compute))
        function(name, (DOUBLE, DOUBLE), DOUBLE, compute)
    function("_+_", (STRING, STRING), STRING, operator.add)
    function("_+_", (BYTES, BYTES), BYTES, operator.add)
    function("_+_", (list_of(A), list_of(A)), list_of(A), operator.add)
    function("_+_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos))
    function("_+_", (DURATION, TIMESTAMP), TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos))
    function("_+_", (DURATION, DURATION), DURATION, lambda a, b: Duration(a.nanos + b.nanos))
    function("_-_", (TIMESTAMP, TIMESTAMP), DURATION, lambda a, b: Duration(a.nanos - b.nanos))
    function("_-_", (TIMESTAMP, DURATION), TIMESTAMP, lambda a, b: Timestamp(a.nanos - b.nanos))
    function("_-_", (DURATION, DURATION), DURATION, lambda a, b: Duration(a.nanos - b.nanos))
    function("_/_", (INT, INT), INT, _divide)
    function("_/_", (UINT, UINT), UINT, _uint(_unsigned_divide))
    function("_/_", (DOUBLE, DOUBLE), DOUBLE, _divide_floats)
    function("_%_", (INT, INT), INT, _modulus)
    function("_%_", (UINT, UINT), UINT, _uint(_unsigned_modulus))
    function("-_", (INT,), INT, lambda a: check_int(-a))
    function("-_", (DOUBLE,), DOUBLE, operator.neg)
    function("!_", (BOOL,), BOOL, operator.not_)


def _relations() -> None:
    numbers = (INT, UINT, DOUBLE)
    for sign, compute in (("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge)):
        name = f"_{sign}_"
        for kind in (BOOL, STRING, BYTES, TIMESTAMP, DURATION):
            function(name, (kind, kind), BOOL, compute)
        for left in numbers:
            for right in numbers:
                function(name, (left, right), BOOL, compute)
    function("_==_", (A, A), BOOL, equal)
    function("_!=_", (A, A), BOOL, lambda a, b: not equal(a, b))
    function("@in", (A, list_of(A)), BOOL, lambda item, items: contains(items, item))
    function("@in", (A, map_of(A, B)), BOOL, lambda key, items: lookup(items, key) is not lookup)


def index_list(items: list[Any], at: Any) -> Any:
    """Return an item of a list."""
    if at.__class__ is float and at.is_integer():
        at = int(at)
    if not isinstance(at, int) or at.__class__ is bool:
        raise CelError(f"unsupported index type '{type_name(at)}' in list")
    if not 0 <= at < len(items):
        raise CelError(f"index out of bounds: {at}")
    return items[at]


def index_map(items: dict[Any, Any], key: Any) -> Any:
    """Return a value of a map."""
    found = lookup(items, key)
    if found is lookup:
        raise CelError(f"no such key: {key if key.__class__ is not bool else str(key).lower()}")
    return found


def maybe_item(items: list[Any], at: Any) -> Maybe:
    """Return an item of a list if there is one."""
    try:
        return Maybe(index_list(items, at))
    except CelError:
        return NONE


def maybe_value(items: dict[Any, Any], key: Any) -> Maybe:
    """Return a value of a map if it is there."""
    found = lookup(items, key)
    return NONE if found is lookup else Maybe(found)


def _through(take: Callable[[Any, Any], Maybe]) -> Callable[[Any, Any], Maybe]:
    """Return an index into an optional list or map."""
    return lambda target, key: NONE if target is NONE else take(target.value, key)


def _index() -> None:
    function("_[_]", (list_of(A), INT), A, index_list)
    function("_[_]", (map_of(A, B), A), B, index_map)
    function("_[?_]", (list_of(A), INT), optional_of(A), maybe_item)
    function("_[?_]", (map_of(A, B), A), optional_of(B), maybe_value)
    for name in ("_[_]", "_[?_]"):
        function(name, (optional_of(list_of(A)), INT), optional_of(A), _through(maybe_item))
        function(name, (optional_of(map_of(A, B)), A), optional_of(B), _through(maybe_value))


def _int_of_text(text: str) -> int:
    try:
        if text != text.strip() or "_" in text:
            raise ValueError(text)  # noqa: TRY301 - one way out for all bad texts
        return check_int(int(text, 10))
    except (ValueError, CelError):
        raise CelError("type conversion error from 'string' to 'int'") from None


def _uint_of_text(text: str) -> UInt:
    if not text.isdecimal() or not text.isascii():
        raise CelError("type conversion error from 'string' to 'uint'")
    return check_uint(int(text))


def _float_of_text(text: str) -> float:
    try:
        if text != text.strip() or "_" in text:
            raise ValueError(text)  # noqa: TRY301 - one way out for all bad texts
        return float(text)
    except ValueError:
        raise CelError("type conversion error from 'string' to 'double'") from None


def _int_of_float(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def _uint_of_float(value: float) -> UInt:
    if not -1 < value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return check_uint(int(value))


_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def _bool_of_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise CelError(f"type conversion error from 'string' to 'bool'")  # noqa: F541 - worded as cel-go does


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def text_of_float(value: float) -> str:
    """Print a double as `string()` does."""
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return str(int(value)) if value or math.copysign(1, value) > 0 else "-0"
    return number(value) if not math.isfinite(value) else _shortest(value)


def _shortest(value: float) -> str:
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    size = int(exponent)
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}e{'-' if size < 0 else '+'}{abs(size):02d}"


def _conversions() -> None:
    same: Callable[[Any], Any] = lambda value: value  # noqa: E731
    for kind in (INT, UINT, DOUBLE, BOOL, STRING, BYTES, TIMESTAMP, DURATION):
        function(kind.kind, (kind,), kind, same)
    function("int", (UINT,), INT, lambda a: check_int(int(a)))
    function("int", (DOUBLE,), INT, _int_of_float)
    function("int", (STRING,), INT, _int_of_text)
    function("int", (TIMESTAMP,), INT, lambda a: a.nanos // NANOS)
    function("int", (DURATION,), INT, lambda a: a.nanos)
    function("uint", (INT,), UINT, check_uint)
    function("uint", (DOUBLE,), UINT, _uint_of_float)
    function("uint", (STRING,), UINT, _uint_of_text)
    function("double", (INT,), DOUBLE, float)
    function("double", (UINT,), DOUBLE, float)
    function("double", (STRING,), DOUBLE, _float_of_text)
    function("bool", (STRING,), BOOL, _bool_of_text)
    function("string", (BOOL,), STRING, lambda a: "true" if a else "false")
    function("string", (INT,), STRING, str)
    function("string", (UINT,), STRING, lambda a: str(int(a)))
    function("string", (DOUBLE,), STRING, text_of_float)
    function("string", (BYTES,), STRING, _text_of_bytes)
    function("string", (TIMESTAMP,), STRING, format_time)
    function("string", (DURATION,), STRING, format_duration)
    function("bytes", (STRING,), BYTES, lambda a: a.encode())
    function("timestamp", (STRING,), TIMESTAMP, parse_time)
    function("timestamp", (INT,), TIMESTAMP, lambda a: Timestamp(a * NANOS))
    function("duration", (STRING,), DURATION, parse_duration)
    function("duration", (INT,), DURATION, Duration)
    function("dyn", (A,), DYN, same)
    function("type", (A,), TYPE, lambda a: TypeValue(type_name(a)))
    for kind in (STRING, BYTES, list_of(A), map_of(A, B)):
        function("size", (kind,), INT, len)
        method("size", (kind,), INT, len)


def _present(value: Any) -> Any:
    if value is NONE:
        raise CelError("optional.none() dereference")
    return value.value


def _is_zero(value: Any) -> bool:
    if value is None or value is False:
        return True
    if isinstance(value, (Duration, Timestamp)):
        return value.nanos == 0
    return value.__class__ in _SIZED and (not value)


_SIZED = frozenset((int, float, UInt, str, bytes, list, dict))


def _optionals() -> None:
    some: Type = optional_of(A)
    function("optional.of", (A,), some, Maybe)
    function("optional.none", (), optional_of(FREE), lambda: NONE)
    function("optional.ofNonZeroValue", (A,), some, lambda a: NONE if _is_zero(a) else Maybe(a))
    method("hasValue", (some,), BOOL, lambda a: a is not NONE)
    method("value", (some,), A, _present)
    function(
        "optional.unwrap",
        (list_of(optional_of(A)),),
        list_of(A),
        lambda items: [item.value for item in items if item is not NONE],
    )
    method(
        "unwrapOpt",
        (list_of(optional_of(A)),),
        list_of(A),
        lambda items: [item.value for item in items if item is not NONE],
    )


TYPE_NAMES = {
    **{kind.kind: kind.kind for kind in (INT, UINT, DOUBLE, BOOL, STRING, BYTES, NULL, TYPE)},
    "list": "list",
    "map": "map",
    "optional_type": "optional_type",
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
    "google.protobuf.Duration": "google.protobuf.Duration",
}
"""Names that stand for a type as a value."""

_arithmetic()
_relations()
_index()
_conversions()
_optionals()
