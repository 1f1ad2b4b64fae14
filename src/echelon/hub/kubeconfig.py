"""Writes the kubeconfig with which people reach the hub and its members."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from echelon.hub.certificates import Pair, write_private
from echelon.hub.route import HUB


def write(path: Path, server: str, ca: bytes, admin: Pair, clusters: Iterable[str]) -> None:
    """Write one context for the hub and one for each member."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(
        path,
        yaml.dump(document(server, ca, admin, clusters), Dumper=yaml.CSafeDumper, sort_keys=False).encode(),
    )


def document(server: str, ca: bytes, admin: Pair, clusters: Iterable[str]) -> dict[str, Any]:
    """Return the kubeconfig as a document."""
    names = list(clusters)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": HUB,
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server if name == HUB else f"{server}/clusters/{name}",
                    "certificate-authority-data": base64.b64encode(ca).decode(),
                },
            }
            for name in names
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}} for name in names],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": base64.b64encode(admin.certificate).decode(),
                    "client-key-data": base64.b64encode(admin.key).decode(),
                },
            }
        ],
    }
