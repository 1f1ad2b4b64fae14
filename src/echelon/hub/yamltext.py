"""YAML as Kubernetes reads it: one document, made of what JSON has.

Aliases let a few bytes stand for a lot ("billion laughs"), also by way of merge keys; so what they add up to is
counted on the parsed nodes, where each is there once, before any value is made of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

MAX_EXPANDED = 12 * 1024 * 1024
"""Characters and values a document may add up to with its aliases: four times the largest body."""

MAX_NODES = 100_000
"""Values of one document: parsing a million takes many seconds, in which nobody else is served."""

MAX_DEPTH = 1_000
"""Values inside values: the parser in C would end the process on deep ones."""

SMALL = 2_048
"""Bytes of a document that cannot hurt by its shape."""

EXCESSIVE = "yaml: document contains excessive aliasing"


class _Loader(yaml.CSafeLoader):
    """A safe loader that leaves timestamps and the old booleans of YAML 1.1 to JSON's rules."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load(body: bytes) -> Any:
    """Decode a document; a ValueError says what is wrong with it."""
    try:
        if len(body) > SMALL:
            _bound(body)
        loader = _Loader(body)
        node = (
            loader.get_node() if loader.check_node() else None
        )  # what follows the first document is nobody's
        if node is None:
            return None
        if b"*" in body and _weight(node, {}) > MAX_EXPANDED:
            raise ValueError(EXCESSIVE)
        value = loader.construct_document(node)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ValueError(f"yaml: {_problem(error)}") from None
    try:
        return msgspec.json.decode(msgspec.json.encode(_named(value)))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _named(value: Any) -> Any:
    """Return YAML with text for names: `yes: 1` is a field called true in JSON."""
    if isinstance(value, dict):
        return {
            str(key).lower() if isinstance(key, bool) else key: _named(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return value


def _bound(body: bytes) -> None:
    """Refuse what is too deep or too much, by its tokens alone."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(body, Loader=yaml.CSafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        if nodes > MAX_NODES:
            raise ValueError(f"yaml: exceeded {MAX_NODES} values")


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """Return what a node adds up to; each node is looked at once, however often it is named."""
    weight = known.get(id(node), -1)
    if weight == 0:
        raise ValueError("yaml: anchor value contains itself")
    if weight > 0:
        return weight
    known[id(node)] = 0  # under way
    weight = 1
    if isinstance(node, yaml.ScalarNode):
        weight += len(node.value)
    elif isinstance(node, yaml.MappingNode):
        weight += sum(_weight(name, known) + _weight(value, known) for name, value in node.value)
    else:
        weight += sum(_weight(item, known) for item in node.value)
    known[id(node)] = weight
    return weight


def _problem(error: Exception) -> str:
    """Say where and why a text is no YAML."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        # A scanner has not yet counted the line it stumbled in; a parser has.
        line = mark.line + 1 if isinstance(error, yaml.scanner.ScannerError) else max(mark.line, 1)
        return f"line {line}: {getattr(error, 'problem', '')}"
    return str(error).splitlines()[0] if str(error) else "cannot be read"
