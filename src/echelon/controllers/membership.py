"""MemberClusters: watches everything that belongs to a member on the hub, loads it, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api import builtin
from echelon.api.names import member_namespace, member_of_namespace, member_role, member_role_binding
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from echelon.client.cache import Cache
from echelon.rules import membership
from echelon.rules.plan import Key, Plan
from echelon.runtime.controller import Watch, each
from echelon.runtime.member_metrics import MemberMetrics


def _meta(old: Any | None, new: Any | None) -> Any:
    obj: Any = new if new is not None else old
    return obj["metadata"] if isinstance(obj, dict) else obj.metadata


def _of_namespaced(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Return the member whose namespace an object is in."""
    meta = _meta(old, new)
    namespace = meta.get("namespace") if isinstance(meta, dict) else meta.namespace
    member = member_of_namespace(namespace or "")
    return (Key(None, member),) if member else ()


def _of_namespace(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Return the member a namespace belongs to."""
    member = member_of_namespace(_meta(old, new)["name"])
    return (Key(None, member),) if member else ()


def _namespace_of(obj: Any) -> tuple[str | None, ...]:
    return (obj.metadata.namespace,)


class Membership:
    """Loads one member and everything that belongs to it."""

    name = "membercluster"
    workers = 4

    def __init__(
        self,
        cache: Cache,
        options: membership.Options | None = None,
        metrics: MemberMetrics | None = None,
    ) -> None:
        self.options = options or membership.Options()
        self._members = cache.store(MEMBER_CLUSTERS)
        if metrics is not None:
            self._members.subscribe(metrics.sees)
        self._desks = cache.store(INTERNAL_MEMBER_CLUSTERS)
        self._namespaces = cache.store(builtin.NAMESPACES)
        self._roles = cache.store(builtin.ROLES)
        self._role_bindings = cache.store(builtin.ROLE_BINDINGS)
        self._works = cache.store(WORKS)
        self._works.add_index("namespace", _namespace_of)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow the members and what belongs to them."""
        return (
            each(MEMBER_CLUSTERS),
            Watch(INTERNAL_MEMBER_CLUSTERS, _of_namespaced),
            Watch(builtin.NAMESPACES, _of_namespace),
            Watch(builtin.ROLES, _of_namespaced),
            Watch(builtin.ROLE_BINDINGS, _of_namespaced),
            Watch(WORKS, self._of_leaving),
        )

    def _of_leaving(self, old: Any | None, new: Any | None) -> Iterable[Key]:
        """Return the member a Work belongs to, if it is about to leave."""
        for key in _of_namespaced(old, new):
            member = self._members.get(key.name)
            if member is not None and member.metadata.is_deleting:
                yield key

    async def load(self, key: Key) -> membership.Seen | None:
        """Gather one member."""
        member = self._members.get(key.name)
        if member is None:
            return None
        namespace = member_namespace(key.name)
        return membership.Seen(
            member=member,
            desk=self._desks.get(key.name, namespace),
            namespace=self._namespaces.get(namespace),
            role=self._roles.get(member_role(key.name), namespace),
            role_binding=self._role_bindings.get(member_role_binding(key.name), namespace),
            works=tuple(self._works.by("namespace", namespace)) if member.metadata.is_deleting else (),
            options=self.options,
        )

    def decide(self, seen: membership.Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return membership.step(seen, now)
