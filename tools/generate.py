"""Write the documents that are generated from the code, or with --check say which are out of date.

Each entry is (file, function that makes its text). A generated page is never edited by hand.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# file -> "module:function" of a function without arguments that returns the file's text
PAGES: dict[str, str] = {}


def render(source: str) -> str:
    """Return the text the named function makes."""
    module, function = source.split(":")
    return str(getattr(importlib.import_module(module), function)())


def main() -> int:
    """Write the pages, or only compare them."""
    stale = []
    for name, source in PAGES.items():
        path, text = ROOT / name, render(source)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run ./dev python -m tools.generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
