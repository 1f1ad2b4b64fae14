"""Starts the embedded hub as a process of its own, for suites that want a server."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
STOP_LIMIT_S = 30.0


@contextmanager
def embedded_hub(members: int = 1) -> Iterator[Path]:
    """Serves a hub in memory on a free port; gives the path of its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        argv = [sys.executable, "-m", "tests.conformance.serve"]
        argv += ["--members", str(members), "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            if not said.startswith("ready"):
                raise RuntimeError(f"the hub did not start: {said!r}")
            yield kubeconfig
        finally:
            process.terminate()
            process.wait(STOP_LIMIT_S)
            process.stdout.close()
