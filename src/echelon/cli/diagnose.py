"""`echelon diagnose RUN [CLUSTER]`: why a run does not go on, and what to do next.

Walks from the run to its clusters, bindings, works and, where the kubeconfig has a context with the member's name, to
the objects and pods there. Says each cause in one sentence, with its evidence, whether it can recover by itself, and
the next command. Also takes crp/NAME and rp/NAME: why a placement is not rolled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import look_of, output_option, print_data

if TYPE_CHECKING:
    from echelon.cli.lookup import Ref
    from echelon.rules.diagnose import Finding
    from echelon.views.tree import Look

MAX_EVIDENCE_SHOWN = 3


@click.command()
@click.argument("run")
@click.argument("cluster", required=False, default="")
@namespace_option
@click.option("--no-members", is_flag=True, help="Do not look at member clusters.")
@output_option("json", "yaml")
@hub_options
def diagnose(
    run: str, cluster: str, namespace: str | None, no_members: bool, output: str | None, **hub: Any
) -> None:
    """Say why a run does not go on: cause, evidence, next command.

    \b
    RUN is NAME, csur/NAME, sur/NAME (with -n), or a placement: crp/NAME, rp/NAME.
    With CLUSTER only that cluster of the run is explained.
    """

    async def work(reached: Hub) -> tuple[str, Sequence[Finding]]:
        if is_placement(run):
            from echelon.cli.lookup import placement_ref

            return await _of_placement(reached, placement_ref(run, namespace))
        from echelon.cli.lookup import run_ref

        return await _of_run(reached, run_ref(run, namespace), cluster, is_deep=not no_members)

    headline, findings = with_hub(work, **hub)
    if output:
        print_data({"version": 1, "headline": headline, "findings": findings}, output)
        return
    click.echo(headline)
    for line in told(findings, look_of(), datetime.now(UTC)):
        click.echo(line)


def is_placement(text: str) -> bool:
    """Whether an argument names a placement."""
    from echelon.api.scope import SCOPES
    from echelon.cli.lookup import names_of

    return text.partition("/")[0].lower() in {
        word for scope in SCOPES for word in names_of(scope.placement)
    } and ("/" in text)


async def _of_run(hub: Hub, ref: Ref, cluster: str, *, is_deep: bool) -> tuple[str, Sequence[Finding]]:
    from echelon.cli.follow import in_trouble
    from echelon.cli.lookup import Lists, depth_of, get_run, seen_of
    from echelon.rules.diagnose import diagnose as explain
    from echelon.views.run import view

    run = await get_run(hub.client, ref)
    seen = await seen_of(Lists(hub.client), run, ref.scope)
    now = datetime.now(UTC)
    shown = view(run, seen, now)
    if cluster and not any(cluster in stage.clusters for stage in shown.stages):
        names = [name for stage in shown.stages for name in stage.clusters]
        raise click.ClickException(
            f"cluster {cluster} is not in a stage of run {run.name}; there are: {', '.join(names[:10]) or 'none'}"
        )
    if not is_deep:
        return f"{run.name} {shown.headline}", explain(seen, now, cluster=cluster)
    depth = await depth_of(hub, seen, [cluster] if cluster else in_trouble(shown))
    headline = f"{cluster} in run {run.name}" if cluster else f"{run.name} {shown.headline}"
    return headline, explain(seen, now, depth, cluster)


async def _of_placement(hub: Hub, ref: Ref) -> tuple[str, Sequence[Finding]]:
    from echelon.cli.lookup import Lists, missing
    from echelon.rules.diagnose_placement import diagnose_placement

    reader = Lists(hub.client)
    placement = await reader.one(ref.scope.placement, ref.name, ref.namespace)
    if placement is None:
        raise click.ClickException(await missing(hub.client, ref.scope.placement, ref))
    runs = [
        run for run in await reader.all(ref.scope.run, ref.namespace) if run.spec.placement_name == ref.name
    ]
    findings = diagnose_placement(ref.scope, placement, runs)
    return f"{placement.kind or ref.scope.placement.kind} {ref}", findings


# --- text -------------------------------------------------------------------------------------------------------
def told(findings: Sequence[Finding], look: Look, now: datetime) -> list[str]:
    """Write findings for people, worst first."""
    if not findings:
        return ["", "Nothing is wrong."]
    lines: list[str] = []
    for number, finding in enumerate(findings, 1):
        lines += ["", *_finding(number, finding, look, now)]
    return lines


def _finding(number: int, finding: Finding, look: Look, now: datetime) -> list[str]:
    from echelon.views.tree import Span, paint, wrapped

    wide = look._replace(width=1000)
    head = wrapped(f"{number}. {finding.sentence}", look.width, "   ")
    lines = [paint((Span(line, "bold"),), wide) for line in head]
    if len(finding.clusters) > 3:
        lines += wrapped(f"   clusters: {', '.join(finding.clusters)}", look.width, "     ")
    for piece in finding.evidence[:MAX_EVIDENCE_SHOWN]:
        since = f" ({_ago(piece.since, now)})" if piece.since else ""
        lines += wrapped(f"   - {piece.object}: {piece.says}{since}", look.width, "     ")
    lines += wrapped(f"   recovers by itself? {finding.recovers}", look.width, "     ")
    lines += wrapped(f"   fix: {finding.fix}", look.width, "     ")
    lines += [
        f"   {'next:' if not index else '     '} {command}" for index, command in enumerate(finding.next)
    ]
    return [line if look.is_unicode else line.replace("…", "...") for line in lines]


def _ago(since: datetime, now: datetime) -> str:
    from echelon.rules.forecast import span_text

    return f"for {span_text(now - since)}"
