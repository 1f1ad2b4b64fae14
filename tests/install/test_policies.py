"""What the installed policies refuse and allow, on the embedded hub with a whole fleet running."""

import pytest

from echelon.api.builtin import NAMESPACES
from echelon.api.own import CLUSTER_BINDINGS, CLUSTER_OVERRIDES, CLUSTER_PLACEMENTS, MEMBER_CLUSTERS, WORKS
from echelon.client.errors import ApiError, Forbidden
from echelon.hub.call import User
from echelon.install.policies import policies
from echelon.sandbox.fleet import member_user
from tests.world import namespace, world

JANE = User("jane", ("system:authenticated",))  # a cluster administrator by role, but not one of the trusted


@pytest.fixture
def w():
    with world(21) as made:
        yield made


def run(w, scenario):
    async def whole():
        await w.fleet(2)
        await grant_everything(w)
        await scenario(w.client(JANE))
        await w.stop()

    w.run(whole())


async def grant_everything(w):
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    await w.client().raw("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


def manifest(resource, name, spec):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def placement(**spec):
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    return manifest(CLUSTER_PLACEMENTS, "web", {"resourceSelectors": [selector], **spec})


def override(**rule):
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
    return manifest(
        CLUSTER_OVERRIDES, "o", {"clusterResourceSelectors": [selector], "policy": {"overrideRules": [rule]}}
    )


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"op": "add", "path": "", "value": 1}, "path cannot be empty"),
        ({"op": "add", "path": "metadata/labels/a", "value": 1}, "path must start with /"),
        ({"op": "replace", "path": "/kind", "value": "x"}, "cannot override typeMeta fields"),
        ({"op": "replace", "path": "/apiVersion", "value": "x"}, "cannot override typeMeta fields"),
        ({"op": "remove", "path": "/metadata"}, "cannot override field metadata"),
        ({"op": "add", "path": "/metadata/finalizers/0", "value": "x"}, "except annotations and labels"),
        ({"op": "add", "path": "/status/phase", "value": "x"}, "cannot override status fields"),
        ({"op": "add", "path": "/spec//x", "value": "x"}, "path cannot contain empty string"),
        ({"op": "remove", "path": "/spec/x", "value": 1}, "remove operation cannot have value"),
    ],
)
def test_an_override_of_what_may_not_be_overridden_is_refused_in_the_contracts_words(w, patch, says):
    async def scenario(jane):
        with pytest.raises(ApiError, match=says):
            await jane.create(CLUSTER_OVERRIDES, override(jsonPatchOverrides=[patch]))

    run(w, scenario)


@pytest.mark.parametrize(
    "path", ["/metadata/labels/a", "/metadata/annotations/b", "/spec/replicas", "/data/kind"]
)
def test_everything_else_may_be_overridden(w, path):
    async def scenario(jane):
        await jane.create(
            CLUSTER_OVERRIDES, override(jsonPatchOverrides=[{"op": "add", "path": path, "value": "x"}])
        )

    run(w, scenario)


def test_a_delete_rule_has_no_patches_and_a_patch_rule_has_some(w):
    async def scenario(jane):
        patch = {"op": "remove", "path": "/spec/x"}
        with pytest.raises(ApiError, match="cannot be set when the override type is Delete"):
            await jane.create(CLUSTER_OVERRIDES, override(overrideType="Delete", jsonPatchOverrides=[patch]))
        with pytest.raises(ApiError, match="JSONPatchOverrides cannot be empty"):
            await jane.create(CLUSTER_OVERRIDES, override(overrideType="JSONPatch"))
        await jane.create(CLUSTER_OVERRIDES, override(overrideType="Delete"))

    run(w, scenario)


