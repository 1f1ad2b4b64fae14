"""Ten clusters of the contract's scheduler scenarios, and a scheduler driven over the pretend store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from echelon.api import names, own
from echelon.api.scope import Scope
from echelon.api.snapshot import PolicySnapshot
from echelon.rules.plan import Plan
from echelon.rules.policy_snapshots import plan_policy_snapshot
from echelon.rules.schedule import Seen, schedule
from echelon.rules.snapshot_index import latest_policy_snapshot
from tests.rules.pretend import Store, a_cluster, a_placement, namespace_of

HEALTHY = {
    "cluster-1-east-prod": ("east", "prod"),
    "cluster-2-east-prod": ("east", "prod"),
    "cluster-3-east-canary": ("east", "canary"),
    "cluster-4-central-prod": ("central", "prod"),
    "cluster-5-central-prod": ("central", "prod"),
    "cluster-6-west-prod": ("west", "prod"),
    "cluster-7-west-canary": ("west", "canary"),
}
UNHEALTHY, LEFT = "unhealthy-cluster-east-prod", "left-cluster-central-prod"


def full(numbers: str) -> list[str]:
    """Write clusters by their numbers: "76" is clusters 7 and 6."""
    return [next(name for name in HEALTHY if name.startswith(f"cluster-{n}-")) for n in numbers]


class Desk:
    """One placement in a fleet, and the scheduler."""

    def __init__(self, scope: Scope, policy: Mapping[str, Any] | None = None, **spec: Any) -> None:
        self.scope = scope
        self.store = Store()
        self.store.put(scope.placement, a_placement(scope, policy, **spec))
        self.refresh_policy()

    def with_fleet_b(self) -> Desk:
        for name, (region, env) in HEALTHY.items():
            self.cluster(name, {"region": region, "env": env})
        self.cluster(UNHEALTHY, {"region": "east", "env": "prod"}, health="sick")
        self.cluster(LEFT, {"region": "central", "env": "prod"}, health="unjoined")
        return self

    def cluster(self, name: str, labels: Mapping[str, str] | None = None, **more: Any) -> None:
        """Add a cluster, or put it anew."""
        self.store.objects.pop(("memberclusters", "", name), None)
        self.store.put(own.MEMBER_CLUSTERS, a_cluster(name, labels, **more))

    def lose(self, name: str) -> None:
        del self.store.objects["memberclusters", "", name]

    def edit(self, **spec: Any) -> None:
        """Edit the placement, and carry the policy over to its snapshot."""
        self.store.edit(self.scope.placement, "p", {"spec": spec}, namespace_of(self.scope))
        self.refresh_policy()

    def refresh_policy(self) -> None:
        plan = plan_policy_snapshot(
            self.scope, self.store.placement(self.scope), self.store.snapshots(self.scope)
        )
        self.store.perform(Plan(steps=plan.steps))

    def seen(self) -> Seen:
        return Seen(
            scope=self.scope,
            placement=self.store.placement(self.scope),
            snapshots=self.store.snapshots(self.scope),
            bindings=self.store.bindings(self.scope),
            clusters=self.store.clusters(),
        )

    def cycle(self) -> None:
        """Run a cycle, then another that must find nothing to do."""
        self.store.perform(schedule(self.seen(), self.store.now))
        again = schedule(self.seen(), self.store.now)
        assert not again.steps, again
        assert again.status is None, again

    @property
    def snapshot(self) -> PolicySnapshot:
        found = latest_policy_snapshot(self.store.snapshots(self.scope))
        assert found is not None
        return found

    def held(self) -> dict[str, str]:
        """Return cluster → state of the live bindings."""
        live = [b for b in self.store.bindings(self.scope) if not b.metadata.is_deleting]
        return {binding.spec.target_cluster: binding.spec.state for binding in live}

    def picked(self) -> dict[str, tuple[int, int]]:
        """Return cluster → (affinity, spread) of the selected decisions, in order."""
        return {d.cluster_name: _score(d) for d in self.decisions() if d.selected}

    def outranked(self) -> dict[str, tuple[int, int]]:
        return {
            d.cluster_name: _score(d)
            for d in self.decisions()
            if not d.selected and d.cluster_score is not None
        }

    def filtered(self) -> dict[str, str]:
        return {
            d.cluster_name: d.reason for d in self.decisions() if not d.selected and d.cluster_score is None
        }

    def decisions(self) -> list[Any]:
        status = self.snapshot.status
        return list(status.cluster_decisions) if status else []

    def verdict(self) -> tuple[str, str, str]:
        status = self.snapshot.status
        assert status is not None
        found = status.conditions[0]
        return found.status, found.reason, found.message

    def bind_all(self) -> None:
        for binding in self.store.bindings(self.scope):
            if binding.spec.state == names.BindingState.SCHEDULED:
                spec = {"state": "Bound", "resourceSnapshotName": "p-0-snapshot"}
                self.store.edit(self.scope.binding, binding.name, {"spec": spec}, binding.namespace)


def _score(decision: Any) -> tuple[int, int]:
    score = decision.cluster_score
    return (score.affinity_score or 0, score.priority_score or 0) if score else (0, 0)


def pick_n(count: int, **more: Any) -> dict[str, Any]:
    return {"placementType": "PickN", "numberOfClusters": count, **more}


def pick_fixed(*clusters: str) -> dict[str, Any]:
    return {"placementType": "PickFixed", "clusterNames": list(clusters)}


def required(*terms: Mapping[str, Any]) -> dict[str, Any]:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"clusterAffinity": {key: {"clusterSelectorTerms": list(terms)}}}


def preferred(*terms: tuple[int, Mapping[str, Any]]) -> dict[str, Any]:
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    return {"clusterAffinity": {key: [{"weight": weight, "preference": term} for weight, term in terms]}}


def both(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    return {"clusterAffinity": {**left["clusterAffinity"], **right["clusterAffinity"]}}


def labelled(**labels: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}}


def compared(*demands: tuple[str, str, str]) -> dict[str, Any]:
    rows = [{"name": name, "operator": operator, "values": [value]} for name, operator, value in demands]
    return {"propertySelector": {"matchExpressions": rows}}


def sorted_by(name: str, order: str) -> dict[str, Any]:
    return {"propertySorter": {"name": name, "sortOrder": order}}


def spread(key: str, action: str = "DoNotSchedule", max_skew: int = 1) -> dict[str, Any]:
    return {"topologyKey": key, "whenUnsatisfiable": action, "maxSkew": max_skew}
