"""Selecting resources by the contract's scenarios (numbers in brackets are the scenarios').

Rules: R-SELECT-1 to R-SELECT-6.
"""

import pytest

from echelon.api.builtin import BUILT_IN, NAMESPACES
from echelon.api.registry import find
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.rules.propagate import Gvk, Vetoes, parse_api_list
from echelon.rules.select import InvalidSelection, looks, select
from tests.rules.pretend import Store, a_placement, meta_for

PREFIX = "failed to process the request due to a client error: "
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace"}
ONLY, WITH_SELECTORS = "NamespaceOnly", "NamespaceWithResourceSelectors"
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap"}
CLUSTER_ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}


class Hub:
    """The objects of a hub, as the rule asks for them."""

    def __init__(self, *objects, vetoes=None):
        self.held = list(objects)
        self.vetoes = vetoes or Vetoes()

    def find(self, gvk):
        found = find(gvk.group, gvk.kind)
        return found if found is not None and found.version == gvk.version else None

    def namespaced_kinds(self):
        kinds = [kind for kind in BUILT_IN if kind.namespaced]
        return [kind for kind in kinds if self.vetoes.is_enabled(Gvk(kind.group, kind.version, kind.kind))]

    def objects(self, resource, namespace, name=""):
        for obj in self.held:
            meta = obj["metadata"]
            fits = (obj["apiVersion"], obj["kind"]) == (resource.api_version, resource.kind)
            if fits and namespace in (None, meta.get("namespace")) and name in ("", meta["name"]):
                yield obj

    def has_service(self, namespace, name):
        return any(
            (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
            == ("Service", namespace, name)
            for obj in self.held
        )

    def select(self, *selectors, scope=CLUSTER):
        store = Store()
        body = {"metadata": meta_for(scope, "p"), "spec": {"resourceSelectors": list(selectors)}}
        placement = store.put(scope.placement, body)
        chosen = select(placement, self, self.vetoes)
        return [(m["kind"], m["metadata"]["name"]) for m in chosen.manifests]

    def refuses(self, *selectors, scope=CLUSTER):
        with pytest.raises(InvalidSelection) as caught:
            self.select(*selectors, scope=scope)
        assert caught.value.text.startswith(PREFIX)
        return caught.value.text.removeprefix(PREFIX)


def obj(kind, name, namespace="work", api="v1", **more):
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("meta", {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **more}


def ns(name, **meta):
    return obj("Namespace", name, None, meta=meta)


WORK = ns("work", labels={"team": "a"})


def test_a_namespace_brings_what_is_in_it_in_order_56():
    hub = Hub(
        obj("Role", "r", api="rbac.authorization.k8s.io/v1"),
        obj("PersistentVolumeClaim", "data"),
        obj("ConfigMap", "app"),
        obj("ConfigMap", "kube-root-ca.crt"),
        obj("Secret", "s"),
        obj("ServiceAccount", "default"),
        obj("Pod", "p"),
        obj("Event", "e"),
        obj("ConfigMap", "elsewhere", "other"),
        WORK,
        vetoes=Vetoes(workloads_enabled=True),
    )
    expected = [("Namespace", "work"), ("Secret", "s"), ("ConfigMap", "app"), ("Role", "r")]
    assert hub.select({**NAMESPACE, "name": "work"}) == expected
    assert hub.select({**NAMESPACE, "labelSelector": {"matchLabels": {"team": "a"}}}) == expected
    assert hub.select({**NAMESPACE, "name": "work", "selectionScope": ONLY}) == expected[:1]
    hub.vetoes = Vetoes()
    assert ("PersistentVolumeClaim", "data") in hub.select({**NAMESPACE, "name": "work"})


@pytest.mark.parametrize("name", ["fleet-system", "kube-system", "default", "mine"])
@pytest.mark.parametrize("scope", [None, ONLY])
def test_a_reserved_namespace_is_refused_in_every_mode_53(name, scope):
    hub = Hub(ns(name), vetoes=Vetoes(skipped_namespaces=frozenset({"mine"})))
    selector = {**NAMESPACE, "name": name, **({"selectionScope": scope} if scope else {})}
    assert hub.refuses(selector) == (
        f"invalid clusterRresourcePlacement p: namespace {name} is not allowed to propagate"
    )


def test_the_same_object_twice_is_refused_54_61():
    hub = Hub(WORK, obj("ConfigMap", "app"))
    assert hub.refuses({**NAMESPACE, "name": "work"}, {**NAMESPACE, "name": "work"}) == (
        "found duplicate resource {Group: Version:v1 Kind:Namespace Name:work Namespace: Envelope:<nil>}"
    )
    one = {**CONFIG_MAP, "name": "app"}
    assert hub.refuses(one, one, scope=NAMESPACED) == (
        "found duplicate resource {Group: Version:v1 Kind:ConfigMap Name:app Namespace:work Envelope:<nil>}"
    )


def test_cluster_scoped_objects_by_name_55():
    hub = Hub(
        obj("ClusterRole", "a", None, api="rbac.authorization.k8s.io/v1"),
        obj("ClusterRole", "b", None, api="rbac.authorization.k8s.io/v1"),
    )
    assert hub.select({**CLUSTER_ROLE, "name": "b"}) == [("ClusterRole", "b")]
    assert hub.select({**CLUSTER_ROLE, "name": "c"}) == []
    assert hub.select(CLUSTER_ROLE) == [("ClusterRole", "a"), ("ClusterRole", "b")]


def test_what_is_never_placed_is_left_out_silently_60():
    hub = Hub(obj("ConfigMap", "kube-root-ca.crt"))
    assert hub.select({**CONFIG_MAP, "name": "kube-root-ca.crt"}, scope=NAMESPACED) == []


def test_selectors_of_the_wrong_scope_are_refused_62():
    hub = Hub(WORK)
    deployment = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert hub.refuses({**NAMESPACE, "name": "work", "selectionScope": ONLY}, scope=NAMESPACED) == (
        "invalid placement work/p: cannot select cluster-scoped resource Namespace in a resourcePlacement"
    )
    assert hub.refuses(deployment) == (
        "invalid placement /p: cannot select namespace-scoped resource apps/v1, Resource=deployments "
        "in a clusterResourcePlacement"
    )
    assert hub.refuses(CLUSTER_ROLE, scope=NAMESPACED) == (
        "invalid placement work/p: cannot select cluster-scoped resource "
        "rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement"
    )
    assert hub.refuses({"group": "x.io", "version": "v1", "kind": "Y"}) == (
        'invalid placement /p, failed to get GVR of the selector: no matches for kind "Y" in version "x.io/v1"'
    )


@pytest.mark.parametrize("scope", [CLUSTER, NAMESPACED])
def test_a_disabled_kind_selects_nothing_62(scope):
    hub = Hub(obj("Pod", "p"))
    assert hub.select({"group": "", "version": "v1", "kind": "Pod"}, scope=scope) == []
    hub = Hub(obj("ConfigMap", "c"), vetoes=Vetoes(skipped_apis=parse_api_list("v1/ConfigMap")))
    assert hub.select(CONFIG_MAP, scope=NAMESPACED) == []


def test_what_controllers_make_is_left_to_controllers_63():
    owned = {"ownerReferences": [{"kind": "Deployment", "name": "d", "uid": "u", "apiVersion": "apps/v1"}]}
    managed = {"labels": {"endpointslice.kubernetes.io/managed-by": "x"}}
    hub = Hub(
        WORK,
        obj("ReplicaSet", "alone", api="apps/v1"),
        obj("ReplicaSet", "owned", api="apps/v1", meta=owned),
        obj("ControllerRevision", "alone", api="apps/v1"),
        obj("ControllerRevision", "owned", api="apps/v1", meta=owned),
        obj("ConfigMap", "owned", meta=owned),
        obj("PersistentVolumeClaim", "data"),
        obj("EndpointSlice", "managed", api="discovery.k8s.io/v1", meta=managed),
        obj("Endpoints", "alone"),
        obj("Endpoints", "served"),
        obj("Service", "served"),
        obj("Secret", "token", type="kubernetes.io/service-account-token"),
        obj("ConfigMap", "going", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    assert sorted(hub.select({**NAMESPACE, "name": "work"})) == [
        ("ConfigMap", "owned"),
        ("ControllerRevision", "alone"),
        ("Endpoints", "alone"),
        ("Namespace", "work"),
        ("PersistentVolumeClaim", "data"),
        ("ReplicaSet", "alone"),
        ("Service", "served"),
    ]


def test_a_namespace_with_selectors_narrows_the_others_64():
    hub = Hub(WORK, obj("ConfigMap", "app"), obj("Secret", "s"), obj("ConfigMap", "x", "other"))
    narrow = {**NAMESPACE, "name": "work", "selectionScope": WITH_SELECTORS}
    assert hub.select(narrow, CONFIG_MAP) == [("Namespace", "work"), ("ConfigMap", "app")]
    assert hub.select(narrow) == [("Namespace", "work")]
    assert hub.select(narrow, {**CLUSTER_ROLE, "name": "none"}) == [("Namespace", "work")]
    assert hub.refuses({**narrow, "name": "none"}) == (
        "invalid clusterResourcePlacement p: NamespaceWithResourceSelectors mode requires exactly one namespace, "
        "but no namespaces were selected"
    )


def test_a_namespace_that_is_going_contributes_nothing():
    hub = Hub(ns("work", deletionTimestamp="2026-01-01T00:00:00Z"), obj("ConfigMap", "app"))
    assert hub.select({**NAMESPACE, "name": "work"}) == []


def test_all_namespaces_includes_reserved_ones_and_is_refused():
    hub = Hub(WORK, ns("kube-system"))
    assert "namespace kube-system is not allowed to propagate" in hub.refuses(NAMESPACE)


def test_a_malformed_label_selector_is_named():
    selector = {**CLUSTER_ROLE, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}
    assert '"Like" is not a valid label selector operator' in Hub().refuses(selector)


def test_manifests_are_cleaned_and_the_hubs_objects_left_as_they_are():
    live = obj("ConfigMap", "app", meta={"uid": "u", "resourceVersion": "7"})
    store = Store()
    placement = store.put(NAMESPACED.placement, a_placement(NAMESPACED))
    chosen = select(placement, Hub(live), Vetoes())
    assert chosen.manifests[0]["metadata"] == {"name": "app", "namespace": "work"}
    assert live["metadata"]["uid"] == "u"
    assert chosen.identifiers[0].namespace == "work"


def test_what_a_placement_looks_at_is_known_before_anything_is_read():
    store = Store()
    narrow = {**NAMESPACE, "name": "work", "selectionScope": WITH_SELECTORS}
    body = {"metadata": {"name": "p"}, "spec": {"resourceSelectors": [narrow, {**CONFIG_MAP, "name": "app"}]}}
    found = looks(store.put(CLUSTER.placement, body), Vetoes())
    assert [(look.gvk.kind, look.namespace, look.name, look.everything_in) for look in found] == [
        ("Namespace", None, "work", False),
        ("ConfigMap", "work", "app", False),
    ]
    whole = {"metadata": {"name": "q"}, "spec": {"resourceSelectors": [{**NAMESPACE, "name": "work"}]}}
    assert looks(store.put(CLUSTER.placement, whole), Vetoes())[0].everything_in
    assert NAMESPACES.kind == "Namespace"
