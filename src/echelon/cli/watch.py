"""`echelon watch RUN` and `echelon status [RUN]`: a run as it goes on, until it is where one waits for.

In a terminal a tree that changes in place, with keys; elsewhere one line per change. The exit code says how it ended:
0 reached, 1 error, 2 usage, 3 failed, 4 stuck (with --fail-on-stuck), 5 stopped, 6 timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.duration import Duration
from echelon.cli.output import is_terminal, output_option, print_data, say
from echelon.cli.serve import DATA, service_status

if TYPE_CHECKING:
    from echelon.cli.lookup import Ref
    from echelon.views.run_shapes import RunView

REACHED, FAILED, STUCK, STOPPED, TIMEOUT = 0, 3, 4, 5, 6
HELP = "keys: a approve · s stop or resume · d diagnosis · ↑↓ scroll · q quit"
TICK_S = 1.0  # in a terminal the clock goes on showing


class Until(click.ParamType[str]):
    """done, approval, or stage=NAME."""

    name = "done|approval|stage=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept one of the three."""
        text = str(value)
        if text in {"done", "approval"} or (text.startswith("stage=") and len(text) > len("stage=")):
            return text
        raise click.BadParameter(f"'{text}' is not done, approval or stage=NAME", ctx, param)


def watch_options(command: Any) -> Any:
    """Add what `watch` and `status` share."""
    for option in reversed(
        (
            click.option(
                "--until",
                type=Until(),
                default="done",
                show_default=True,
                metavar="WHAT",
                help="What to wait for: done, approval or stage=NAME.",
            ),
            click.option("--fail-on-stuck", is_flag=True, help="End with exit code 4 when the run is stuck."),
            click.option("--timeout", type=Duration(), help="End with exit code 6 after this time (10m)."),
        )
    ):
        command = option(command)
    return command


def outcome(view: RunView, until: str, *, fail_on_stuck: bool) -> int | None:
    """Return the exit code with which waiting ends here; None to go on."""
    if view.state == "succeeded":
        return REACHED
    if view.state == "failed":
        return FAILED
    if until == "approval" and any(
        task.kind == "approval" and task.state in {"open", "not counted"}
        for stage in view.stages
        for task in (*stage.before, *stage.after)
    ):
        return REACHED
    if until.startswith("stage="):
        wanted = until.removeprefix("stage=")
        stage = next((stage for stage in view.stages if stage.name == wanted), None)
        if stage is None and view.stages:
            names = ", ".join(stage.name for stage in view.stages)
            raise click.ClickException(f'run {view.name} has no stage "{wanted}"; there are: {names}')
        if stage is not None and stage.state in {"done", "skipped"}:
            return REACHED
    if view.state == "stopped":
        return STOPPED
    if view.state == "stuck" and fail_on_stuck:
        return STUCK
    return None


@click.command()
@click.argument("run")
@namespace_option
@watch_options
@click.option("--no-color", is_flag=True, help="Plain ASCII without colours.")
@hub_options
def watch(
    run: str,
    namespace: str | None,
    until: str,
    fail_on_stuck: bool,
    timeout: float | None,
    no_color: bool,
    **hub: Any,
) -> None:
    """Watch a run until it ends.

    \b
    RUN is NAME, csur/NAME or sur/NAME (with -n). Exit codes: 0 reached, 3 failed,
    4 stuck (--fail-on-stuck), 5 stopped, 6 timeout.
    """
    sys.exit(
        watched(run, namespace, until, fail_on_stuck=fail_on_stuck, timeout=timeout, no_color=no_color, **hub)
    )


def watched(
    run: str,
    namespace: str | None,
    until: str,
    *,
    fail_on_stuck: bool,
    timeout: float | None,
    no_color: bool = False,
    lines: bool = False,
    **hub: Any,
) -> int:
    """Watch until the end and return the exit code."""
    from echelon.cli.lookup import run_ref

    ref = run_ref(run, namespace)

    async def work(reached: Hub) -> int:
        try:
            async with asyncio.timeout(timeout):
                return await show(
                    reached, ref, until, fail_on_stuck=fail_on_stuck, no_color=no_color, lines=lines
                )
        except TimeoutError:
            say(f"error: run {ref} was not {_goal(until)} in time; see: echelon diagnose {ref}")
            return TIMEOUT

    return with_hub(work, **hub)


async def show(
    hub: Hub, ref: Ref, until: str, *, fail_on_stuck: bool, no_color: bool = False, lines: bool = False
) -> int:
    """Show a run until it is there: a picture in a terminal, lines elsewhere; returns the exit code."""
    how = _lines if lines or not is_terminal() else _picture
    return await how(hub, ref, until, fail_on_stuck, no_color)


def _goal(until: str) -> str:
    return {"done": "done", "approval": "waiting for an approval"}.get(
        until, f"past {until.replace('=', ' ')}"
    )


async def _lines(hub: Hub, ref: Ref, until: str, fail_on_stuck: bool, no_color: bool) -> int:
    """One line per change, no cursor codes: for pipes and CI."""
    from echelon.cli.follow import follow
    from echelon.views.tree import changes

    del no_color
    old: RunView | None = None
    async for view in _closing(follow(hub, ref)):
        for line in changes(old, view, datetime.now(UTC)):
            click.echo(line)
        old = view
        code = outcome(view, until, fail_on_stuck=fail_on_stuck)
        if code is not None:
            return code
    raise AssertionError("unreachable")


async def _closing(views: Any) -> Any:
    async with contextlib.aclosing(views):
        async for view in views:
            yield view


async def _picture(hub: Hub, ref: Ref, until: str, fail_on_stuck: bool, no_color: bool) -> int:
    from echelon.cli.watch_keys import Watcher

    return await Watcher(hub, ref, until, fail_on_stuck=fail_on_stuck, no_color=no_color).run()


@click.command()
@click.argument("run", required=False)
@namespace_option
@click.option(
    "--watch",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=True,
    help="--watch=false: say it once and end.",
)
@watch_options
@output_option("json", "yaml")
@DATA
@hub_options
def status(
    run: str | None,
    namespace: str | None,
    watch: bool,
    until: str,
    fail_on_stuck: bool,
    timeout: float | None,
    output: str | None,
    data: Path | None,
    **hub: Any,
) -> None:
    """Say how a run goes, one line per change; without RUN, what 'echelon up' runs here.

    The same words as everywhere, for scripts and CI; see 'echelon watch --help' for the exit codes.
    """
    if run is None:
        _sandbox(data, output)
        return
    if output or not watch:
        from echelon.cli.runs import show_run

        sys.exit(
            show_run(
                run, namespace, output, one_line=not output, until=until, fail_on_stuck=fail_on_stuck, **hub
            )
        )
    sys.exit(watched(run, namespace, until, fail_on_stuck=fail_on_stuck, timeout=timeout, lines=True, **hub))


def _sandbox(data: Path | None, output: str | None) -> None:
    held = service_status(data)
    if output:
        print_data(held, output)
    elif held is None:
        click.echo("nothing is running here; start a hub and simulated members with: echelon up --detach")
    else:
        click.echo(f"running: {held['server']} (pid {held['pid']}, since {held['started']})")
        click.echo(f"  export KUBECONFIG={held['kubeconfig']}")
        click.echo("  echelon clusters    echelon runs -A    echelon down")
