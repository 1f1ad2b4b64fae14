"""`echelon runs` and `echelon get run`: all runs in a table, one run on a screen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from echelon.api.scope import CLUSTER, NAMESPACED, SCOPES, Scope
from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import is_terminal, look_of, output_option, print_data, table

if TYPE_CHECKING:
    from echelon.cli.lookup import Reader
    from echelon.views.run_shapes import RunView

REDRAW_S = 0.2
MIN_STATE = 12  # characters of a state that still say something


@click.command()
@namespace_option
@click.option("-A", "--all", "everywhere", is_flag=True, help="Runs of both scopes, of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Go on showing changes.")
@output_option()
@hub_options
def runs(namespace: str | None, everywhere: bool, watch: bool, output: str | None, **hub: Any) -> None:
    """List staged update runs: cluster-scoped ones, with -n those of a namespace, with -A all."""
    wanted = places(namespace, everywhere=everywhere)

    async def once(reached: Hub) -> None:
        from echelon.cli.lookup import Lists

        views = await views_of(Lists(reached.client), wanted)
        _print(views, output, everywhere=everywhere)

    async def on(reached: Hub) -> None:
        await _watch(reached, wanted, output, everywhere=everywhere)

    with_hub(on if watch else once, **hub)


def places(namespace: str | None, *, everywhere: bool) -> list[tuple[Scope, str | None]]:
    """Return which kinds are meant, and in which namespace."""
    if everywhere and namespace:
        raise click.UsageError("-A means all namespaces; leave -n out")
    if everywhere:
        return [(scope, None) for scope in SCOPES]
    return [(NAMESPACED, namespace)] if namespace else [(CLUSTER, None)]


async def views_of(reader: Reader, wanted: Sequence[tuple[Scope, str | None]]) -> list[RunView]:
    """Look at every run of some places."""
    from echelon.cli.lookup import all_seen
    from echelon.views.run import view

    now = datetime.now(UTC)
    out = []
    for scope, namespace in wanted:
        for seen in await all_seen(reader, scope, namespace):
            out.append(view(seen.run, seen, now))
    return sorted(out, key=_order)


_RANK = {
    state: rank
    for rank, state in enumerate(("stuck", "waiting", "progressing", "stopping", "new", "initialized"))
}


def _order(view: RunView) -> tuple[int, float, str]:
    """What needs somebody first, then what moves, then what is over, the newest first."""
    made = view.created_at.timestamp() if view.created_at else 0.0
    return (_RANK.get(view.state, len(_RANK)), -made, view.name)


def _print(views: Sequence[RunView], output: str | None, *, everywhere: bool) -> None:
    if output in {"json", "yaml"}:
        print_data({"version": 1, "items": views}, output)
    elif output == "name":
        for view in views:
            click.echo(f"{view.kind.lower()}.placement.kubernetes-fleet.io/{view.name}")
    elif not views:
        click.echo("no runs" + ("" if everywhere else "; with -A those of all namespaces"), err=True)
    else:
        for line in _rows(views, is_wide=output == "wide", everywhere=everywhere):
            click.echo(line)


def _rows(views: Sequence[RunView], *, is_wide: bool, everywhere: bool) -> list[str]:
    from echelon.rules.forecast import span_text

    header = ["name", "placement", "version", "state", "done", "age"]
    rows = []
    for view in views:
        version = f"{view.snapshot_from}→{view.snapshot_to}" if view.snapshot_from else view.snapshot_to
        age = span_text(view.seen_at - view.created_at) if view.created_at else ""
        row = [view.name, view.placement, version or "-", view.headline, f"{view.done}/{view.total}", age]
        if is_wide:
            row += [view.strategy, view.findings[0].sentence if view.findings else ""]
        rows.append([view.namespace or "-", *row] if everywhere else row)
    if is_wide:
        header += ["strategy", "finding"]
    header = ["namespace", *header] if everywhere else header
    lines = table(header, rows).splitlines()
    excess = max(map(len, lines)) - look_of().width
    if excess > 0 and is_terminal() and not is_wide:
        column = header.index("state")  # the one that can be cut: the rest is figures and names
        room = max(len(row[column]) for row in rows) - excess
        cut = [[*row[:column], shortened(row[column], room), *row[column + 1 :]] for row in rows]
        lines = table(header, cut).splitlines()
    return lines


def shortened(text: str, room: int) -> str:
    """Cut a text to the room there is, so that one sees that it was cut."""
    room = max(room, MIN_STATE)
    return text if len(text) <= room else f"{text[: room - 1]}…"


async def _watch(
    hub: Hub, wanted: Sequence[tuple[Scope, str | None]], output: str | None, *, everywhere: bool
) -> None:
    """Redraw the table on every change; without a terminal print the rows that changed."""
    from echelon.cli.lookup import Follows, Lists
    from echelon.cli.screen import Screen, live
    from echelon.client.cache import Cache

    await views_of(Lists(hub.client), wanted)  # says what may not be read
    cache = Cache(hub.client)
    changed = asyncio.Event()
    reader = Follows(cache, changed.set)
    screen, old = Screen(), set[str]()
    stack = contextlib.ExitStack()
    if is_terminal():
        stack.enter_context(live(None))
    try:
        with stack:
            while True:
                changed.clear()
                lines = _rows(await views_of(reader, wanted), is_wide=output == "wide", everywhere=everywhere)
                if is_terminal():
                    width = look_of().width
                    screen.draw([line[:width] for line in lines])
                else:
                    for line in lines:
                        if line not in old:
                            click.echo(line)
                    old = set(lines)
                await asyncio.sleep(REDRAW_S)
                await changed.wait()
    finally:
        await cache.close()


@click.command()
@click.argument("kind")
@click.argument("name", required=False)
@namespace_option
@output_option()
@hub_options
def get(kind: str, name: str | None, namespace: str | None, output: str | None, **hub: Any) -> None:
    """Show one run on one screen: get run NAME, get csur/NAME, get sur/NAME -n NS; get runs lists them."""
    from echelon.cli.lookup import names_of

    words = {"run": None, "runs": None, **{word: scope for scope in SCOPES for word in names_of(scope.run)}}
    word, _, rest = kind.partition("/")
    if word.lower() not in words:
        raise click.UsageError(
            f"'{word}' is not a run; write: get run NAME (for other kinds use kubectl get)"
        )
    target = rest or name
    if target is None:
        click.get_current_context().invoke(
            runs, namespace=namespace, everywhere=False, watch=False, output=output, **hub
        )
        return
    scope = words[word.lower()]
    ref = f"{scope.run.short_names[0]}/{target}" if scope else target
    show_run(ref, namespace, output, **hub)


def show_run(
    text: str,
    namespace: str | None,
    output: str | None,
    *,
    one_line: bool = False,
    until: str = "done",
    fail_on_stuck: bool = False,
    **hub: Any,
) -> int:
    """Print one run; the exit code says how it is, as `watch` would."""
    from echelon.cli.lookup import run_ref

    ref = run_ref(text, namespace)

    async def work(reached: Hub) -> RunView:
        from echelon.cli.follow import look

        return await look(reached, ref)

    view = with_hub(work, **hub)
    if output in {"json", "yaml"}:
        print_data(view, output)
    elif output == "name":
        click.echo(f"{view.kind.lower()}.placement.kubernetes-fleet.io/{view.name}")
    elif one_line:
        click.echo(f"{view.name} {view.headline} ({view.done}/{view.total} done)")
    else:
        from echelon.views.tree import render

        for line in render(view, look_of()):
            click.echo(line)
    from echelon.cli.watch import outcome

    return outcome(view, until, fail_on_stuck=fail_on_stuck) or 0
