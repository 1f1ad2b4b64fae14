"""Built-in kinds are completed and refused as by kube-apiserver 1.37, where the recorded sequences do not reach."""

import json

import pytest

from echelon.client.errors import ApiError
from echelon.hub.builtins_computed import pull_policy
from echelon.hub.quantities import canonical
from tests.hub.serve import client, hub, world  # noqa: F401

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
MERGE = "application/merge-patch+json"


async def refused(client, method, path, body, *content):
    with pytest.raises(ApiError) as caught:
        await client.raw(method, path, body, *content)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1000Mi", "1000Mi"),
        ("1000M", "1G"),
        ("100Ki", "100Ki"),
        ("1e3", "1e3"),
        (5, "5"),
        ("0", "0"),
        ("no amount", "no amount"),
    ],
)
def test_quantities_are_kept_in_their_canonical_form(given, kept):
    assert canonical(given) == kept


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_that_may_change_are_always_pulled(image, policy):
    assert pull_policy(image) == policy


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_services_get_addresses_of_their_own_and_keep_them(client):
    made = [
        json.loads(await client.raw("POST", f"{CORE}/services", service(f"s{number}")))
        for number in range(20)
    ]
    assert len({each["spec"]["clusterIP"] for each in made}) == 20
    changed = json.loads(
        await client.raw("PATCH", f"{CORE}/services/s0", {"spec": {"type": "NodePort"}}, MERGE)
    )
    assert changed["spec"]["clusterIP"] == made[0]["spec"]["clusterIP"]
    port = changed["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    again = json.loads(
        await client.raw("PATCH", f"{CORE}/services/s0", {"spec": {"type": "ClusterIP"}}, MERGE)
    )
    assert "nodePort" not in again["spec"]["ports"][0]
    gone = json.loads(
        await client.raw(
            "PATCH",
            f"{CORE}/services/s0",
            {
                "spec": {
                    "type": "ExternalName",
                    "externalName": "x.example.com",
                    "clusterIP": None,
                    "clusterIPs": None,
                }
            },
            MERGE,
        )
    )
    assert "clusterIP" not in gone["spec"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (
            f"{CORE}/services",
            service("s", clusterIP="here"),
            'spec.clusterIPs[0]: Invalid value: "here": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        (
            f"{CORE}/pods",
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [
                        {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/x"}]}
                    ]
                },
            },
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            f"{CORE}/pods",
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}],
                    "restartPolicy": "Sometimes",
                },
            },
            (
                'spec.containers[1].name: Duplicate value: "c", spec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "Never", "OnFailure"'
            ),
        ),
        (
            f"{CORE}/pods",
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
                        }
                    ]
                },
            },
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            f"{CORE}/pods",
            {
                "metadata": {"name": "p"},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "much"}}}]
                },
            },
            (
                'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        (
            f"{APPS}/statefulsets",
            {
                "metadata": {"name": "s"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                    "volumeClaimTemplates": [
                        {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
                    ],
                },
            },
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
        (
            "/api/v1/persistentvolumes",
            {
                "metadata": {"name": "v"},
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
            },
            "spec: Required value: must specify a volume type",
        ),
        (
            f"{CORE}/secrets",
            {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}},
            "data[tls.key]: Required value",
        ),
    ],
)
async def test_what_a_real_server_refuses_is_refused_in_its_words(client, path, body, words):
    assert words in await refused(client, "POST", path, body)


async def test_what_cannot_change_of_a_stateful_set(client):
    body = {
        "metadata": {"name": "s"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "x",
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    await client.raw("POST", f"{APPS}/statefulsets", body)
    text = await refused(client, "PATCH", f"{APPS}/statefulsets/s", {"spec": {"serviceName": "y"}}, MERGE)
    assert (
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    ) in text


async def test_a_job_that_loses_its_labels_has_those_of_its_template(client):
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    container = {"name": "c", "image": "x"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    made = json.loads(await client.raw("POST", jobs, body))
    told = json.loads(await client.raw("PUT", f"{jobs}/a/status", body))
    assert told["metadata"]["labels"] == made["metadata"]["labels"]
    assert told["metadata"]["labels"]["job-name"] == "a"
