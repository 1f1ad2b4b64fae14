"""Structural schemas: pruning, defaults and validation, by example and by property."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.hub.schema import apply_defaults, compile_schema, prune, validate, validate_status
from echelon.hub.schema_ok import is_ok, is_ok_since
from echelon.hub.schema_shape import embedded_causes, list_causes
from echelon.hub.schema_validate import explain

SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
                    "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                    "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                    "size": {"x-kubernetes-int-or-string": True},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "maybe": {"type": "string", "nullable": True},
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "ports": {
                        "type": "array",
                        "maxItems": 2,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                            },
                        },
                    },
                    "when": {"type": "string", "format": "date-time"},
                    "one": {
                        "type": "object",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                    },
                    "thing": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-preserve-unknown-fields": True,
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)


def obj(spec, **more):
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": spec, **more}


def said(spec, old=None):
    return [f"{c.field}: {c.message}" for c in validate(SCHEMA, obj(spec), obj(old) if old else None)]


def test_unknown_fields_are_removed_and_named_in_order():
    value = obj(
        {"name": "ab", "nope": 1, "open": {"any": 1}, "ports": [{"port": 1, "x": 2}], "map": {"k": 1}},
        top=1,
    )
    assert prune(SCHEMA, value) == ["spec.nope", "spec.ports[0].x", "top"]
    assert value["spec"] == {"name": "ab", "open": {"any": 1}, "ports": [{"port": 1}], "map": {"k": 1}}


def test_metadata_of_embedded_resources_is_pruned_and_the_rest_kept():
    value = obj({"thing": {"apiVersion": "v1", "kind": "Y", "metadata": {"name": "n", "odd": 1}, "any": {}}})
    assert prune(SCHEMA, value) == ["spec.thing.metadata.odd"]
    assert value["spec"]["thing"]["any"] == {}


def test_defaults_fill_what_is_absent_and_null_counts_as_absent():
    value = obj({"name": "ab", "count": None, "maybe": None, "size": None, "ports": [{"port": 1}]})
    apply_defaults(SCHEMA, value)
    assert value["spec"] == {
        "name": "ab",
        "count": 2,
        "mode": "A",
        "maybe": None,
        "ports": [{"port": 1, "protocol": "TCP"}],
    }


def test_defaults_are_not_shared_between_objects():
    schema = compile_schema({"type": "object", "properties": {"d": {"type": "object", "default": {"l": []}}}})
    one, two = {}, {}
    apply_defaults(schema, one)
    apply_defaults(schema, two)
    one["d"]["l"].append(1)
    assert two == {"d": {"l": []}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["spec.name: Required value"]),
        (
            {"name": "a"},
            ['spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long'],
        ),
        ({"name": "abcde"}, ["spec.name: Too long: may not be more than 4 bytes"]),
        ({"name": "AB"}, ["spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]+$'"]),
        (
            {"name": "ab", "count": 9},
            ["spec.count: Invalid value: 9: spec.count in body should be less than or equal to 5"],
        ),
        (
            {"name": "ab", "count": "2"},
            ['spec.count: Invalid value: "string": spec.count in body must be of type integer: "string"'],
        ),
        (
            {"name": "ab", "mode": "C"},
            ['spec.mode: Unsupported value: "C": supported values: "A", "B"'],
        ),
        ({"name": "ab", "tags": ["x", "y", "x"]}, ['spec.tags[2]: Duplicate value: "x"']),
        (
            {"name": "ab", "ports": [{"port": 1}, {"port": 1}]},
            ['spec.ports[1]: Duplicate value: {"port":1}'],
        ),
        (
            {"name": "ab", "ports": [{"port": 1}, {"port": 2}, {"port": 3}]},
            ["spec.ports: Too many: 3: must have at most 2 items"],
        ),
        (
            {"name": "ab", "when": "yesterday"},
            [
                'spec.when: Invalid value: "yesterday": spec.when in body must be of type date-time: "yesterday"'
            ],
        ),
        (
            {"name": "ab", "thing": {"kind": "x y"}},
            [
                "spec.thing.apiVersion: Required value",
                (
                    'spec.thing.kind: Invalid value: "x y": may have mixed case, but should otherwise match: a DNS-1035 '
                    "label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
                    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
                ),
            ],
        ),
        ({"name": "ab", "size": "5%"}, []),
        ({"name": "ab", "size": 5}, []),
    ],
)
def test_what_is_wrong_is_said_in_the_servers_words(spec, expected):
    assert said(spec) == expected


def test_what_was_wrong_before_and_is_unchanged_is_let_be():
    bad = {"name": "A", "count": 9, "ports": [{"port": 1}, {"port": 2}, {"port": 3}]}
    assert said(bad, old=bad) == []
    assert said({**bad, "mode": "B"}, old=bad) == []
    assert said({**bad, "count": 8}, old=bad) == [
        "spec.count: Invalid value: 8: spec.count in body should be less than or equal to 5"
    ]


def test_a_write_of_the_status_is_told_about_the_status_alone():
    old = obj({"name": "ab"}, status={"phase": "Up"})
    causes = validate_status(SCHEMA, {**old, "status": {"phase": 7}}, old)
    assert [f"{c.field}: {c.message}" for c in causes] == [
        'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'
    ]


# Any schema, any value: the fast answer and the explained one agree, and shaping twice is shaping once.

NAMES = st.sampled_from(["a", "b", "k"])
SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "maxLength": 2},
        {"type": "string", "enum": ["x", "y"]},
        {"type": "string", "pattern": "^x+$"},
        {"type": "string", "nullable": True},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 0, "maximum": 3},
        {"type": "integer", "format": "int32", "default": 1},
        {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        {"type": "number", "multipleOf": 0.5},
        {"type": "boolean", "default": True},
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "string", "anyOf": [{"minLength": 2}, {"enum": ["x"]}], "not": {"enum": ["y"]}},
    ]
)


def nodes(inner):
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, min_size=1)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "maxProperties": st.integers(0, 2),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
        },
    )
    maps = inner.map(lambda node: {"type": "object", "additionalProperties": node})
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "maxItems": st.integers(0, 2),
            "x-kubernetes-list-type": st.sampled_from(["set", "atomic"]),
        },
    )
    keyed = st.dictionaries(NAMES, SCALARS).map(
        lambda properties: {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {**properties, "k": {"type": "string"}},
                "required": ["k"],
            },
        }
    )
    return st.one_of(objects, maps, lists, keyed)


SCHEMAS = st.recursive(SCALARS, nodes, max_leaves=6)
ROOTS = st.dictionaries(NAMES, SCHEMAS, min_size=1).map(
    lambda properties: {"type": "object", "properties": properties}
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 5),
        st.sampled_from([0.5, 1.0, 2.25, 2**40]),
        st.sampled_from(["", "x", "y", "xx", "2024-01-01T00:00:00Z"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(ROOTS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_the_fast_answer_and_the_explained_one_agree(openapi, value):
    schema = compile_schema(openapi)
    causes = [*explain(schema, value), *embedded_causes(schema, value), *list_causes(schema, value)]
    assert is_ok(schema, value) == (not causes), causes


@settings(max_examples=300, deadline=None)
@given(ROOTS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_shaping_twice_is_shaping_once(openapi, value):
    schema = compile_schema(openapi)
    prune(schema, value)
    apply_defaults(schema, value)
    again = copy.deepcopy(value)
    assert prune(schema, again) == []
    apply_defaults(schema, again)
    assert again == value


@settings(max_examples=300, deadline=None)
@given(ROOTS, st.dictionaries(NAMES, VALUES, max_size=3), st.dictionaries(NAMES, VALUES, max_size=2))
def test_looking_only_at_what_changed_says_the_same_where_the_old_was_valid(openapi, old, change):
    schema = compile_schema(openapi)
    new = {**old, **change}
    for name, item in change.items():
        if isinstance(item, dict) and isinstance(old.get(name), dict):
            new[name] = {**old[name], **item}  # shares what it does not touch, as a patch does
    if is_ok(schema, old):
        assert is_ok_since(schema, new, old) == is_ok(schema, new)
    else:
        assert is_ok_since(schema, new, old) or not is_ok(schema, new)
