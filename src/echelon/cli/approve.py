"""`echelon approvals` and `approve`: the questions runs ask people, and their answers.

An approval shows what it sets going before it is given, is written at the request's own generation (anything else
does not count), and records who and why. `approve` also takes the syntax of the peer's plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import can_ask, confirm, look_of, output_option, print_data, say, table

if TYPE_CHECKING:
    from echelon.api.staged import Approval
    from echelon.cli.lookup import Ref
    from echelon.views.run_shapes import RunView, StageView, TaskView

MAX_TRIES = 5  # of a write that somebody else's write came before
WHY = click.option("-m", "--message", "why", metavar="WHY", help="Why; kept with the decision.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command()
@namespace_option
@click.option("-A", "--all", "everywhere", is_flag=True, help="Of both scopes, of all namespaces.")
@output_option("json", "yaml", "name")
@hub_options
def approvals(namespace: str | None, everywhere: bool, output: str | None, **hub: Any) -> None:
    """List the approvals that runs are waiting for, the longest wait first."""
    from echelon.cli.runs import places, views_of

    wanted = places(namespace, everywhere=everywhere)

    async def work(reached: Hub) -> list[RunView]:
        from echelon.cli.lookup import Lists

        return await views_of(Lists(reached.client), wanted)

    views = with_hub(work, **hub)
    waiting = sorted(
        ((view, stage, task) for view in views for stage, task in open_approvals(view)),
        key=lambda row: row[2].since or row[0].seen_at,
    )
    _print_approvals(waiting, output, everywhere=everywhere)


def _print_approvals(
    waiting: list[tuple[RunView, StageView, TaskView]], output: str | None, *, everywhere: bool
) -> None:
    from echelon.rules.forecast import span_text

    if output in {"json", "yaml"}:
        items = [
            {
                "run": view.name,
                "namespace": view.namespace,
                "stage": stage.name,
                "side": task.side,
                "request": task.request,
                "since": task.since,
                "state": task.state,
            }
            for view, stage, task in waiting
        ]
        print_data({"version": 1, "items": items}, output)
        return
    if output == "name":
        for _, _, task in waiting:
            click.echo(task.request)
        return
    if not waiting:
        say(
            "nothing waits for an approval" + ("" if everywhere else "; with -A all namespaces are looked at")
        )
        return
    rows = []
    for view, stage, task in waiting:
        waited = span_text(view.seen_at - task.since) if task.since else "-"
        note = "given, does not count" if task.state == "not counted" else "open"
        row = [view.name, task.side, stage.name, f"{stage.total}", waited, note]
        rows.append([view.namespace or "-", *row] if everywhere else row)
    header = ["run", "when", "stage", "clusters", "waiting", "state"]
    click.echo(table(["namespace", *header] if everywhere else header, rows))
    view, stage, _ = waiting[0]
    option = f" -n {view.namespace}" if view.namespace else ""
    say(f'\nApprove: echelon approve {view.name}/{stage.name}{option} -m "why"')


def open_approvals(view: RunView) -> list[tuple[StageView, TaskView]]:
    """Return what a run waits for somebody to approve."""
    return [
        (stage, task)
        for stage in view.stages
        for task in (*stage.before, *stage.after)
        if task.kind == "approval" and task.state in {"open", "not counted"}
    ]


@click.command()
@click.argument("run", metavar="RUN[/STAGE]")
@namespace_option
@WHY
@YES
@click.option("--name", hidden=True, help="The approval request, in the syntax of kubectl fleet.")
@click.option("--timeout", hidden=True)
@hub_options
def approve(
    run: str,
    namespace: str | None,
    why: str | None,
    yes: bool,
    name: str | None,
    timeout: str | None,
    **hub: Any,
) -> None:
    """Approve what a run waits for.

    \b
    Shows what happens next, asks, and records who approved and why:
      echelon approve web-v7/world -m "canary looks good"
    With one approval open the stage may be left out.
    """
    del timeout
    if name is not None:
        click.echo(with_hub(_peer(run, name, namespace), **hub))
        return
    from echelon.cli.lookup import run_ref

    ref = run_ref(run, namespace)

    async def work(reached: Hub) -> str:
        from echelon.cli.follow import look

        view = await look(reached, ref, deep=False)
        stage, task = choose(view, ref)
        for line in evidence(view, stage, task):
            say(line)
        reason = why or _ask_why()
        confirm(f'Approve {task.side} stage "{stage.name}"?', is_sure=yes)
        return await give(reached, ref, view, task, reason)

    click.echo(with_hub(work, **hub))


def _ask_why() -> str:
    if not can_ask():
        raise click.UsageError('say why: -m "why"')
    return str(click.prompt("Why", err=True))


def choose(view: RunView, ref: Ref) -> tuple[StageView, TaskView]:
    """Return the one approval that is meant; never guesses between two."""
    if ref.stage and not any(stage.name == ref.stage for stage in view.stages):
        names = ", ".join(stage.name for stage in view.stages) or "none yet"
        raise click.ClickException(f'run {view.name} has no stage "{ref.stage}"; its stages: {names}')
    found = [
        (stage, task) for stage, task in open_approvals(view) if not ref.stage or stage.name == ref.stage
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        where = f' for stage "{ref.stage}"' if ref.stage else ""
        raise click.ClickException(f"{view.name} does not wait for an approval{where}: {view.headline}")
    names = ", ".join(f"{view.name}/{stage.name}" for stage, _ in found)
    raise click.ClickException(f"{view.name} waits for more than one approval; name the stage: {names}")


def evidence(view: RunView, stage: StageView, task: TaskView) -> list[str]:
    """Say what happens next and what is known, before somebody approves."""
    look = look_of()
    arrow = "→" if look.is_unicode else "->"
    version = f", version {view.snapshot_from}{arrow}{view.snapshot_to}" if view.snapshot_from else ""
    if task.side == "before":
        next_ = f'starts stage "{stage.name}": {stage.total} cluster(s), {stage.at_a_time} at a time'
    else:
        following = [one for one in view.stages[view.stages.index(stage) + 1 :] if one.total]
        next_ = (
            f'ends stage "{stage.name}"; then "{following[0].name}" follows' if following else "ends the run"
        )
    lines = [f"{view.name} ({view.placement}{version}): approving {next_}"]
    counts = [f"{one.name} {one.done}/{one.total}" for one in view.stages if one.done]
    if counts:
        lines.append(f"  done so far: {', '.join(counts)}")
    troubled = [one.name for each in view.stages for one in each.shown if one.state != "updating"]
    if troubled:
        lines.append(f"  look at: {', '.join(troubled[:10])}")
    lines += [f"  note: {one.sentence}" for one in view.findings if one.cause in _BLOCKERS]
    return lines


_BLOCKERS = frozenset(
    {"rival", "member-silent", "member-left", "member-unhealthy", "plan-outdated", "approval-not-counted"}
)


async def give(hub: Hub, ref: Ref, view: RunView, task: TaskView, why: str) -> str:
    """Approve, unless the run has moved on since it was shown."""
    from echelon.cli.follow import look
    from echelon.cli.identity import tell, who_am_i

    now = await look(hub, ref, deep=False)
    if task.request not in {one.request for _, one in open_approvals(now)}:
        raise click.ClickException(f"{view.name} has changed since you looked: {now.headline}")
    who = await who_am_i(hub)
    request = await write_approved(hub, ref, task.request, f"{who}: {why}")
    await tell(hub, ref.scope.approval, request, "Approved", f"{who}: {why}")
    return f"{task.request} approved by {who}. Watch it: echelon watch {ref}"


async def write_approved(hub: Hub, ref: Ref, name: str, message: str) -> Approval:
    """Write the condition at the request's own generation, keeping the others; safe against other writers."""
    import msgspec

    from echelon.api.conditions import set_condition
    from echelon.api.meta import Condition
    from echelon.client.errors import Conflict, NotFound
    from echelon.runtime.clock import WallClock

    kind = ref.scope.approval
    now = WallClock().now()
    for attempt in range(MAX_TRIES):
        try:
            request: Approval = await hub.client.get(kind, name, ref.namespace)
        except NotFound:
            raise click.ClickException(f'{kind.kind} "{name}" not found; see: echelon approvals -A') from None
        wanted = Condition(
            type="Approved",
            status="True",
            reason=f"{kind.kind}Approved",
            message=message,
            observed_generation=request.metadata.generation,
            last_transition_time=now,
        )
        conditions = set_condition(request.status.conditions if request.status else (), wanted, now)
        body = {
            "metadata": {"resourceVersion": request.metadata.resource_version},
            "status": {"conditions": msgspec.to_builtins(conditions)},
        }
        try:
            await hub.client.patch(kind, name, ref.namespace, body, subresource="status")
        except Conflict:
            if attempt == MAX_TRIES - 1:
                raise
        else:
            return request
    raise AssertionError("unreachable")


