"""./dev bench WHAT: runs one of the benches; further arguments are its own (--help tells which)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def names() -> list[str]:
    """Return what can be measured: the modules beside this one."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def main(arguments: list[str]) -> int:
    """Run a bench by its name."""
    if not arguments or arguments[0] not in names():
        print(f"usage: ./dev bench {' | '.join(names())} [--help]", file=sys.stderr)
        return 2
    module = importlib.import_module(f"tools.bench.{arguments[0]}")
    return int(module.main(arguments[1:]) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
