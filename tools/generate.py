"""Write the documents that are generated from the code, or with --check say which are out of date.

Each entry is (file, function that makes its text). A generated page is never edited by hand.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# file -> "module:function" of a function without arguments that returns the file's text
PAGES: dict[str, str] = {
    "docs/rules.md": "tools.rules_page:rules",
    "docs/troubleshooting.md": "tools.pages:troubleshooting",
    "docs/api.md": "tools.pages:api_reference",
    "docs/commands.md": "tools.pages:commands",
    "docs/kubefleet-flags.md": "tools.flags_page:page",
    "charts/echelon-hub/templates/crds.yaml": "tools.charts:hub_crds",
    "charts/echelon-hub/templates/rbac.yaml": "tools.charts:hub_rbac",
    "charts/echelon-hub/templates/deployment.yaml": "tools.charts:hub_agent",
    "charts/echelon-member/templates/crds.yaml": "tools.charts:member_crds",
    "charts/echelon-member/templates/rbac.yaml": "tools.charts:member_rbac",
    "charts/echelon-member/templates/deployment.yaml": "tools.charts:member_agent",
    "charts/echelon-hub/templates/policies.yaml": "tools.charts:hub_policies",
}


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
