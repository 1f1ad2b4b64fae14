"""What is inside an envelope: its objects in the order they are applied, or why they may not be delivered.

A ResourceEnvelope is written by whoever owns its namespace, and what is in it was never seen by the hub's access
control. So it holds objects of its own namespace only, and nothing that gives out rights or stands in the way of other
people's requests, unless the operator of the hub allows it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.api.names import EnvelopeType
from echelon.rules.gojson import encode
from echelon.rules.override import Manifest, Target, envelope_type, target_of

# Inside a tenant's envelope these would grant, on members, rights that the hub never checked.
POWERFUL_GROUPS = frozenset({"rbac.authorization.k8s.io", "admissionregistration.k8s.io"})


class EnvelopeRefused(Exception):
    """The content of an envelope cannot be delivered; the text names the entry."""


def write_ref(manifest: Manifest) -> str:
    """Write `namespace/name`, or `name` for a cluster-scoped object."""
    target = target_of(manifest)
    return f"{target.namespace}/{target.name}" if target.namespace else target.name


def unwrap(envelope: Manifest, *, allow_powerful: bool = False) -> list[dict[str, Any]]:
    """R-ENVELOPE-1: objects are ordered by their JSON text, from last to first; one that is refused refuses all."""
    found: list[dict[str, Any]] = []
    data: Mapping[str, Any] = envelope.get("data") or {}
    for key in sorted(data):
        manifest = data[key]
        if not isinstance(manifest, dict) or not manifest.get("kind"):
            text = encode(manifest).decode()
            raise EnvelopeRefused(
                "failed to parse the wrapped manifest data to a Kubernetes runtime object "
                f"(manifestKey={key},envelopeObjRef={write_ref(envelope)}): Object 'Kind' is missing in '{text}'"
            )
        _check(envelope, key, manifest, allow_powerful)
        found.append(manifest)
    return sorted(found, key=encode, reverse=True)


def _check(envelope: Manifest, key: str, manifest: Manifest, allow_powerful: bool) -> None:
    target, where = target_of(manifest), write_ref(envelope)
    said = f"{key} ({write_ref(manifest)})"
    if envelope_type(envelope) is EnvelopeType.CLUSTER_RESOURCE_ENVELOPE:
        if target.namespace:
            raise EnvelopeRefused(
                f"a namespaced object {said} has been wrapped in a cluster resource envelope {where}"
            )
        return
    if not target.namespace:
        raise EnvelopeRefused(
            f"a cluster scope object {said} has been wrapped in a resource envelope {where}"
        )
    if target.namespace != target_of(envelope).namespace:
        raise EnvelopeRefused(
            f"a namespaced object {said} in has been wrapped in a resource envelope from another namespace ({where})"
        )
    if target.group in POWERFUL_GROUPS and not allow_powerful:
        raise EnvelopeRefused(_powerful(target, said, where))


def _powerful(target: Target, said: str, where: str) -> str:
    return (
        f"a {target.kind} {said} has been wrapped in a resource envelope {where}; kinds of {target.group} are not "
        "delivered from a ResourceEnvelope: place the object itself, or put it into a ClusterResourceEnvelope"
    )
