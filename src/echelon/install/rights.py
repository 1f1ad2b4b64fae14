"""The exact rights of the agents: the one place where they stand; `echelon install` and the Helm charts are made from it.

The hub agent reads everything, because anything may be placed; it writes only its own kinds, the namespaces and
roles of members, its lease and Events. It never holds `escalate`: it grants members only what it holds itself.
"""

from __future__ import annotations

from typing import Any

from echelon.api.names import CLUSTER_GROUP, FLEET_SYSTEM_NAMESPACE, INVENTORY_GROUP, PLACEMENT_GROUP

RBAC = "rbac.authorization.k8s.io"
HUB_AGENT = "echelon-hub-agent"
MEMBER_AGENT = "echelon-member-agent"
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete")

# People own these; the engine adds finalizers and writes status.
PEOPLES = (
    "clusterresourceplacements",
    "resourceplacements",
    "clusterresourceoverrides",
    "resourceoverrides",
    "clusterstagedupdateruns",
    "stagedupdateruns",
)
# People own these and nothing of the engine is written on them.
ONLY_READ = (
    "clusterstagedupdatestrategies",
    "stagedupdatestrategies",
    "clusterresourceenvelopes",
    "resourceenvelopes",
    "clusterresourceplacementdisruptionbudgets",
)
# The engine makes these and removes them again.
ENGINES = (
    "clusterschedulingpolicysnapshots",
    "schedulingpolicysnapshots",
    "clusterresourcesnapshots",
    "resourcesnapshots",
    "clusterresourceoverridesnapshots",
    "resourceoverridesnapshots",
    "clusterresourcebindings",
    "resourcebindings",
    "works",
    "clusterapprovalrequests",
    "approvalrequests",
    "clusterresourceplacementstatuses",
    "clusterresourceplacementevictions",
)


def rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...], *names: str) -> dict[str, Any]:
    """Write one RBAC rule."""
    found: dict[str, Any] = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        found["resourceNames"] = list(names)
    return found


def status(resources: tuple[str, ...]) -> tuple[str, ...]:
    """Name the status subresources."""
    return tuple(f"{resource}/status" for resource in resources)


def finalizers(resources: tuple[str, ...]) -> tuple[str, ...]:
    """Name the finalizers subresources, which a server with owner-reference enforcement asks for."""
    return tuple(f"{resource}/finalizers" for resource in resources)


def hub_rules() -> list[dict[str, Any]]:
    """Return the cluster-wide rules of the hub agent."""
    return [
        rule("*", ("*",), READ),
        rule(PLACEMENT_GROUP, PEOPLES, ("update", "patch")),
        rule(PLACEMENT_GROUP, status(PEOPLES + ENGINES), ("get", "update", "patch")),
        rule(PLACEMENT_GROUP, finalizers(PEOPLES), ("update",)),
        rule(PLACEMENT_GROUP, ENGINES, WRITE),
        rule(CLUSTER_GROUP, ("memberclusters",), ("update", "patch")),
        rule(CLUSTER_GROUP, ("memberclusters/finalizers",), ("update",)),
        rule(CLUSTER_GROUP, ("internalmemberclusters",), WRITE),
        rule(CLUSTER_GROUP, status(("memberclusters", "internalmemberclusters")), ("get", "update", "patch")),
        rule(INVENTORY_GROUP, ("clusterprofiles",), WRITE),
        rule(INVENTORY_GROUP, ("clusterprofiles/status",), ("get", "update", "patch")),
        rule("", ("namespaces",), ("create", "update", "patch", "delete")),
        rule(RBAC, ("roles", "rolebindings"), WRITE),
        rule("", ("events",), ("create", "patch")),
        rule("coordination.k8s.io", ("leases",), ("create", "get", "update")),
        rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
        rule("*", ("*/status",), ("patch",)),  # reportBackStrategy: the status of whatever is placed
    ]


def member_rules() -> list[dict[str, Any]]:
    """Return the rules of the member agent on its own cluster: it applies whatever the hub placed there."""
    return [
        rule("*", ("*",), (*READ, *WRITE)),
        rule(RBAC, ("roles", "clusterroles"), ("bind", "escalate")),
        {"nonResourceURLs": ["/readyz", "/version"], "verbs": ["get"]},
    ]


def account(name: str, namespace: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a service account and what it may do."""
    meta = {"labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "echelon"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, **meta},
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, **meta},
            "rules": rules,
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, **meta},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]


def hub_account(namespace: str = FLEET_SYSTEM_NAMESPACE) -> list[dict[str, Any]]:
    """Return the hub agent's account and rights."""
    return [*account(HUB_AGENT, namespace, hub_rules()), *own_namespace(HUB_AGENT, namespace)]


def own_namespace(name: str, namespace: str) -> list[dict[str, Any]]:
    """Return what an account may do in its own namespace only: make the key that seals Secrets in history."""
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "echelon"},
    }
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [rule("", ("secrets",), ("create",))],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]


def member_account(namespace: str = FLEET_SYSTEM_NAMESPACE) -> list[dict[str, Any]]:
    """Return the member agent's account and rights on its own cluster."""
    return account(MEMBER_AGENT, namespace, member_rules())
