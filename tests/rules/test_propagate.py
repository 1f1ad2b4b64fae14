"""Vetoes on what leaves the hub, and the order in which it is listed."""

import pytest

from echelon.rules.propagate import (
    FLEET_GROUP,
    Gvk,
    InvalidApiList,
    Vetoes,
    gvk_of,
    parse_api_list,
    placing_order,
)

BUILT_IN = Vetoes()


def an_object(api_version, kind, name="x", namespace="work", **rest):
    meta = {"name": name, "namespace": namespace, **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}


@pytest.mark.parametrize(
    "gvk",
    [
        Gvk("", "v1", "Pod"),
        Gvk("", "v1", "Node"),
        Gvk("", "v1", "Event"),
        Gvk("events.k8s.io", "v1", "Event"),
        Gvk("coordination.k8s.io", "v1", "Lease"),
        Gvk("metrics.k8s.io", "v1beta1", "PodMetrics"),
        Gvk("cluster.kubernetes-fleet.io", "v1beta1", "MemberCluster"),
        Gvk(FLEET_GROUP, "v1", "Work"),
        Gvk(FLEET_GROUP, "v1beta1", "StagedUpdateRun"),
        Gvk("networking.fleet.azure.com", "v1alpha1", "ServiceImport"),
    ],
)
def test_system_kinds_are_never_selected(gvk):
    assert not BUILT_IN.is_enabled(gvk)


@pytest.mark.parametrize(
    "gvk",
    [
        Gvk("", "v1", "ConfigMap"),
        Gvk("apps", "v1", "Deployment"),
        Gvk(FLEET_GROUP, "v1beta1", "ResourceEnvelope"),
        Gvk(FLEET_GROUP, "v1beta1", "ClusterResourceEnvelope"),
        Gvk("networking.fleet.azure.com", "v1alpha1", "ServiceExport"),
    ],
)
def test_other_kinds_may_be_selected(gvk):
    assert BUILT_IN.is_enabled(gvk)


def test_skipped_apis_add_to_the_denials():
    vetoes = Vetoes(skipped_apis=parse_api_list("apps; batch/v1; v1/ConfigMap,Secret;x.io/v1/A,B"))
    assert not vetoes.is_enabled(Gvk("apps", "v1", "Deployment"))
    assert not vetoes.is_enabled(Gvk("batch", "v1", "Job"))
    assert vetoes.is_enabled(Gvk("batch", "v1beta1", "CronJob"))
    assert not vetoes.is_enabled(Gvk("", "v1", "Secret"))
    assert vetoes.is_enabled(Gvk("", "v1", "Service"))
    assert not vetoes.is_enabled(Gvk("x.io", "v1", "B"))
    assert vetoes.is_enabled(Gvk("x.io", "v1", "C"))
    assert not vetoes.is_enabled(Gvk("", "v1", "Pod"))


def test_an_allow_list_replaces_every_denial():
    vetoes = Vetoes(allowed_apis=parse_api_list("v1/Pod"))
    assert vetoes.is_enabled(Gvk("", "v1", "Pod"))
    assert not vetoes.is_enabled(Gvk("", "v1", "ConfigMap"))


@pytest.mark.parametrize("text", ["a/b/c/d", "/v1", "a//K", "a/b/"])
def test_a_malformed_api_list_is_refused(text):
    with pytest.raises(InvalidApiList):
        parse_api_list(text)


@pytest.mark.parametrize("name", ["fleet-system", "kube-system", "default", "extra"])
def test_reserved_namespaces_are_known(name):
    assert Vetoes(skipped_namespaces=frozenset({"extra"})).is_reserved(name)


def test_other_namespaces_are_not_reserved():
    assert not BUILT_IN.is_reserved("work")
    assert not BUILT_IN.is_reserved("my-fleet-")


OWNED = {"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "d"}]}}


@pytest.mark.parametrize(
    ("manifest", "placeable"),
    [
        (an_object("v1", "ConfigMap", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        (an_object("apps/v1", "ReplicaSet"), True),
        (an_object("apps/v1", "ReplicaSet", **OWNED), False),
        (an_object("apps/v1", "ControllerRevision", **OWNED), False),
        (an_object("v1", "ConfigMap", **OWNED), True),
        (an_object("v1", "ConfigMap", "kube-root-ca.crt"), False),
        (an_object("v1", "ServiceAccount", "default"), False),
        (an_object("v1", "ServiceAccount", "robot"), True),
        (an_object("v1", "Secret", type="kubernetes.io/service-account-token"), False),
        (an_object("v1", "Secret", type="Opaque"), True),
        (an_object("v1", "PersistentVolumeClaim"), True),
        (
            an_object(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                metadata={"labels": {"endpointslice.kubernetes.io/managed-by": "x"}},
            ),
            False,
        ),
        (an_object("discovery.k8s.io/v1", "EndpointSlice"), True),
    ],
)
def test_objects_made_anew_in_each_cluster_stay_behind(manifest, placeable):
    assert BUILT_IN.is_placeable(manifest) is placeable


def test_endpoints_stay_behind_when_a_service_makes_them():
    endpoints = an_object("v1", "Endpoints", "web")
    assert BUILT_IN.is_placeable(endpoints, lambda _ns, _name: False)
    assert not BUILT_IN.is_placeable(endpoints, lambda ns, name: (ns, name) == ("work", "web"))


def test_volume_claims_stay_behind_where_the_hub_runs_workloads():
    assert not Vetoes(workloads_enabled=True).is_placeable(an_object("v1", "PersistentVolumeClaim"))


def test_dependencies_come_first_then_group_version_then_name():
    things = [
        ("v1", "ConfigMap", "b"),
        ("example.io/v1", "Widget", "a"),
        ("apps/v1", "Deployment", "a"),
        ("v1", "ConfigMap", "a"),
        ("rbac.authorization.k8s.io/v1", "Role", "a"),
        ("v1", "Secret", "z"),
        ("another.io/v1", "Gadget", "z"),
    ]
    ordered = sorted(
        (an_object(*thing) for thing in things),
        key=lambda o: placing_order(gvk_of(o), o["metadata"]["namespace"], o["metadata"]["name"]),
    )
    assert [(o["kind"], o["metadata"]["name"]) for o in ordered] == [
        ("Secret", "z"),
        ("ConfigMap", "a"),
        ("ConfigMap", "b"),
        ("Role", "a"),
        ("Deployment", "a"),
        ("Gadget", "z"),
        ("Widget", "a"),
    ]
