"""Who owns which field, over the API: tracking, server-side apply, conflicts, force, status."""

import pytest

from echelon.client.errors import ApiError, BadRequest, Conflict, Invalid
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import APPLY, CRDS, MERGE, WIDGETS, ask, install, widget, widget_crd


@pytest.fixture
async def api(client):
    await install(client)

    async def call(method, path, body=None, media="application/json"):
        return await ask(client, method, path, body, media)

    return call


def owners(obj):
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }


async def test_a_create_makes_its_manager_the_owner_of_all_it_set(api):
    made = await api("POST", WIDGETS + "?fieldManager=me", widget("a", size=1))
    assert owners(made) == {("me", "Update", ""): {"f:spec": {".": {}, "f:size": {}}}}


async def test_an_update_takes_only_what_it_changes(api):
    await api("POST", WIDGETS + "?fieldManager=me", widget("a", size=1, color="red"))
    after = await api("PATCH", WIDGETS + "/a?fieldManager=you", {"spec": {"size": 2, "color": "red"}}, MERGE)
    assert owners(after) == {
        ("me", "Update", ""): {"f:spec": {".": {}, "f:color": {}}},
        ("you", "Update", ""): {"f:spec": {"f:size": {}}},
    }


async def test_an_apply_creates_what_is_absent(api):
    made = await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1), APPLY)
    assert owners(made) == {("me", "Apply", ""): {"f:spec": {"f:size": {}}}}
    assert made["metadata"]["generation"] == 1


async def test_an_apply_that_meets_another_owner_conflicts_in_the_words_of_kubectl(api):
    await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1, color="red"), APPLY)
    with pytest.raises(Conflict) as one:
        await api("PATCH", WIDGETS + "/a?fieldManager=you", widget("a", size=2), APPLY)
    assert str(one.value) == 'Apply failed with 1 conflict: conflict with "me": .spec.size'
    with pytest.raises(Conflict) as two:
        await api("PATCH", WIDGETS + "/a?fieldManager=you", widget("a", size=2, color="blue"), APPLY)
    assert str(two.value) == (
        'Apply failed with 2 conflicts: conflicts with "me":\n- .spec.color\n- .spec.size'
    )
    assert two.value.causes[0] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "me"',
        "field": ".spec.color",
    }


async def test_force_takes_the_fields_over(api):
    await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1, color="red"), APPLY)
    after = await api("PATCH", WIDGETS + "/a?fieldManager=you&force=true", widget("a", size=2), APPLY)
    assert after["spec"] == {"size": 2, "color": "red"}
    assert owners(after) == {
        ("me", "Apply", ""): {"f:spec": {"f:color": {}}},
        ("you", "Apply", ""): {"f:spec": {"f:size": {}}},
    }


async def test_what_is_no_longer_applied_and_nobody_else_owns_goes(api):
    await api(
        "PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1, color="red", tags=["x", "y"]), APPLY
    )
    await api("PATCH", WIDGETS + "/a?fieldManager=you", widget("a", color="red"), APPLY)
    after = await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", tags=["y"]), APPLY)
    assert after["spec"] == {"color": "red", "tags": ["y"]}


async def test_items_of_a_keyed_list_belong_to_those_who_applied_them(api):
    mine = widget("a", parts=[{"name": "wheel", "count": 4}])
    yours = widget("a", parts=[{"name": "door", "count": 2}])
    await api("PATCH", WIDGETS + "/a?fieldManager=me", mine, APPLY)
    after = await api("PATCH", WIDGETS + "/a?fieldManager=you", yours, APPLY)
    assert after["spec"]["parts"] == [{"name": "wheel", "count": 4}, {"name": "door", "count": 2}]
    after = await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a"), APPLY)
    assert after["spec"]["parts"] == [{"name": "door", "count": 2}]


async def test_the_same_apply_again_writes_nothing(api):
    first = await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1), APPLY)
    again = await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1), APPLY)
    assert again == first


async def test_status_has_its_own_managers(api):
    await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1), APPLY)
    body = {**widget("a"), "status": {"phase": "Ready"}}
    after = await api("PATCH", WIDGETS + "/a/status?fieldManager=ctl", body, APPLY)
    assert after["status"] == {"phase": "Ready"}
    assert owners(after)["ctl", "Apply", "status"] == {"f:status": {"f:phase": {}}}
    assert owners(after)["me", "Apply", ""] == {"f:spec": {"f:size": {}}}
    written = await api("PATCH", WIDGETS + "/a/status?fieldManager=u", {"status": {"replicas": 3}}, MERGE)
    assert owners(written)["u", "Update", "status"] == {"f:status": {"f:replicas": {}}}


async def test_status_in_an_apply_of_the_object_is_ignored(api):
    body = {**widget("a", size=1), "status": {"phase": "Ready"}}
    made = await api("PATCH", WIDGETS + "/a?fieldManager=me", body, APPLY)
    assert "status" not in made
    assert owners(made) == {("me", "Apply", ""): {"f:spec": {"f:size": {}}}}


