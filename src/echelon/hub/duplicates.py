"""Fields that a document names twice, which decoders pass over in silence.

What it decides: their paths, in the order in which they stand in the document; of YAML the lines they stand in. It
keeps nothing and never fails: what is no document has no doubled fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, doubled ones included."""


def doubled_fields(body: bytes) -> list[str]:
    """Return the paths of fields that occur again in their object."""
    found = False

    def pairs(items: list[tuple[str, Any]]) -> _Pairs:
        nonlocal found
        found = found or len(dict(items)) != len(items)
        return _Pairs(items)

    try:
        document = json.loads(body, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return []
    if not found:
        return []
    paths: list[str] = []
    _walk(document, "", paths)
    return paths


def in_order(body: bytes, unknown: list[str], doubled: list[str]) -> list[str]:
    """Word unknown and doubled fields of a JSON document in the order in which they stand there."""
    document = json.loads(body, object_pairs_hook=_Pairs)
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    for place, path in enumerate(_paths(document, "")):
        last[path] = place
        first.setdefault(path, place)
    placed = [(first.get(path, len(first)), f'unknown field "{path}"') for path in unknown]
    placed += [(last.get(path, len(first)), f'duplicate field "{path}"') for path in doubled]
    return [text for _, text in sorted(placed, key=lambda one: one[0])]


def _paths(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of all fields, in order."""
    if isinstance(value, _Pairs):
        for name, inner in value:
            where = f"{path}.{name}" if path else name
            yield where
            yield from _paths(inner, where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, f"{path}[{index}]")


def doubled_lines(body: bytes) -> list[str]:
    """Return what a YAML document says twice, by line."""
    try:
        root = yaml.compose(body, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    found: list[tuple[int, str]] = []
    _lines(root, found, set())
    return [f'line {line}: key "{key}" already set in map' for line, key in sorted(found)]


def _lines(node: Any, found: list[tuple[int, str]], known: set[int]) -> None:
    if id(node) in known:
        return  # an alias of what was looked at
    known.add(id(node))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, inner in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    found.append((key.start_mark.line + 1, key.value))
                seen.add(key.value)
            _lines(inner, found, known)
    elif isinstance(node, yaml.SequenceNode):
        for inner in node.value:
            _lines(inner, found, known)


def _walk(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, inner in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                paths.append(where)
            seen.add(name)
            _walk(inner, where, paths)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", paths)
