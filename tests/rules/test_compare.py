"""What counts as a difference, and how it is written down (contract 8.3, scenario G32)."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.placement import PatchDetail
from echelon.rules.compare import MAX_DIFFERENCES, differences
from echelon.rules.json_patch import split_pointer
from echelon.rules.merge import same


def port(name, number, target=None):
    return {"name": name, "port": number, "protocol": "TCP", "targetPort": target or number}


def found(wanted, live):
    return [(one.path, one.value_in_hub, one.value_in_member) for one in differences(wanted, live)]


def test_a_field_only_the_hub_has_shows_only_its_value():
    assert found({"spec": {"replicas": 2}}, {"spec": {}}) == [("/spec/replicas", "2", None)]


def test_a_field_only_the_member_has_shows_only_its_value():
    assert found({"spec": {}}, {"spec": {"replicas": 2}}) == [("/spec/replicas", None, "2")]


def test_a_list_only_the_hub_has_is_one_difference_written_as_go_prints_it():
    wanted = {"spec": {"ports": [port("http", 80, 8080)]}}
    text = "[map[name:http port:80 protocol:TCP targetPort:8080]]"
    assert found(wanted, {"spec": {}}) == [("/spec/ports", text, None)]


def test_items_the_member_lacks_come_before_the_items_that_moved_up():
    wanted = {"spec": {"ports": [port("http", 80, 8080), port("custom", 81), port("https", 443)]}}
    live = {"spec": {"ports": [port("http", 80, 8080), port("https", 443)]}}
    assert found(wanted, live) == [
        ("/spec/ports/2", "map[name:https port:443 protocol:TCP targetPort:443]", None),
        ("/spec/ports/1/name", "custom", "https"),
        ("/spec/ports/1/port", "81", "443"),
        ("/spec/ports/1/targetPort", "81", "443"),
    ]


def test_items_only_the_member_has_stand_behind_the_end():
    assert found({"a": [1]}, {"a": [1, 2, 3]}) == [("/a/-", None, "2"), ("/a/-", None, "3")]


def test_each_item_the_member_lacks_shows_its_own_value():
    assert found({"a": ["x", "y"]}, {"a": []}) == [("/a/0", "x", None), ("/a/1", "y", None)]


def test_big_numbers_are_written_alike_on_both_sides():
    assert found({"a": 1000000}, {"a": 2000000}) == [("/a", "1000000", "2000000")]


def test_keys_are_escaped_like_json_pointers():
    assert found({"a/b": {"c~d": 1}}, {"a/b": {"c~d": 2}}) == [("/a~1b/c~0d", "1", "2")]


def test_another_type_is_one_difference():
    assert found({"a": {"b": 1}}, {"a": [1]}) == [("/a", "map[b:1]", "[1]")]


def test_only_the_first_hundred_places_are_named():
    many = {f"key-{number:04}": number for number in range(MAX_DIFFERENCES + 1)}
    assert len(differences(many, {})) == MAX_DIFFERENCES
    assert len(differences(dict(list(many.items())[:MAX_DIFFERENCES]), {})) == MAX_DIFFERENCES


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values, values)
def test_there_are_no_differences_exactly_when_both_are_the_same(wanted, live):
    before = copy.deepcopy((wanted, live))
    details = differences(wanted, live)
    assert (not details) == same(wanted, live)
    assert all(isinstance(one, PatchDetail) for one in details)
    assert (wanted, live) == before


@given(st.dictionaries(st.text("ab/~", max_size=2), values, max_size=3), values)
def test_every_place_of_a_changed_value_is_found_again_by_its_path(wanted, value):
    for one in differences(wanted, {}):
        (key,) = split_pointer(one.path)
        assert key in wanted
    changed = {**wanted, "new": value}
    if "new" not in wanted:
        assert [one.path for one in differences(wanted, changed)] == ["/new"]
