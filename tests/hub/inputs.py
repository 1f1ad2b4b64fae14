"""Hypothesis strategies for what clients write in languages of their own: CEL, schemas, selectors, patches, headers."""

import json

from hypothesis import strategies as st

from tests.hub.widgets import CRDS, GROUP

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
THINGS = f"{GROUP}/namespaces/default/things"
JSON_MEDIA = "application/json"
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False),
    st.text(max_size=6),
    st.sampled_from(
        ["1Gi", "1h", "2020-01-01T00:00:00Z", "10.0.0.0/8", "\ud800".encode(errors="replace").decode()]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abcdx"), inner, max_size=4)
    ),
    max_leaves=10,
)

WORDS = """self oldSelf object oldObject params request variables.v authorizer spec a b x 1 -1 1u 0x1F 1.5 1e400
9223372036854775808 'a' "b" b'\\xff' r'\\d' '' true null . ?. , ( ) [ ] [? { } + - * / % == != < >= && || ! ? : in
has( size( .all( .exists( .map( .filter( .exists_one( .transformMap( .format( .matches( .replace( .split( .join(
.sort() .distinct() .flatten() .lowerAscii() .indexOf( .substring( string( int( uint( double( bytes( dyn( type(
timestamp( duration( quantity( url( ip( cidr( semver( optional.of( .orValue( .optMap( cel.bind( lists.range( math.least(
sets.contains( base64.encode( '(a+)+$' '[' 'P1D' '1h' '10.0.0.1' // \\ @ # $ é __proto__ .?a .getSeconds() .isSorted()"""
CEL = st.one_of(
    st.lists(st.sampled_from(WORDS.split()), max_size=12).map("".join),
    st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join),
    st.sampled_from(
        ["self.all(x, x", "self == oldSelf", "has(self.a)", "self.a.b.c == 1", "'%s'.format([self])"]
    ),
    st.text(max_size=12),
)

RULES = st.lists(
    st.fixed_dictionaries(
        {"rule": CEL},
        optional={
            "message": st.text(max_size=5),
            "messageExpression": CEL,
            "reason": st.sampled_from(["FieldValueInvalid", "x"]),
            "fieldPath": st.sampled_from([".a", ".a.b", "['a']", ".["]),
            "optionalOldSelf": st.booleans(),
        },
    ),
    max_size=2,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "", 5])


