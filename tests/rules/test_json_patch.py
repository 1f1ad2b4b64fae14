"""JSON patches against an independent implementation, and what must hold for any document."""

import copy

import jsonpatch
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from echelon.rules.json_patch import (
    PatchRejected,
    apply_operations,
    join_pointer,
    split_pointer,
)

KEYS = st.sampled_from(["a", "b", "c/d", "e~f", "0", ""])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x"]))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
DOCS = st.dictionaries(KEYS, VALUES, max_size=4)


@st.composite
def operations(draw):
    """Operations on a document whose paths mostly exist."""
    doc = draw(DOCS)
    made = []
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from(["add", "remove", "replace"]))
        path = draw(st.sampled_from(paths(doc)))
        if op == "add" and draw(st.booleans()):
            path = [*path, draw(st.sampled_from(["a", "new", "-", "0"]))]
        assume(path)
        made.append(
            {"op": op, "path": join_pointer(path), **({} if op == "remove" else {"value": draw(VALUES)})}
        )
    return doc, made


def paths(value, at=()):
    found = [list(at)]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*at, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*at, str(index)))
    return found


@given(operations())
def test_the_outcome_is_that_of_an_independent_implementation(drawn):
    doc, made = drawn
    before = copy.deepcopy(doc)
    try:
        wanted = jsonpatch.apply_patch(doc, made)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        wanted = PatchRejected
    try:
        found = apply_operations(doc, made, strict=True)
    except PatchRejected:
        found = PatchRejected
    assert doc == before, "documents are shared and never changed"
    if wanted is PatchRejected:
        assert found is PatchRejected
    elif found is not PatchRejected:
        assert found == wanted


@given(st.lists(KEYS, max_size=4))
def test_pointers_survive_writing_and_reading(tokens):
    assert split_pointer(join_pointer(tokens)) == tokens


@pytest.mark.parametrize(
    ("doc", "op", "wanted"),
    [
        ({"l": [1, 2]}, {"op": "add", "path": "/l/-", "value": 3}, {"l": [1, 2, 3]}),
        ({"l": [1, 2]}, {"op": "add", "path": "/l/1", "value": 3}, {"l": [1, 3, 2]}),
        ({"l": [1, 2]}, {"op": "remove", "path": "/l/-1"}, {"l": [1]}),
        ({"m": {"a": 1}}, {"op": "replace", "path": "/m", "value": {"b": 2}}, {"m": {"b": 2}}),
        ({"m": {"a/b": 1}}, {"op": "remove", "path": "/m/a~1b"}, {"m": {}}),
    ],
)
def test_places_in_lists_and_whole_objects(doc, op, wanted):
    assert apply_operations(doc, [op], strict=True) == wanted


def test_a_later_failure_leaves_nothing_of_the_earlier_ones():
    doc = {"a": 1}
    with pytest.raises(PatchRejected):
        apply_operations(
            doc, [{"op": "add", "path": "/b", "value": 2}, {"op": "remove", "path": "/c"}], strict=True
        )
    assert doc == {"a": 1}
