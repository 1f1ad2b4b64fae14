"""Who may do what in one logical cluster: RBAC over its own roles and bindings.

Bindings are indexed by subject and roles compiled once; both follow the store's
writes, so a binding counts from the moment it is durable. Decisions are
remembered until any role or binding of the cluster changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub.access_rules import Attributes, Rule
from echelon.hub.call import MASTERS, User
from echelon.hub.gotext import quote
from echelon.hub.status import StatusError, forbidden

if TYPE_CHECKING:
    from echelon.hub.store import Event, Store, Table

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
ROLES = f"{GROUP}/roles"
CLUSTER_ROLES = f"{GROUP}/clusterroles"
ROLE_BINDINGS = f"{GROUP}/rolebindings"
CLUSTER_ROLE_BINDINGS = f"{GROUP}/clusterrolebindings"
RESOURCES = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})

MAX_REMEMBERED = 50_000
"""Decisions kept: a few hundred bytes each; beyond it they are simply made again."""

_decode = msgspec.json.Decoder().decode
RoleKey = tuple[str, str]
"""Resource and key of a role."""


class Access:
    """The authoriser of one logical cluster."""

    __slots__ = ("_bound", "_decisions", "_roles", "_rules", "_subjects", "_tables")

    def __init__(self, store: Store, cluster: str) -> None:
        self._tables: dict[str, Table] = {resource: store.table(cluster, resource) for resource in RESOURCES}
        self._subjects: dict[str, dict[str, dict[str, RoleKey]]] = {}
        """Namespace ("" for the whole cluster) -> subject -> binding -> role."""
        self._bound: dict[tuple[str, str], list[str]] = {}
        self._roles: dict[RoleKey, list[Rule]] = {}
        self._rules: dict[tuple[User, str], tuple[list[Rule], list[str]]] = {}
        self._decisions: dict[tuple[User, Attributes], bool] = {}
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for entry in self._tables[resource].live.values():
                self._bind(resource, entry.key, entry.body)

    def observe(self, event: Event) -> None:
        """Follow a write to a role or binding."""
        resource, key = event.table.resource, event.entry.key
        if resource in {ROLES, CLUSTER_ROLES}:
            self._roles.pop((resource, key), None)
        else:
            self._unbind(resource, key)
            if event.kind != "DELETED":
                self._bind(resource, key, event.entry.body)
        self._rules.clear()
        self._decisions.clear()

    def allows(self, user: User, wanted: Attributes) -> bool:
        """Say whether a user may."""
        if MASTERS in user.groups:
            return True
        known = self._decisions.get((user, wanted))
        if known is not None:
            return known
        rules, _ = self.rules_of(user, wanted.namespace)
        allowed = any(rule.allows(wanted) for rule in rules)
        if len(self._decisions) >= MAX_REMEMBERED:
            self._decisions.clear()
        self._decisions[user, wanted] = allowed
        return allowed

    def check(self, user: User, wanted: Attributes) -> None:
        """Refuse what a user may not do."""
        if not self.allows(user, wanted):
            raise refusal(user, wanted, self.reason(user, wanted.namespace))

    def explain(self, user: User, wanted: Attributes) -> tuple[bool, str]:
        """Return whether a user may, and by which binding, as an access review tells it."""
        if MASTERS in user.groups:
            return True, ""
        for subject in [f"u:{user.name}", *(f"g:{group}" for group in user.groups)]:
            for scope in ("", wanted.namespace) if wanted.namespace else ("",):
                bindings = self._subjects.get(scope, {}).get(subject, _NOTHING)
                for key in sorted(bindings):
                    resource, role = bindings[key]
                    if any(rule.allows(wanted) for rule in self.role_rules(resource, role) or ()):
                        return True, _allowed_by(scope, key, resource, role, subject)
        return False, self.reason(user, wanted.namespace)

    def reason(self, user: User, namespace: str) -> str:
        """Return what the refusal says beside the refusal: roles that are bound and do not exist."""
        _, missing = self.rules_of(user, namespace)
        if not missing:
            return ""
        return "RBAC: " + (missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]")

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """Return the rules that apply to a user in a namespace, and the roles that could not be found."""
        found = self._rules.get((user, namespace))
        if found is None:
            if len(self._rules) >= MAX_REMEMBERED:
                self._rules.clear()
            found = self._rules[user, namespace] = self._gather(user, namespace)
        return found

    def role_rules(self, resource: str, key: str) -> list[Rule] | None:
        """Return the rules of a role, None if it does not exist."""
        rules = self._roles.get((resource, key))
        if rules is None:
            entry = self._tables[resource].live.get(key)
            if entry is None:
                return None
            rules = [Rule(wire) for wire in _decode(entry.body).get("rules") or ()]
            self._roles[resource, key] = rules
        return rules

    def _gather(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        rules: list[Rule] = []
        missing: list[str] = []
        subjects = [f"u:{user.name}", *(f"g:{group}" for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            bindings = self._subjects.get(scope)
            if not bindings:
                continue
            roles = dict.fromkeys(
                role for subject in subjects for role in bindings.get(subject, _NOTHING).values()
            )
            for resource, key in roles:
                found = self.role_rules(resource, key)
                if found is not None:
                    rules += found
                    continue
                plural = resource.rpartition("/")[2]
                kind = plural[:-1]
                missing.append(f"{kind}.{GROUP} {quote(key.rpartition('/')[2])} not found")
        return rules, missing

    def _bind(self, resource: str, key: str, body: bytes) -> None:
        binding = _decode(body)
        namespace = key.partition("/")[0] if resource == ROLE_BINDINGS else ""
        ref = binding.get("roleRef") or {}
        name = ref.get("name", "")
        role = (CLUSTER_ROLES, name) if ref.get("kind") == "ClusterRole" else (ROLES, f"{namespace}/{name}")
        subjects = [text for text in map(_subject, binding.get("subjects") or ()) if text]
        self._bound[resource, key] = subjects
        index = self._subjects.setdefault(namespace, {})
        for subject in subjects:
            index.setdefault(subject, {})[key] = role

    def _unbind(self, resource: str, key: str) -> None:
        namespace = key.partition("/")[0] if resource == ROLE_BINDINGS else ""
        index = self._subjects.get(namespace, {})
        for subject in self._bound.pop((resource, key), ()):
            bindings = index.get(subject)
            if bindings is not None:
                bindings.pop(key, None)
                if not bindings:
                    del index[subject]
        if not index:
            self._subjects.pop(namespace, None)


_NOTHING: dict[str, RoleKey] = {}


def _allowed_by(scope: str, binding: str, resource: str, role: str, subject: str) -> str:
    namespace, _, name = binding.rpartition("/")
    what = f'RoleBinding "{name}/{namespace}"' if scope else f'ClusterRoleBinding "{name}"'
    kind = "ClusterRole" if resource == CLUSTER_ROLES else "Role"
    who = f'{"User" if subject[0] == "u" else "Group"} "{subject[2:]}"'
    if subject.startswith("u:system:serviceaccount:"):
        _, _, _, owner, account = subject.split(":", 4)
        who = f'ServiceAccount "{account}/{owner}"'
    return f'RBAC: allowed by {what} of {kind} "{role.rpartition("/")[2]}" to {who}'


def _subject(wire: Json) -> str:
    kind, name = wire.get("kind"), wire.get("name", "")
    if kind == "User":
        return f"u:{name}"
    if kind == "Group":
        return f"g:{name}"
    if kind == "ServiceAccount":
        return f"u:system:serviceaccount:{wire.get('namespace', '')}:{name}"
    return ""


def refusal(user: User, wanted: Attributes, reason: str = "") -> StatusError:
    """Answer that a user may not, in kube-apiserver's words."""
    suffix = f": {reason}" if reason else ""
    who = f"User {quote(user.name)} cannot {wanted.verb}"
    if wanted.path:
        return forbidden("", "", "", f"{who} path {quote(wanted.path)}{suffix}")
    where = f"in the namespace {quote(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
    why = f"{who} resource {quote(wanted.combined)} in API group {quote(wanted.group)} {where}{suffix}"
    return forbidden(wanted.group, wanted.resource, wanted.name, why)
