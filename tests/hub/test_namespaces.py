"""Namespaces: what they are born with, and how they go."""

import pytest

from echelon.client.errors import Forbidden, NotFound
from tests.hub.serve import client, hub, settle, world  # noqa: F401
from tests.hub.widgets import MERGE, ask, install, widget

NS = "/api/v1/namespaces"


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


async def test_a_namespace_is_furnished(hub, api):
    made = await api("POST", NS, {"metadata": {"name": "team"}})
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    await settle(hub)
    await api("GET", NS + "/team/serviceaccounts/default")
    await api("GET", NS + "/team/configmaps/kube-root-ca.crt")


async def test_its_furniture_comes_back(hub, api):
    await api("DELETE", NS + "/default/serviceaccounts/default")
    await api("DELETE", NS + "/default/configmaps/kube-root-ca.crt")
    await settle(hub)
    await api("GET", NS + "/default/serviceaccounts/default")
    await api("GET", NS + "/default/configmaps/kube-root-ca.crt")


async def test_a_deleted_namespace_takes_everything_in_it_along(hub, client, api):
    await install(client)
    await api("POST", NS, {"metadata": {"name": "team"}})
    await api("POST", NS + "/team/configmaps", {"metadata": {"name": "a"}})
    await api("POST", "/apis/test.io/v1/namespaces/team/widgets", widget("a"))
    deleted = await api("DELETE", NS + "/team")
    assert deleted["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in deleted["metadata"]
    await settle(hub)
    with pytest.raises(NotFound):
        await api("GET", NS + "/team")
    assert (await api("GET", NS + "/team/configmaps"))["items"] == []
    assert (await api("GET", "/apis/test.io/v1/namespaces/team/widgets"))["items"] == []
    assert (await api("GET", NS + "/default/configmaps"))["items"]


async def test_a_namespace_waits_for_finalizers_and_says_so(hub, api):
    await api("POST", NS, {"metadata": {"name": "team"}})
    await api("POST", NS + "/team/configmaps", {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}})
    await api("DELETE", NS + "/team")
    await settle(hub)
    status = (await api("GET", NS + "/team"))["status"]
    said = {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}
    assert said["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    assert said["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: x.io/hold in 1 resource instances",
    )
    await api("PATCH", NS + "/team/configmaps/a", {"metadata": {"finalizers": None}}, MERGE)
    await settle(hub)
    with pytest.raises(NotFound):
        await api("GET", NS + "/team")


async def test_nothing_new_comes_into_a_namespace_that_goes(hub, api):
    await api("POST", NS, {"metadata": {"name": "team", "finalizers": ["x.io/hold"]}})
    await api("DELETE", NS + "/team")
    with pytest.raises(Forbidden) as caught:
        await api("POST", NS + "/team/configmaps", {"metadata": {"name": "a"}})
    assert str(caught.value) == (
        'configmaps "a" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert caught.value.causes[0]["reason"] == "NamespaceTerminating"
    await settle(hub)
    assert (await api("GET", NS + "/team"))["spec"] == {}
    await api("PATCH", NS + "/team", {"metadata": {"finalizers": None}}, MERGE)
    with pytest.raises(NotFound):
        await api("GET", NS + "/team")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_first_namespaces_stay(api, name):
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await api("DELETE", f"{NS}/{name}")
