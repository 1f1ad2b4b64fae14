"""Following a run: a new RunView whenever something about it changes, never by asking again and again.

One cache follows the kinds a run depends on; looks are at most a few per second however fast changes come. Pods of
members are looked at only when the clusters in trouble have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from echelon.cli.lookup import Follows, Lists, Ref, depth_of, get_run, seen_of
from echelon.rules.diagnose_parts import Depth

if TYPE_CHECKING:
    from echelon.cli.connect import Hub
    from echelon.rules.run_seen import Seen
    from echelon.views.run_shapes import RunView

MIN_PAUSE_S = 0.2  # between two looks: five redraws a second are all an eye can use


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


def in_trouble(shown: RunView) -> list[str]:
    """Name the clusters whose pods are worth a look: stuck ones first, and slow ones with an error."""
    return [
        one.name
        for stage in shown.stages
        for one in stage.shown
        if one.state == "stuck" or (one.state == "updating" and one.message)
    ]


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
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), tick_s)
    finally:
        await cache.close()


class _Deeper:
    """Looks at members only when there is another trouble than the last time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._key: tuple[object, ...] = ()
        self._depth: Depth | None = None

    async def look(self, seen: Seen, shown: RunView) -> Depth | None:
        key = tuple((one.name, one.state, one.message) for stage in shown.stages for one in stage.shown)
        names = in_trouble(shown)
        if not names:
            return None
        if key != self._key:
            self._key, self._depth = key, await depth_of(self._hub, seen, names)
        return self._depth
