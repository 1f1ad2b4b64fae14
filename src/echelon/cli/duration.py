"""A duration as a command line option: 10s, 5m, 1h30m, 250ms."""

from __future__ import annotations

import re
from typing import Any

import click

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float | None:
    """Read a duration; None when the text is none."""
    parts = list(_PART.finditer(text))
    if not parts or "".join(part.group(0) for part in parts) != text:
        return None
    return sum(float(part.group(1)) * _UNIT_S[part.group(2)] for part in parts)


class Duration(click.ParamType[float]):
    """Reads a duration and gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the text, or say what one looks like."""
        if isinstance(value, int | float):
            return float(value)
        found = seconds_of(str(value))
        if found is None:
            self.fail(f"'{value}' is not a duration; write it like 10s, 5m or 1h30m", param, ctx)
        return found
