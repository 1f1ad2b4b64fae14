"""How soon a controller is back after its API was away."""

import asyncio

import pytest

from echelon.api.builtin import CONFIG_MAPS
from echelon.client.base import Client
from echelon.rules.plan import Patch, Plan, ref_of
from echelon.runtime.controller import each
from tests.world import world

BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


class Marks:
    """Writes `seen` on a ConfigMap."""

    name = "marks"
    workers = 1
    watches = (each(CONFIG_MAPS, "default"),)

    def __init__(self, cache):
        self._store = cache.store(CONFIG_MAPS, "default")

    async def load(self, key):
        held = self._store.get(key.name, key.namespace)
        return held if held and held.get("data", {}).get("v") != held.get("data", {}).get("seen") else None

    def decide(self, held, now):
        return Plan(
            steps=((Patch(ref=ref_of(CONFIG_MAPS, held), body={"data": {"seen": held["data"]["v"]}}),),)
        )


@pytest.mark.parametrize("away_s", [5, 600])
def test_a_write_that_could_not_be_sent_is_sent_within_seconds_of_the_apis_return(away_s):
    with world(4) as w:

        async def scenario():
            client = w.client()
            await client.create(CONFIG_MAPS, {**BODY, "data": {"v": "1", "seen": "1"}}, "default")
            broken: Client = w.client(link="engine")
            manager = await w.start(lambda manager: [Marks(manager.cache)], client=broken)
            w.links["engine"].lose_request = 1.0  # writes fail, the watch goes on
            await client.patch(CONFIG_MAPS, "a", "default", {"data": {"v": "2"}})
            await asyncio.sleep(away_s)
            w.links["engine"].lose_request = 0.0
            await asyncio.sleep(2.5)
            await manager.stop()
            w.managers.remove(manager)
            return (await client.get(CONFIG_MAPS, "a", "default"))["data"]["seen"]

        assert w.run(scenario()) == "2"
