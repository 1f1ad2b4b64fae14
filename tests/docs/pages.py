"""Runs the console blocks of a page in a fresh shell, as a reader would, and compares what comes out.

In a ```console block, `$ ` begins a command and what follows is what it prints; `...` stands for anything. Times,
ages, ports and the like differ from day to day and are not compared. `[exit code N]` says that a command fails.
All blocks of a page share one shell, so exports and files stay.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MARK = "@@@ "
TIMEOUT_S = 110


class Step(NamedTuple):
    """A command and what the page says it prints."""

    command: str
    lines: list[str]
    code: int


def steps_of(text: str) -> list[Step]:
    """Read the commands of a page."""
    steps: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], [], 0))
            elif found := re.fullmatch(r"\[exit code (\d+)\]", line):
                steps[-1] = steps[-1]._replace(code=int(found[1]))
            elif steps and line.startswith("> "):
                steps[-1] = steps[-1]._replace(command=f"{steps[-1].command}\n{line[2:]}")
            elif line.strip():
                steps[-1].lines.append(line)
    return steps


def run(steps: list[Step], home: Path, more: Mapping[str, str] | None = None) -> list[tuple[int, str]]:
    """Run the commands in one shell; returns exit code and output of each."""
    script = "".join(f"{step.command}\ncode=$?; echo; echo '{MARK}'$code\n" for step in steps)
    bin_ = str(Path(sys.executable).parent)
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in {"KUBECONFIG", "ECHELON_DATA", "NO_COLOR"}
    }
    environment |= {
        "HOME": str(home),
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        **(more or {}),
    }
    done = subprocess.run(
        ["bash"],
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=TIMEOUT_S,
        check=False,
    )
    pieces = re.split(rf"^{MARK}(\d+)\n", done.stdout, flags=re.MULTILINE)
    return [(int(pieces[index + 1]), pieces[index]) for index in range(0, len(pieces) - 1, 2)]


_DIFFERS = (
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b(–\d\d:\d\d)?"), "CLOCK"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d)(\d+[smhd])?\b"), "SPAN"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"pid \d+"), "PID"),
    (re.compile(r"-[a-z0-9]{9,10}-[a-z0-9]{5}\b"), "-POD"),
    (re.compile(r"\b([a-z0-9-]+)-[0-9a-f]{8}\b"), r"\1-HASH"),
    (re.compile(r"\S+/\.local/state/echelon"), "~/.local/state/echelon"),
    (re.compile(r"\s+"), " "),
)


def plain(line: str) -> str:
    """Leave out what differs from day to day."""
    for pattern, instead in _DIFFERS:
        line = pattern.sub(instead, line)
    return line.strip()


def missing(step: Step, output: str) -> str | None:
    """Return the first line of the page that the command did not print, in order."""
    printed = iter([plain(line) for line in output.splitlines() if line.strip()])
    for line in step.lines:
        if line.strip() == "...":
            continue
        wanted = plain(line)
        if not any(one == wanted for one in printed):
            return line
    return None