async def test_an_apply_dry_run_leaves_no_trace(api):
    await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=1), APPLY)
    tried = await api("PATCH", WIDGETS + "/a?fieldManager=me&dryRun=All", widget("a", size=2), APPLY)
    assert tried["spec"] == {"size": 2}
    assert (await api("GET", WIDGETS + "/a"))["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("query", "body", "error", "message"),
    [
        (
            "",
            widget("a"),
            Invalid,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (
            "?fieldManager=m",
            {**widget("a"), "kind": "Gadget"},
            BadRequest,
            "invalid object type: test.io/v1, Kind=Gadget",
        ),
        (
            "?fieldManager=m",
            {**widget("a"), "metadata": {"name": "a", "managedFields": [{}]}},
            BadRequest,
            "metadata.managedFields must be nil",
        ),
        (
            "?fieldManager=m",
            widget("a", colour="red"),
            ApiError,
            "failed to create typed patch object (/a; test.io/v1, Kind=Widget): .spec.colour: field not declared in schema",
        ),
        (
            "?fieldManager=m",
            widget("a", parts=[{"name": "x"}, {"name": "x"}]),
            ApiError,
            'failed to create typed patch object (/a; test.io/v1, Kind=Widget): .spec.parts: duplicate entries for key [name="x"]',
        ),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused(api, query, body, error, message):
    with pytest.raises(error) as caught:
        await api("PATCH", WIDGETS + "/a" + query, body, APPLY)
    assert str(caught.value) == message


async def test_an_empty_list_of_managers_forgets_them_and_the_next_apply_meets_the_unknown(api):
    await api("POST", WIDGETS, widget("a", size=1))
    after = await api("PATCH", WIDGETS + "/a", {"metadata": {"managedFields": [{}]}}, MERGE)
    assert owners(after) == {}
    with pytest.raises(Conflict, match="before-first-apply"):
        await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", size=2), APPLY)


async def test_kubectl_takes_over_from_its_client_side_apply_without_force(api):
    import json

    config = widget("a", size=1)
    last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(config)}
    body = {**config, "metadata": {"name": "a", "annotations": last}}
    await api("POST", WIDGETS + "?fieldManager=kubectl-client-side-apply", body)
    after = await api("PATCH", WIDGETS + "/a?fieldManager=kubectl", widget("a", size=2), APPLY)
    assert after["spec"] == {"size": 2}
    with pytest.raises(Conflict):
        await api("PATCH", WIDGETS + "/a?fieldManager=other", widget("a", size=3), APPLY)


async def test_nonsense_in_the_part_that_is_not_written_leaves_the_owners_as_they_were(api):
    await api("POST", WIDGETS + "?fieldManager=me", widget("a", size=1))
    odd = {"spec": {"size": 2}, "status": {"phase": 5}}
    after = await api("PATCH", WIDGETS + "/a?fieldManager=you", odd, MERGE)
    assert after["spec"] == {"size": 2}
    assert owners(after) == {("me", "Update", ""): {"f:spec": {".": {}, "f:size": {}}}}


async def test_what_a_new_object_says_of_its_status_does_not_matter_but_has_no_owner_if_it_is_nonsense(api):
    made = await api("POST", WIDGETS, {**widget("a", size=1), "status": {"phase": 5}})
    assert owners(made) == {}


async def test_an_applied_null_is_refused_where_none_is_allowed(api):
    with pytest.raises(Invalid) as refused:
        await api("PATCH", WIDGETS + "/a?fieldManager=me", widget("a", color=None), APPLY)
    assert 'spec.color in body must be of type string: "null"' in str(refused.value)


async def test_nobody_scales_what_nobody_counts(api):
    await api("POST", WIDGETS + "?fieldManager=me", widget("a", size=1))
    await api("PATCH", WIDGETS + "/a/scale?fieldManager=you", {"spec": {"replicas": 3}}, MERGE)
    after = await api("GET", WIDGETS + "/a")
    assert after["spec"] == {"size": 1, "replicas": 3}
    assert owners(after) == {("me", "Update", ""): {"f:spec": {".": {}, "f:size": {}}}}


async def test_who_scales_what_somebody_counts_owns_the_count_unless_it_is_zero(api):
    await api("POST", WIDGETS + "?fieldManager=me", widget("a", replicas=1))
    await api("PATCH", WIDGETS + "/a/scale?fieldManager=you", {"spec": {"replicas": 3}}, MERGE)
    after = await api("GET", WIDGETS + "/a")
    assert owners(after)["you", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    await api("PATCH", WIDGETS + "/a/scale?fieldManager=you", {"spec": {"replicas": 0}}, MERGE)
    after = await api("GET", WIDGETS + "/a")
    assert ("you", "Update", "scale") not in owners(after)


async def test_strictly_fields_inside_a_plain_value_are_unknown(api):
    with pytest.raises(BadRequest) as refused:
        await api("POST", WIDGETS + "?fieldValidation=Strict", widget("a", size={"x": 1}))
    assert 'unknown field "spec.size.x"' in str(refused.value)


async def test_an_object_that_was_moved_by_a_patch_leaves_the_stored_one_alone(api):
    await api("POST", WIDGETS, widget("a", size=1, parts=[{"name": "p", "count": 1}]))
    move = [{"op": "move", "from": "/spec/parts/0", "path": "/status"}]
    after = await api("PATCH", WIDGETS + "/a/status", move, "application/json-patch+json")
    assert after["spec"]["parts"] == [{"name": "p", "count": 1}]


async def test_a_number_that_becomes_a_truth_is_something_new(client):
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = widget_crd()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = free
    await client.raw("POST", CRDS, definition)
    await ask(client, "POST", WIDGETS, widget("a", any=[1]))
    after = await ask(client, "PATCH", WIDGETS + "/a", {"spec": {"any": [True]}}, MERGE)
    assert (after["spec"], after["metadata"]["generation"]) == ({"any": [True]}, 2)
