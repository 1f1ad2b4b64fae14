"""CEL rules of schemas: what they say is what kube-apiserver 1.37 said to the same object."""

import pytest

from echelon.hub import schema
from echelon.hub.schema_cel import check


def rule(text, **more):
    return {"rule": text, **more}


SPEC = {
    "type": "object",
    "x-kubernetes-validations": [
        rule("!has(self.a) || self.a == 'x'"),
        rule("!has(self.d) || self.d > 1", messageExpression="'d is %d'.format([self.d])"),
        rule("!has(self.d) || self.l[0] == 'x'", message="idx"),
        rule("!has(self.z) || oldSelf.z == self.z", message="z stays"),
    ],
    "properties": {
        "a": {
            "type": "string",
            "x-kubernetes-validations": [
                rule("self != 'bad'", message="a bad"),
                rule("self != 'bad'", message="a bad", reason="FieldValueDuplicate"),
                rule("self != 'bad'", message="a bad", reason="FieldValueRequired"),
            ],
        },
        "d": {"type": "integer", "x-kubernetes-validations": [rule("self != 7", message="seven")]},
        "n": {"type": "number", "x-kubernetes-validations": [rule("self != 7.5", message="half")]},
        "whole": {
            "type": "number",
            "x-kubernetes-validations": [rule("self / 2.0 == 0.5", message="double")],
        },
        "b": {"type": "boolean", "x-kubernetes-validations": [rule("self", message="b")]},
        "e": {"type": "integer"},
        "z": {"type": "integer"},
        "i": {
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [rule("self >= 0", message="ios")],
        },
        "l": {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-validations": [rule("self.all(x, x != 'q')", message="l")],
        },
        "m": {
            "type": "object",
            "additionalProperties": {
                "type": "integer",
                "x-kubernetes-validations": [rule("self != 7", message="seven")],
            },
        },
        "t": {
            "type": "string",
            "format": "date-time",
            "x-kubernetes-validations": [rule("self > timestamp('2020-01-01T00:00:00Z')", message="t")],
        },
        "null": {
            "type": "object",
            "nullable": True,
            "x-kubernetes-validations": [rule("has(self.x)", message="x")],
        },
        "wait": {
            "type": "string",
            "format": "duration",
            "x-kubernetes-validations": [rule("self <= duration('1h')", message="too long")],
        },
        "twice": {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "x-kubernetes-validations": [rule("self.x < 3", message="m", reason="FieldValueDuplicate")],
        },
        "once": {
            "type": "string",
            "x-kubernetes-validations": [rule("self == oldSelf", message="immutable")],
        },
        "opt": {
            "type": "string",
            "x-kubernetes-validations": [
                rule("oldSelf.hasValue() || self == 'new'", message="starts new", optionalOldSelf=True)
            ],
        },
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "x-kubernetes-validations": [rule("self == oldSelf", message="order is nothing")],
            "items": {
                "type": "object",
                "properties": {
                    "k": {"type": "string"},
                    "v": {
                        "type": "integer",
                        "x-kubernetes-validations": [rule("self >= oldSelf", message="v grows")],
                    },
                },
            },
        },
        "plain": {
            "type": "array",
            "items": {
                "type": "string",
                "x-kubernetes-validations": [rule("self == oldSelf", message="never runs")],
            },
        },
    },
}
ROOT = {
    "type": "object",
    "x-kubernetes-validations": [
        rule("size(self.metadata.name) < 10", message="name too long"),
        rule(
            "!has(self.spec) || !has(self.spec.e) || self.spec.e == 1",
            fieldPath=".spec.e",
            reason="FieldValueForbidden",
            message="nope",
        ),
    ],
    "properties": {"spec": SPEC},
}
COMPILED = schema.compile_schema(ROOT)


def obj(spec, name="p"):
    return {"apiVersion": "docs.io/v1", "kind": "Probe", "metadata": {"name": name}, "spec": spec}


