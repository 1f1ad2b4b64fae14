"""Every rule of the contract's definitions is understood and says the contract's words on the hub."""

import json

import pytest

from echelon.client.errors import ApiError
from echelon.hub.cel_types import type_of
from echelon.hub.schema import compile_schema
from echelon.hub.schema_cel import compile_rule
from tests.hub.serve import CRDS, client, contract_crds, hub, install_crds, world  # noqa: F401

pytestmark = pytest.mark.skipif(not CRDS.exists(), reason="the contract is not beside this clone")
GROUP = "/apis/placement.kubernetes-fleet.io/v1beta1"
MERGE = "application/merge-patch+json"


def every_rule():
    def walk(node, root):
        declared = type_of(node, root=root)
        for one in node.rules:
            yield one, declared
        for child in [*node.properties.values(), node.items, node.additional]:
            if child is not None and child is not True:
                yield from walk(child, False)

    for crd in contract_crds():
        for version in crd["spec"]["versions"]:
            yield from walk(compile_schema(version["schema"]["openAPIV3Schema"]), True)


def test_every_rule_of_the_contract_compiles():
    rules = list(every_rule())
    assert len(rules) > 150
    for one, declared in rules:
        assert compile_rule(one, declared).program.type.kind == "bool", one.rule


async def refused(client, method, path, body, content=None):
    with pytest.raises(ApiError) as caught:
        await client.raw(method, path, body, *([content] if content else []))
    return str(caught.value)


def run(**spec):
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "run"},
        "spec": {"placementName": "p", "stagedRolloutStrategyName": "s", **spec},
    }


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Initialize", "Stop", "invalid state transition: cannot transition from Initialize to Stop"),
        ("Run", "Initialize", "invalid state transition: cannot transition from Run to Initialize"),
        ("Stop", "Initialize", "invalid state transition: cannot transition from Stop to Initialize"),
    ],
)
async def test_a_run_cannot_go_back(client, before, after, words):
    await install_crds(client)
    runs = f"{GROUP}/clusterstagedupdateruns"
    await client.raw("POST", runs, run(state="Run" if before == "Stop" else before))
    if before == "Stop":
        await client.raw("PATCH", f"{runs}/run", {"spec": {"state": "Stop"}}, MERGE)
    text = await refused(client, "PATCH", f"{runs}/run", {"spec": {"state": after}}, MERGE)
    assert words in text
    assert 'ClusterStagedUpdateRun.placement.kubernetes-fleet.io "run" is invalid' in text


@pytest.mark.parametrize("field", ["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"])
async def test_what_a_run_rolls_out_is_immutable(client, field):
    await install_crds(client)
    runs = f"{GROUP}/clusterstagedupdateruns"
    await client.raw("POST", runs, run(resourceSnapshotIndex="0"))
    text = await refused(client, "PATCH", f"{runs}/run", {"spec": {field: "1"}}, MERGE)
    assert f"{field} is immutable" in text


async def test_a_run_can_stop_and_go_on(client):
    await install_crds(client)
    runs = f"{GROUP}/clusterstagedupdateruns"
    await client.raw("POST", runs, run(state="Initialize"))
    for state in ("Run", "Stop", "Run"):
        changed = json.loads(await client.raw("PATCH", f"{runs}/run", {"spec": {"state": state}}, MERGE))
        assert changed["spec"]["state"] == state


def strategy(**stage):
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateStrategy",
        "metadata": {"name": "s"},
        "spec": {"stages": [{"name": "one", **stage}]},
    }


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({"maxConcurrency": 0}, "maxConcurrency must be at least 1"),
        (
            {"afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]},
            "AfterStageTaskType is Approval, waitTime is not allowed",
        ),
        (
            {"afterStageTasks": [{"type": "TimedWait"}]},
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
        (
            {"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]},
            "BeforeStageTaskType cannot be TimedWait",
        ),
    ],
)
async def test_a_strategy_says_which_stage_setting_is_wrong(client, stage, words):
    await install_crds(client)
    assert words in await refused(client, "POST", f"{GROUP}/clusterstagedupdatestrategies", strategy(**stage))


async def test_names_that_would_not_fit_a_label_are_refused(client):
    await install_crds(client)
    long = run()
    long["metadata"]["name"] = "s" * 64
    text = await refused(client, "POST", f"{GROUP}/clusterstagedupdateruns", long)
    assert "<nil>: Invalid value: metadata.name max length is 63" in text


def placement(**policy):
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "p"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "n"}],
            "policy": policy,
        },
    }


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            {"placementType": "PickFixed", "clusterNames": ["a"], "numberOfClusters": 1},
            (
                "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when "
                "placementType is PickFixed"
            ),
        ),
        (
            {"placementType": "PickAll", "numberOfClusters": 1},
            "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        ),
        (
            {"placementType": "PickN"},
            "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        ),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
            "value must be empty when operator is Exists",
        ),
        ({"tolerations": [{"operator": "Equal", "value": "v"}]}, "operator must be Exists when key is empty"),
    ],
)
async def test_a_policy_says_which_settings_exclude_each_other(client, policy, words):
    await install_crds(client)
    assert words in await refused(client, "POST", f"{GROUP}/clusterresourceplacements", placement(**policy))


async def test_a_policy_once_set_stays(client):
    await install_crds(client)
    placements = f"{GROUP}/clusterresourceplacements"
    await client.raw("POST", placements, placement(placementType="PickAll"))
    text = await refused(client, "PATCH", f"{placements}/p", {"spec": {"policy": None}}, MERGE)
    assert "policy cannot be removed once set" in text
    change = {"spec": {"policy": {"placementType": "PickN", "numberOfClusters": 1}}}
    assert "placement type is immutable" in await refused(client, "PATCH", f"{placements}/p", change, MERGE)


async def test_external_rollout_stays_external(client):
    await install_crds(client)
    placements = f"{GROUP}/clusterresourceplacements"
    made = placement(placementType="PickAll")
    made["spec"]["strategy"] = {"type": "External"}
    await client.raw("POST", placements, made)
    change = {"spec": {"strategy": {"type": "RollingUpdate"}}}
    text = await refused(client, "PATCH", f"{placements}/p", change, MERGE)
    assert "cannot change rollout strategy type from 'External' to other types" in text
