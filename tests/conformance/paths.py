"""Reading and removing values inside JSON by path.

A path is a dotted string or, where keys contain dots, a list of keys. A number goes into a list,
``*`` into each member of a list or an object.
"""

from __future__ import annotations

from typing import Any

Path = str | list[Any]


def split(path: Path) -> list[Any]:
    """Returns a path's steps."""
    if isinstance(path, list):
        return path
    return [int(step) if step.isdigit() else step for step in path.split(".")]


def read(value: Any, path: Path) -> Any:
    """Returns the value at a path; None where there is none; a list for paths with ``*``."""
    return _read(value, split(path))


def _read(value: Any, steps: list[Any]) -> Any:
    """Follows the steps."""
    for number, step in enumerate(steps):
        if step == "*":
            members = value.values() if isinstance(value, dict) else value or []
            return [_read(member, steps[number + 1 :]) for member in members]
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def remove(value: Any, path: Path) -> None:
    """Removes what is at a path, if there is anything."""
    _remove(value, split(path))


def _remove(value: Any, steps: list[Any]) -> None:
    """Follows the steps down to the last one."""
    first, rest = steps[0], steps[1:]
    if first == "*":
        members = list(value.values() if isinstance(value, dict) else value or [])
        for member in members:
            _remove(member, rest)
        return
    try:
        if rest:
            _remove(value[first], rest)
        else:
            del value[first]
    except (KeyError, IndexError, TypeError):
        return
