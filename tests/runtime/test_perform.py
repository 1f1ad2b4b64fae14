"""The one writer: idempotent, compare-and-swap, status last, nothing sent that changes nothing."""

import pytest

from echelon.api.builtin import CONFIG_MAPS, EVENTS
from echelon.client.errors import AlreadyExists, Conflict, NotFound
from echelon.rules.plan import Create, Delete, Emit, Patch, Plan, Ref, StatusWrite, ref_of
from echelon.runtime.perform import Performer
from echelon.runtime.telemetry import Telemetry
from tests.world import world

BODY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"k": "1"},
}


@pytest.fixture
def w():
    with world(4) as made:
        yield made


def run(w, scenario):
    client = w.client()
    return w.run(scenario(client, Performer(client, None, w, component="test")))


async def data(client):
    return (await client.get(CONFIG_MAPS, "a", "default")).get("data")


def test_performing_a_plan_twice_is_performing_it_once(w):
    async def scenario(client, performer):
        plan = Plan(steps=((Create(resource=CONFIG_MAPS, body=BODY),),))
        await performer.perform(plan)
        await performer.perform(plan)
        assert await data(client) == {"k": "1"}
        gone = Plan(steps=((Delete(ref=Ref(resource=CONFIG_MAPS, name="a", namespace="default")),),))
        await performer.perform(gone)
        await performer.perform(gone)
        with pytest.raises(NotFound):
            await data(client)

    run(w, scenario)


def test_a_create_that_must_be_new_says_when_it_is_not(w):
    async def scenario(_client, performer):
        await performer.perform(Plan(steps=((Create(resource=CONFIG_MAPS, body=BODY),),)))
        with pytest.raises(AlreadyExists):
            await performer.perform(
                Plan(steps=((Create(resource=CONFIG_MAPS, body=BODY, exists_ok=False),),))
            )

    run(w, scenario)


def test_a_patch_of_what_has_changed_meanwhile_is_a_conflict(w):
    async def scenario(client, performer):
        seen = await client.create(CONFIG_MAPS, BODY, "default")
        await client.patch(CONFIG_MAPS, "a", "default", {"data": {"k": "2"}})
        with pytest.raises(Conflict):
            await performer.perform(
                Plan(steps=((Patch(ref=ref_of(CONFIG_MAPS, seen), body={"data": {"k": "3"}}),),))
            )
        assert await data(client) == {"k": "2"}

    run(w, scenario)


def test_a_plan_does_not_conflict_with_its_own_writes(w):
    async def scenario(client, performer):
        ref = ref_of(CONFIG_MAPS, await client.create(CONFIG_MAPS, BODY, "default"))
        steps = tuple((Patch(ref=ref, body={"data": {key: "x"}}),) for key in "bcd")
        await performer.perform(Plan(steps=steps))
        assert await data(client) == {"k": "1", "b": "x", "c": "x", "d": "x"}

    run(w, scenario)


def test_one_failing_action_lets_its_neighbours_finish_and_ends_the_plan(w):
    async def scenario(client, performer):
        other = {**BODY, "metadata": {"name": "b", "namespace": "default"}}
        third = {**BODY, "metadata": {"name": "c", "namespace": "default"}}
        missing = Patch(ref=Ref(resource=CONFIG_MAPS, name="none", namespace="default"), body={"data": {}})
        plan = Plan(
            steps=(
                (missing, Create(resource=CONFIG_MAPS, body=BODY), Create(resource=CONFIG_MAPS, body=other)),
                (Create(resource=CONFIG_MAPS, body=third),),
            )
        )
        with pytest.raises(NotFound):
            await performer.perform(plan)
        await client.get(CONFIG_MAPS, "a", "default")
        await client.get(CONFIG_MAPS, "b", "default")
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "c", "default")

    run(w, scenario)


def test_a_status_that_says_the_same_is_not_written(w):
    async def scenario(_client, performer):
        ref = Ref(resource=CONFIG_MAPS, name="not-even-there", namespace="default")
        same = {"phase": "x", "list": [1]}
        await performer.perform(Plan(status=StatusWrite(ref=ref, old=same, new=dict(same))))
        assert performer.write_count == 0

    run(w, scenario)


def test_an_event_said_again_is_counted_not_repeated(w):
    async def scenario(client, performer):
        ref = ref_of(CONFIG_MAPS, await client.create(CONFIG_MAPS, BODY, "default"))
        said = Plan(events=(Emit(about=ref, reason="Said", message="something"),))
        await performer.perform(said)
        await performer.perform(said)
        events = (await client.list(EVENTS, "default")).items
        assert [(event["reason"], event["count"]) for event in events] == [("Said", 2)]

    run(w, scenario)


def test_an_event_said_again_costs_one_request_and_comes_back_when_it_was_deleted(w):
    async def scenario(client, performer):
        ref = ref_of(CONFIG_MAPS, await client.create(CONFIG_MAPS, BODY, "default"))
        said = Plan(events=(Emit(about=ref, reason="Said", message="something"),))
        for _ in range(3):
            await performer.perform(said)
        assert performer.write_count == 3
        other = Performer(client, None, w, component="test")  # a new process knows of nothing
        await other.perform(said)
        (event,) = (await client.list(EVENTS, "default")).items
        assert event["count"] == 4
        await client.delete(EVENTS, event["metadata"]["name"], "default")
        await performer.perform(said)
        (event,) = (await client.list(EVENTS, "default")).items
        assert event["count"] == 1

    run(w, scenario)


def test_writes_are_counted_by_verb_and_resource(w):
    async def scenario():
        telemetry = Telemetry()
        performer = Performer(w.client(), None, w, component="test", telemetry=telemetry)
        await performer.perform(Plan(steps=((Create(resource=CONFIG_MAPS, body=BODY),),)))
        assert b'echelon_writes_total{resource="configmaps",verb="create"} 1.0' in telemetry.page()

    w.run(scenario())
