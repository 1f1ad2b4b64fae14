"""./dev check: every check that must hold on every commit, one line each, all of them even if one fails."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS: dict[str, list[str]] = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "lint": ["ruff", "check", "--quiet", "."],
    "types": ["mypy"],
    "layers": ["lint-imports", "--no-cache"],
    "generated docs": ["python", "-m", "tools.generate", "--check"],
}


def run(name: str, command: list[str]) -> bool:
    """Run one check; print its output only when it fails."""
    started = time.monotonic()
    done = subprocess.run(  # fixed commands of our own
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(
        f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name} ({time.monotonic() - started:.1f} s)",
        flush=True,
    )
    if done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def main() -> int:
    """Run all checks, or those named; the exit code says whether they hold."""
    names = sys.argv[1:] or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"check: unknown {', '.join(unknown)}; there are: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    return 1 if [name for name in names if not run(name, CHECKS[name])] else 0


if __name__ == "__main__":
    sys.exit(main())
