"""./dev test: finds or builds kubectl, then runs pytest on both cores; further arguments go to pytest.

--real adds, afterwards and one at a time, the suites that need the real Kubernetes lab (./dev real up --members 3).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools import kubectl

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Run the suite, and with --real the lab's; the exit code is the first that is not 0."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--real"]
    os.environ["ECHELON_KUBECTL"] = str(kubectl.find_or_build())
    has_workers = any(argument.startswith(("-n", "--pdb")) for argument in arguments)
    workers = [] if has_workers else ["-n", "2", "--dist", "worksteal"]
    code = pytest("-m", "not real", *workers, *arguments)
    if code == 0 and "--real" in sys.argv:
        code = pytest("-m", "real", "-n", "0", *arguments)  # there is one lab: its suites take turns
    return code


def pytest(*arguments: str) -> int:
    """Run pytest to its end."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
