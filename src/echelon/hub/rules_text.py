"""How kube-apiserver prints the internal structs of access requests in its refusals."""

from __future__ import annotations

from typing import Any

from echelon.hub.gotext import json_text


def attributes_text(wire: dict[str, Any]) -> str:
    """Print NonResourceAttributes."""
    return json_text({"Path": wire.get("path", ""), "Verb": wire.get("verb", "")})
