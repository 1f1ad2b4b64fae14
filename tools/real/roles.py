"""Distills the roles and bindings a cluster is born with into the hub's data.

python3 tools/real/roles.py KUBECONFIG: reads them from a real, freshly started API server with its controller manager
and writes `src/echelon/hub/data/access.json`. Facts only: names, labels, rules, subjects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "src" / "echelon" / "hub" / "data" / "access.json"
KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
COMMON_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
COMMON_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def distill(obj: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is particular of one object, or nothing when it is not one of the defaults."""
    meta = obj["metadata"]
    labels = dict(meta.get("labels") or {})
    if any(labels.pop(key, None) != value for key, value in COMMON_LABELS.items()):
        return None
    assert meta.get("annotations") == COMMON_ANNOTATIONS, meta
    kept = {"name": meta["name"]}
    if meta.get("namespace"):
        kept["namespace"] = meta["namespace"]
    if labels:
        kept["labels"] = labels
    rest = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}
    return {**kept, **rest}


def main(kubeconfig: str) -> None:
    """Write the data file."""
    out = {}
    for kind in KINDS:
        text = subprocess.run(
            ["kubectl", "--kubeconfig", kubeconfig, "get", kind, "-A", "-o", "json"],
            check=True,
            capture_output=True,
        ).stdout
        out[kind] = [found for item in json.loads(text)["items"] if (found := distill(item)) is not None]
    lines = [
        f"{json.dumps(kind)}: [\n"
        + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
        + "\n]"
        for kind, items in out.items()
    ]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(DATA, {kind: len(items) for kind, items in out.items()})


if __name__ == "__main__":
    main(sys.argv[1])
