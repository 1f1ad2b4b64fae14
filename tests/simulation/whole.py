"""The same with nothing pretended: the real scheduler, delivery and member agents, from one seed.

The engine dies between any two writes and loses requests, answers and watches; members are slow, cut off, or restarted;
people approve, stop, resume, edit what is placed and start further runs. In the end every run must be over and every
member must hold what the run made last has brought.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.api.builtin import CONFIG_MAPS
from echelon.api.own import MEMBER_CLUSTERS
from echelon.api.scope import SCOPES
from echelon.client.base import Client
from echelon.client.cache import Cache
from echelon.client.faults import Link
from echelon.controllers.all import hub_controllers
from echelon.hub.call import ADMIN
from echelon.hub.local import LocalTransport
from echelon.rules.run_phases import RunPhase, run_phase
from echelon.runtime.manager import Manager
from tests.rollouts import APPROVAL, Rollout, picks, stage, wait
from tests.simulation.fleet import Fleet as Pretended
from tests.simulation.fleet import Mortal
from tests.stories import SPACE, Story
from tests.world import World, world


class Whole(Pretended):
    """The fleet of one seed."""

    def __init__(self, w: World, seed: int) -> None:
        super().__init__(w, seed)
        self.story = Story(w, SCOPES[seed % 2])
        self.rollout.placement = self.story.name
        self.rollout.namespace = self.story.namespace

    async def start_engine(self) -> None:
        share = 0.0 if self.calm else self.rng.choice((0.0, 0.03, 0.1))
        link = Link(LocalTransport(self.w.hub, ADMIN), self.rng)
        if not self.calm:
            link.lose_request = link.lose_answer = self.rng.choice((0.0, 0.01, 0.05))
            link.drop_watch = self.rng.choice((0.0, 0.01, 0.05))
        self.mortal = Mortal(link, self.rng, share)
        fleet = self.story.fleet
        fleet.manager = self.manager = Manager(Client(self.mortal), self.w.sim)
        await self.start_unless_dead(hub_controllers(self.manager, fleet.options.engine))
        self.manager.cache.store(MEMBER_CLUSTERS).subscribe(lambda _old, _new: fleet._changed.set())

    async def disturb(self) -> None:
        """Members are slow, cut off, lossy, or restarted."""
        while not self.calm:
            await asyncio.sleep(self.rng.uniform(1, 60))
            name = self.rng.choice(list(self.story.fleet.members))
            member = self.story.fleet.members[name]
            what = self.rng.random()
            if what < 0.3:
                member.link.cut()
                await asyncio.sleep(self.rng.uniform(1, 50))
                member.link.mend()
            elif what < 0.6:
                member.link.latency_s = (0.0, self.rng.choice((0.0, 0.1, 2.0)))
                member.link.lose_request = member.link.lose_answer = self.rng.choice((0.0, 0.05))
            else:
                await self.restart(name)

    async def restart(self, name: str) -> None:
        """The agent of a member ends; another one is started in its place."""
        member = self.story.fleet.members[name]
        await member.agent.stop()
        await asyncio.sleep(self.rng.choice((0.0, 5.0)))
        member.agent = Agent(Client(member.link), member.client, self.story.fleet.clock, name)
        await member.agent.start()

    async def edit(self) -> None:
        """Somebody changes what is placed."""
        for value in range(1, 50):
            await asyncio.sleep(self.rng.uniform(20, 200))
            if self.calm:
                return
            await self.story.hub.patch(CONFIG_MAPS, "app-cm", SPACE, {"data": {"data": f"v{value}"}})

    async def live(self) -> None:
        r, rng = self.rollout, self.rng
        await self.story.begin()
        kind = "ConfigMap" if self.scope_is_namespaced() else "Namespace"
        name = "app-cm" if self.scope_is_namespaced() else SPACE
        selector = {"group": "", "version": "v1", "kind": kind, "name": name}
        spec = {"resourceSelectors": [selector], "strategy": {"type": "External"}}
        await self.story.make(r.scope.placement, r.placement, spec, r.namespace)
        await r.strategy("s", self.stages())
        await r.strategy("t", [stage("all", maxConcurrency="50%")])
        await self.w.settle()
        await self.story.fleet.stop_engine()
        witness = Cache(self.w.client())
        witness.store(r.scope.run).subscribe(self.witness.sees)
        await self.start_engine()
        tasks = [
            asyncio.create_task(work()) for work in (self.keep_engine, self.disturb, self.people, self.edit)
        ]
        await r.run("r1", index=None, state=rng.choice(("Run", "Initialize")))
        await asyncio.sleep(rng.uniform(60, 400))
        await self.calm_down()
        await self.everything_ends()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.w.settle()
        await self.check_end()
        await witness.close()
        await self.w.stop()

    def scope_is_namespaced(self) -> bool:
        return self.rollout.scope.namespaced

    def stages(self) -> list[dict[str, Any]]:
        rng = self.rng
        after = [task for task in (APPROVAL, wait("20s")) if rng.random() < 0.4]
        canary = stage("canary", picks(env="canary"), **({"afterStageTasks": after} if after else {}))
        before = {"beforeStageTasks": [APPROVAL]} if rng.random() < 0.4 else {}
        return [canary, stage("prod", picks(env="prod"), maxConcurrency=rng.choice((1, 2)), **before)]

    async def calm_down(self) -> None:
        """From now on nothing goes wrong any more."""
        self.calm = True
        for name in list(self.story.fleet.members):
            link = self.story.fleet.members[name].link
            link.mend()
            link.latency_s = (0.0, 0.0)
            link.lose_request = link.lose_answer = 0.0
        assert self.mortal is not None
        self.mortal.died.set()

    async def check_end(self) -> None:
        assert not self.witness.broken, self.witness.broken
        r = self.rollout
        runs = (await r.client.list(r.scope.run)).items
        won = [run for run in runs if run_phase(run.status.conditions) is RunPhase.SUCCEEDED]
        assert won, {run.name: run_phase(run.status.conditions) for run in runs}
        unplanned = [run for run in runs if run_phase(run.status.conditions) is RunPhase.INIT_FAILED]
        for run in unplanned:  # somebody asked for a version that was not there yet
            assert "no resourceSnapshots with index" in run.status.conditions[0].message
        self.check_failures([run for run in runs if run not in unplanned])
        last = max(won, key=lambda run: (run.metadata.creation_timestamp, run.name))
        snapshot = await r.client.get(
            r.scope.resource_snapshot,
            f"{r.placement}-{last.status.resource_snapshot_index_used}-snapshot",
            r.namespace,
        )
        wanted = next(one["data"] for one in snapshot.spec.selected_resources if one["kind"] == "ConfigMap")
        for member in self.story.fleet.members:
            assert await self.story.data(member) == wanted, member


def live(seed: int) -> Whole:
    """Live one fleet's life; a failure says how to see it again."""
    with world(seed, shuffle=True) as w:
        whole = Whole(w, seed)
        whole.rng = Random(seed)
        try:
            w.run(whole.live())
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}; replay: ECHELON_SEED={seed}") from error
        return whole


__all__ = ["Rollout", "Whole", "live"]