def _schemas(inner):
    return st.fixed_dictionaries(
        {"type": TYPES},
        optional={
            "properties": st.dictionaries(
                st.sampled_from(["a", "b", "spec", "metadata", "$ref", ""]), inner, max_size=3
            ),
            "items": inner,
            "additionalProperties": st.one_of(st.booleans(), inner),
            "default": VALUES,
            "enum": st.lists(VALUES, max_size=3),
            "format": st.sampled_from(["date", "int64", "int-or-string", "ipv4", "byte", "x", 5]),
            "pattern": st.sampled_from(["^a$", "(a+)+$", "[", "\\p{L}", "(?=a)", "a{1,9999}"]),
            "minimum": LEAVES,
            "maxLength": LEAVES,
            "maxItems": st.integers(-1, 5),
            "multipleOf": st.sampled_from([0, 1, -1, 0.1]),
            "nullable": st.booleans(),
            "required": st.lists(st.sampled_from("ab"), max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "not": inner,
            "x-kubernetes-validations": RULES,
            "x-kubernetes-list-type": st.sampled_from(["map", "set", "atomic", "x"]),
            "x-kubernetes-list-map-keys": st.lists(st.sampled_from("ab"), max_size=2),
            "x-kubernetes-int-or-string": st.booleans(),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
        },
    )


SCHEMAS = st.recursive(st.fixed_dictionaries({"type": TYPES}), _schemas, max_leaves=6)


def _post(path, body):
    return "POST", path, {}, JSON_MEDIA, json.dumps(body).encode(), ""


def _defined(schema, rules, specs, patch):
    """A definition, objects of it, changes and its end."""
    spec = {**schema, "x-kubernetes-validations": rules} if rules else schema
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    crd = {
        "metadata": {"name": "things.test.io"},
        "spec": {
            "group": "test.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }
    thing = {"apiVersion": "test.io/v1", "kind": "Thing"}
    made = [_post(CRDS, crd)]
    for number, value in enumerate(specs):
        made.append(_post(THINGS, {**thing, "metadata": {"name": f"t{number}"}, "spec": value}))
    body = json.dumps({**thing, "metadata": {"name": "t0"}, "spec": patch}).encode()
    made.append(("PATCH", THINGS + "/t0", {"fieldManager": "f"}, "application/apply-patch+yaml", body, ""))
    body = json.dumps({"spec": patch}).encode()
    made.append(("PATCH", THINGS + "/t0", {}, "application/merge-patch+json", body, ""))
    made.append(("GET", THINGS, {}, "", b"", "application/json;as=Table;v=v1;g=meta.k8s.io"))
    made.append(("GET", "/openapi/v3/apis/test.io/v1", {}, "", b"", ""))
    made.append(("DELETE", CRDS + "/things.test.io", {}, "", b"", ""))
    return made


DEFINITIONS = st.builds(_defined, SCHEMAS, RULES, st.lists(VALUES, max_size=3), VALUES)


def _governed(expressions, variable, condition, data):
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "operations": ["*"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "variables": [{"name": "v", "expression": variable}],
            "matchConditions": [{"name": "c", "expression": condition}],
            "validations": [{"expression": text, "messageExpression": text} for text in expressions],
            "auditAnnotations": [{"key": "k", "valueExpression": variable}],
        },
    }
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    return [
        _post(POLICIES, policy),
        _post(BINDINGS, binding),
        _post(MAPS, {"metadata": {"name": "m"}, "data": data}),
        ("DELETE", MAPS + "/m", {}, "", b"", ""),
        ("DELETE", BINDINGS + "/b", {}, "", b"", ""),
    ]


GOVERNED = st.builds(
    _governed, st.lists(CEL, min_size=1, max_size=2), CEL, st.one_of(st.just("true"), CEL), VALUES
)

SELECTOR_WORDS = [
    "a",
    "b.c/d",
    "=",
    "==",
    "!=",
    "!",
    ",",
    " in ",
    " notin ",
    "(",
    ")",
    ">",
    "<",
    "1",
    "x" * 70,
    "é",
    "\\",
    "",
]
SELECTORS = st.lists(st.sampled_from(SELECTOR_WORDS), max_size=8).map("".join)


def _selected(labels, fields):
    return [
        ("GET", MAPS, {"labelSelector": labels, "fieldSelector": fields}, "", b"", ""),
        (
            "GET",
            "/api/v1/pods",
            {"labelSelector": labels, "fieldSelector": "spec.nodeName" + fields},
            "",
            b"",
            "",
        ),
        ("GET", MAPS, {"labelSelector": labels, "watch": "1", "timeoutSeconds": "1"}, "", b"", ""),
        ("DELETE", MAPS, {"labelSelector": labels or "x=y"}, "", b"", ""),
    ]


SELECTED = st.builds(_selected, SELECTORS, SELECTORS)

POINTERS = st.sampled_from(
    [
        "",
        "/",
        "/data",
        "/data/a",
        "/data/-",
        "/metadata/name",
        "/metadata/labels/a~1b",
        "/~2",
        "a",
        "/data/0",
        "/metadata",
    ]
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", 5]),
            "path": st.one_of(POINTERS, LEAVES),
            "from": POINTERS,
            "value": VALUES,
        },
    ),
    max_size=6,
)


def _patched(operations, merge):
    made = [_post(MAPS, {"metadata": {"name": "m", "labels": {"a/b": "c"}}, "data": {"a": "b"}})]
    for media, body in (
        ("application/json-patch+json", operations),
        ("application/merge-patch+json", merge),
        ("application/strategic-merge-patch+json", {"metadata": merge, "$patch": "merge"}),
        ("application/apply-patch+yaml", {"apiVersion": "v1", "kind": "ConfigMap", "data": merge}),
    ):
        options = {"fieldManager": "f"} if "apply" in media else {}
        made.append(("PATCH", MAPS + "/m", options, media, json.dumps(body).encode(), ""))
    return made


PATCHED = st.builds(_patched, OPERATIONS, VALUES)

HEADER_NAMES = st.sampled_from(
    [
        *(
            "impersonate-user",
            "impersonate-group",
            "impersonate-uid",
            "impersonate-extra-a",
            "impersonate-extra-%zz",
        ),
        *(
            "user-agent",
            "content-type",
            "accept",
            "content-encoding",
            "if-match",
            "origin",
            "x-forwarded-for",
        ),
    ]
)
HEADER_VALUES = st.one_of(
    st.sampled_from(
        ["", "system:serviceaccount:a:b", "system:masters", "a\nb", "*/*;q=x", "application/json;as=", ";;,"]
    ),
    st.text(max_size=10),
)
HEADERS = st.dictionaries(HEADER_NAMES, HEADER_VALUES, max_size=4)


def _headed(headers):
    body = json.dumps({"metadata": {"generateName": "h"}}).encode()
    return [
        ("POST", MAPS, {}, JSON_MEDIA, body, "", headers),
        ("GET", MAPS, {}, "", b"", "", headers),
        ("GET", "/openapi/v2", {}, "", b"", "", headers),
        ("GET", "/apis", {}, "", b"", "", headers),
    ]


HEADED = st.builds(_headed, HEADERS)
LANGUAGES = {
    "definitions": DEFINITIONS,
    "policies": GOVERNED,
    "selectors": SELECTED,
    "patches": PATCHED,
    "headers": HEADED,
}
