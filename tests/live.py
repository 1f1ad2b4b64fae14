"""A sandbox as users have it: the real process, over TLS, driven with the real kubectl.

Import `live` into a test module; one sandbox serves all tests of that module. Waiting is done with `kubectl wait`, so
a test takes what the system takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

KUBECTL = os.environ.get("ECHELON_KUBECTL", "kubectl")
ECHELON = str(Path(sys.executable).with_name("echelon"))
WAIT_S = 60


class Live:
    """A running sandbox."""

    def __init__(self, data: Path, kubeconfig: Path | None = None) -> None:
        self.data = data
        self.kubeconfig = kubeconfig or data / "kubeconfig"
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "ECHELON_DATA": str(data),
            "HOME": str(data),
            "NO_COLOR": "1",
        }

    def run(self, *command: str, stdin: str = "", ok: bool = True) -> str:
        """Run a command; returns what it printed, errors included."""
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=WAIT_S + 30,
            check=False,
        )
        said = done.stdout + done.stderr
        if ok is not None and (done.returncode == 0) != ok:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{said}")
        return said

    def kubectl(self, *arguments: str, stdin: str = "", ok: bool = True, context: str = "hub") -> str:
        """Run kubectl."""
        return self.run(KUBECTL, "--context", context, *arguments, stdin=stdin, ok=ok)

    def apply(self, manifests: str, context: str = "hub") -> str:
        """kubectl apply -f -"""
        return self.kubectl("apply", "-f", "-", stdin=manifests, context=context)

    def echelon(self, *arguments: str, ok: bool = True) -> str:
        """Run the command line."""
        return self.run(ECHELON, *arguments, ok=ok)

    def wait(self, what: str, condition: str, *more: str, context: str = "hub") -> str:
        """kubectl wait --for=condition=..."""
        return self.kubectl(
            "wait", what, f"--for=condition={condition}", f"--timeout={WAIT_S}s", *more, context=context
        )

    def until(self, holds, why: str) -> None:
        """For what kubectl wait cannot say: look until it holds."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {WAIT_S} s: {why}")
            time.sleep(0.1)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("sandbox"))
    made.echelon(
        "up",
        "--detach",
        "--members",
        "3",
        "--data",
        str(made.data),
        "--stuck-after",
        "3s",
        "--pod-start",
        "200ms",
    )
    yield made
    made.echelon("down", "--data", str(made.data))
