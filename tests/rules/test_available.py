"""Whether an applied object is up (contract 9, scenario G33)."""

import pytest

from echelon.rules.available import Availability, availability_of

YES, NOT_YET, UNKNOWN = Availability.AVAILABLE, Availability.NOT_YET, Availability.NOT_TRACKABLE


def obj(generation=1, spec=None, **status):
    return {"metadata": {"generation": generation}, "spec": spec or {}, "status": status}


def deployment(**changes):
    good = {"observedGeneration": 2, "availableReplicas": 3, "updatedReplicas": 3}
    return obj(2, {"replicas": 3}, **{**good, **changes})


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (deployment(), YES),
        (deployment(observedGeneration=1), NOT_YET),
        (deployment(availableReplicas=2), NOT_YET),
        (deployment(updatedReplicas=2), NOT_YET),
        (deployment(unavailableReplicas=1), NOT_YET),
        (obj(1, {}, observedGeneration=1, availableReplicas=1, updatedReplicas=1), YES),  # one is the default
        (obj(1, {"replicas": 0}, observedGeneration=1), YES),
        (obj(1, {"replicas": 1}), NOT_YET),
    ],
)
def test_a_deployment_is_available_when_every_wanted_replica_is_new_and_available(live, expected):
    assert availability_of("apps", "v1", "deployments", live) is expected


def stateful_set(**changes):
    good = {
        "observedGeneration": 1,
        "availableReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "currentRevision": "a",
        "updateRevision": "a",
    }
    return obj(1, {"replicas": 2}, **{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, YES),
        ({"observedGeneration": 0}, NOT_YET),
        ({"availableReplicas": 1}, NOT_YET),
        ({"currentReplicas": 1}, NOT_YET),
        ({"updateRevision": "b"}, NOT_YET),
    ],
)
def test_a_stateful_set_is_available_when_its_update_is_over(changes, expected):
    assert availability_of("apps", "v1", "statefulsets", stateful_set(**changes)) is expected


def daemon_set(**changes):
    good = {
        "observedGeneration": 1,
        "numberAvailable": 3,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3,
    }
    return obj(1, **{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, YES), ({"numberAvailable": 2}, NOT_YET), ({"updatedNumberScheduled": 2}, NOT_YET)],
)
def test_a_daemon_set_is_available_when_every_node_has_its_new_pod(changes, expected):
    assert availability_of("apps", "v1", "daemonsets", daemon_set(**changes)) is expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"clusterIPs": ["10.0.0.1"]}, {}, YES),
        ({"type": "ClusterIP", "clusterIPs": ["None"]}, {}, YES),
        ({"type": "ClusterIP"}, {}, NOT_YET),
        ({"type": "NodePort", "clusterIPs": ["10.0.0.1"]}, {}, YES),
        ({"type": "NodePort", "clusterIPs": [""]}, {}, NOT_YET),
        ({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, YES),
        ({"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"hostname": "x"}]}}, YES),
        ({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}, {"loadBalancer": {}}, NOT_YET),
        ({"type": "ExternalName"}, {}, UNKNOWN),
    ],
)
def test_a_service_is_available_when_it_can_be_reached(spec, status, expected):
    assert availability_of("", "v1", "services", obj(1, spec, **status)) is expected


def conditions(**status):
    return [{"type": kind, "status": value} for kind, value in status.items()]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"Established": "True", "NamesAccepted": "True"}, YES),
        ({"Established": "True"}, NOT_YET),
        ({"Established": "True", "NamesAccepted": "False"}, NOT_YET),
        ({}, NOT_YET),
    ],
)
def test_a_definition_is_available_when_it_is_served_under_its_names(said, expected):
    live = obj(conditions=conditions(**said))
    assert availability_of("apiextensions.k8s.io", "v1", "customresourcedefinitions", live) is expected


def budget(allowed, status, reason, generation=1):
    said = [{"type": "DisruptionAllowed", "status": status, "reason": reason}]
    return obj(1, disruptionsAllowed=allowed, observedGeneration=generation, conditions=said)


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (budget(1, "True", "SufficientPods"), YES),
        (budget(0, "False", "InsufficientPods"), YES),
        (budget(0, "True", "SufficientPods"), NOT_YET),
        (budget(1, "False", "InsufficientPods"), NOT_YET),
        (budget(1, "True", "SufficientPods", generation=0), NOT_YET),
        (obj(1, observedGeneration=1), NOT_YET),
    ],
)
def test_a_budget_is_available_when_what_it_says_is_up_to_date(live, expected):
    assert availability_of("policy", "v1", "poddisruptionbudgets", live) is expected


@pytest.mark.parametrize(
    ("group", "plural"),
    [
        ("", "namespaces"),
        ("", "secrets"),
        ("", "configmaps"),
        ("", "serviceaccounts"),
        ("", "limitranges"),
        ("", "resourcequotas"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("networking.k8s.io", "networkpolicies"),
        ("networking.k8s.io", "ingressclasses"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("apps", "controllerrevisions"),
        ("scheduling.k8s.io", "priorityclasses"),
    ],
)
def test_what_has_nothing_to_start_is_available_at_once(group, plural):
    assert availability_of(group, "v1", plural, obj()) is YES


@pytest.mark.parametrize(
    ("group", "version", "plural"),
    [
        ("batch", "v1", "jobs"),
        ("batch", "v1", "cronjobs"),
        ("", "v1", "pods"),
        ("networking.k8s.io", "v1", "ingresses"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("", "v1", "persistentvolumeclaims"),
        ("example.com", "v1", "widgets"),
        ("apps", "v1beta1", "deployments"),
        ("example.com", "v1", "deployments"),
    ],
)
def test_of_everything_else_nothing_can_be_told(group, version, plural):
    assert availability_of(group, version, plural, obj()) is UNKNOWN
