"""Everything `echelon install` puts into a cluster, in the order in which it can be applied."""

from __future__ import annotations

from typing import Any

from echelon.api.crds import crds
from echelon.api.own import APPLIED_WORKS
from echelon.install.authors import authors
from echelon.install.policies import policies
from echelon.install.reading import reading
from echelon.install.rights import hub_account, member_account
from echelon.install.workload import Values, hub_deployment, member_deployment


def namespace(name: str) -> dict[str, Any]:
    """Return the namespace of the agents."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def hub_definitions() -> list[dict[str, Any]]:
    """Return the definitions a hub needs: all but the member's own record."""
    return [crd for crd in crds() if crd["spec"]["names"]["kind"] != APPLIED_WORKS.kind]


def member_definitions() -> list[dict[str, Any]]:
    """Return the one definition a member needs."""
    return [crd for crd in crds() if crd["spec"]["names"]["kind"] == APPLIED_WORKS.kind]


def hub_policies(namespace: str) -> list[dict[str, Any]]:
    """Return the admission policies of a hub."""
    return [*policies(namespace), *reading(), *authors(namespace)]


def hub_manifests(values: Values) -> list[dict[str, Any]]:
    """Return everything of a hub."""
    return [
        namespace(values.namespace),
        *hub_definitions(),
        *hub_account(values.namespace),
        *hub_policies(values.namespace),
        hub_deployment(values),
    ]


def member_manifests(values: Values) -> list[dict[str, Any]]:
    """Return everything of a member."""
    return [
        namespace(values.namespace),
        *member_definitions(),
        *member_account(values.namespace),
        member_deployment(values),
    ]
