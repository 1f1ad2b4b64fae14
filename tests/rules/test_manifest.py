"""A manifest travels without what belongs to the hub alone."""

import copy

from echelon.rules.manifest import clean


def test_what_the_hub_added_is_removed_and_the_rest_kept():
    given = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "app",
            "namespace": "work",
            "uid": "u",
            "resourceVersion": "3",
            "generation": 2,
            "selfLink": "/x",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{}],
            "ownerReferences": [{}],
            "finalizers": ["a/b"],
            "labels": {"a": "b"},
            "generateName": "app-",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "deployment.kubernetes.io/revision": "1",
                "mine": "yes",
            },
        },
        "data": {"k": "v"},
        "status": {"x": 1},
    }
    before = copy.deepcopy(given)
    assert clean(given) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "app",
            "namespace": "work",
            "finalizers": ["a/b"],
            "labels": {"a": "b"},
            "generateName": "app-",
            "annotations": {"mine": "yes"},
        },
        "data": {"k": "v"},
    }
    assert given == before


def test_annotations_that_become_empty_vanish():
    meta = {"name": "a", "annotations": {"deployment.kubernetes.io/revision": "1"}}
    assert clean({"metadata": meta}) == {"metadata": {"name": "a"}}


def a_service(**spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}


def test_a_service_loses_the_addresses_and_ports_the_hub_allocated():
    cleaned = clean(
        a_service(
            clusterIP="10.0.0.1",
            clusterIPs=["10.0.0.1"],
            healthCheckNodePort=30000,
            ports=[{"port": 80, "nodePort": 30001}],
        )
    )
    assert cleaned["spec"] == {"ports": [{"port": 80}]}


def test_a_headless_service_stays_headless():
    assert clean(a_service(clusterIP="None", clusterIPs=["None"]))["spec"] == {
        "clusterIP": "None",
        "clusterIPs": ["None"],
    }


def a_job(**spec):
    labels = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "app": "x"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels), "creationTimestamp": None}},
            **spec,
        },
    }


def test_a_job_loses_the_labels_its_controller_generated():
    assert clean(a_job())["spec"] == {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}},
    }


def test_a_job_with_a_manual_selector_keeps_its_labels():
    given = a_job(manualSelector=True)
    assert clean(given)["spec"] == given["spec"]