async def approve_prompt(hub: Hub, ref: Ref, view: RunView) -> None:
    """Ask what the key `a` of the live picture asks."""
    stage, task = choose(view, ref)
    for line in evidence(view, stage, task):
        say(line)
    why = click.prompt("Why", err=True)
    confirm(f'Approve {task.side} stage "{stage.name}"?', is_sure=False)
    say(await give(hub, ref, view, task, why))


# --- the peer's syntax ------------------------------------------------------------------------------------------
def _peer(kind: str, name: str, namespace: str | None) -> Any:
    """`approve careq --name N`: as kubectl fleet does it, with its messages."""
    from echelon.api.scope import CLUSTER, NAMESPACED
    from echelon.cli.lookup import Ref

    word = kind.lower()
    if word in {"careq", "clusterapprovalrequest"}:
        if namespace:
            raise click.UsageError("clusterapprovalrequest is cluster-scoped and does not accept a namespace")
        ref = Ref(CLUSTER, None, name)
    elif word in {"areq", "approvalrequest"}:
        if not namespace:
            raise click.UsageError("namespace is required for approvalrequest (use --namespace or -n flag)")
        ref = Ref(NAMESPACED, namespace, name)
    else:
        raise click.UsageError(f'unsupported resource kind "{kind}"')

    async def work(hub: Hub) -> str:
        what = ref.scope.approval.kind
        await write_approved(hub, ref, name, f"{what} has been approved")
        return f'{what} "{name}" approved successfully'

    return work
