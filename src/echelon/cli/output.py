"""What commands print: tables, JSON, YAML, names; and what the terminal can show.

Data goes to stdout, talk to stderr. Nothing here knows about clusters or runs.
"""

from __future__ import annotations

import json
import locale
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_WIDTH = 80
MIN_WIDTH = 40
FORMATS = ("json", "yaml", "name", "wide")


def output_option(*formats: str) -> Callable[[F], F]:
    """Add -o with the given formats."""
    listed = formats or FORMATS
    return click.option("-o", "--output", type=click.Choice(listed), help="Output format.")


def is_terminal() -> bool:
    """Whether stdout is a terminal that understands cursor movements."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def can_ask() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def look_of(*, no_color: bool = False, width: int | None = None) -> Any:
    """Return what the terminal can show: width, characters beyond ASCII, colours."""
    from echelon.views.tree import Look

    encoding = (sys.stdout.encoding or locale.getpreferredencoding() or "").lower().replace("-", "")
    is_plain = no_color or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return Look(
        width=max(MIN_WIDTH, width or terminal_width()),
        is_unicode=encoding.startswith("utf") and not is_plain,
        has_colour=is_terminal() and not is_plain,
    )


def terminal_width() -> int:
    """Return the width of the terminal, or of a page when there is none."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def print_data(value: Any, output: str) -> None:
    """Print a value (of plain data or our structs) as JSON or YAML."""
    import msgspec

    plain = msgspec.to_builtins(value)
    if output == "json":
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as kubectl does: upper-case header, three spaces between columns."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ([name.upper() for name in header], *rows)
    ]
    return "\n".join(lines)


def say(text: str) -> None:
    """Talk to the person: on stderr, so that data stays clean."""
    click.echo(text, err=True)


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask before doing; with --yes nobody is asked, and without somebody to ask it is an error."""
    if is_sure:
        return
    if not can_ask():
        raise click.UsageError("there is no terminal to ask; add --yes to do it without asking")
    if not click.confirm(question, default=False, err=True):
        raise click.ClickException("nothing was done")
