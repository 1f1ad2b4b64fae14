"""Quantities are compared by what they amount to, not by how they are written."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.rules.quantity import InvalidQuantity, parse_quantity, quantity_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1000m", 1),
        ("500m", Fraction(1, 2)),
        ("2Gi", 2 * 2**30),
        ("1Ki", 1024),
        ("1k", 1000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-1.5", Fraction(-3, 2)),
        ("+3", 3),
        ("100n", Fraction(1, 10**7)),
        ("0", 0),
    ],
)
def test_a_quantity_is_its_amount(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "abc", "1 ", "1KiB", "1e", "--1", ".", "e3", "1" * 65, "1e31", "1\n", "١"]
)
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_amounts_finer_than_a_billionth_are_rounded_up():
    assert parse_quantity("0.0000000001") == Fraction(1, 10**9)


@given(st.integers(-(10**15), 10**15))
def test_bare_numbers_and_text_agree(number):
    assert quantity_of(number) == quantity_of(str(number)) == quantity_of(f"{number}000m")
