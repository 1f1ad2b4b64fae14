"""A hub in a process of its own, on one data folder, that can be killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from echelon.client.base import Client
from echelon.client.http import connect
from echelon.client.kubeconfig import load

READY_S = 60
SHORT_HISTORY = "from echelon.hub import store; store.MAX_HISTORY_EVENTS, store.COMPACT_AT = 3_000, 200; "
"""So that old revisions are dropped, from memory and from the log, while a history is recorded."""


class Process:
    """A hub on a folder; the folder outlives it."""

    def __init__(self, folder: Path, *, members: int = 0, short_history: bool = False) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.process: asyncio.subprocess.Process | None = None
        start = "from echelon.hub.__main__ import main; main()"
        self._command = (
            *(sys.executable, "-c", SHORT_HISTORY + start if short_history else start),
            *(
                "--data",
                str(folder / "data"),
                "--kubeconfig",
                str(self.kubeconfig),
                "--members",
                str(members),
            ),
        )

    async def start(self) -> Client:
        """Start it and wait until it serves."""
        self.process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), READY_S)
        assert line.startswith(b"ready: "), line
        return connect(load(str(self.kubeconfig)))

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, by default without a warning."""
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, how)
        await self.process.wait()
