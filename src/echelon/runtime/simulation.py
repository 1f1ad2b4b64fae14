"""A virtual clock and event loop: whole controllers, hubs and clients run simulated hours in milliseconds.

The loop never waits: when nothing is ready it jumps to the next timer. Time, chance and the order of ready
callbacks come from one seed, so a run replays exactly. Nothing else may bring in the outside: no threads (an
executor call runs inline), no sockets, no wall clock. A simulation in which nothing can ever happen again ends
with an error instead of hanging.

    def test_heartbeat_turns_false():
        sim = Simulation(seed=7)
        sim.run(scenario(sim))        # await asyncio.sleep(3600) inside costs nothing
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
MIN_JUMP_S = 1e-6
MAX_STILL_STEPS = 10_000
MAX_STEPS = 50_000_000  # a simulation that runs this long is a livelock


class Stalled(RuntimeError):
    """Nothing is ready and no timer is set: the simulation waits for something that cannot come."""


class _NoSelector(selectors.BaseSelector):
    """Stands where the operating system would be asked; instead it moves the clock to the next timer."""

    def __init__(self) -> None:
        self.loop: SimulatedLoop | None = None
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self.loop
        if timeout is None and loop is not None:
            raise Stalled("nothing is ready and no timer is set")
        if timeout and loop is not None:
            loop.jump(timeout)
        return []

    def get_map(self) -> Any:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps; with `shuffle`, ready callbacks run in a seeded random order."""

    def __init__(self, rng: Random, *, shuffle: bool) -> None:
        selector = _NoSelector()
        super().__init__(selector)
        selector.loop = self
        self._simulated_s = 0.0
        self._rng = rng
        self._shuffle = shuffle
        self.steps = 0
        self._still = 0  # steps since time last moved

    def time(self) -> float:
        """Return the simulated seconds since the start."""
        return self._simulated_s

    def jump(self, seconds: float) -> None:
        """Move time forward, at least by what a datetime can tell: a remainder of rounding must not stand still."""
        self._simulated_s += max(seconds, MIN_JUMP_S)
        self._still = 0

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run the function at once: a simulation has one thread."""
        del executor
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits
            future.set_exception(error)
        return future

    def _run_once(self) -> None:
        self.steps += 1
        self._still += 1
        if (
            self._still > MAX_STILL_STEPS
        ):  # timers a rounding error away keep each other busy: a moment passes
            self.jump(MIN_JUMP_S)
        if self.steps > MAX_STEPS:
            raise Stalled(f"more than {MAX_STEPS} steps: the simulation goes round in circles")
        ready = self._ready  # type: ignore[attr-defined]
        if self._shuffle and len(ready) > 1:
            handles = list(ready)
            self._rng.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        super()._run_once()  # type: ignore[misc]


class Simulation:
    """One seeded run of virtual time; also the Clock of everything inside it."""

    def __init__(self, seed: int = 0, *, shuffle: bool = False, start: datetime = START) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.loop = SimulatedLoop(Random(seed + 1), shuffle=shuffle)
        self._start = start

    def now(self) -> datetime:
        """Return the simulated time."""
        return self._start + timedelta(seconds=self.loop.time())

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of `main`, then cancel what it left behind."""
        loop = self.loop
        try:
            return loop.run_until_complete(main)
        finally:
            self._cancel_rest()

    def close(self) -> None:
        """Let go of the loop."""
        self.loop.close()

    def _cancel_rest(self) -> None:
        rest = sorted(asyncio.all_tasks(self.loop), key=lambda task: task.get_name())
        for task in rest:
            task.cancel()
        if rest:
            self.loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
