"""The status of a CustomResourceDefinition: which names are accepted, whether it is established.

A definition is judged in the same write that creates or changes it, so clients
never have to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub.cluster import CRDS
from echelon.hub.world import rfc3339

if TYPE_CHECKING:
    from echelon.hub.call import Call

Json = dict[str, Any]

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
PENDING = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
IN_PROGRESS = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")


def complete(spec: Json) -> None:
    """Fill in the names a definition may leave out, and its conversion."""
    names = spec.get("names")
    if isinstance(names, dict):
        names = spec["names"] = dict(names)
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"
    spec.setdefault("conversion", {"strategy": "None"})


def born(call: Call, crd: Json) -> None:
    """Give a new definition its status."""
    crd["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
    judge_in(call, crd)


def changed(call: Call, new: Json, old: Json) -> None:
    """Bring the status of a changed definition up to date."""
    new["status"] = dict(old.get("status") or {})
    judge_in(call, new)


def keep_stored(crd: Json) -> None:
    """Say that the version that is stored is, where a client says that none is."""
    status = crd["status"] = dict(crd.get("status") or {})
    versions = (crd.get("spec") or {}).get("versions") or ()
    if not status.get("storedVersions"):
        status["storedVersions"] = [one.get("name") for one in versions if one.get("storage")]


def judge_in(call: Call, crd: Json) -> None:
    """Judge a definition among the others of its cluster."""
    others = [
        msgspec.json.decode(entry.body)
        for entry in call.hub.store.table(call.cluster.name, CRDS).live.values()
        if entry.key != call.name
    ]
    try:
        judge(crd, others, rfc3339(call.hub.world.now()))
    except (AttributeError, KeyError, StopIteration, TypeError):
        return  # not the shape of a definition: validation says so, right after this


def judge(crd: Json, others: Iterable[Json], now: str) -> None:
    """Decide which names a definition may use, and whether it is established."""
    spec, status = crd["spec"], crd["status"]
    names = spec.get("names") or {}
    resources: set[Any] = set()
    kinds: set[Any] = set()
    for other in others:
        if other["spec"]["group"] == spec.get("group"):
            taken = (other.get("status") or {}).get("acceptedNames") or {}
            resources |= {taken.get("plural"), taken.get("singular"), *(taken.get("shortNames") or ())}
            kinds |= {taken.get("kind"), taken.get("listKind")}
    accepted = dict(status.get("acceptedNames") or {})
    conflict = ("", "")
    for field, used, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        wanted = names.get(field)
        clashes = [
            name for name in (wanted if isinstance(wanted, list) else [wanted]) if name and name in used
        ]
        if clashes:
            conflict = (reason, ", ".join(f'"{name}" is already in use' for name in clashes))
        elif wanted:
            accepted[field] = wanted
        else:
            accepted.pop(field, None)
    if "categories" in names:
        accepted["categories"] = names["categories"]
    status["acceptedNames"] = accepted
    _conclude(status, conflict, now)
    storage = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    stored = status.get("storedVersions") or []
    if storage and storage[0] not in stored:
        status["storedVersions"] = [*stored, storage[0]]


def _conclude(status: Json, conflict: tuple[str, str], now: str) -> None:
    if conflict[0]:
        set_condition(status, "NamesAccepted", "False", conflict, now)
        if find(status, "Established").get("status") != "True":
            set_condition(status, "Established", "False", ("NotAccepted", "not all names are accepted"), now)
        return
    set_condition(status, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now)
    if find(status, "Established").get("status") != "True":
        why = ("InitialNamesAccepted", "the initial names have been accepted")
        set_condition(status, "Established", "True", why, now)


def find(status: Json, type_: str) -> Json:
    """Return a condition, empty if it is not there."""
    return next((one for one in status.get("conditions") or () if one["type"] == type_), {})


def set_condition(status: Json, type_: str, value: str, why: tuple[str, str], now: str) -> None:
    """Set a condition; its time moves only with its value."""
    before = find(status, type_)
    at = before.get("lastTransitionTime", now) if before.get("status") == value else now
    new = {"type": type_, "status": value, "lastTransitionTime": at, "reason": why[0], "message": why[1]}
    conditions = [new if one["type"] == type_ else one for one in status.get("conditions") or ()]
    status["conditions"] = conditions if before else [*conditions, new]


def mark(crd: Json, now: str) -> None:
    """Mark a definition as being deleted: its objects go first."""
    meta = crd["metadata"]
    finalizers = meta.get("finalizers") or []
    if FINALIZER not in finalizers:
        meta["finalizers"] = [*finalizers, FINALIZER]
    crd["status"] = dict(crd.get("status") or {})
    set_condition(crd["status"], "Terminating", "True", PENDING, now)
