"""How built-in kinds merge on a client-side apply: by the merge keys of Kubernetes' own schemas.

Custom resources have no such schema and merge as plain JSON. Nothing here asks anybody: the schemas are shipped with
the hub, and a kind or a field that is newer than they are merges as plain JSON does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from echelon.hub.builtins import catalog
from echelon.rules.member_manifest import Identity, Manifest
from echelon.rules.strategic import three_way_strategic

Merge = Callable[[Manifest, Manifest, Manifest], Manifest]


def strategic_of(identity: Identity) -> Merge | None:
    """Return the three-way merge of a built-in kind, None for every other."""
    return _merge_of(identity.group, identity.version, identity.kind)


@lru_cache(maxsize=256)
def _merge_of(group: str, version: str, kind: str) -> Merge | None:
    known = catalog().of_kind(group, version, kind)
    if known is None or known.schema is None:
        return None
    schema = known.schema

    def merge(last: Manifest, wanted: Manifest, live: Manifest) -> Mapping[str, Any]:
        return three_way_strategic(dict(last), dict(wanted), dict(live), schema)

    return merge
