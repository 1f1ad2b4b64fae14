"""Label and field selectors: their grammar, their errors, and what they match.

Parses once into closures; matching touches only the entry's own metadata, and
decodes a body at most once for field selectors beyond name and namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from echelon.hub.kinds import Kind
from echelon.hub.status import bad_request
from echelon.hub.store import Entry

Labels = dict[str, str] | None
LabelMatch = Callable[[Labels], bool]
Match = Callable[[Entry], bool]

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_DNS1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_TOKEN = re.compile(r"\s*(!=|==|=|!|>|<|\(|\)|,|[^\s!=<>(),]+)")
MAX_REQUIREMENTS = 1000
"""Terms in one selector: more is a mistake, and each costs for every object."""

_SPECIAL = frozenset({"!=", "==", "=", "!", ">", "<", "(", ")", ","})


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise ValueError(f"unable to parse requirement: found '{stripped[at]}', expected: identifier")
            self.tokens.append(found.group(1))
            at = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token


def parse_labels(text: str) -> LabelMatch | None:
    """Compile a label selector; None when it selects everything."""
    if not text.strip():
        return None
    try:
        terms = _requirements(_Parser(text))
    except ValueError as error:
        raise bad_request(str(error)) from None
    if len(terms) == 1:
        return terms[0]
    return lambda labels: all(term(labels) for term in terms)


def _requirements(parser: _Parser) -> list[LabelMatch]:
    terms: list[LabelMatch] = []
    while True:
        terms.append(_requirement(parser))
        if len(terms) > MAX_REQUIREMENTS:
            raise ValueError(f"too many requirements: at most {MAX_REQUIREMENTS}")
        token = parser.next()
        if not token:
            return terms
        if token != ",":
            raise ValueError(f"found '{token}', expected: ',' or 'end of string'")
        if not parser.peek() or parser.peek() == ",":
            raise ValueError(f"found '{parser.peek()}', expected: identifier after ','")


def _requirement(parser: _Parser) -> LabelMatch:
    negated = parser.peek() == "!"
    if negated:
        parser.next()
    key = parser.next()
    if not key or key in _SPECIAL:
        wanted = "identifier" if negated else "!, identifier, or 'end of string'"
        raise ValueError(f"found '{key}', expected: {wanted}")
    _check_key(key)
    operator = parser.peek()
    if negated:
        if operator and operator != ",":
            raise ValueError(
                f"unable to parse requirement: found '{operator}', expected: ',' or 'end of string'"
            )
        return lambda labels: not labels or key not in labels
    if not operator or operator == ",":
        return lambda labels: bool(labels) and key in labels  # type: ignore[operator]
    parser.next()
    return _compare(parser, key, operator)


def _compare(parser: _Parser, key: str, operator: str) -> LabelMatch:
    if operator in {"=", "==", "!="}:
        value = "" if parser.peek() in {"", ","} else parser.next()
        _check_value(key, value)
        if operator == "!=":
            return lambda labels: not labels or labels.get(key) != value
        return lambda labels: bool(labels) and labels.get(key) == value  # type: ignore[union-attr]
    if operator in {"in", "notin"}:
        values = _values(parser)
        for value in values:
            _check_value(key, value)
        if operator == "in":
            return lambda labels: labels is not None and labels.get(key) in values
        return lambda labels: not labels or labels.get(key) not in values
    if operator in {">", "<"}:
        text = parser.next()
        try:
            bound = int(text)
        except ValueError:
            raise ValueError(
                f"unable to parse requirement: values[0]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer"
            ) from None
        return lambda labels: _number(labels, key, lambda n: n > bound if operator == ">" else n < bound)
    raise ValueError(
        f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt"
    )


def _number(labels: Labels, key: str, test: Callable[[int], bool]) -> bool:
    if not labels or key not in labels:
        return False
    try:
        return test(int(labels[key]))
    except ValueError:
        return False


def _values(parser: _Parser) -> frozenset[str]:
    opening = parser.next()
    if opening != "(":
        raise ValueError(f"unable to parse requirement: found '{opening}' expected: '('")
    values: set[str] = set()
    expect_value = True
    while True:
        token = parser.next()
        if token == ")":
            if expect_value:
                values.add("")
            return frozenset(values)
        if token == ",":
            if expect_value:
                values.add("")
            expect_value = True
            continue
        if not token or token in _SPECIAL or not expect_value:
            raise ValueError(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
        values.add(token)
        expect_value = False


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if (
        (slash and (not prefix or not _DNS1123.match(prefix)))
        or not _LABEL_NAME.match(name)
        or len(name) > 63
    ):
        raise ValueError(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )


def _check_value(key: str, value: str) -> None:
    if not _LABEL_VALUE.match(value) or len(value) > 63:
        raise ValueError(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": a valid label must be an empty '
            "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )


def match_label_selector(selector: dict[str, Any] | None) -> LabelMatch:
    """Compile a LabelSelector object (matchLabels and matchExpressions); none matches nothing."""
    if selector is None:
        return lambda _labels: False
    wanted = dict(selector.get("matchLabels") or {})
    expressions = list(selector.get("matchExpressions") or ())

    def matches(labels: Labels) -> bool:
        have = labels or {}
        if any(have.get(key) != value for key, value in wanted.items()):
            return False
        return all(_expression(have, term) for term in expressions)

    return matches


def _expression(have: dict[str, str], term: dict[str, Any]) -> bool:
    key, operator, values = term.get("key", ""), term.get("operator"), term.get("values") or ()
    if operator == "In":
        return bool(have.get(key) in values)
    if operator == "NotIn":
        return bool(have.get(key) not in values)
    return bool((key in have) == (operator == "Exists"))


# --- field selectors -------------------------------------------------------------------------------------

FIELDS: dict[str, tuple[str, ...]] = {
    "/pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "/events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "/secrets": ("type",),
    "/namespaces": ("status.phase",),
    "/nodes": ("spec.unschedulable",),
    "/services": ("spec.clusterIP", "spec.type"),
    "/replicationcontrollers": ("status.replicas",),
    "batch/jobs": ("status.successful",),
    "certificates.k8s.io/certificatesigningrequests": ("spec.signerName",),
    "resource.k8s.io/resourceslices": ("spec.nodeName", "spec.driver"),
}
"""Selectable fields of built-in resources, beside metadata.name and metadata.namespace."""


def split_fields(text: str) -> list[tuple[str, bool, str]]:
    """Return the terms of a field selector: field, equal or not, value."""
    terms: list[tuple[str, bool, str]] = []
    for part in _split_escaped(text):
        if not part:
            continue
        for operator in ("!=", "==", "="):
            at = part.find(operator)
            if at >= 0:
                terms.append((part[:at], operator != "!=", _unescape(part[at + len(operator) :])))
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    return terms


def _split_escaped(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


def parse_fields(text: str, kind: Kind) -> tuple[Match | None, str, str]:
    """Compile a field selector; also return the name and the namespace it pins, if any."""
    name = namespace = ""
    rest: list[tuple[str, bool, str]] = []
    for given, equal, value in split_fields(text):
        field = _as_stored(given, kind)
        if field == "metadata.name" and equal and not name:
            name = value
        elif field == "metadata.namespace" and equal and kind.namespaced and not namespace:
            namespace = value
        else:
            rest.append((field, equal, value))
            _check_field(field, kind)
    if not rest:
        return None, name, namespace
    paths = kind.selectable or FIELDS.get(kind.resource, ())
    needed = {field for field, _, _ in rest}

    def matches(entry: Entry) -> bool:
        fields = entry.fields
        if fields is None or not needed <= fields.keys():
            fields = entry.fields = read_fields(entry, paths)
        return all((fields.get(field, "") == value) == equal for field, equal, value in rest)

    return matches, name, namespace


def _as_stored(field: str, kind: Kind) -> str:
    """Return the field that is stored: events of the newer group have newer names for the same."""
    if kind.group != "events.k8s.io":
        return field
    if field.startswith("regarding."):
        return "involvedObject." + field[len("regarding.") :]
    return "reportingComponent" if field == "reportingController" else field


def _check_field(field: str, kind: Kind) -> None:
    if field == "metadata.name" or (field == "metadata.namespace" and (kind.namespaced or not kind.custom)):
        return
    if field in kind.selectable or field in FIELDS.get(kind.resource, ()):
        return
    if kind.resource in FIELDS and not kind.custom:
        raise bad_request(f"field label not supported: {field}")
    supported = (
        '"metadata.name", "metadata.namespace"' if not kind.custom or kind.namespaced else '"metadata.name"'
    )
    if kind.custom:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(f'"{field}" is not a known field selector: only {supported}')


def read_fields(entry: Entry, paths: tuple[str, ...]) -> dict[str, str]:
    """Read the selectable fields out of a body."""
    obj = msgspec.json.decode(entry.body)
    namespace, _, name = entry.key.rpartition("/")
    fields = {"metadata.name": name, "metadata.namespace": namespace}
    for path in paths:
        value: Any = obj
        for part in path.strip(".").split("."):
            value = value.get(part) if isinstance(value, dict) else None
        fields[path] = _text(path, value)
    if "source" in fields:
        source = obj.get("source") or {}
        fields["source"] = source.get("component") or obj.get("reportingComponent") or ""
    return fields


def _text(path: str, value: Any) -> str:
    if value is None:
        return {
            "spec.unschedulable": "false",
            "status.replicas": "0",
            "status.successful": "0",
            "spec.hostNetwork": "false",
        }.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""
