"""Who set which field: managedFields on writes, and server-side apply."""

from __future__ import annotations

from typing import Any

from echelon.hub.call import Call, Response
from echelon.hub.status import unsupported_media_type

Json = dict[str, Any]


def track(call: Call, old: Json | None, new: Json) -> None:
    """Record in `new` which fields this write's manager now owns."""


async def serve_apply(call: Call, applied: Any) -> Response:
    """Answer an apply patch."""
    raise unsupported_media_type([])
