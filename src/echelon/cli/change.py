"""`echelon start`, `stop`, `resume`: what a run should do.

A change that makes no sense is refused with the sentence that says why; one that is made records who and why: the
user as the hub knows him, in an annotation, and as an Event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import say

if TYPE_CHECKING:
    from echelon.cli.lookup import Ref
    from echelon.views.run_shapes import RunView

MAX_TRIES = 5  # of a write that somebody else's write came before


# --- start, stop, resume ----------------------------------------------------------------------------------------
@click.command()
@click.argument("run")
@namespace_option
@click.option("-m", "--message", "why", metavar="WHY", default="", help="Why; kept with the run.")
@hub_options
def start(run: str, namespace: str | None, why: str, **hub: Any) -> None:
    """Start a run that is planned (state Initialize)."""
    _change(run, namespace, "Run", why, "start", **hub)


@click.command()
@click.argument("run")
@namespace_option
@click.option("-m", "--message", "why", metavar="WHY", required=True, help="Why; kept with the run.")
@hub_options
def stop(run: str, namespace: str | None, why: str, **hub: Any) -> None:
    """Stop a run: clusters under way finish, no other is begun."""
    _change(run, namespace, "Stop", why, "stop", **hub)


@click.command()
@click.argument("run")
@namespace_option
@click.option("-m", "--message", "why", metavar="WHY", default="", help="Why; kept with the run.")
@hub_options
def resume(run: str, namespace: str | None, why: str, **hub: Any) -> None:
    """Let a stopped run go on."""
    _change(run, namespace, "Run", why, "resume", **hub)


def _change(text: str, namespace: str | None, wanted: str, why: str, verb: str, **hub: Any) -> None:
    from echelon.cli.lookup import run_ref

    ref = run_ref(text, namespace)

    async def work(reached: Hub) -> str:
        return await change_state(reached, ref, wanted, why, verb)

    click.echo(with_hub(work, **hub))


async def change_state(hub: Hub, ref: Ref, wanted: str, why: str, verb: str) -> str:
    """Set what a run should do; returns the sentence that says what happens now."""
    from echelon.cli.follow import look
    from echelon.cli.identity import tell, who_am_i
    from echelon.cli.lookup import get_run
    from echelon.rules.diagnose_run import STATE_REASON

    run = await get_run(hub.client, ref)
    view = await look(hub, ref, deep=False)
    refusal = refuse(view, wanted, verb)
    if refusal is not None:
        if refusal.startswith("run "):
            return refusal
        raise click.ClickException(refusal)
    who = await who_am_i(hub)
    body = {
        "metadata": {
            "resourceVersion": run.metadata.resource_version,
            "annotations": {STATE_REASON: f"{who}: {why}" if why else who},
        },
        "spec": {"state": wanted},
    }
    await _patch_run(hub, ref, body)
    await tell(hub, ref.scope.run, run, f"Run{verb.capitalize()}Requested", f"{who}: {why or verb}")
    return _done(view, ref, wanted)


async def _patch_run(hub: Hub, ref: Ref, body: dict[str, Any]) -> None:
    """Patch the run; its state was looked at, other changes in between (status) are no reason to ask again."""
    from echelon.cli.lookup import get_run
    from echelon.client.errors import Conflict

    for attempt in range(MAX_TRIES):
        try:
            await hub.client.patch(ref.scope.run, ref.name, ref.namespace, body)
        except Conflict:
            run = await get_run(hub.client, ref)
            if attempt == MAX_TRIES - 1:
                raise
            body["metadata"]["resourceVersion"] = run.metadata.resource_version
        else:
            return


def refuse(view: RunView, wanted: str, verb: str) -> str | None:
    """Say why a change makes no sense; a sentence that begins with "run " means it is so already."""
    if view.state == "failed":
        return f"{view.name} has failed and cannot go on ({view.headline}); see: echelon diagnose {view.ref}"
    if view.is_over:
        return (
            f"{view.name} is over ({view.headline}); create a new run, or: echelon rollback {view.placement}"
        )
    if view.wanted == wanted:
        already = {"Run": "running", "Stop": "stopping or stopped"}[wanted]
        return f"run {view.name} is already told to be {already}: {view.headline}"
    if wanted == "Stop" and view.wanted == "Initialize":
        return f"{view.name} was never started, so there is nothing to stop; delete it if it is not wanted"
    if verb == "start" and view.wanted == "Stop":
        return f'{view.name} is stopped; let it go on with: echelon resume {view.ref} -m "why"'
    if verb == "resume" and view.wanted == "Initialize":
        return f"{view.name} was never started; start it with: echelon start {view.ref}"
    return None


def _done(view: RunView, ref: Ref, wanted: str) -> str:
    if wanted == "Run":
        return f"{view.name} goes on. Watch it: echelon watch {ref}"
    moving = [one.name for stage in view.stages for one in stage.shown if one.state in {"updating", "stuck"}]
    if not moving:
        return f"{view.name} stops; nothing is under way. Go on later: echelon resume {ref}"
    names = ", ".join(moving[:5]) + (f" and {len(moving) - 5} more" if len(moving) > 5 else "")
    return f"{view.name} stops; {len(moving)} cluster(s) finish first: {names}. Go on later: echelon resume {ref}"


async def state_prompt(hub: Hub, ref: Ref, view: RunView) -> None:
    """Ask what the key `s` of the live picture asks: stop a run that moves, resume one that stands."""
    verb, wanted = ("stop", "Stop") if view.wanted == "Run" else ("resume", "Run")
    if view.wanted == "Initialize":
        verb = "start"
    refusal = refuse(view, wanted, verb)
    if refusal:
        raise click.ClickException(refusal)
    why = click.prompt(f"{verb} {view.name}; why", err=True)
    say(await change_state(hub, ref, wanted, why, verb))
