"""Starts, finds and ends the processes of one lab, and keeps their logs bounded.

A pid file holds the pid and the process's start time as the kernel tells it: a pid alone may belong
to somebody else's process after a crash or a reboot, and nothing but what this lab started may ever
be signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

LOG_LIMIT_BYTES = 16 * 1024**2
LOG_KEEP_BYTES = 1024**2
STOP_GRACE_S = 15.0


def read_start_time(pid: int) -> str | None:
    """Returns what tells this process from a later one with the same pid, None if it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.is_dir() and Path("/proc/self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        # A zombie has ended; only its parent has not looked yet.
        return None if fields[0] == "Z" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


class Processes:
    """The processes of the lab in one directory, by component name."""

    def __init__(self, directory: Path) -> None:
        """Keeps pid files and logs below the directory."""
        self._pids = directory / "pids"
        self._logs = directory / "logs"

    def _pid_file(self, name: str) -> Path:
        """Returns where a component's pid is kept."""
        return self._pids / (name.replace("/", "-") + ".pid")

    def log_file(self, name: str) -> Path:
        """Returns where a component's output goes."""
        return self._logs / (name.replace("/", "-") + ".log")

    def find(self, name: str) -> int | None:
        """Returns the pid of a running component."""
        try:
            pid_text, started = self._pid_file(name).read_text().split(" ", 1)
        except (OSError, ValueError):
            return None
        pid = int(pid_text)
        return pid if read_start_time(pid) == started else None

    def start(self, name: str, argv: list[str], cwd: Path | None = None) -> int:
        """Starts a component unless it runs; it outlives this command. Returns its pid."""
        running = self.find(name)
        if running is not None:
            return running
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        env = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        with self.log_file(name).open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=cwd or self._logs.parent,
                start_new_session=True,
            )
        started = read_start_time(process.pid) or "0"
        self._pid_file(name).write_text(f"{process.pid} {started}")
        return process.pid

    def send(self, name: str, number: signal.Signals) -> bool:
        """Sends a signal to a component; tells whether it was running."""
        pid = self.find(name)
        if pid is None:
            return False
        os.kill(pid, number)
        return True

    def stop(self, names: list[str]) -> None:
        """Ends components: asks all of them, waits, then kills those that have not obeyed."""
        for name in names:
            # A stopped process obeys only when it is let run again.
            self.send(name, signal.SIGCONT)
            self.send(name, signal.SIGTERM)
        self._wait_gone(names, STOP_GRACE_S)
        for name in names:
            self.send(name, signal.SIGKILL)
        self._wait_gone(names, STOP_GRACE_S)
        for name in names:
            self._pid_file(name).unlink(missing_ok=True)

    def kill(self, name: str) -> bool:
        """Ends a component at once, as a crash would; tells whether it was running."""
        was_running = self.send(name, signal.SIGKILL)
        self._wait_gone([name], STOP_GRACE_S)
        return was_running

    def _wait_gone(self, names: list[str], limit_s: float) -> None:
        """Waits until none of the components runs, or the limit has passed."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and any(self.find(name) is not None for name in names):
            time.sleep(0.02)

    def tail(self, name: str, limit: int = 2000) -> str:
        """Returns the end of a component's log."""
        try:
            return self.log_file(name).read_bytes()[-limit:].decode(errors="replace")
        except OSError:
            return ""

    def trim_logs(self) -> None:
        """Cuts logs that have grown over the limit down to their end.

        They are opened for appending, so that a component goes on writing at the new end.
        """
        for path in self._logs.glob("*.log"):
            if path.stat().st_size > LOG_LIMIT_BYTES:
                end = path.read_bytes()[-LOG_KEEP_BYTES:]
                path.with_suffix(".log.old").write_bytes(end)
                os.truncate(path, 0)
