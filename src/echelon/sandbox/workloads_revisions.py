"""ControllerRevisions: the past templates of StatefulSets and DaemonSets, where kubectl looks for them. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from echelon.api.builtin import CONTROLLER_REVISIONS
from echelon.rules.plan import Action, Create, Delete, Patch, ref_of
from echelon.sandbox.workloads_objects import Obj, labels, meta, owned_by, spec, template_hash

HASH = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"  # on pods
HISTORY_LIMIT = 10


class Revision(NamedTuple):
    """The revision of the present template, and what has to be written for it."""

    name: str
    hash: str
    actions: tuple[Action, ...]


def revise(owner: Obj, revisions: Sequence[Obj]) -> Revision:
    """Name the present template; a template that comes back gets the highest number again."""
    mark = template_hash(spec(owner)["template"])
    name = f"{meta(owner)['name']}-{mark}"
    highest = max((int(one.get("revision") or 0) for one in revisions), default=0)
    held = next((one for one in revisions if meta(one)["name"] == name), None)
    if held is None:
        body = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": meta(owner)["namespace"],
                "labels": {**_selected(owner), HASH: mark},
                "ownerReferences": owned_by(owner),
            },
            "data": {"spec": {"template": {**spec(owner)["template"], "$patch": "replace"}}},
            "revision": highest + 1,
        }
        return Revision(name, mark, (Create(resource=CONTROLLER_REVISIONS, body=body),))
    if int(held.get("revision") or 0) < highest:
        ref = msgspec.structs.replace(ref_of(CONTROLLER_REVISIONS, held), resource_version="")
        return Revision(name, mark, (Patch(ref=ref, body={"revision": highest + 1}),))
    return Revision(name, mark, ())


def _selected(owner: Obj) -> dict[str, str]:
    return dict((spec(owner).get("selector") or {}).get("matchLabels") or {})


def forget(owner: Obj, revisions: Sequence[Obj], used: set[str]) -> list[Action]:
    """Delete the oldest revisions beyond the limit that no pod is of."""
    limit = spec(owner).get("revisionHistoryLimit")
    keep = HISTORY_LIMIT if limit is None else int(limit)
    idle = [one for one in revisions if meta(one)["name"] not in used and labels(one).get(HASH) not in used]
    idle.sort(key=lambda one: int(one.get("revision") or 0))
    surplus = len(idle) - keep
    return [
        Delete(ref=msgspec.structs.replace(ref_of(CONTROLLER_REVISIONS, one), resource_version=""))
        for one in idle[: max(surplus, 0)]
    ]


def template_of(revision: Obj | None, otherwise: Obj) -> dict[str, Any]:
    """Return the template a revision keeps."""
    if revision is None:
        return dict(otherwise)
    kept = ((revision.get("data") or {}).get("spec") or {}).get("template") or otherwise
    return {key: value for key, value in kept.items() if key != "$patch"}
