"""Quantities as Kubernetes writes them: `1000m` is stored as `1`, `1024Mi` as `1Gi`.

What it must never do: refuse; what is no quantity stays for validation.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from echelon.rules.quantity import InvalidQuantity, parse_quantity

_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def canonical(value: Any) -> Any:
    """Return a quantity in its canonical form."""
    if value.__class__ is int or value.__class__ is float:
        value = str(value)
    if value.__class__ is not str:
        return value
    return _canonical(value)


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    try:
        amount = parse_quantity(text)
    except InvalidQuantity:
        return text
    if text.endswith("i") and abs(amount) >= 1024:
        return _binary(amount)
    exponent = re.search(r"[eE][+-]?[0-9]+\Z", text) is not None
    return _decimal(amount, exponent=exponent)


def _binary(amount: Fraction) -> str:
    whole = (
        -(-amount.numerator // amount.denominator) if amount > 0 else amount.numerator // amount.denominator
    )
    power = 0
    while power < len(_BINARY) - 1 and whole and whole % 1024 == 0:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(amount: Fraction, *, exponent: bool) -> str:
    if amount == 0:
        return "0"
    power = -9
    while power < 18 and (amount / Fraction(10) ** (power + 3)).denominator == 1:
        power += 3
    number = amount / Fraction(10) ** power
    if exponent:
        return f"{number.numerator}e{power}" if power else str(number.numerator)
    return f"{number.numerator}{_DECIMAL[power]}"
