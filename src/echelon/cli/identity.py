"""Who we are to the hub, asked of the hub itself; and the Event that says what we decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echelon.api.resource import Resource
from echelon.cli.output import say

if TYPE_CHECKING:
    from echelon.cli.connect import Hub
    from echelon.client.kubeconfig import Access

SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
UNKNOWN = "somebody"


async def who_am_i(hub: Hub) -> str:
    """Return the user the hub takes us for; a hub that cannot say leaves it to our own credentials."""
    from echelon.client.errors import ApiError

    body = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
    try:
        answer = await hub.client.create(SELF_SUBJECT_REVIEWS, body)
    except ApiError:
        return _own_name(hub.access)
    info = (answer.get("status") or {}).get("userInfo") or {}
    return info.get("username") or UNKNOWN


def _own_name(access: Access) -> str:
    """Return the name our credentials carry: the user we act as, or the certificate's."""
    if access.impersonate or access.username:
        return access.impersonate or access.username
    if not access.client_certificate:
        return UNKNOWN
    from cryptography.x509 import load_pem_x509_certificate
    from cryptography.x509.oid import NameOID

    names = load_pem_x509_certificate(access.client_certificate).subject.get_attributes_for_oid(
        NameOID.COMMON_NAME
    )
    return str(names[0].value) if names else UNKNOWN


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
