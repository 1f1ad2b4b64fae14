"""Finds and words the differences between recorded and given answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.runner import Result

Json = dict[str, Any]
SHOWN = 400


def differences(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """Yields one line per place in which two JSON values differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected.keys() | actual.keys():
            place = f"{where}.{key}" if where else str(key)
            if key not in actual:
                yield f"{place}: missing, expected {_show(expected[key])}"
            elif key not in expected:
                yield f"{place}: unexpected {_show(actual[key])}"
            else:
                yield from differences(expected[key], actual[key], place)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{where}: {len(actual)} entries instead of {len(expected)}: {_show(actual)}"
        for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(one, other, f"{where}[{number}]")
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{where}: {_show(actual)} instead of {_show(expected)}"


def _show(value: Any) -> str:
    """Renders a value, cut where it is long."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def judge(result: Result, recorded: list[Json] | None) -> list[str]:
    """Returns what is wrong with a result; nothing when it equals what was recorded."""
    if result.error:
        return [result.error]
    if recorded is None:
        return ["nothing is recorded for this sequence"]
    return sorted(differences(recorded, result.answers, "answers"))
