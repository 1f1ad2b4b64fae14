"""LimitRanges and ResourceQuotas: what users see of them, in the words of kube-apiserver 1.37."""

import asyncio
import json

import pytest

from echelon.client.errors import ApiError
from tests.hub.serve import client, hub, world  # noqa: F401

BASE = "/api/v1/namespaces/default"
RANGE = {
    "metadata": {"name": "l"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "max": {"cpu": "2", "memory": "1Gi"},
                "min": {"cpu": "100m"},
                "default": {"cpu": "500m", "memory": "256Mi"},
                "defaultRequest": {"cpu": "200m", "memory": "128Mi"},
                "maxLimitRequestRatio": {"cpu": "4"},
            },
            {"type": "Pod", "max": {"cpu": "3"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}},
        ]
    },
}


def pod(name, *resources):
    containers = [
        {"name": "cd"[at], "image": "i", "resources": amounts} for at, amounts in enumerate(resources)
    ]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


async def create(client, plural, body):
    return json.loads(await client.raw("POST", f"{BASE}/{plural}", body))


async def refused(client, plural, body):
    with pytest.raises(ApiError) as caught:
        await create(client, plural, body)
    return str(caught.value)


async def test_containers_get_the_defaults_of_the_range(client):
    await create(client, "limitranges", RANGE)
    made = await create(client, "pods", pod("p", {}))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "256Mi"},
        "requests": {"cpu": "200m", "memory": "128Mi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ([{"limits": {"cpu": "3"}}], "maximum cpu usage per Container is 2, but limit is 3"),
        (
            [{"requests": {"cpu": "50m"}}],
            (
                "[minimum cpu usage per Container is 100m, but request is 50m, cpu max limit to request ratio per "
                "Container is 4, but provided ratio is 10.000000]"
            ),
        ),
        (
            [{"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}}],
            "cpu max limit to request ratio per Container is 4, but provided ratio is 20.000000",
        ),
        (
            [
                {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
                {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},
            ],
            "maximum cpu usage per Pod is 3, but limit is 4",
        ),
        ([{"limits": {"memory": "2Gi"}}], "maximum memory usage per Container is 1Gi, but limit is 2Gi"),
    ],
)
async def test_amounts_outside_the_range_are_refused(client, resources, words):
    await create(client, "limitranges", RANGE)
    assert f'pods "p" is forbidden: {words}' == await refused(client, "pods", pod("p", *resources))


async def test_claims_have_ranges_too(client):
    await create(client, "limitranges", RANGE)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    text = await refused(client, "persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    assert text == (
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but '
        "request is 5Gi"
    )


QUOTA = {
    "metadata": {"name": "q"},
    "spec": {
        "hard": {
            "pods": "1",
            "secrets": "2",
            "requests.cpu": "1",
            "count/deployments.apps": "1",
            "services.nodeports": "0",
        }
    },
}


async def used(client, hub):
    for _ in range(200):
        await asyncio.sleep(0)
        if hub.housekeeping.idle:
            break
    return json.loads(await client.raw("GET", f"{BASE}/resourcequotas/q"))["status"].get("used")


async def test_what_does_not_fit_is_refused_and_what_is_held_is_counted(client, hub):
    await create(client, "resourcequotas", QUOTA)
    assert (await used(client, hub))["pods"] == "0"
    assert (
        await refused(client, "pods", pod("p", {}))
        == 'pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c'
    )
    assert await refused(client, "pods", pod("p", {"requests": {"cpu": "2"}})) == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, '
        "limited: requests.cpu=1"
    )
    await create(client, "pods", pod("p", {"requests": {"cpu": "600m"}}))
    assert await refused(client, "pods", pod("p2", {"requests": {"cpu": "600m"}})) == (
        'pods "p2" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=600m, '
        "used: pods=1,requests.cpu=600m, limited: pods=1,requests.cpu=1"
    )
    now = await used(client, hub)
    assert (now["pods"], now["requests.cpu"]) == ("1", "600m")
    await client.raw("DELETE", f"{BASE}/pods/p?gracePeriodSeconds=0")
    assert (await used(client, hub))["requests.cpu"] == "0"


async def test_two_at_once_do_not_share_the_last_place(client, hub):
    await create(client, "resourcequotas", QUOTA)
    bodies = [{"metadata": {"name": f"s{number}"}} for number in range(6)]
    answers = await asyncio.gather(
        *(create(client, "secrets", body) for body in bodies), return_exceptions=True
    )
    assert sum(isinstance(answer, dict) for answer in answers) == 2
    assert (await used(client, hub))["secrets"] == "2"


async def test_counts_of_any_kind_and_node_ports_are_limited(client):
    await create(client, "resourcequotas", QUOTA)
    service = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    assert "requested: services.nodeports=1, used: services.nodeports=0" in await refused(
        client, "services", service
    )
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    await client.raw("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    with pytest.raises(
        ApiError, match=r"requested: count/deployments\.apps=1, used: count/deployments\.apps=1"
    ):
        await client.raw("POST", path, {"metadata": {"name": "b"}, "spec": spec})


async def test_other_namespaces_are_free(client):
    await create(client, "resourcequotas", QUOTA)
    for number in range(4):
        await client.raw(
            "POST", "/api/v1/namespaces/kube-public/secrets", {"metadata": {"name": f"s{number}"}}
        )
