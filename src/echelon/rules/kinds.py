"""Which kinds an API server serves: read from its discovery documents and from custom resource definitions.

Only kinds that can be listed and watched count. Of a group's versions the server prefers the first it names; a
kind asked for in another served version is found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from echelon.api import registry
from echelon.api.resource import Resource
from echelon.rules.propagate import Gvk

_NEEDED_VERBS = frozenset({"list", "watch"})
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def version_order(version: str) -> tuple[int, int, int, int]:
    """Sort key of versions, the most trusted last: alpha, beta, stable, then by number."""
    found = _VERSION.match(version)
    if not found:
        return 0, 0, 0, 0
    return 1, _STABILITY[found[2]], int(found[1]), int(found[3] or 0)


def resource_of(gvk: Gvk, plural: str, *, namespaced: bool) -> Resource:
    """Describe a kind; one of ours keeps its type, so that its objects are shared with everybody who reads them."""
    known = registry.find(gvk.group, gvk.kind)
    if known is not None and (known.version, known.plural) == (gvk.version, plural):
        return known
    return Resource(gvk.group, gvk.version, plural, gvk.kind, namespaced)


def read_discovery(document: Mapping[str, Any]) -> Iterator[Resource]:
    """Read an APIGroupDiscoveryList: what can be listed and watched, preferred versions first."""
    for group in document.get("items") or ():
        for version in group.get("versions") or ():
            for row in version.get("resources") or ():
                verbs = _NEEDED_VERBS - set(row.get("verbs") or ())
                said = row.get("responseKind") or {}
                if verbs or not said.get("kind"):
                    continue
                gvk = Gvk(group["metadata"].get("name") or "", version["version"], said["kind"])
                yield resource_of(gvk, row["resource"], namespaced=row.get("scope") == "Namespaced")


def read_definition(crd: Mapping[str, Any]) -> Iterator[Resource]:
    """Read a CustomResourceDefinition: the kind in every version that is served, preferred versions first."""
    spec = crd["spec"]
    if crd["metadata"].get("deletionTimestamp") or not _is_established(crd):
        return
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    for version in sorted(served, key=version_order, reverse=True):
        gvk = Gvk(spec["group"], version, spec["names"]["kind"])
        yield resource_of(gvk, spec["names"]["plural"], namespaced=spec["scope"] == "Namespaced")


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return all(
        row["status"] == "True" for row in conditions if row["type"] in {"Established", "NamesAccepted"}
    )


class Kinds:
    """The kinds served now."""

    def __init__(self) -> None:
        self._by_gvk: dict[Gvk, Resource] = {}
        self._preferred: dict[tuple[str, str], Resource] = {}  # by group and plural

    def add(self, resources: Iterable[Resource]) -> None:
        """Add kinds; of one in several versions the first is preferred."""
        for row in resources:
            self._by_gvk.setdefault(Gvk(row.group, row.version, row.kind), row)
            self._preferred.setdefault((row.group, row.plural), row)

    def replace(self, group: str, plural: str, resources: Iterable[Resource]) -> None:
        """Say anew how one kind is served; nothing means no longer."""
        for gvk in [gvk for gvk, row in self._by_gvk.items() if (row.group, row.plural) == (group, plural)]:
            del self._by_gvk[gvk]
        self._preferred.pop((group, plural), None)
        self.add(resources)

    def find(self, gvk: Gvk) -> Resource | None:
        """Return how a kind is served in a version."""
        return self._by_gvk.get(gvk)

    def served(self, group: str, plural: str) -> list[Resource]:
        """Return one kind in all the versions it is served in."""
        return [row for row in self._by_gvk.values() if (row.group, row.plural) == (group, plural)]

    def preferred(self) -> list[Resource]:
        """Return every kind once, in its preferred version."""
        return list(self._preferred.values())
