"""The lab as a fixture: real Kubernetes with our agents beside it, running with the rights that installation gives.

Import `live` into a test module. The lab itself is the caller's (`./dev real up --members 3`): it is used as it is,
members are added where three are not there yet, and it is left running. The agents are ended with the module.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import Live

ROOT = Path(__file__).parents[2]
MEMBERS = 3


def lab(*words: str) -> str:
    """Run a command of the lab."""
    argv = [sys.executable, str(ROOT / "tools" / "real" / "lab.py"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"./dev real {' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout.strip()


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """The lab's kubeconfig, once the lab is up."""
    return Path(lab("up", "--members", str(MEMBERS)).splitlines()[-1])


@pytest.fixture(scope="module")
def live(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The fleet on the lab; what tests leave behind stays until the lab goes down."""
    lab("agents", "up", "--stuck-after", "3s")
    yield Live(tmp_path_factory.mktemp("real"), kubeconfig)
    lab("agents", "down")
