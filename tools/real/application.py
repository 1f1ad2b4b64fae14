"""What chaos rolls out: an application in one namespace, its placement, two stages, and the runs."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
NAME = "chaos"
MAX_CONCURRENCY = 1
FAKE_CONCURRENCY = "10%"


def deployment(version: str) -> Json:
    """Returns the application."""
    template = {
        "metadata": {"labels": {"app": NAME}},
        "spec": {"containers": [{"name": "app", "image": f"example.com/app:{version}"}]},
    }
    selector = {"matchLabels": {"app": NAME}}
    return {"metadata": {"name": NAME}, "spec": {"replicas": 2, "selector": selector, "template": template}}


def _fleet(kind: str, name: str, spec: Json) -> Json:
    """Returns an object of the fleet's."""
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def placement() -> Json:
    """Returns the placement on all members."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": NAME}
    return _fleet(
        "ClusterResourcePlacement", NAME, {"resourceSelectors": [selector], "strategy": {"type": "External"}}
    )


def config_map(number: int, version: str) -> Json:
    """Returns one of the many objects beside the application."""
    return {"metadata": {"name": f"settings{number:04}"}, "data": {"version": version}}


def strategy(has_fakes: bool) -> Json:
    """Returns two stages, one cluster at a time; pretended members come after them, a tenth at a time."""
    stages: list[Json] = [
        {"name": stage, "labelSelector": {"matchLabels": {NAME: stage}}, "maxConcurrency": MAX_CONCURRENCY}
        for stage in ("canary", "prod")
    ]
    if has_fakes:
        selector = {"matchLabels": {NAME: "fake"}}
        stages.append({"name": "fake", "labelSelector": selector, "maxConcurrency": FAKE_CONCURRENCY})
    return _fleet("ClusterStagedUpdateStrategy", NAME, {"stages": stages})


def staged_run(name: str) -> Json:
    """Returns a run of what is there now: its snapshot is taken when it begins."""
    spec = {
        "placementName": NAME,
        "stagedRolloutStrategyName": NAME,
        "state": "Run",
    }
    return _fleet("ClusterStagedUpdateRun", name, spec)
