"""One whole fleet on virtual time, from one seed: engine, hub, delivery and people, with everything that goes wrong.

The engine runs over a link that loses requests, answers and watches, and dies between any two writes to be started
anew; members are slow or dead for a while; people approve, stop, resume and start further runs. A witness on a link of
its own sees every state of every run. In the end everything is mended and every run must come to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from typing import Any

from echelon.api.scope import SCOPES
from echelon.api.staged import Run
from echelon.client.base import Client, Reply, Transport
from echelon.client.cache import Cache
from echelon.client.errors import ApiError, Unreachable
from echelon.client.faults import Link
from echelon.hub.call import ADMIN
from echelon.hub.local import LocalTransport
from echelon.rules.run_phases import MOVES, RunPhase, has_status, run_phase, stage_phase
from echelon.rules.run_validation import max_concurrency
from echelon.runtime.manager import Manager
from tests.rollouts import APPROVAL, PretendDelivery, Rollout, picks, stage, wait
from tests.world import World, world

ALLOWED = {(move.source, move.target) for move in MOVES}
OVER = (RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.INIT_FAILED)
MAX_LIFE_S = 7200.0


class Mortal:
    """Carries an engine's requests; at a write it may end the engine, before or after the write was carried out."""

    def __init__(self, inner: Transport, rng: Random, share: float) -> None:
        self.inner = inner
        self.rng = rng
        self.share = share
        self.died = asyncio.Event()

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        if self.died.is_set():
            raise Unreachable("the engine is dead")
        dies = method != "GET" and self.rng.random() < self.share
        if dies and self.rng.random() < 0.5:
            self.died.set()
            raise Unreachable("died before the write")
        reply = await self.inner.send(method, path, headers, body)
        if dies:
            self.died.set()
            raise Unreachable("died after the write")
        return reply

    def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        return self.inner.stream(path, headers)

    async def close(self) -> None:
        await self.inner.close()


