"""Fields that a JSON document names twice, which decoders pass over in silence.

What it decides: their paths, in the order in which they stand in the document. It keeps nothing and never fails:
what is no JSON has no doubled fields.
"""

from __future__ import annotations

import json
from typing import Any


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
