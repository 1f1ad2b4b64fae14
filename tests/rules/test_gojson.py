"""Content hashes are those any Go controller computes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.rules.gojson import encode, json_float, sha256_hex


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.0, "1"),
        (0.0, "0"),
        (-0.0, "-0"),
        (1.5, "1.5"),
        (-2.25, "-2.25"),
        (100000.0, "100000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e22, "1.25e+22"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (123456.789, "123456.789"),
        (0.1, "0.1"),
        (1e100, "1e+100"),
    ],
)
def test_floats_are_written_as_go_writes_them(value, written):
    assert json_float(value) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_reads_back_as_itself(value):
    assert float(json_float(value)) == value


def test_html_characters_and_line_separators_are_escaped():
    assert encode({"a": "<b>&\u2028"}) == b'{"a":"\\u003cb\\u003e\\u0026\\u2028"}'


def test_map_keys_are_sorted_at_every_depth():
    assert encode({"b": [{"z": 1, "a": 2}], "a": 1.0}) == b'{"a":1,"b":[{"a":2,"z":1}]}'


def test_an_absent_policy_hashes_as_json_null():
    assert sha256_hex(None) == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"


def test_hash_is_over_the_written_bytes():
    assert sha256_hex({"a": "&"}) == hashlib.sha256(b'{"a":"\\u0026"}').hexdigest()
