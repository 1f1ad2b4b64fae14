"""From a method and a path to what is asked of which resource.

Follows kube-apiserver's RequestInfo: the verb that RBAC judges, the logical
cluster, the namespace, the name and the subresource. It decides nothing about
whether the resource exists or the caller may.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from echelon.hub.status import bad_request, no_such_resource

CLUSTERS = "clusters"
HUB = "hub"
MAX_PATH = 4096
"""Longest path taken: names and namespaces are at most 253 characters each."""

_VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
    "HEAD": "get",
}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
FALSE = frozenset({"false", "0"})


@dataclass(slots=True)
class Target:
    """What a request asks for."""

    cluster: str
    path: str
    """The path inside the logical cluster."""
    verb: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows the subresource (proxy paths)."""

    @property
    def is_resource(self) -> bool:
        """Say whether this is about objects, and not discovery or health."""
        return bool(self.plural)


def route(method: str, path: str, query: dict[str, list[str]]) -> Target:
    """Work out what is asked."""
    if len(path) > MAX_PATH:
        raise bad_request("request path is too long")
    cluster, inner = split_cluster(path)
    parts = inner.strip("/").split("/")
    verb = _VERBS.get(method, "")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = unquote(parts[1]), parts[2:]
    else:
        return Target(cluster, inner, method.lower())
    if len(rest) < 2 or not all(rest[:2]):
        return Target(cluster, inner, method.lower())
    target = Target(cluster, inner, verb, group, unquote(rest[0]))
    _fill(target, [unquote(part) for part in rest[1:]])
    if verb == "get" and not target.name:
        target.verb = "watch" if is_true(query, "watch") else "list"
    elif verb == "get" and is_true(query, "watch") and not target.subresource:
        target.verb = "watch"
    elif verb == "delete" and not target.name:
        target.verb = "deletecollection"
    return target


def _fill(target: Target, parts: list[str]) -> None:
    if parts[0] == "watch" and len(parts) > 1:  # the old /watch/ paths
        target.verb = "watch"
        parts = parts[1:]
    if parts[0] == "namespaces" and not target.group:
        if len(parts) == 1 or (len(parts) == 2 and parts[1]):
            target.plural = "namespaces"
            target.name = parts[1] if len(parts) > 1 else ""
            target.namespace = target.name
            return
        if len(parts) == 3 and parts[2] in _NAMESPACE_SUBRESOURCES:
            target.plural, target.name, target.subresource = "namespaces", parts[1], parts[2]
            target.namespace = target.name
            return
    if parts[0] == "namespaces" and len(parts) > 2:
        target.namespace = parts[1]
        parts = parts[2:]
    target.plural = parts[0]
    if len(parts) > 1:
        target.name = parts[1]
    if len(parts) > 2:
        target.subresource = parts[2]
    if len(parts) > 3:
        target.rest = "/".join(parts[3:])
    if target.name in {".", ".."}:
        raise bad_request(f"Name parameter invalid: \"{target.name}\": may not be '{target.name}'")
    if any("/" in part for part in (target.namespace, target.plural, target.name)):
        raise no_such_resource()


def split_cluster(path: str) -> tuple[str, str]:
    """Return the logical cluster a path belongs to and the path inside it."""
    if path.startswith("/clusters/"):
        name, _, inner = path[len("/clusters/") :].partition("/")
        return unquote(name), "/" + inner
    return HUB, path


def is_true(query: dict[str, list[str]], name: str) -> bool:
    """Say whether a query parameter is set: as in kube-apiserver, to anything but false and 0."""
    values = query.get(name)
    return bool(values) and values[0].lower() not in FALSE  # type: ignore[index]
