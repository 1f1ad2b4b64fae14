"""Runs the command line in this process, as `main` would in its own: arguments, environment, streams, exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple
from unittest import mock

from echelon.cli.main import main


class Done(NamedTuple):
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


class _Stream(io.TextIOWrapper):
    """A stream with a buffer below it, as a program's own streams have."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def text(self) -> str:
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


def run(arguments: tuple[str, ...], environment: Mapping[str, str], stdin: str = "") -> Done:
    """Run one command."""
    out, err = _Stream(), _Stream()
    code = 0
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "argv", ["echelon", *arguments]),
        mock.patch.object(sys, "stdin", _Stream(stdin.encode())),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.text(), err.text())
