"""The thread from end to end, as a newcomer pulls it: kubectl, a placement, a staged run, running pods on members."""

import json

import pytest

from tests.live import live  # noqa: F401 - a fixture

pytestmark = pytest.mark.kubectl

APPLICATION = """
apiVersion: v1
kind: Namespace
metadata: {name: test-namespace}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: test-namespace}
data: {colour: green}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: test-namespace}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1.27"}]
"""
PLACEMENT = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: example-placement}
spec:
  resourceSelectors:
  - {group: "", kind: Namespace, version: v1, name: test-namespace}
  policy: {placementType: PickAll}
  strategy: {type: External}
"""
STRATEGY = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: example-strategy}
spec:
  stages:
  - name: canary
    labelSelector: {matchLabels: {environment: canary}}
  - name: production
    labelSelector: {matchLabels: {environment: production}}
    maxConcurrency: 2
"""
RUN = """
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: example-run}
spec:
  placementName: example-placement
  stagedRolloutStrategyName: example-strategy
  state: Run
"""


def test_a_two_stage_run_updates_three_members_and_kubectl_shows_it(live):
    live.kubectl("label", "membercluster", "member1", "environment=canary")
    live.kubectl("label", "membercluster", "member2", "member3", "environment=production")
    live.apply(APPLICATION)
    live.apply(PLACEMENT)
    live.wait("crp/example-placement", "ClusterResourcePlacementScheduled")
    live.apply(STRATEGY)
    live.apply(RUN)
    live.wait("csur/example-run", "Succeeded")
    header, row = live.kubectl("get", "csur").splitlines()
    assert header.split() == [
        "NAME",
        "PLACEMENT",
        "RESOURCE-SNAPSHOT-INDEX",
        "POLICY-SNAPSHOT-INDEX",
        "INITIALIZED",
        "PROGRESSING",
        "SUCCEEDED",
        "AGE",
    ]
    assert row.split()[:-1] == ["example-run", "example-placement", "0", "True", "False", "True"]
    described = live.kubectl("describe", "csur", "example-run")
    assert "All stages are completed successfully" in described
    for member in ("member1", "member2", "member3"):
        pods = json.loads(live.kubectl("get", "pods", "-n", "test-namespace", "-o", "json", context=member))
        assert [pod["status"]["phase"] for pod in pods["items"]] == ["Running", "Running"]
        settings = live.kubectl(
            "get", "cm", "settings", "-n", "test-namespace", "-o", "jsonpath={.data.colour}", context=member
        )
        assert settings == "green"
