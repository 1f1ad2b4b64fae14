"""What a placement may not say: every rule of the API, refused with its message (contract scenario 98)."""

import pytest

from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES
from echelon.client.errors import Invalid
from tests.rules.fleet_b import pick_n, spread
from tests.world import namespace, world

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}
NARROW = {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}
TOLERATION = {"key": "k", "operator": "Equal", "value": "v"}
scoped = pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)

BOTH = [
    (
        {"resourceSelectors": [{**CONFIG_MAP, "labelSelector": {"matchLabels": {"a": "b"}}}]},
        "name and labelSelector are mutually exclusive in a resource selector",
    ),
    (
        {"resourceSelectors": [NARROW, {**NARROW, "name": "other"}]},
        "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
    ),
    (
        {"resourceSelectors": [{k: v for k, v in NARROW.items() if k != "name"} | {"labelSelector": {}}]},
        "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
    ),
    (
        {"resourceSelectors": [NARROW, {**NAMESPACE, "name": "other"}]},
        (
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed "
            "(cannot mix with other namespace selectors)"
        ),
    ),
    (
        {"policy": {"placementType": "PickFixed", "clusterNames": ["a"], "numberOfClusters": 1}},
        (
            "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType "
            "is PickFixed"
        ),
    ),
    (
        {"policy": {"placementType": "PickAll", "topologySpreadConstraints": [spread("region")]}},
        "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
    ),
    (
        {"policy": {"placementType": "PickN"}},
        "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
    ),
    (
        {"policy": pick_n(1, tolerations=[{**TOLERATION, "operator": "Exists"}])},
        "value must be empty when operator is Exists",
    ),
    (
        {"policy": pick_n(1, tolerations=[{"operator": "Equal", "value": "v"}])},
        "operator must be Exists when key is empty",
    ),
    (
        {"strategy": {"reportBackStrategy": {"type": "Mirror"}}},
        "when reportBackStrategy.type is 'Mirror', a destination must be specified",
    ),
    ({"policy": pick_n(-1)}, "should be greater than or equal to 0"),
    ({"revisionHistoryLimit": 0}, "should be greater than or equal to 1"),
    ({"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}, "should match"),
    ({"resourceSelectors": []}, "should have at least 1 items"),
    ({"statusReportingScope": "Everywhere"}, 'supported values: "ClusterScopeOnly", "NamespaceAccessible"'),
]
CHANGES = [
    ({"policy": None}, "policy cannot be removed once set"),
    ({"policy": {"placementType": "PickAll", "numberOfClusters": None}}, "placement type is immutable"),
    (
        {"strategy": {"type": "RollingUpdate"}},
        "cannot change rollout strategy type from 'External' to other types",
    ),
]


@pytest.fixture
def w():
    with world(9) as made:
        yield made


def play(w, scenario):
    async def whole():
        await w.install()
        await w.client().create(_namespaces(), namespace("work"))
        await scenario(w.client())

    w.run(whole())


def _namespaces():
    from echelon.api.builtin import NAMESPACES

    return NAMESPACES


async def create(hub, scope, **spec):
    spec.setdefault("resourceSelectors", [CONFIG_MAP if scope.namespaced else NAMESPACE])
    kind = scope.placement
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "p"}, "spec": spec}
    return await hub.create(kind, body, place(scope))


def place(scope):
    return "work" if scope.namespaced else None


async def refused(doing):
    with pytest.raises(Invalid) as caught:
        await doing
    return str(caught.value)


@scoped
@pytest.mark.parametrize(("spec", "message"), BOTH, ids=[message[:40] for _, message in BOTH])
def test_a_wrong_placement_is_refused_with_its_message(w, scope, spec, message):
    async def scenario(hub):
        assert message in await refused(create(hub, scope, **spec))

    play(w, scenario)


@scoped
@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message[:40] for _, message in CHANGES])
def test_a_wrong_change_is_refused_with_its_message(w, scope, change, message):
    async def scenario(hub):
        await create(hub, scope, policy=pick_n(1), strategy={"type": "External"})
        patching = hub.patch(scope.placement, "p", place(scope), {"spec": change})
        assert message in await refused(patching)

    play(w, scenario)


@scoped
def test_a_rolling_placement_may_be_handed_over_to_runs(w, scope):
    async def scenario(hub):
        await create(hub, scope)
        changed = await hub.patch(
            scope.placement, "p", place(scope), {"spec": {"strategy": {"type": "External"}}}
        )
        assert changed.spec.strategy.type == "External"

    play(w, scenario)


ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "a"}


@pytest.mark.parametrize(
    ("selectors", "is_accepted"),
    [
        ([NAMESPACE], True),
        ([NAMESPACE, ROLE], True),
        ([ROLE], False),
        ([NAMESPACE, {**NAMESPACE, "name": "b"}], False),
    ],
)
def test_an_accessible_status_needs_exactly_one_namespace(w, selectors, is_accepted):
    async def scenario(hub):
        spec = {"resourceSelectors": selectors, "statusReportingScope": "NamespaceAccessible"}
        if is_accepted:
            await create(hub, CLUSTER, **spec)
            return
        assert (
            "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' "
            "is required"
        ) in await refused(create(hub, CLUSTER, **spec))

    play(w, scenario)


@scoped
def test_where_a_status_is_reported_can_be_changed_only_where_it_means_nothing(w, scope):
    async def scenario(hub):
        await create(hub, scope)
        changing = hub.patch(
            scope.placement, "p", place(scope), {"spec": {"statusReportingScope": "NamespaceAccessible"}}
        )
        if scope is NAMESPACED:
            await changing
        else:
            assert "statusReportingScope is immutable" in await refused(changing)

    play(w, scenario)
