"""RBAC rules as pure sets: what one rule lets through, and whether rules cover others.

Compiled once per role and shared by every request. Knows nothing of users,
bindings or the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from echelon.hub.gotext import quote

Json = dict[str, Any]
ALL = "*"


class Attributes(NamedTuple):
    """What a request wants, as authorisation sees it."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Set for what is no resource: discovery, health, metrics."""

    @property
    def combined(self) -> str:
        """Return `resource/subresource`, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rule:
    """One PolicyRule."""

    __slots__ = ("groups", "names", "resources", "urls", "verbs")

    def __init__(self, wire: Json) -> None:
        self.verbs = frozenset(wire.get("verbs") or ())
        self.groups = frozenset(wire.get("apiGroups") or ())
        self.resources = frozenset(wire.get("resources") or ())
        self.names = frozenset(wire.get("resourceNames") or ())
        self.urls = tuple(wire.get("nonResourceURLs") or ())

    def allows(self, wanted: Attributes) -> bool:
        """Say whether the rule lets a request through."""
        if wanted.verb not in self.verbs and ALL not in self.verbs:
            return False
        if wanted.path:
            return any(_url_matches(url, wanted.path) for url in self.urls)
        if wanted.group not in self.groups and ALL not in self.groups:
            return False
        if self.names and wanted.name not in self.names:
            return False
        return self._has_resource(wanted)

    def _has_resource(self, wanted: Attributes) -> bool:
        resources = self.resources
        if ALL in resources or wanted.combined in resources:
            return True
        return bool(wanted.subresource) and f"*/{wanted.subresource}" in resources

    def wire(self) -> Json:
        """Return the rule as a PolicyRule, without its empty parts."""
        parts = {
            "verbs": sorted(self.verbs),
            "apiGroups": sorted(self.groups),
            "resources": sorted(self.resources),
            "resourceNames": sorted(self.names),
            "nonResourceURLs": list(self.urls),
        }
        return {name: value for name, value in parts.items() if value}


def _url_matches(pattern: str, path: str) -> bool:
    if pattern in {ALL, path}:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def breakdown(rule: Rule) -> Iterator[Json]:
    """Split a rule into rules of one verb on one thing each, as messages list them."""
    for group in sorted(rule.groups):
        for resource in sorted(rule.resources):
            for verb in sorted(rule.verbs):
                base = {"APIGroups": [group], "Resources": [resource], "Verbs": [verb]}
                if rule.names:
                    for name in sorted(rule.names):
                        yield {**base, "ResourceNames": [name]}
                else:
                    yield base
    for url in rule.urls:
        for verb in sorted(rule.verbs):
            yield {"NonResourceURLs": [url], "Verbs": [verb]}


def uncovered(owned: list[Rule], wanted: Iterable[Rule]) -> list[Json]:
    """Return the single permissions of `wanted` that no rule of `owned` gives."""
    return [
        single
        for rule in wanted
        for single in breakdown(rule)
        if not any(_covers(own, single) for own in owned)
    ]


def _covers(owner: Rule, single: Json) -> bool:
    verb = single["Verbs"][0]
    if verb not in owner.verbs and ALL not in owner.verbs:
        return False
    if "NonResourceURLs" in single:
        wanted = single["NonResourceURLs"][0]
        return any(
            url in {ALL, wanted} or (url.endswith("*") and wanted.startswith(url.rstrip("*")))
            for url in owner.urls
        )
    group, resource = single["APIGroups"][0], single["Resources"][0]
    if group not in owner.groups and ALL not in owner.groups:
        return False
    _, slash, sub = resource.partition("/")
    if (
        ALL not in owner.resources
        and resource not in owner.resources
        and not (slash and f"*/{sub}" in owner.resources)
    ):
        return False
    names: list[str] = single.get("ResourceNames") or []
    return not owner.names or (bool(names) and names[0] in owner.names)


def compacted(singles: Iterable[Json]) -> list[Json]:
    """Join permissions on the same thing: one with all verbs."""
    joined: dict[str, Json] = {}
    for single in singles:
        thing = {name: value for name, value in single.items() if name != "Verbs"}
        found = joined.setdefault(str(thing), {**thing, "Verbs": []})
        found["Verbs"] += [verb for verb in single["Verbs"] if verb not in found["Verbs"]]
    return list(joined.values())


def rule_text(rule: Json) -> str:
    """Print a permission as kube-apiserver does in its refusals."""
    parts = [
        f"{name}:[{' '.join(map(quote, rule[name]))}]"
        for name in ("APIGroups", "Resources", "ResourceNames", "NonResourceURLs", "Verbs")
        if name in rule
    ]
    return "{" + ", ".join(parts) + "}"
