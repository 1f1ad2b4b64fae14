"""./dev bench WHAT [--real]: runs one of the benches; further arguments are its own (--help tells which).

With --real the hub is the lab's kube-apiserver instead of the embedded one (./dev real build).
"""

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
    name, rest = arguments[0], arguments[1:]
    on_lab = Path(__file__).parent / "real" / f"{name}.py"
    if "--real" in rest and on_lab.exists():
        name, rest = f"real.{name}", [argument for argument in rest if argument != "--real"]
    module = importlib.import_module(f"tools.bench.{name}")
    return int(module.main(rest) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
