"""Definitions are refused as kube-apiserver 1.37 refuses them: the words were recorded from it."""

import copy

import pytest

from echelon.hub.builtins_pod_rules import Found
from echelon.hub.crd_rules import definition

BASE = {
    "metadata": {"name": "things.docs.io"},
    "spec": {
        "group": "docs.io",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
    "status": {"storedVersions": ["v1"]},
}
AT = "spec.validation.openAPIV3Schema.properties[a]"


def said(crd, old=None):
    found = Found()
    definition(found, crd, old)
    return [f"{cause['field']}: {cause['message']}" for cause in found.causes]


def with_property(node):
    crd = copy.deepcopy(BASE)
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {"a": node}
    return crd


def test_a_usual_definition_is_accepted():
    assert said(BASE) == []


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (
            {"type": "string", "pattern": "["},
            (
                '.pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: error parsing regexp: '
                "missing closing ]: `[`"
            ),
        ),
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ({"type": "array"}, ".items: Required value: must be specified"),
        (
            {"type": "string", "default": 5},
            '.default: Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            {"type": "object", "properties": {"x": {"type": "string"}}, "default": {"y": 1}},
            '.default: Invalid value: {"y":1}: must not have unknown fields',
        ),
        (
            {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "default": {}},
            ".default.x: Required value",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            (
                ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
                "must have a default or be a required property"
            ),
        ),
        (
            {"type": "foo"},
            (
                '.type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", '
                '"string"'
            ),
        ),
        (
            {
                "type": "object",
                "properties": {"x": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"b": {"type": "string"}}}]},
            ".anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self"}]},
            (
                '.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self","Message":"","MessageExpression":"",'
                '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool'
            ),
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "self.foo"}]},
            (
                '.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.foo","Message":"",'
                '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
                "ERROR: <input>:1:5: undefined field 'foo'\n | self.foo\n | ....^"
            ),
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Nope"}]},
            (
                '.x-kubernetes-validations[0].reason: Unsupported value: "Nope": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ),
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": True}]},
            (
                ".x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not "
                "used in rule"
            ),
        ),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(node, words):
    assert said(with_property(node)) == [AT + words]


def changed(**spec):
    crd = copy.deepcopy(BASE)
    crd["spec"].update(spec)
    return crd


@pytest.mark.parametrize(
    ("crd", "words"),
    [
        (
            changed(group="other.io"),
            ['metadata.name: Invalid value: "things.docs.io": must be spec.names.plural+"."+spec.group'],
        ),
        (
            changed(scope="X"),
            ['spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"'],
        ),
        (
            changed(conversion={"strategy": "X"}),
            ['spec.conversion.strategy: Unsupported value: "X": supported values: "None", "Webhook"'],
        ),
    ],
)
def test_names_and_scope_are_checked(crd, words):
    assert said(crd) == words


def test_versions_with_different_schemas_are_reported_one_by_one():
    crd = with_property({"type": "string", "pattern": "["})
    plain = copy.deepcopy(BASE["spec"]["versions"][0])
    crd["spec"]["versions"].insert(0, {**plain, "name": "v2", "storage": False})
    assert said(crd)[0].startswith(
        "spec.versions[1].schema.openAPIV3Schema.properties[a].pattern: Invalid value"
    )


def test_exactly_one_version_is_stored():
    crd = copy.deepcopy(BASE)
    crd["spec"]["versions"][0]["storage"] = False
    assert said(crd)[0] == (
        'spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,'
        '"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,'
        '"SelectableFields":null}]: must have exactly one version marked as storage version'
    )


def test_scope_and_names_stay():
    new = changed(scope="Cluster")
    assert said(new, old=BASE) == ['spec.scope: Invalid value: "Cluster": field is immutable']