def said(spec, old=None, name="p"):
    causes = schema.validate(COMPILED, obj(spec, name), obj(old) if old is not None else None)
    return [f"{cause.field}: {cause.message}" for cause in causes]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"a": "bad"},
            [
                "spec: Invalid value: failed rule: !has(self.a) || self.a == 'x'",
                'spec.a: Invalid value: "bad": a bad',
                'spec.a: Duplicate value: "bad"',
                "spec.a: Required value: a bad",
            ],
        ),
        ({"d": 7, "l": ["x"]}, ["spec.d: Invalid value: 7: seven"]),
        ({"d": 0, "l": ["x"]}, ["spec: Invalid value: d is 0"]),
        ({"d": 8}, ['spec: Invalid value: "object": no such key: l evaluating rule: idx']),
        ({"n": 7.5}, ["spec.n: Invalid value: 7.5: half"]),
        ({"b": False}, ["spec.b: Invalid value: false: b"]),
        ({"e": 2}, ["spec.e: Forbidden: nope"]),
        (
            {"i": "a"},
            [
                (
                    "spec.i: Invalid value: \"\": 'no such overload': call arguments did not match a supported "
                    "operator, function or macro signature for rule: ios"
                )
            ],
        ),
        ({"i": -1}, ["spec.i: Invalid value: -1: ios"]),
        ({"l": ["q"]}, ["spec.l: Invalid value: l"]),
        ({"m": {"k": 7}}, ["spec.m[k]: Invalid value: 7: seven"]),
        ({"t": "2019-01-01T00:00:00Z"}, ['spec.t: Invalid value: "2019-01-01T00:00:00Z": t']),
        (
            {"a": 3},
            [
                'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"',
                (
                    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
                    "invalid; correct the existing errors to complete validation"
                ),
            ],
        ),
        ({"whole": 1}, []),
        ({"null": None}, []),
        ({"wait": "1 day"}, ['spec.wait: Invalid value: "1 day": too long']),
        ({"twice": {"x": 5}}, ["spec.twice: Duplicate value"]),
        ({"opt": "old"}, ['spec.opt: Invalid value: "old": starts new']),
        ({"opt": "new", "once": "x", "plain": ["y"]}, []),
    ],
)
def test_a_broken_rule_says_what_kube_apiserver_says(spec, expected):
    assert said(spec) == expected


def test_a_rule_of_the_whole_object_has_no_field():
    assert said({}, name="a" * 16) == ["<nil>: Invalid value: name too long"]


def test_transition_rules_run_on_updates_only_where_an_old_value_corresponds():
    assert said({"once": "a"}) == []
    assert said({"once": "b"}, old={"once": "a"}) == ['spec.once: Invalid value: "b": immutable']
    assert said({"once": "b"}, old={}) == []
    assert said({"plain": ["b"]}, old={"plain": ["a"]}) == []
    assert said({"opt": "x"}, old={"opt": "y"}) == []


def test_items_of_map_lists_correspond_by_key():
    before = {"keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]}
    assert said({"keyed": [{"k": "b", "v": 5}, {"k": "a", "v": 1}]}, old=before) == []
    assert said({"keyed": [{"k": "b", "v": 4}, {"k": "a", "v": 1}]}, old=before) == [
        "spec.keyed: Invalid value: order is nothing",
        "spec.keyed[0].v: Invalid value: 4: v grows",
    ]


def test_what_was_wrong_before_and_is_unchanged_is_let_be():
    assert said({"d": 7, "l": ["x"]}, old={"d": 7, "l": ["x"]}) == []
    assert said({"d": 7, "l": ["x"], "e": 1}, old={"d": 7, "l": ["x"]}) == []
    assert said({"m": {"k": 7, "j": 7}}, old={"m": {"k": 7}}) == ["spec.m[j]: Invalid value: 7: seven"]


def test_rules_of_one_object_share_a_budget():
    greedy = schema.compile_schema(
        {
            "type": "object",
            "properties": {
                "l": {"type": "array", "items": {"type": "integer"}},
            },
            "x-kubernetes-validations": [rule("self.l.all(x, self.l.all(y, x + y >= 0))", message="m")],
        }
    )
    causes = check(greedy, {"l": [1] * 2000})
    assert [cause.message for cause in causes] == [
        (
            "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules "
            "will be run due to call cost exceeds limit for rule: m"
        )
    ]


def test_what_was_stored_before_its_type_was_declared_is_not_compared_with():
    old = {"t": "no time at all"}
    timed = schema.compile_schema(
        {
            "type": "object",
            "properties": {
                "t": {
                    "type": "string",
                    "format": "date-time",
                    "x-kubernetes-validations": [rule("self >= oldSelf", message="later")],
                }
            },
        }
    )
    assert schema.validate(timed, {"t": "2024-01-01T00:00:00Z"}, old) == []
