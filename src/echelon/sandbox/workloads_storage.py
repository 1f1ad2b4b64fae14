"""Claims: bound to a volume made for them, unless their storage class is not there. Decisions only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from echelon.api.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from echelon.rules.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, Ref, StatusWrite, ref_of
from echelon.sandbox.workloads_objects import Obj, is_deleting, meta, spec, status

PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, the class it asks for (None: there is none), and whether a pod uses it."""

    claim: Obj
    storage_class: Obj | None = None
    is_used: bool = False


def step(seen: Seen, _now: datetime) -> Plan:
    """Bind a claim, or let it go."""
    claim = seen.claim
    ref = msgspec.structs.replace(ref_of(PERSISTENT_VOLUME_CLAIMS, claim), resource_version="")
    if is_deleting(claim):
        return _let_go(seen, ref)
    if status(claim).get("phase") == "Bound":
        return NOTHING
    if seen.storage_class is None:
        asked = spec(claim).get("storageClassName") or ""
        message = f'storageclass.storage.k8s.io "{asked}" not found'
        return Plan(
            events=(Emit(about=ref, reason="ProvisioningFailed", message=message, type="Warning"),),
            why="no such storage class",
        )
    volume = volume_name(claim)
    made: list[Action] = [
        Create(resource=PERSISTENT_VOLUMES, body=_volume(claim, volume, seen.storage_class))
    ]
    name = meta(seen.storage_class)["name"]
    given = Patch(ref=Ref(resource=PERSISTENT_VOLUMES, name=volume), body={}, status={"phase": "Bound"})
    bound = Patch(ref=ref, body={"spec": {"volumeName": volume, "storageClassName": name}})
    new = {
        "phase": "Bound",
        "accessModes": spec(claim).get("accessModes") or [],
        "capacity": {"storage": _size(claim)},
    }
    return Plan(
        steps=(tuple(made), (bound, given)),
        status=StatusWrite(ref=ref, old=status(claim), new={**status(claim), **new}),
        why="binding",
    )


def volume_name(claim: Obj) -> str:
    """Name the volume of a claim."""
    return f"pvc-{meta(claim)['uid']}"


def _size(claim: Obj) -> str:
    requests = (spec(claim).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage") or "1Gi")


def _volume(claim: Obj, name: str, storage_class: Obj) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec(claim).get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": _size(claim)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": meta(claim)["name"],
                "namespace": meta(claim)["namespace"],
                "uid": meta(claim)["uid"],
            },
            "hostPath": {"path": f"/sandbox/{name}"},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": meta(storage_class)["name"],
        },
    }


def _let_go(seen: Seen, ref: Ref) -> Plan:
    """Let a claim go once no pod uses it, and its volume with it."""
    held = list(meta(seen.claim).get("finalizers") or ())
    if seen.is_used or PROTECTION not in held:
        return Plan(why="still used")
    volume = spec(seen.claim).get("volumeName")
    actions: list[tuple[Action, ...]] = []
    if volume:
        away = Ref(resource=PERSISTENT_VOLUMES, name=volume)
        actions += [
            (Patch(ref=away, body={"metadata": {"finalizers": None}}, gone_ok=True),),
            (Delete(ref=away),),
        ]
    held.remove(PROTECTION)
    actions.append((Patch(ref=ref, body={"metadata": {"finalizers": held}}, gone_ok=True),))
    return Plan(steps=tuple(actions), why="nobody uses it any more")