class Witness:
    """Sees every state of every run and checks what must always hold."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.over: dict[str, Any] = {}
        self.phases: set[RunPhase] = set()

    def sees(self, old: Run | None, new: Run | None) -> None:
        if new is None or new.status is None:
            return
        phase = run_phase(new.status.conditions)
        self.phases.add(phase)
        if new.name in self.over and self.over[new.name] != new.status:
            self.broken.append(f"{new.name} was over and has changed")
        if phase in OVER:
            self.over[new.name] = new.status
        if old is not None and old.status is not None:
            self._moved(old, new)
        if phase is not RunPhase.INIT_FAILED:
            self._is_sound(new)

    def _moved(self, old: Run, new: Run) -> None:
        assert old.status is not None
        assert new.status is not None
        pairs = [(run_phase(old.status.conditions), run_phase(new.status.conditions))]
        pairs += [
            (stage_phase(a.conditions), stage_phase(b.conditions))
            for a, b in zip(old.status.stages_status, new.status.stages_status, strict=False)
        ]
        self.broken += [
            f"{new.name}: {pair}" for pair in pairs if pair[0] is not pair[1] and pair not in ALLOWED
        ]

    def _is_sound(self, run: Run) -> None:
        assert run.status is not None
        strategy = run.status.staged_update_strategy_snapshot
        assert strategy is not None
        is_open = True
        for spec, held in zip(strategy.stages, run.status.stages_status, strict=True):
            moving = [entry for entry in held.clusters if len(entry.conditions) == 1]
            limit = max_concurrency(spec.max_concurrency, len(held.clusters))
            if len(moving) > limit:
                self.broken.append(f"{run.name}: {len(moving)} moving in {held.stage_name}, allowed {limit}")
            begun = any(entry.conditions for entry in held.clusters)
            approved = all(
                has_status(task.conditions, "ApprovalRequestApproved", "True")
                for task in held.before_stage_task_status
            )
            preempted = run_phase(run.status.conditions) is RunPhase.FAILED
            if begun and not preempted and not (is_open and approved):
                self.broken.append(f"{run.name}: {held.stage_name} began before its turn")
            is_open = is_open and has_status(held.conditions, "Succeeded", "True")


class Fleet:
    """The fleet of one seed."""

    def __init__(self, w: World, seed: int) -> None:
        self.w = w
        self.rng = Random(seed)
        self.rollout = Rollout(w, SCOPES[seed % 2])
        self.witness = Witness()
        self.mortal: Mortal | None = None
        self.manager: Manager | None = None
        self.leaving: list[str] = []
        self.deaths = 0
        self.calm = False

    # the engine

    async def start_engine(self) -> None:
        share = 0.0 if self.calm else self.rng.choice((0.0, 0.02, 0.1))
        link = Link(LocalTransport(self.w.hub, ADMIN), self.rng)
        if not self.calm:
            link.latency_s = (0.0, self.rng.choice((0.0, 0.01, 0.2)))
            link.lose_request = link.lose_answer = self.rng.choice((0.0, 0.02, 0.1))
            link.drop_watch = self.rng.choice((0.0, 0.02, 0.2))
        self.mortal = Mortal(link, self.rng, share)
        self.manager = Manager(Client(self.mortal), self.w.sim)
        await self.start_unless_dead([self.rollout.runs(self.manager)])

    async def start_unless_dead(self, controllers: Sequence[Any]) -> None:
        """Start controllers; an engine that dies while it starts is never ready."""
        assert self.manager is not None
        assert self.mortal is not None
        ready = asyncio.create_task(self.manager.start(controllers))
        died = asyncio.create_task(self.mortal.died.wait())
        await asyncio.wait((ready, died), return_when=asyncio.FIRST_COMPLETED)
        for task in (ready, died):
            task.cancel()
        await asyncio.gather(ready, died, return_exceptions=True)
        for loop in self.manager.loops:
            loop.queue._rng = self.rng

    async def keep_engine(self) -> None:
        """Start the engine anew whenever it has died."""
        while True:
            assert self.mortal is not None
            assert self.manager is not None
            await self.mortal.died.wait()
            self.deaths += 1
            await self.manager.stop()
            await asyncio.sleep(self.rng.choice((0.0, 1.0, 15.0)))
            await self.start_engine()

    # members

    async def disturb_members(self, delivery: PretendDelivery, clusters: list[str]) -> None:
        """Members are slow, or dead for a while."""
        for name in clusters:
            delivery.delays_s[name] = self.rng.choice((0.0, 0.0, 1.0, 20.0))
        while not self.calm:
            await asyncio.sleep(self.rng.uniform(1, 60))
            name = self.rng.choice(clusters)
            delivery.silent.add(name)
            await asyncio.sleep(self.rng.uniform(1, 500))
            delivery.silent.discard(name)
            delivery.again(self.w, name)

    # people

    async def people(self) -> None:
        """Approve, stop, resume, start further runs, at any time; nothing they do may hurt."""
        made = 1
        while not self.calm:
            await asyncio.sleep(self.rng.uniform(0.1, 40))
            what = self.rng.random()
            try:
                if what < 0.5:
                    await self.approve_all()
                elif what < 0.7:
                    await self.toggle()
                elif what < 0.8 and made < 3:
                    made += 1
                    index = self.rng.choice(("0", "1", None))
                    await self.rollout.run(f"r{made}", index=index, strategy=self.rng.choice(("s", "t")))
                elif what < 0.85:
                    await self.delete_a_request()
            except ApiError:
                continue  # somebody was faster

    async def approve_all(self) -> None:
        for name in await self.rollout.requests():
            await self.rollout.approve(name)

    async def toggle(self) -> None:
        runs = (await self.rollout.client.list(self.rollout.scope.run)).items
        run = self.rng.choice(runs)
        await self.rollout.set_state("Stop" if run.spec.state == "Run" else "Run", run.name)

    async def delete_a_request(self) -> None:
        names = await self.rollout.requests()
        if names:
            await self.rollout.client.delete(
                self.rollout.scope.approval, self.rng.choice(names), self.rollout.namespace
            )

    # the whole

    async def live(self) -> None:
        r, rng = self.rollout, self.rng
        clusters = {f"m{i}": {"g": rng.choice("ab")} for i in range(rng.randint(2, 6))}
        self.leaving = [f"old{i}" for i in range(rng.choice((0, 0, 1, 2)))]
        everybody = {**clusters, **{name: {} for name in self.leaving}}
        await r.begin(everybody, self.stages(), snapshots=2, leaving=self.leaving)
        await r.strategy("t", [stage("all", maxConcurrency="50%")])
        witness = Cache(self.w.client())
        witness.store(r.scope.run).subscribe(self.witness.sees)
        deliverer = await self.w.start(lambda m: [PretendDelivery(m.cache, r.scope)])
        delivery: Any = deliverer.loops[0].controller
        await self.start_engine()
        tasks = [
            asyncio.create_task(self.keep_engine()),
            asyncio.create_task(self.disturb_members(delivery, list(clusters))),
            asyncio.create_task(self.people()),
        ]
        await r.run("r1", index=rng.choice(("1", None)), state=rng.choice(("Run", "Initialize")))
        await asyncio.sleep(rng.uniform(60, 900))
        await self.mend(delivery)
        await self.everything_ends()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.w.settle()
        assert self.manager is not None
        await self.manager.stop()
        await witness.close()
        await self.w.stop()
        await self.check_end()

    def stages(self) -> list[dict[str, Any]]:
        rng = self.rng
        made = []
        for group in "ab":
            more: dict[str, Any] = {"maxConcurrency": rng.choice((1, 2, "100%"))}
            if rng.random() < 0.4:
                more["beforeStageTasks"] = [APPROVAL]
            after = [task for task in (APPROVAL, wait("30s")) if rng.random() < 0.3]
            if after:
                more["afterStageTasks"] = after
            made.append(stage(group, picks(g=group), **more))
        return made

    async def mend(self, delivery: PretendDelivery) -> None:
        """From now on nothing goes wrong any more: the engine is started once more, over a good link."""
        self.calm = True
        delivery.silent.clear()
        delivery.again(self.w)
        assert self.mortal is not None
        self.mortal.died.set()

    async def everything_ends(self) -> None:
        ends_at = asyncio.get_running_loop().time() + MAX_LIFE_S
        while True:
            runs = (await self.rollout.client.list(self.rollout.scope.run)).items
            phases = {run.name: run_phase(run.status.conditions if run.status else ()) for run in runs}
            if all(phase in OVER for phase in phases.values()):
                return
            if asyncio.get_running_loop().time() > ends_at:
                raise AssertionError(f"no end: {phases}")
            for run in runs:
                if run.spec.state != "Run":
                    await self.rollout.set_state("Run", run.name)
            await self.approve_all()
            await asyncio.sleep(20)

    async def check_end(self) -> None:
        assert not self.witness.broken, self.witness.broken
        runs = (await self.rollout.client.list(self.rollout.scope.run)).items
        won = [run for run in runs if run_phase(run.status.conditions) is RunPhase.SUCCEEDED]
        assert won, {run.name: run_phase(run.status.conditions) for run in runs}
        self.check_failures(runs)
        if len(runs) == 1:
            wanted = f"p-{runs[0].status.resource_snapshot_index_used}-snapshot"
            for entry in (one for held in runs[0].status.stages_status for one in held.clusters):
                assert await self.rollout.version_of(entry.cluster_name) == wanted
        bindings = (await self.rollout.client.list(self.rollout.scope.binding)).items
        assert not [one.name for one in bindings if one.spec.target_cluster in self.leaving]
        snapshots = (await self.rollout.client.list(self.rollout.scope.resource_snapshot)).items
        assert len(snapshots) <= 3, "the same content was stored twice"

    def check_failures(self, runs: list[Run]) -> None:
        """Nobody but a later run may have ended a run: nothing that went wrong around it is a reason to fail."""
        made = {run.name: run.metadata.creation_timestamp for run in runs}
        for run in runs:
            assert run.status is not None
            if run_phase(run.status.conditions) is RunPhase.SUCCEEDED:
                continue
            text = next(one.message for one in run.status.conditions if one.type == "Succeeded")
            mover = text.rpartition("moved by updateRun `")[2].rstrip("`")
            assert mover in made, text
            assert made[mover] >= made[run.name], text


def live(seed: int) -> Fleet:
    """Live one fleet's life; a failure says how to see it again."""
    with world(seed, shuffle=True) as w:
        fleet = Fleet(w, seed)
        try:
            w.run(fleet.live())
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}; replay: ECHELON_SEED={seed}") from error
        return fleet
