"""Small questions about plain Kubernetes objects that every simulated controller asks. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from echelon.rules import gojson

Obj = Mapping[str, Any]
MAX_CREATED_AT_ONCE = 200  # pods one look creates; the rest follow when these are seen

_SAFE = "bcdfghjklmnpqrstvwxz2456789"  # the letters of generated names: no vowels, no accidental words
HASH_LENGTH = 10


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated member behaves."""

    start_delay_s: float = 0.5  # from the creation of a pod until it is ready
    stop_delay_s: float = 0.0  # from the deletion of a pod until it is gone
    run_s: float = 2.0  # how long a container runs that ends by itself (of a Job)
    nodes: int = 2
    all_events: bool = False  # Events about what goes well, too; troubles are always told


def meta(obj: Obj) -> Mapping[str, Any]:
    """Return the metadata."""
    found: Mapping[str, Any] = obj["metadata"]
    return found


def spec(obj: Obj) -> Mapping[str, Any]:
    """Return the spec, empty when absent."""
    return obj.get("spec") or {}


def status(obj: Obj) -> Mapping[str, Any]:
    """Return the status, empty when absent."""
    return obj.get("status") or {}


def labels(obj: Obj) -> Mapping[str, str]:
    """Return the labels, empty when absent."""
    return meta(obj).get("labels") or {}


def is_deleting(obj: Obj) -> bool:
    """Tell whether deletion was asked for."""
    return bool(meta(obj).get("deletionTimestamp"))


def replicas(obj: Obj) -> int:
    """Return how many replicas are wanted."""
    wanted = spec(obj).get("replicas")
    return 1 if wanted is None else int(wanted)


def count(obj: Obj, name: str) -> int:
    """Read a counter of the status; zeros are left out on the wire."""
    return int(status(obj).get(name) or 0)


def controller_of(obj: Obj) -> Mapping[str, Any] | None:
    """Return the owner reference of the controller, if there is one."""
    for owner in meta(obj).get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def controller_uid(obj: Obj) -> tuple[str, ...]:
    """Return the uid of the controller: what dependants are filed under."""
    owner = controller_of(obj)
    return (owner["uid"],) if owner else ()


def owned_by(owner: Obj) -> list[dict[str, Any]]:
    """Return the owner references of what a controller makes."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta(owner)["name"],
            "uid": meta(owner)["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def stamp(now: datetime) -> str:
    """Write a time as Kubernetes does."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> datetime | None:
    """Read a time as Kubernetes writes it."""
    return datetime.fromisoformat(text) if text else None


def created_at(obj: Obj) -> str:
    """Return when an object was created, comparable as text."""
    return str(meta(obj).get("creationTimestamp") or "")


def template_hash(template: Any, salt: str = "") -> str:
    """Name a pod template."""
    digest = hashlib.sha256(gojson.encode(template) + salt.encode()).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:HASH_LENGTH])


def amount(value: int | str | None, of: int, *, round_up: bool) -> int:
    """Read a number or a percentage of something."""
    if value is None:
        return 0
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * of
        return -(-share // 100) if round_up else share // 100
    return int(value)


def matches(selector: Obj | None, found: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy a label selector; an absent one is satisfied by nothing."""
    if selector is None:
        return False
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, found) for one in selector.get("matchExpressions") or ())


def _holds(one: Obj, found: Mapping[str, str]) -> bool:
    key, values = one["key"], one.get("values") or ()
    match one["operator"]:
        case "In":
            return found.get(key) in values
        case "NotIn":
            return found.get(key) not in values
        case "Exists":
            return key in found
        case _:
            return key not in found


def with_condition(
    conditions: Sequence[Obj], type_: str, value: str, reason: str, message: str, at: str, **more: Any
) -> list[dict[str, Any]]:
    """Set one condition; its transition time moves only with its status."""
    wanted: dict[str, Any] = {"type": type_, "status": value, "lastTransitionTime": at, **more}
    if reason:
        wanted["reason"] = reason
    if message:
        wanted["message"] = message
    out = [dict(one) for one in conditions]
    for index, held in enumerate(out):
        if held["type"] == type_:
            if held["status"] == value:
                wanted["lastTransitionTime"] = held.get("lastTransitionTime", at)
            out[index] = wanted
            return out
    return [*out, wanted]


def condition_of(obj: Obj, type_: str) -> Mapping[str, Any] | None:
    """Return a condition."""
    for one in status(obj).get("conditions") or ():
        if one["type"] == type_:
            return dict(one)
    return None


def compact(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out zeros and nothings, as the API does."""
    return {key: value for key, value in fields.items() if value not in (0, None, "", [], {})}
