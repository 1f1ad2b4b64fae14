r"""Sets of field paths in their wire form, FieldsV1, and the algebra on them.

What it decides: unions, differences, intersections and the texts of paths.
What it must never do: change a set. Sets are the very dicts that stand in
`metadata.managedFields`, so reading and writing them costs nothing and an
operation shares every branch it does not change.

Form: `{"f:spec": {"f:replicas": {}, "f:ports": {".": {}, "k:{\"port\":80}": {...}}}}`.
A path element with `{}` is a member; with children it is a member only if "."
is among them. Elements: `f:` field name, `k:` key fields of a list item as
JSON, `v:` a set item as JSON, `i:` an index. An empty set is `{}` at the root
and None elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from echelon.hub.gotext import quote

FieldSet = dict[str, Any]
Path = tuple[str, ...]

LEAF: FieldSet = {}
"""The member without children. Never changed, so one serves all."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of either."""
    if not a:
        return b
    out = a
    for key, theirs in b.items():
        ours = a.get(key)
        if ours is None:
            joined = theirs
        elif ours is theirs:
            continue
        elif not theirs:
            if not ours or "." in ours:
                continue
            joined = {".": LEAF, **ours}
        elif not ours:
            joined = theirs if "." in theirs else {".": LEAF, **theirs}
        else:
            joined = union(ours, theirs)
            if joined is ours:
                continue
        if out is a:
            out = dict(a)
        out[key] = joined
    return out


def union_of(sets: list[FieldSet]) -> FieldSet:
    """Return the members of any: joined in pairs, so that many small sets do not cost their square."""
    while len(sets) > 1:
        pairs = [union(sets[at], sets[at + 1]) for at in range(0, len(sets) - 1, 2)]
        sets = pairs + sets[len(pairs) * 2 :]
    return sets[0] if sets else {}


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of `a` that are not in `b`."""
    return _difference(a, b) or {}


def _difference(a: FieldSet, b: FieldSet) -> FieldSet | None:
    out = a
    for key in b if len(b) <= len(a) else a:
        ours = a.get(key)
        theirs = b.get(key)
        if ours is None or theirs is None:
            continue
        if not ours:
            left = None if not theirs or "." in theirs else ours
        elif not theirs:
            left = _without_own_entry(ours)
        else:
            left = _difference(ours, theirs)
        if left is ours:
            continue
        if out is a:
            out = dict(a)
        if left is None:
            del out[key]
        else:
            out[key] = left
    return _normal(out) if out is not a else a


def _without_own_entry(node: FieldSet) -> FieldSet | None:
    if "." not in node:
        return node
    return {key: child for key, child in node.items() if key != "."} or None


def _normal(node: FieldSet) -> FieldSet | None:
    if not node:
        return None
    if len(node) == 1 and "." in node:
        return LEAF
    return node


def without_trees(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return `a` without the members of `b` and everything below them."""
    return _without_trees(a, b) or {}


def _without_trees(a: FieldSet, b: FieldSet) -> FieldSet | None:
    out = a
    for key, theirs in b.items():
        ours = a.get(key)
        if ours is None:
            continue
        left = None if not theirs or "." in theirs else (_without_trees(ours, theirs) if ours else ours)
        if left is ours:
            continue
        if out is a:
            out = dict(a)
        if left is None:
            del out[key]
        else:
            out[key] = left
    return _normal(out) if out is not a else a


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of both."""
    return _intersection(a, b) or {}


def _intersection(a: FieldSet, b: FieldSet) -> FieldSet | None:
    if len(b) < len(a):
        a, b = b, a
    out: FieldSet = {}
    for key, ours in a.items():
        theirs = b.get(key)
        if theirs is None:
            continue
        if not ours:
            if not theirs or "." in theirs:
                out[key] = LEAF
        elif not theirs:
            if "." in ours:
                out[key] = LEAF
        else:
            common = _intersection(ours, theirs)
            if common is not None:
                out[key] = common
    return _normal(out)


def paths(node: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield the members: those of a level in order, then those below, as the API server lists conflicts."""
    keys = sorted((key for key in node if key != "."), key=_order)
    for key in keys:
        child = node[key]
        if not child or "." in child:
            yield (*prefix, key)
    for key in keys:
        if node[key]:
            yield from paths(node[key], (*prefix, key))


def of_paths(members: list[Path]) -> FieldSet:
    """Make a set of the given paths."""
    out: FieldSet = {}
    for path in members:
        single: FieldSet = LEAF
        for element in reversed(path):
            single = {element: single}
        out = union(out, single)
    return out


def path_text(path: Path) -> str:
    """Write a path as in conflict messages: `.spec.ports[port=80].name`."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """Write one path element as in messages."""
    if element.startswith("f:"):
        return "." + element[2:]
    if element.startswith("k:"):
        fields = msgspec.json.decode(element[2:])
        return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in fields.items()) + "]"
    if element.startswith("v:"):
        return f"[={_value_text(msgspec.json.decode(element[2:]))}]"
    return f"[{element[2:]}]"


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


_KINDS = {"f": 0, "k": 1, "v": 2, "i": 3}


def _order(element: str) -> tuple[int, Any]:
    """Order path elements: fields, then keys, then values, then indices, each by content."""
    kind = _KINDS.get(element[0], 4)
    if kind == 0:
        return 0, element
    content = msgspec.json.decode(element[2:])
    if kind == 1:
        return 1, [(name, _value_order(value)) for name, value in content.items()]
    return kind, _value_order(content)


def _value_order(value: Any) -> tuple[int, Any]:
    if value is True or value is False:
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, _encode_sorted(value)


_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def _element_json(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _encode(value).decode().translate(_HTML)


def value_element(value: Any) -> str:
    """Name an item of a set."""
    return "v:" + _element_json(value)


def key_element(fields: list[tuple[str, Any]]) -> str:
    """Name an item of a keyed list; `fields` are sorted by name."""
    return "k:{" + ",".join(f"{_element_json(name)}:{_element_json(value)}" for name, value in fields) + "}"


class BadFields(ValueError):
    """A FieldsV1 document that is none."""


def parse(document: Any) -> FieldSet:
    """Check and normalise a FieldsV1 document that came from a client."""
    if type(document) is not dict:
        raise BadFields("FieldsV1 is no object")
    return _parse(document) or {}


def _parse(document: dict[str, Any]) -> FieldSet | None:
    out: FieldSet = {}
    for key, child in document.items():
        if type(child) is not dict:
            raise BadFields("FieldsV1 holds objects only")
        if key == ".":
            out["."] = LEAF
            continue
        node = _parse(child) if child else LEAF
        if node is not None:
            out[_parse_element(key)] = node
    return _normal(out)


def _parse_element(element: str) -> str:
    if element.startswith("f:"):
        return element
    try:
        content = msgspec.json.decode(element[2:])
    except msgspec.DecodeError as error:
        raise BadFields(str(error)) from error
    if element.startswith("v:"):
        return value_element(content)
    if element.startswith("k:") and type(content) is dict:
        return key_element(sorted(content.items()))
    if element.startswith("i:") and type(content) is int:
        return f"i:{content}"
    raise BadFields(f"unknown path element {element[:40]}")
