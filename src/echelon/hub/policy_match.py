"""Which requests an admission policy or webhook looks at: rules, selectors, exclusions.

Pure: knows the request's attributes, never the store.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from echelon.hub.call import Call
from echelon.hub.kinds import Kind
from echelon.hub.label_selector import matches as selector_matches

Json = dict[str, Any]
ALL = "*"


class Attributes(NamedTuple):
    """What admission is asked about."""

    operation: str
    group: str
    version: str
    plural: str
    subresource: str
    namespaced: bool
    namespace: str
    name: str


def rule_matches(rule: Json, asked: Attributes, *, exact: bool) -> bool:
    """Say whether a rule is about a request; without `exact` another version of the resource is the same."""
    operations = rule.get("operations") or ()
    if asked.operation not in operations and ALL not in operations:
        return False
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if asked.group not in groups and ALL not in groups:
        return False
    if exact and asked.version not in versions and ALL not in versions:
        return False
    scope = rule.get("scope") or ALL
    if scope != ALL and (scope == "Namespaced") != asked.namespaced:
        return False
    names = rule.get("resourceNames")
    if names and asked.name not in names:
        return False
    return any(_resource_matches(pattern, asked) for pattern in rule.get("resources") or ())


def _resource_matches(pattern: str, asked: Attributes) -> bool:
    plural, _, subresource = pattern.partition("/")
    if plural not in {ALL, asked.plural}:
        return False
    return subresource == asked.subresource or (subresource == ALL and pattern != ALL)


def could_match(constraints: Json, group: str, plural: str, subresource: str) -> bool:
    """Say whether any operation on a resource could concern these constraints."""
    for rule in constraints.get("resourceRules") or ():
        groups = rule.get("apiGroups") or ()
        if group not in groups and ALL not in groups:
            continue
        asked = Attributes("", group, "", plural, subresource, False, "", "")
        if any(_resource_matches(pattern, asked) for pattern in rule.get("resources") or ()):
            return True
    return False


def constraints_match(constraints: Json, asked: Attributes) -> bool:
    """Say whether the rules of MatchResources are about a request."""
    exact = constraints.get("matchPolicy") == "Exact"
    rules = constraints.get("resourceRules")
    if rules and not any(rule_matches(rule, asked, exact=exact) for rule in rules):
        return False
    excluded = constraints.get("excludeResourceRules") or ()
    return not any(rule_matches(rule, asked, exact=exact) for rule in excluded)


def kind_asked_for(constraints: Json, call: Call) -> Kind | None:
    """Return the version a write is to be shown in: its own, or an equal one that the rules name; None for none."""
    kind = call.kind
    rules = constraints.get("resourceRules") or ()
    group, plural = kind.group, kind.plural
    about = [
        rule for rule in rules if could_match({"resourceRules": [rule]}, group, plural, call.subresource)
    ]
    named = [version for rule in about for version in rule.get("apiVersions") or ()]
    if not rules or kind.version in named or ALL in named:
        return kind
    if constraints.get("matchPolicy") == "Exact":
        return None
    found = (call.cluster.catalog.find(group, version, plural) for version in named)
    return next((one for one in found if one is not None), None)


def selectors_match(
    constraints: Json, objects: tuple[Json | None, Json | None], namespace_labels: dict[str, str] | None
) -> bool:
    """Say whether the selectors of MatchResources hold for a request's objects and its namespace."""
    wanted = constraints.get("namespaceSelector")
    if wanted and namespace_labels is not None and not selector_matches(wanted, namespace_labels):
        return False
    wanted = constraints.get("objectSelector")
    if not wanted:
        return True
    return any(
        obj is not None and selector_matches(wanted, obj["metadata"].get("labels") or {}) for obj in objects
    )
