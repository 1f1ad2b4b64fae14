"""Who we are to the hub, asked of the hub itself; and the Event that says what we decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echelon.api.resource import Resource
from echelon.cli.output import say

if TYPE_CHECKING:
    from echelon.cli.connect import Hub

SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
UNKNOWN = "somebody"


async def who_am_i(hub: Hub) -> str:
    """Return the user the hub takes us for; a hub that cannot say leaves it open."""
    from echelon.client.errors import ApiError

    body = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
    try:
        answer = await hub.client.create(SELF_SUBJECT_REVIEWS, body)
    except ApiError:
        return UNKNOWN
    info = (answer.get("status") or {}).get("userInfo") or {}
    return info.get("username") or UNKNOWN


async def tell(hub: Hub, resource: Any, obj: Any, reason: str, message: str) -> None:
    """Leave an Event; who may decide but not write Events has still decided."""
    from echelon.client.errors import ApiError
    from echelon.rules.plan import Emit, Plan, ref_of
    from echelon.runtime.clock import WallClock
    from echelon.runtime.perform import Performer

    event = Emit(about=ref_of(resource, obj), reason=reason, message=message)
    try:
        await Performer(hub.client, None, WallClock(), component="echelon-cli").perform(Plan(events=(event,)))
    except ApiError as error:
        say(f"note: no Event was written: {error}")
