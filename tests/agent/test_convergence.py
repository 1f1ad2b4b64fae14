"""Whatever happens on the way, the member ends with exactly what its Works say (seeded random histories)."""

import asyncio
from random import Random

import pytest

from echelon.api.builtin import CONFIG_MAPS
from echelon.api.own import APPLIED_WORKS, WORKS
from echelon.client.errors import Conflict, NotFound
from tests.agent.fleet import MEMBER, SPACE, config_map, run, said
from tests.world import world

WORK_NAMES = ("one", "two")
OBJECTS = ("a", "b", "c", "d")
STRATEGIES = (
    None,
    {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}},
    {"comparisonOption": "FullComparison"},
    {"type": "ReportDiff"},
)


def content(rng, work):
    """Draw the manifests of a Work; the Works never share an object."""
    names = rng.sample(OBJECTS, rng.randint(0, len(OBJECTS)))
    return [
        config_map(f"{work}-{name}", "default", **{rng.choice("xyz"): str(rng.randint(0, 3))})
        for name in names
    ]


async def misbehave(fleet, rng, wanted):
    """Do one thing that happens in the life of a fleet."""
    w = fleet.world
    match rng.randint(0, 8):
        case 0 | 1 | 2 | 3:
            name = rng.choice(WORK_NAMES)
            wanted[name] = content(rng, name)
            strategy = rng.choice(STRATEGIES)
            await fleet.place(name, *wanted[name], **({"applyStrategy": strategy} if strategy else {}))
        case 4:
            name = rng.choice(WORK_NAMES)
            wanted.pop(name, None)
            try:
                await fleet.hub.delete(WORKS, name, SPACE)
            except NotFound:
                return
        case 5:
            if MEMBER in fleet.agents:
                await fleet.stop_agent(MEMBER)
            await fleet.start_agent(MEMBER)
        case 6:
            link = w.links[rng.choice((MEMBER, f"{MEMBER}-self"))]
            link.cut()
            await asyncio.sleep(rng.random() * 20)
            link.mend()
        case 7:
            held = await fleet.config_maps("default")
            if held:
                edit = {"data": {rng.choice("xyz"): "edited"}}
                await fleet.person().patch(CONFIG_MAPS, rng.choice(sorted(held)), "default", edit)
        case 8:
            held = await fleet.config_maps("default")
            if held:
                await fleet.person().delete(CONFIG_MAPS, rng.choice(sorted(held)), "default")
    await asyncio.sleep(rng.choice((0, 0.001, 0.01, 1, 30)))


async def is_as_wanted(fleet, wanted):
    """Compare the member with what the Works say; fields that others added stay and do not count."""
    held = await fleet.config_maps("default")
    objects = {one["metadata"]["name"]: one["data"] for many in wanted.values() for one in many}
    if set(held) != set(objects):
        return False
    if any(not data.items() <= (held[name] or {}).items() for name, data in objects.items()):
        return False
    records = {one.name for one in (await fleet.member().list(APPLIED_WORKS)).items}
    works = {one.name: one for one in (await fleet.hub.list(WORKS, SPACE)).items}
    if records != set(wanted) or set(works) != set(wanted):
        return False
    return all(
        work.status is not None
        and said(work.status.conditions).get("Applied", ("", ""))[0] == "True"
        and [one.identifier.name for one in work.status.manifest_conditions]
        == [one["metadata"]["name"] for one in wanted[name]]
        for name, work in works.items()
    )


async def none_is_going(fleet):
    return not any(one.metadata.is_deleting for one in (await fleet.hub.list(WORKS, SPACE)).items)


@pytest.mark.parametrize("seed", range(12))
def test_a_member_ends_with_exactly_what_its_works_say(seed):
    async def scenario(fleet):
        rng = Random(seed)
        wanted = {}
        for _ in range(30):
            try:
                await misbehave(fleet, rng, wanted)
            except (NotFound, Conflict):
                continue  # the history itself lost a race
        for link in fleet.world.links.values():
            link.mend()
        if MEMBER not in fleet.agents:
            await fleet.start_agent(MEMBER)
        await fleet.world.until(lambda: none_is_going(fleet), within_s=600)
        for name, manifests in wanted.items():
            await fleet.place(name, *manifests)
        await fleet.world.until(lambda: is_as_wanted(fleet, wanted), within_s=600)
        await asyncio.sleep(60)
        assert await is_as_wanted(fleet, wanted)

    with world(seed, shuffle=True) as w:
        run(w, scenario)
