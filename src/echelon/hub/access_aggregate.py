"""Aggregated ClusterRoles: their rules are those of the roles their selectors match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub import access
from echelon.hub.internal import call_for, replace
from echelon.hub.label_selector import matches

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]


def aggregate(hub: Hub, cluster: Cluster) -> None:
    """Bring every aggregated role of a cluster up to date."""
    table = hub.store.table(cluster.name, access.CLUSTER_ROLES)
    roles = {key: msgspec.json.decode(table.live[key].body) for key in list(table.keys())}
    kind = cluster.catalog.by_resource(access.CLUSTER_ROLES)
    assert kind is not None
    for key, role in roles.items():
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
        entry = table.head(key)
        if not selectors or entry is None:
            continue
        rules: list[Json] = []
        for name, other in roles.items():
            labels = other["metadata"].get("labels") or {}
            if name != key and any(matches(selector, labels) for selector in selectors):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
        if rules != (role.get("rules") or []):
            old = kind.read(entry.body)
            call = call_for(hub, cluster, kind, key, "patch", "clusterrole-aggregation-controller")
            replace(call, old, {**old, "rules": rules or None}, entry)