def test_a_placement_keeps_its_type_and_its_tolerations(w):
    async def scenario(jane):
        toleration = {"key": "a", "operator": "Exists"}
        policy = {"placementType": "PickN", "numberOfClusters": 1, "tolerations": [toleration]}
        await jane.create(CLUSTER_PLACEMENTS, placement(policy=policy))

        async def change(**fields):
            await jane.patch(CLUSTER_PLACEMENTS, "web", None, {"spec": {"policy": fields}})

        with pytest.raises(ApiError, match="placement type is immutable"):
            await change(placementType="PickAll", numberOfClusters=None)
        with pytest.raises(ApiError, match="only additions to tolerations are allowed"):
            await change(tolerations=[{"key": "b", "operator": "Exists"}])
        await change(tolerations=[toleration, {"key": "b", "operator": "Exists"}])

    run(w, scenario)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            {"policy": {"placementType": "PickFixed", "clusterNames": ["a", "a"]}},
            "cluster names must be unique",
        ),
        (
            {"strategy": {"type": "External", "rollingUpdate": {"maxSurge": 1}}},
            "rollingUpdateConifg is not valid",
        ),
        (
            {
                "strategy": {
                    "applyStrategy": {"type": "ClientSideApply", "serverSideApplyConfig": {"force": True}}
                }
            },
            "serverSideApplyConfig is only valid",
        ),
    ],
)
def test_a_placement_that_contradicts_itself_is_refused(w, spec, says):
    async def scenario(jane):
        with pytest.raises(ApiError, match=says):
            await jane.create(CLUSTER_PLACEMENTS, placement(**spec))

    run(w, scenario)


def test_decisions_of_the_engine_are_not_for_people_however_mighty(w):
    async def scenario(jane):
        await w.client().create(NAMESPACES, namespace("app"))
        await jane.create(CLUSTER_PLACEMENTS, placement())
        await w.settle()
        binding = (await jane.list(CLUSTER_BINDINGS)).items[0]
        with pytest.raises(Forbidden, match="ClusterResourceBinding objects are written by the engine only"):
            await jane.patch(CLUSTER_BINDINGS, binding.name, None, {"spec": {"targetCluster": "member2"}})
        with pytest.raises(Forbidden, match="written by the engine only"):
            await jane.delete(CLUSTER_BINDINGS, binding.name)
        work = (await jane.list(WORKS)).items[0]
        with pytest.raises(Forbidden, match="works are written by the engine only"):
            await jane.patch(WORKS, work.name, work.namespace, {"spec": {"workload": {"manifests": []}}})
        await jane.delete(CLUSTER_PLACEMENTS, "web")
        await w.settle()
        assert (await jane.list(CLUSTER_BINDINGS)).items == []

    run(w, scenario)


def test_a_member_can_do_what_its_agent_does_and_nothing_else(w):
    async def scenario(jane):
        await w.client().create(NAMESPACES, namespace("app"))
        await jane.create(CLUSTER_PLACEMENTS, placement())
        await w.settle()
        member = w.client(member_user("member1"))
        own, other = "fleet-member-member1", "fleet-member-member2"
        work = (await member.list(WORKS, own)).items[0]
        with pytest.raises(Forbidden):
            await member.patch(WORKS, work.name, own, {"spec": {"workload": {"manifests": []}}})
        for attempt in (
            member.list(WORKS, other),
            member.list(WORKS),
            member.delete(WORKS, work.name, own),
            member.list(CLUSTER_BINDINGS),
            member.list(CLUSTER_PLACEMENTS),
            member.get(MEMBER_CLUSTERS, "member1"),
            member.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": []}}),
            member.list(NAMESPACES),
            member.raw("GET", f"/api/v1/namespaces/{own}/secrets"),
        ):
            with pytest.raises(Forbidden):
                await attempt

    run(w, scenario)


def test_taints_of_a_member_are_unique(w):
    async def scenario(jane):
        taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
        with pytest.raises(ApiError, match="taints must be unique"):
            await jane.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint, taint]}})
        await jane.patch(MEMBER_CLUSTERS, "member1", None, {"spec": {"taints": [taint]}})

    run(w, scenario)


def test_every_policy_fails_closed_and_none_looks_at_pods():
    made = [one["spec"] for one in policies() if one["kind"] == "ValidatingAdmissionPolicy"]
    assert made
    for spec in made:
        assert spec["failurePolicy"] == "Fail"
        for rule in spec["matchConstraints"]["resourceRules"]:
            assert all(group.endswith("kubernetes-fleet.io") for group in rule["apiGroups"])
