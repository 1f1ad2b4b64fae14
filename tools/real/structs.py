"""Distills which fields of built-in kinds are structs in Go, which therefore always exist.

python3 tools/real/structs.py KUBECONFIG: OpenAPI v3 gives such fields `{}` as default; the hub's managed fields need to
know them. Writes `src/echelon/hub/data/structs.json`: definition -> fields.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "src" / "echelon" / "hub" / "data" / "structs.json"


def fetch(kubeconfig: str, path: str) -> Any:
    """Return a document of the server."""
    command = ["kubectl", "--kubeconfig", kubeconfig, "get", "--raw", path]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main(kubeconfig: str) -> None:
    """Write the data file."""
    found: dict[str, list[str]] = {}
    for entry in fetch(kubeconfig, "/openapi/v3")["paths"].values():
        schemas = fetch(kubeconfig, entry["serverRelativeURL"]).get("components", {}).get("schemas", {})
        for name, schema in schemas.items():
            if not name.startswith("io.k8s."):
                continue
            fields = [
                key for key, child in schema.get("properties", {}).items() if child.get("default") == {}
            ]
            if fields:
                found[name] = sorted(fields)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(found.items()))
    DATA.write_text("{\n" + lines + "\n}\n")
    print(DATA, len(found))


if __name__ == "__main__":
    main(sys.argv[1])
