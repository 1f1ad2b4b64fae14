"""./dev test: finds or builds kubectl, then runs pytest on both cores; further arguments go to pytest.

--real adds the suites that need the real Kubernetes lab (./dev real up).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tools import kubectl

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Replace this process by pytest."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--real"]
    os.environ["ECHELON_KUBECTL"] = str(kubectl.find_or_build())
    if "--real" not in sys.argv:
        arguments = ["-m", "not real", *arguments]
    if not any(argument.startswith(("-n", "--pdb")) for argument in arguments):
        arguments = ["-n", "2", "--dist", "worksteal", *arguments]
    python = sys.executable
    os.chdir(ROOT)
    os.execv(python, [python, "-m", "pytest", *arguments])


if __name__ == "__main__":
    main()
