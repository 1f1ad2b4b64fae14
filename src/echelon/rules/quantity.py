"""Kubernetes quantities ("500m", "2Gi", "1e3") as exact numbers, compared by value.

Pure arithmetic on fractions; nothing here rounds except the two places where Kubernetes does: amounts finer than
a billionth are rounded up, and scoring works in double precision.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

MAX_QUANTITY_LENGTH = 64  # text of a quantity; longer is nobody's capacity and would be slow to parse
MAX_EXPONENT = 30  # 1e30 is beyond every resource; without a bound a short text makes a huge number

_NANO = Fraction(1, 10**9)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    re.ASCII,
)


class InvalidQuantity(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Fraction:
    """Parse a quantity, exactly."""
    found = _SHAPE.fullmatch(text) if len(text) <= MAX_QUANTITY_LENGTH else None
    if found is None or not (found["whole"] or found["fraction"]):
        raise InvalidQuantity(f"{text!r} is not a quantity such as 500m, 2 or 2Gi")
    fraction = found["fraction"] or ""
    value = Fraction(int((found["whole"] + fraction) or "0"), 10 ** len(fraction)) * _scale(
        found["suffix"] or ""
    )
    value = -(-value // _NANO) * _NANO  # away from zero, as the API does
    return -value if found["sign"] == "-" else value


def _scale(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        power = _DECIMAL[suffix]
    else:
        power = int(suffix[1:])
        if abs(power) > MAX_EXPONENT:
            raise InvalidQuantity(f"exponent {power} of a quantity is beyond ±{MAX_EXPONENT}")
    return Fraction(10) ** power


def quantity_of(value: float | str) -> Fraction:
    """Parse a quantity as it stands in JSON: text, or a bare number."""
    return parse_quantity(value if isinstance(value, str) else str(value))
