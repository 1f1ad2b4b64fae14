"""Makes sure that the fleet's own definitions are on a server before sequences use them."""

from __future__ import annotations

import json
import time

from echelon.api.crds import crds
from tests.conformance.endpoint import Endpoint, Reply, exchange

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LIMIT_S = 30.0


def install_crds(endpoint: Endpoint) -> None:
    """Applies the definitions and waits until all of them are established."""
    connection = endpoint.connect()
    headers = {"Content-Type": "application/apply-patch+yaml"}
    if endpoint.token:
        headers["Authorization"] = f"Bearer {endpoint.token}"

    def ask(method: str, name: str, query: str = "", body: bytes | None = None) -> Reply:
        return exchange(connection, method, endpoint.target(f"{PATH}/{name}{query}"), body, headers)

    names = []
    for crd in crds():
        name = crd["metadata"]["name"]
        reply = ask("PATCH", name, "?fieldManager=conformance&force=true", json.dumps(crd).encode())
        if reply.code not in (200, 201):
            raise RuntimeError(f"{name}: {reply.code} {reply.body[:500]!r}")
        names.append(name)
    end = time.monotonic() + LIMIT_S
    for name in names:
        while not _is_established(ask("GET", name)):
            if time.monotonic() > end:
                raise RuntimeError(f"{name} was not established within {LIMIT_S:.0f} s")
            time.sleep(0.05)
    connection.close()


def _is_established(reply: Reply) -> bool:
    """Tells whether a definition serves its kind."""
    conditions = json.loads(reply.body).get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
