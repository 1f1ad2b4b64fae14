"""What the guides' stories are made of, once for both scopes: an application, its placement, a strategy, runs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import yaml

from tests.live import Live

API = "placement.kubernetes-fleet.io/v1beta1"


class Words(NamedTuple):
    """What the kinds of a scope are called."""

    scope: str
    run: str
    run_kind: str
    placement: str
    placement_kind: str
    strategy_kind: str
    bindings: str
    approvals: str


CLUSTER = Words(
    "cluster",
    "csur",
    "ClusterStagedUpdateRun",
    "crp",
    "ClusterResourcePlacement",
    "ClusterStagedUpdateStrategy",
    "clusterresourcebindings",
    "clusterapprovalrequests",
)
NAMESPACED = Words(
    "namespaced",
    "sur",
    "StagedUpdateRun",
    "rp",
    "ResourcePlacement",
    "StagedUpdateStrategy",
    "resourcebindings",
    "approvalrequests",
)


class Story:
    """One application in a namespace of its own, placed on all members by an External placement."""

    def __init__(self, live: Live, words: Words, name: str) -> None:
        self.live, self.words = live, words
        self.space = f"{name}-{words.scope[:2]}"
        self.placement, self.strategy = f"{self.space}-placement", f"{self.space}-strategy"
        self.at = ["-n", self.space] if words is NAMESPACED else []

    def manifest(self, kind: str, name: str, spec: dict[str, Any]) -> str:
        meta = {"name": name, **({"namespace": self.space} if self.at else {})}
        return yaml.safe_dump({"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec})

    def prepare(self, stages: list[dict[str, Any]] | None = None, replicas: int = 3) -> None:
        """Apply the application, its placement and the strategy, and wait for the scheduler."""
        self.live.apply(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space}})
        )
        self.deploy("nginx:1.27", replicas)
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": self.space}
        if self.at:  # members need the namespace before anything can be placed in it
            carrier = {"resourceSelectors": [{**selector, "selectionScope": "NamespaceOnly"}]}
            body = {
                "apiVersion": API,
                "kind": "ClusterResourcePlacement",
                "metadata": {"name": self.space},
                "spec": carrier,
            }
            self.live.apply(yaml.safe_dump(body))
            self.live.wait(f"crp/{self.space}", "ClusterResourcePlacementAvailable")
            selector = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx-deployment"}
        spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
        self.live.apply(self.manifest(self.words.placement_kind, self.placement, spec))
        self.live.wait(
            f"{self.words.placement}/{self.placement}", f"{self.words.placement_kind}Scheduled", *self.at
        )
        self.set_stages(stages or two_stages())

    def set_stages(self, stages: list[dict[str, Any]]) -> None:
        self.live.apply(self.manifest(self.words.strategy_kind, self.strategy, {"stages": stages}))

    def deploy(self, image: str, replicas: int = 3) -> None:
        labels = {"app": "nginx"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": image}]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        meta = {"name": "nginx-deployment", "namespace": self.space}
        self.live.apply(
            yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
        )

    def run(self, name: str) -> str:
        """Cluster-scoped runs share one space of names; each story has its own."""
        return f"{self.space}-{name}"

    def start(self, name: str, state: str | None = "Run", index: str | None = None) -> None:
        spec: dict[str, Any] = {"placementName": self.placement, "stagedRolloutStrategyName": self.strategy}
        if state is not None:
            spec["state"] = state
        if index is not None:
            spec["resourceSnapshotIndex"] = index
        self.live.apply(self.manifest(self.words.run_kind, self.run(name), spec))

    def set_state(self, name: str, state: str, *, ok: bool = True) -> str:
        patch = json.dumps({"spec": {"state": state}})
        return self.live.kubectl(
            "patch", self.words.run, self.run(name), *self.at, "--type=merge", "-p", patch, ok=ok
        )

    def wait(self, run: str, condition: str) -> str:
        return self.live.wait(f"{self.words.run}/{self.run(run)}", condition, *self.at)

    def wait_reason(self, run: str, type_: str, reason: str) -> None:
        path = f"{{.status.conditions[?(@.type=='{type_}')].reason}}={reason}"
        self.live.kubectl(
            "wait", f"{self.words.run}/{self.run(run)}", *self.at, f"--for=jsonpath={path}", "--timeout=60s"
        )

    def get(self, what: str, name: str = "", *more: str) -> str:
        return self.live.kubectl("get", what, *([name] if name else []), *self.at, *more)

    def json(self, what: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get(what, name, "-o", "json"))
        return found

    def run_json(self, name: str) -> dict[str, Any]:
        return self.json(self.words.run, self.run(name))

    def describe(self, what: str, name: str) -> str:
        return self.live.kubectl("describe", what, name, *self.at)

    def row(self, run: str) -> dict[str, str]:
        """Return the columns of `kubectl get csur|sur NAME` by their heads, as a person reads them."""
        head, line = self.get(self.words.run, self.run(run)).splitlines()
        starts = [head.index(word) for word in head.split()]
        return {
            word: line[start:end].strip()
            for word, start, end in zip(head.split(), starts, [*starts[1:], None], strict=True)
        }

    def message(self, run: str, type_: str) -> str:
        conditions = self.run_json(run)["status"]["conditions"]
        return next((one["message"] for one in conditions if one["type"] == type_), "")

    def pods(self, member: str) -> str:
        return self.live.kubectl("get", "pods", "-n", self.space, context=member)

    def approve(self, request: str, generation: int = 1) -> None:
        """Approve the way the guides do."""
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "approved",
            "message": "approved",
            "lastTransitionTime": "2026-01-09T02:33:15Z",
            "observedGeneration": generation,
        }
        patch = json.dumps({"status": {"conditions": [condition]}})
        self.live.kubectl(
            "patch",
            self.words.approvals,
            request,
            *self.at,
            "--type=merge",
            "-p",
            patch,
            "--subresource=status",
        )


def two_stages(**staging: Any) -> list[dict[str, Any]]:
    """The guides' strategy: member2 in staging, the others in canary."""
    return [
        {"name": "staging", "labelSelector": {"matchLabels": {"environment": "staging"}}, **staging},
        {"name": "canary", "labelSelector": {"matchLabels": {"environment": "canary"}}, "maxConcurrency": 2},
    ]
