"""What placements select, asked of copies that lag behind."""

import msgspec
import pytest

from echelon.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from echelon.api.crds import crds
from echelon.api.scope import CLUSTER, NAMESPACED
from echelon.client.cache import Cache
from echelon.controllers.selection import Selection
from tests.world import namespace, world

NAMED = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "app"}
WHOLE = {"group": "", "version": "v1", "kind": "Namespace", "name": "work"}


@pytest.mark.parametrize(("scope", "selector"), [(CLUSTER, WHOLE), (NAMESPACED, NAMED)])
def test_what_is_selected_now_is_never_older_than_the_question(scope, selector):
    def contents(selected):
        return [one["data"] for one in selected.manifests if one["kind"] == "ConfigMap" and "data" in one]

    async def scenario():
        people = w.client()
        for crd in crds():
            await people.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        await people.create(NAMESPACES, namespace("work"))
        app = {"metadata": {"name": "app"}, "data": {"v": "1"}}
        await people.create(CONFIG_MAPS, app, "work")
        body = {
            "metadata": {"name": "p", "namespace": "work" if scope.namespaced else None, "generation": 1},
            "spec": {"resourceSelectors": [selector]},
        }
        placement = msgspec.convert(body, scope.placement.type)
        engine = w.client(link="engine")
        cache = Cache(engine)
        selection = Selection(cache, engine)
        assert {"v": "1"} in contents(await selection.select(scope, placement))
        w.links["engine"].cut()
        await people.patch(CONFIG_MAPS, "app", "work", {"data": {"v": "2"}})
        w.links["engine"].mend()
        assert {"v": "1"} in contents(await selection.select(scope, placement))
        assert {"v": "2"} in contents(await selection.select_now(scope, placement))
        await cache.close()

    with world(5) as w:
        w.run(scenario())
