"""A live picture in a terminal: only changed lines are written again, keys are read one by one.

Whatever happens, the terminal is given back as it was: cursor visible, keys as before, the last picture standing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
CLEAR_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"
_PIECES = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}


class Screen:
    """Lines at the bottom of the terminal that change in place."""

    def __init__(self, write: Callable[[str], Any] | None = None, height: int = 0) -> None:
        self._write = write or _write
        self._height = height
        self._shown: list[str] = []

    def draw(self, lines: Sequence[str], offset: int = 0) -> None:
        """Show these lines; those that fit, from `offset` on."""
        room = max(1, (self._height or height_of()) - 1)
        wanted = list(lines[offset : offset + room])
        out = [f"\r\x1b[{len(self._shown)}A" if self._shown else "\r"]
        for index, line in enumerate(wanted):
            if index < len(self._shown) and self._shown[index] == line:
                out.append("\x1b[1B\r")
            else:
                out.append(f"{line}{CLEAR_LINE}\r\n")
        if len(wanted) < len(self._shown):
            out.append(CLEAR_BELOW)
        if wanted != self._shown:
            self._write("".join(out))
        self._shown = wanted

    def forget(self) -> None:
        """Begin a new picture below what is there now."""
        self._shown = []


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def height_of() -> int:
    """Return the height of the terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        return 24


@contextlib.contextmanager
def live(
    on_key: Callable[[str], None] | None,
) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Hide the cursor and read keys; the value gives the terminal back for a prompt, as a context manager."""
    keys = _Keys(on_key) if on_key and sys.stdin.isatty() else None
    _write(HIDE)
    if keys:
        keys.begin()

    @contextlib.contextmanager
    def paused() -> Iterator[None]:
        if keys:
            keys.end()
        _write(SHOW)
        try:
            yield
        finally:
            _write(HIDE)
            if keys:
                keys.begin()

    try:
        yield paused
    finally:
        if keys:
            keys.end()
        _write(SHOW)


class _Keys:
    """Reads single keys from the terminal."""

    def __init__(self, on_key: Callable[[str], None]) -> None:
        import termios

        self._on_key = on_key
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)

    def begin(self) -> None:
        import tty

        tty.setcbreak(self._fd)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def end(self) -> None:
        import termios

        asyncio.get_running_loop().remove_reader(self._fd)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        for key in keys_of(os.read(self._fd, 256)):
            self._on_key(key)


def keys_of(typed: bytes) -> list[str]:
    """Tell single keys apart in what was typed; an arrow is one key, other escape sequences are none."""
    keys = []
    for piece in _PIECES.findall(typed):
        if piece in _ARROWS:
            keys.append(_ARROWS[piece])
        elif len(piece) == 1:
            keys.append(piece.decode("ascii", "replace"))
    return keys
