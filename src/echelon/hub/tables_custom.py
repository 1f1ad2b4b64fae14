"""Rows of custom resources: the printer columns of a definition, evaluated.

What it decides: what a column's JSONPath finds in an object and how its declared
type prints it.

What it must never do: fail on an object; a column that finds nothing is empty.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from echelon.hub.gotext import json_text, number
from echelon.hub.tables_text import since

Json = dict[str, Any]
Step = Callable[[list[Any]], list[Any]]

AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
"""The column of a definition that declares none."""

_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\s\\])+)
    |\[\s*'(?P<quoted>[^']*)'\s*\]|\[\s*"(?P<double>[^"]*)"\s*\]
    |\[\s*(?P<index>-?\d+)\s*\]
    |\[\s*(?P<all>\*)\s*\]
    |\[\s*\?\(\s*@(?P<field>(?:\.[A-Za-z0-9_\-]+)*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)\s*\]""",
    re.VERBOSE,
)


@lru_cache(maxsize=2048)
def path(text: str) -> Callable[[Json], list[Any]]:
    """Compile a JSONPath; one that is not understood finds nothing."""
    steps: list[Step] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return lambda _obj: []
        steps.append(_step(found))
        at = found.end()

    def find(obj: Json) -> list[Any]:
        values: list[Any] = [obj]
        for step in steps:
            values = step(values)
            if not values:
                break
        return values

    return find


def _step(found: re.Match[str]) -> Step:
    name = found["name"] or found["quoted"] or found["double"]
    if name is not None and name != "*":
        return _named(re.sub(r"\\(.)", r"\1", name) if found["name"] else name)
    if found["index"] is not None:
        return _indexed(int(found["index"]))
    if found["all"] is not None or name == "*":
        return _every
    return _filtered(found["field"], found["op"], found["value"])


def _named(name: str) -> Step:
    return lambda values: [
        value[name] for value in values if value.__class__ is dict and value.get(name) is not None
    ]


def _indexed(index: int) -> Step:
    return lambda values: [
        value[index] for value in values if value.__class__ is list and -len(value) <= index < len(value)
    ]


def _every(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value.__class__ is list:
            found += value
        elif value.__class__ is dict:
            found += value.values()
    return found


def _filtered(field: str, operator: str | None, literal: str | None) -> Step:
    names = [name for name in field.split(".") if name]
    wanted = _literal(literal) if literal is not None else None

    def holds(item: Any) -> Any:
        for name in names:
            if item.__class__ is not dict or name not in item:
                return False
            item = item[name]
        if operator is None:
            return True
        if operator == "==":
            return bool(item == wanted)
        if operator == "!=":
            return bool(item != wanted)
        try:
            return {"<": item < wanted, ">": item > wanted, "<=": item <= wanted, ">=": item >= wanted}[
                operator
            ]
        except TypeError:
            return False

    return lambda values: [
        item for value in values if value.__class__ is list for item in value if holds(item)
    ]


def _literal(text: str) -> Any:
    if text[:1] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def definitions(columns: list[Json] | None) -> list[Json]:
    """Return the column definitions of a custom resource's table."""
    return [
        {"name": "Name", "type": "string", "format": "name", "description": NAME_TEXT, "priority": 0},
        *(
            {
                "name": column["name"],
                "type": column.get("type", "string"),
                "format": column.get("format", ""),
                "description": column.get("description")
                or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
                "priority": column.get("priority", 0),
            }
            for column in columns or [AGE]
        ),
    ]


NAME_TEXT = "The name of the object, unique among those of its kind in its namespace."


def cells(obj: Json, columns: list[Json] | None, now: dt.datetime) -> list[Any]:
    """Return the cells of a custom resource."""
    row: list[Any] = [obj["metadata"]["name"]]
    for column in columns or [AGE]:
        found = path(column["jsonPath"])(obj)
        row.append(_cell(column.get("type", "string"), found[0], now) if found else None)
    return row


def _cell(kind: str, value: Any, now: dt.datetime) -> Any:
    is_number = value.__class__ is int or value.__class__ is float
    if kind == "string":
        return _text(value)
    if kind == "integer":
        return int(value) if is_number else None
    if kind == "number":
        return float(value) if is_number else None
    if kind == "boolean":
        return value if value.__class__ is bool else None
    if kind == "date" and value.__class__ is str:
        return since(value, now)
    return None


def _text(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is int or value.__class__ is float:
        return number(value)
    return json_text(value)
