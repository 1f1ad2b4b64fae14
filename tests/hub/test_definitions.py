"""CustomResourceDefinitions: accepted, established, emptied, gone."""

import pytest

from echelon.client.errors import ApiError, Forbidden, NotFound
from tests.hub.serve import client, hub, settle, world  # noqa: F401
from tests.hub.widgets import CRDS, MERGE, WIDGETS, ask, install, widget, widget_crd


@pytest.fixture
def api(client):
    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


def conditions(crd):
    return {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in crd["status"]["conditions"]
    }


def rival():
    crd = widget_crd()
    crd["metadata"]["name"] = "gadgets.test.io"
    crd["spec"]["names"] = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Widget",
        "listKind": "GadgetList",
    }
    return crd


async def test_a_definition_is_established_when_it_is_created(api):
    made = await api("POST", CRDS, widget_crd())
    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert made["metadata"]["generation"] == 1
    await api("POST", WIDGETS, widget("a", size=1))


async def test_names_in_use_are_not_accepted_until_they_are_free(hub, client, api):
    await install(client)
    made = await api("POST", CRDS, rival())
    assert conditions(made) == {
        "NamesAccepted": ("False", "KindConflict", '"Widget" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    with pytest.raises(NotFound):
        await api("GET", "/apis/test.io/v1/namespaces/default/gadgets")
    await api("DELETE", CRDS + "/widgets.test.io")
    await settle(hub)
    await api("GET", "/apis/test.io/v1/namespaces/default/gadgets")


async def test_a_definition_takes_its_objects_along(hub, client, api):
    await install(client)
    await api("POST", WIDGETS, widget("a"))
    held = {**widget("b"), "metadata": {"name": "b", "finalizers": ["x.io/hold"]}}
    await api("POST", WIDGETS, held)
    marked = await api("DELETE", CRDS + "/widgets.test.io")
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(marked)["Terminating"][1] == "InstanceDeletionPending"
    with pytest.raises(Forbidden, match="create not allowed while custom resource definition is terminating"):
        await api("POST", WIDGETS, widget("c"))
    await settle(hub)
    assert [item["metadata"]["name"] for item in (await api("GET", WIDGETS))["items"]] == ["b"]
    going = await api("GET", CRDS + "/widgets.test.io")
    assert conditions(going)["Terminating"] == (
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    )
    await api("PATCH", WIDGETS + "/b", {"metadata": {"finalizers": None}}, MERGE)
    await settle(hub)
    with pytest.raises(NotFound):
        await api("GET", CRDS + "/widgets.test.io")
    with pytest.raises(ApiError) as caught:
        await api("GET", WIDGETS)
    assert caught.value.code == 404


async def test_every_version_that_was_ever_stored_is_remembered(client, api):
    await install(client)
    crd = await api("GET", CRDS + "/widgets.test.io")
    old = crd["spec"]["versions"][0]
    versions = [{**old, "storage": False}, {**old, "name": "v2"}]
    after = await api("PATCH", CRDS + "/widgets.test.io", {"spec": {"versions": versions}}, MERGE)
    assert after["status"]["storedVersions"] == ["v1", "v2"]
    await api("POST", WIDGETS, widget("a", size=1))
    assert (await api("GET", WIDGETS.replace("/v1/", "/v2/") + "/a"))["apiVersion"] == "test.io/v2"
