"""Merge patches: the smallest one that says a change."""

from echelon.rules.merge import diff_merge


def test_the_difference_is_the_smallest_merge_patch():
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2], "gone": 1}
    new = {"a": 1, "b": {"c": 1, "d": 3}, "e": [1, 2]}
    assert diff_merge(old, new) == {"gone": None, "b": {"d": 3}}
