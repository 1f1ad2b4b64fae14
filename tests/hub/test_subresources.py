"""Scale, status, eviction, binding and logs."""

import pytest

from echelon.client.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import MERGE, WIDGETS, ask, install, widget

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


def pod(name, *containers, **spec):
    named = [{"name": container, "image": "i:1"} for container in containers or ("c",)]
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": named, **spec}}


async def test_a_custom_resource_scales_by_the_paths_of_its_definition(client, api):
    await install(client)
    await api("POST", WIDGETS, widget("a", replicas=2))
    assert (await api("GET", WIDGETS + "/a/scale"))["spec"] == {"replicas": 2}
    scaled = await api("PATCH", WIDGETS + "/a/scale?fieldManager=me", {"spec": {"replicas": 3}}, MERGE)
    assert scaled["kind"] == "Scale"
    after = await api("GET", WIDGETS + "/a")
    assert after["spec"]["replicas"] == 3
    assert after["metadata"]["generation"] == 2
    assert any(one.get("subresource") == "scale" for one in after["metadata"]["managedFields"])
    with pytest.raises(Invalid, match="should be a non-negative integer"):
        await api("PATCH", WIDGETS + "/a/scale", {"spec": {"replicas": -1}}, MERGE)
    scaled["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Conflict):
        await api("PUT", WIDGETS + "/a/scale", scaled)


async def test_a_status_moves_no_generation_and_a_spec_no_status(client, api):
    await install(client)
    await api("POST", WIDGETS, widget("a", size=1))
    ready = await api("PATCH", WIDGETS + "/a/status", {"status": {"phase": "Up"}, "spec": {"size": 9}}, MERGE)
    assert ready["spec"] == {"size": 1}
    assert ready["metadata"]["generation"] == 1
    after = await api("PATCH", WIDGETS + "/a", {"status": {"phase": "Down"}, "spec": {"size": 2}}, MERGE)
    assert after["status"] == {"phase": "Up"}
    assert after["metadata"]["generation"] == 2


async def test_a_pod_is_bound_once(api):
    await api("POST", PODS, pod("a"))
    await api("POST", PODS + "/a/binding", {"target": {"kind": "Node", "name": "n1"}})
    bound = await api("GET", PODS + "/a")
    assert bound["spec"]["nodeName"] == "n1"
    with pytest.raises(Conflict, match='pod a is already assigned to node "n1"'):
        await api("POST", PODS + "/a/binding", {"target": {"kind": "Node", "name": "n2"}})


async def test_an_eviction_deletes_and_respects_disruption_budgets(api):
    await api("POST", PODS, pod("a"))
    await api("POST", PODS + "/a/eviction", {"metadata": {"name": "a"}})
    with pytest.raises(NotFound):
        await api("GET", PODS + "/a")
    await api("POST", PODS, pod("b", nodeName="n1"))
    await api("PATCH", PODS + "/b/status", {"status": {"phase": "Running"}}, MERGE)
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
    }
    await api("POST", BUDGETS, budget)
    with pytest.raises(
        ApiError, match="Cannot evict pod as it would violate the pod's disruption budget"
    ) as caught:
        await api("POST", PODS + "/b/eviction", {"metadata": {"name": "b"}})
    assert caught.value.code == 429
    assert caught.value.causes[0]["reason"] == "DisruptionBudget"
    allowed = {
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    }
    await api("PATCH", BUDGETS + "/keep/status", allowed, MERGE)
    await api("POST", PODS + "/b/eviction", {"metadata": {"name": "b"}})
    spent = (await api("GET", BUDGETS + "/keep"))["status"]
    assert spent["disruptionsAllowed"] == 0
    assert list(spent["disruptedPods"]) == ["b"]


async def test_a_log_comes_from_whoever_plays_the_node(hub, client, api):
    hub.pod_log = lambda cluster, obj, container: f"{cluster} {obj['metadata']['name']} {container}\nlast\n"
    await api("POST", PODS, pod("a", "one", "two", nodeName="n1"))
    with pytest.raises(
        BadRequest, match=r"a container name must be specified for pod a, choose one of: \[one two\]"
    ):
        await client.raw("GET", PODS + "/a/log")
    with pytest.raises(BadRequest, match="container x is not valid for pod a"):
        await client.raw("GET", PODS + "/a/log?container=x")
    assert await client.raw("GET", PODS + "/a/log?container=two") == b"hub a two\nlast\n"
    assert await client.raw("GET", PODS + "/a/log?container=two&tailLines=1") == b"last\n"


async def test_what_only_a_node_could_do_is_refused(client, api):
    await api("POST", PODS, pod("a"))
    with pytest.raises(ApiError) as caught:
        await client.raw("GET", PODS + "/a/exec?command=sh")
    assert caught.value.code == 405
