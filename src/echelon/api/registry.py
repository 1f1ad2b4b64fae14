"""Every kind this program touches, in one place: ours with their types, everybody else's as plain dicts.

Looking a kind up is all that happens here; the rows are in `own.py` and `builtin.py`.
"""

from collections.abc import Mapping
from typing import Any

from echelon.api.builtin import BUILT_IN
from echelon.api.own import OWN
from echelon.api.resource import Resource

__all__ = ["ALL", "BUILT_IN", "OWN", "Resource", "find", "find_by_name", "find_by_plural", "resource_of"]

ALL: tuple[Resource, ...] = OWN + BUILT_IN

_BY_KIND = {(resource.group, resource.kind): resource for resource in ALL}
_BY_PLURAL = {(resource.group, resource.plural): resource for resource in ALL}
_BY_WORD: dict[str, Resource] = {}
for _resource in ALL:  # ours first: a short name that both use (rs) means ours in our own commands
    for _word in (_resource.plural, _resource.singular, _resource.full_name, *_resource.short_names):
        _BY_WORD.setdefault(_word, _resource)


def find(group: str, kind: str) -> Resource | None:
    """Find a kind by group and kind."""
    return _BY_KIND.get((group, kind))


def find_by_plural(group: str, plural: str) -> Resource | None:
    """Find a kind by group and plural, as they stand in a request's path."""
    return _BY_PLURAL.get((group, plural))


def find_by_name(word: str) -> Resource | None:
    """Find a kind by what people type: plural, singular, short name or plural.group, in any case."""
    return _BY_WORD.get(word.lower())


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """Name the resource of a manifest; of a kind unknown here the plural is guessed the way most kinds are named."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = manifest["kind"]
    known = find(group, kind)
    word = kind.lower()
    plural = known.plural if known else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return Resource(group, version, plural, kind, "namespace" in manifest["metadata"])
