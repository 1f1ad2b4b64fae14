"""What every rule returns: a Plan, the only way a decision reaches the world.

A rule looks at a state and a time and says what should be written; `runtime/perform.py` is the only code
that writes it. The vocabulary is small on purpose: create, patch, delete, emit an event, one status.

Nothing here acts. Building the same plan twice is building the same value; performing it twice is doing it once
(writes compare resourceVersion, creates carry their name, a patch that would change nothing is skipped).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from echelon.api.resource import Resource
from echelon.api.scope import Key


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    """Points at one object as it was seen: `resource_version` makes a write compare-and-swap."""

    resource: Resource
    name: str
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""


def ref_of(resource: Resource, seen: Any) -> Ref:
    """Point at an object (typed or plain) as it was seen."""
    if isinstance(seen, Mapping):
        meta = seen["metadata"]
        return Ref(
            resource=resource,
            name=meta["name"],
            namespace=meta.get("namespace"),
            uid=meta.get("uid", ""),
            resource_version=meta.get("resourceVersion", ""),
        )
    meta = seen.metadata
    return Ref(
        resource=resource,
        name=meta.name,
        namespace=meta.namespace or None,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
    )


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Make an object; one that is already there counts as made when `exists_ok`.

    With a subresource the body goes to that of the object it names, such as the binding of a pod.
    """

    resource: Resource
    body: Mapping[str, Any]
    exists_ok: bool = True
    subresource: str = ""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Merge-patch an object (RFC 7386), comparing resourceVersion when the reference carries one.

    `status` is a second patch, of the status subresource, sent right after the first with the version the
    first returned: the hand-over stamp on a binding is one decision, not two.
    """

    ref: Ref
    body: Mapping[str, Any]
    subresource: str = ""
    status: Mapping[str, Any] | None = None
    gone_ok: bool = False


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an object if it is still the one that was seen; gone already counts as deleted."""

    ref: Ref
    propagation: Literal["Background", "Foreground", "Orphan"] | None = None
    grace_s: int | None = None  # of a Pod: how long its containers may take to stop; 0 removes it at once


class Emit(msgspec.Struct, frozen=True, kw_only=True):
    """Tell people: a Kubernetes Event about an object. Said twice, it is counted, not repeated."""

    about: Ref
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


Action = Create | Patch | Delete | Emit


class StatusWrite(msgspec.Struct, frozen=True, kw_only=True):
    """The whole new status of an object beside the one seen; only the difference travels."""

    ref: Ref
    old: Any
    new: Any


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A decision.

    `steps` are performed one after the other, the actions of a step side by side; a failing action lets its
    neighbours finish, then ends the plan (it is decided anew from what is then true). `status` is written
    after the steps, `events` after the status. `wake_at` is the one moment at which time itself changes the
    decision; everything else arrives by watch. `why` is one line for logs.
    """

    steps: tuple[tuple[Action, ...], ...] = ()
    status: StatusWrite | None = None
    events: tuple[Emit, ...] = ()
    wake_at: datetime | None = None
    why: str = ""


NOTHING = Plan(why="nothing to do")

__all__ = [
    "NOTHING",
    "Action",
    "Create",
    "Delete",
    "Emit",
    "Key",
    "Patch",
    "Plan",
    "Ref",
    "StatusWrite",
    "ref_of",
]
