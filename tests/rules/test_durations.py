"""Wait times as people write them and as they are stored."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.rules.durations import MAX_WAIT, parse_duration, render_duration


@pytest.mark.parametrize(
    ("written", "seconds", "stored"),
    [
        ("0s", 0, "0s"),
        ("1m", 60, "1m0s"),
        ("90s", 90, "1m30s"),
        ("1h30m", 5400, "1h30m0s"),
        ("0.5s", 0.5, "500ms"),
        ("1.5h", 5400, "1h30m0s"),
        ("1h1h", 7200, "2h0m0s"),
        ("0.1s", 0.1, "100ms"),
        ("1.25s", 1.25, "1.25s"),
    ],
)
def test_a_duration_is_read_exactly_and_stored_in_one_form(written, seconds, stored):
    assert parse_duration(written) == timedelta(seconds=seconds)
    assert render_duration(parse_duration(written)) == stored


@pytest.mark.parametrize("text", ["", "1", "1d", "abc", "0abc", "s", "1s ", " 1s", "-1s", "1,5s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse_duration(text)


@given(st.integers(0, int(MAX_WAIT.total_seconds()) * 1000))
def test_what_is_stored_means_what_was_written(milliseconds):
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(render_duration(duration)) == duration


def test_a_wait_has_an_end():
    assert parse_duration("999999999999h") == MAX_WAIT
