"""Following a run: a new RunView whenever something about it changes, never by asking again and again.

One cache follows the kinds a run depends on; looks are at most a few per second however fast changes come. Pods of
members are looked at only when the clusters in trouble have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from echelon.cli.lookup import Follows, Lists, Ref, depth_of, get_run, seen_of
from echelon.rules.diagnose_parts import Depth

if TYPE_CHECKING:
    from echelon.cli.connect import Hub
    from echelon.rules.run_seen import Seen
    from echelon.views.run_shapes import ClusterView, RunView

MIN_PAUSE_S = 0.2  # between two looks: five redraws a second are all an eye can use
SLOW = timedelta(seconds=3)  # a cluster that needs longer may have pods worth a look
MIN_LOOK_S = 2.0  # between two looks at members
LOOK_PER_CLUSTER_S = 0.1  # the more members, the less often


async def look(hub: Hub, ref: Ref, *, deep: bool = True) -> RunView:
    """Look at a run once."""
    from echelon.views.run import view

    run = await get_run(hub.client, ref)
    seen = await seen_of(Lists(hub.client), run, ref.scope)
    now = datetime.now(UTC)
    shown = view(run, seen, now)
    if not deep or not in_trouble(shown):
        return shown
    return view(run, seen, now, await depth_of(hub, seen, in_trouble(shown)))


def in_trouble(shown: RunView, slower_than: timedelta = timedelta(0)) -> list[str]:
    """Name the clusters whose pods are worth a look: stuck ones, and those that have reported an error for a while."""
    return [
        one.name
        for stage in shown.stages
        for one in stage.shown
        if one.state == "stuck" or (is_slow(one) and _age(one, shown) >= slower_than)
    ]


def is_slow(one: ClusterView) -> bool:
    """Whether a cluster is being updated and says that something is missing."""
    return one.state == "updating" and bool(one.message)


def _age(one: ClusterView, shown: RunView) -> timedelta:
    return shown.seen_at - one.since if one.since else timedelta(0)


async def follow(hub: Hub, ref: Ref, tick_s: float | None = None) -> AsyncGenerator[RunView, None]:
    """Yield a view at once, then one for every change (and, with `tick_s`, one as time goes by)."""
    from echelon.client.cache import Cache
    from echelon.views.run import view

    first = Lists(hub.client)  # whatever may not be read is said now, in the server's words
    await seen_of(first, await get_run(hub.client, ref), ref.scope)
    cache = Cache(hub.client)
    changed = asyncio.Event()
    reader = Follows(cache, changed.set, may_see_members=first.may_see_members)
    deeper = _Deeper(hub)
    try:
        while True:
            changed.clear()
            run = await reader.one(ref.scope.run, ref.name, ref.namespace)
            if run is None:
                raise click.ClickException(f"{ref.scope.run.kind} {ref} was deleted")
            seen = await seen_of(reader, run, ref.scope)
            now = datetime.now(UTC)
            shown = view(run, seen, now)
            depth = await deeper.look(seen, shown)
            shown = view(run, seen, now, depth) if depth is not None else shown
            yield replace(shown, stale=reader.trouble())
            await asyncio.sleep(MIN_PAUSE_S)
            waits = [wait for wait in (tick_s, deeper.due_in(shown)) if wait is not None]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(waits, default=None))
    finally:
        await cache.close()


class _Deeper:
    """Looks at members when there is another trouble than the last time, and not all the time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._key: tuple[str, ...] = ()
        self._depth: Depth | None = None
        self._next_at = 0.0

    async def look(self, seen: Seen, shown: RunView) -> Depth | None:
        names = in_trouble(shown, SLOW)
        now = asyncio.get_running_loop().time()
        if names and self._is_news(names) and now >= self._next_at:
            self._key = tuple(names)
            self._depth = await depth_of(self._hub, seen, names)
            self._next_at = now + max(MIN_LOOK_S, len(names) * LOOK_PER_CLUSTER_S)
        return self._depth if names else None

    def _is_news(self, names: list[str]) -> bool:
        return tuple(names) != self._key

    def due_in(self, shown: RunView) -> float | None:
        """Say after how many seconds time alone makes another look worthwhile."""
        names = in_trouble(shown, SLOW)
        waits = [
            (SLOW - _age(one, shown)).total_seconds()
            for stage in shown.stages
            for one in stage.shown
            if is_slow(one) and one.name not in names
        ]
        if names and self._is_news(names):
            waits.append(self._next_at - asyncio.get_running_loop().time())
        return max(MIN_PAUSE_S, min(waits)) if waits else None
