"""Calls the hub makes to itself: the same write path, no authorisation, no transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echelon.hub import managed
from echelon.hub.call import MASTERS, Call, Request, User
from echelon.hub.rest_delete import remove
from echelon.hub.rest_write import write

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.cluster import Cluster
    from echelon.hub.kinds import Kind
    from echelon.hub.store import Entry

Json = dict[str, Any]

CONTROLLER = User("system:kube-controller-manager", (MASTERS, "system:authenticated"))
MANAGER = "kube-controller-manager"


def call_for(
    hub: Hub, cluster: Cluster, kind: Kind, key: str, verb: str = "update", manager: str = MANAGER
) -> Call:
    """Return a call about one object, made by the hub itself."""
    namespace, _, name = key.rpartition("/")
    request = Request(verb, "", {}, {"user-agent": manager}, b"", CONTROLLER)
    return Call(hub, cluster, request, kind, verb, namespace, name)


def replace(call: Call, old: Json, new: Json, entry: Entry) -> Entry:
    """Write a changed object; it goes if nothing holds it any more."""
    new["metadata"] = dict(new["metadata"])
    managed.track(call, old, new)
    return write(call, new, entry)


def discard(call: Call, entry: Entry, policy: str = "Background") -> Entry:
    """Delete an object, as far as its finalizers allow."""
    return remove(call, entry, call.kind.read(entry.body), {"propagationPolicy": policy})[0]
