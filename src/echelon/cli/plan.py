"""`echelon plan RUN` and `plan -f run.yaml`: what a run will do. Nothing is written.

A file is checked by the hub itself (a dry run of its creation) and then planned by the engine's own rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import look_of, output_option, print_data

if TYPE_CHECKING:
    from echelon.api.scope import Scope
    from echelon.api.staged import Run
    from echelon.rules.run_seen import Seen
    from echelon.views.plan import PlannedChange, PlanView
    from echelon.views.tree import Look

REFUSED = 1
MAX_CHANGES = 60  # lines of changes of one group of clusters; -o json has all
MAX_NAMES = 20
KEY_WAIT_S = 2.0  # for the key with which Secrets in history are sealed


@click.command()
@click.argument("run", required=False)
@click.option("-f", "--filename", metavar="FILE", help="A run to be created; - reads it from stdin.")
@namespace_option
@output_option("json", "yaml")
@hub_options
def plan(
    run: str | None, filename: str | None, namespace: str | None, output: str | None, **hub: Any
) -> None:
    """Say what a run will do: stages, clusters in order, gates, changes, refusals. Nothing is written.

    \b
      echelon plan web-v8                 a run that is there
      echelon plan -f run.yaml            one that is to be created
    The exit code is 1 when the run would be refused.
    """
    if (run is None) == (filename is None):
        raise click.UsageError("name a run, or a file with one: plan RUN, or plan -f run.yaml")

    async def work(reached: Hub) -> PlanView:
        if filename is not None:
            scope, made = read_run(filename, namespace)
            return await plan_new(reached, scope, made)
        from echelon.cli.lookup import get_run, run_ref

        assert run is not None
        ref = run_ref(run, namespace)
        return await plan_of(reached, await get_run(reached.client, ref), ref.scope)

    view = with_hub(work, **hub)
    if output:
        print_data(view, output)
    else:
        for line in plan_lines(view, look_of()):
            click.echo(line)
    sys.exit(REFUSED if view.refusal else 0)


def read_run(filename: str, namespace: str | None) -> tuple[Scope, Run]:
    """Read a run from a file; anything else in the file is an error that says so."""
    import yaml

    from echelon.api.scope import SCOPES

    text = sys.stdin.read() if filename == "-" else _text_of(filename)
    try:
        documents = [one for one in yaml.safe_load_all(text) if one]
    except yaml.YAMLError as error:
        raise click.ClickException(f"{filename}: not valid YAML: {error}") from None
    kinds = {scope.run.kind: scope for scope in SCOPES}
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") in kinds]
    if len(found) != 1:
        raise click.ClickException(
            f"{filename}: {len(found)} staged update runs in the file, want 1 ({' or '.join(kinds)})"
        )
    return kinds[found[0]["kind"]], make_run(kinds[found[0]["kind"]], found[0], namespace, filename)


def _text_of(filename: str) -> str:
    try:
        return Path(filename).read_text(encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot read {filename}: {error.strerror}") from None


def make_run(scope: Scope, body: dict[str, Any], namespace: str | None, source: str) -> Run:
    """Decode a run that is not on the hub yet."""
    import msgspec

    meta = body.setdefault("metadata", {})
    if scope.namespaced:
        meta["namespace"] = namespace or meta.get("namespace") or "default"
    try:
        made: Run = msgspec.convert(body, type=scope.run.type)
    except msgspec.ValidationError as error:
        raise click.ClickException(f"{source}: {error}") from None
    if not made.name:
        raise click.ClickException(f"{source}: metadata.name is missing")
    return made


async def plan_new(hub: Hub, scope: Scope, run: Run) -> PlanView:
    """Plan a run that is not there: the hub checks it, the rules plan it."""
    import msgspec

    body = msgspec.to_builtins(run)
    body.update(apiVersion=scope.run.api_version, kind=scope.run.kind)
    body.pop("status", None)
    await hub.client.create(scope.run, body, run.namespace, dry_run=True)
    return await plan_of(hub, run, scope)


async def plan_of(hub: Hub, run: Run, scope: Scope) -> PlanView:
    """Gather what planning looks at, and plan."""
    from echelon.cli.lookup import Lists, seen_of
    from echelon.views.plan import plan_view

    reader = Lists(hub.client)
    seen = await seen_of(reader, run, scope)
    if not reader.may_see_members:
        raise click.ClickException(
            "a plan needs the labels of the members, and you may not list memberclusters; create the run without "
            "state: Run and look at it with: echelon get run"
        )
    return plan_view(await with_content(hub, reader, seen), datetime.now(UTC), os.urandom(16))


async def with_content(hub: Hub, reader: Any, seen: Seen) -> Seen:
    """Add what the placement selects now, and the override snapshots."""
    from msgspec.structs import replace

    from echelon.api.own import CLUSTER_OVERRIDE_SNAPSHOTS, OVERRIDE_SNAPSHOTS
    from echelon.client.cache import Cache
    from echelon.controllers.selection import Selection
    from echelon.rules.select import InvalidSelection

    seen = replace(
        seen,
        cluster_overrides=tuple(await reader.all(CLUSTER_OVERRIDE_SNAPSHOTS, None)),
        namespaced_overrides=tuple(await reader.all(OVERRIDE_SNAPSHOTS, None)),
    )
    if seen.run.spec.resource_snapshot_index or seen.placement is None:
        return seen
    cache = Cache(hub.client)
    try:
        selection = Selection(cache, hub.client)
        with contextlib.suppress(TimeoutError):  # who may not read the key gets a sentence once it is needed
            await asyncio.wait_for(cache.synced(), KEY_WAIT_S)
        selected = await selection.select(seen.scope, seen.placement)
        return replace(seen, resources=selected.manifests)
    except InvalidSelection as error:
        return replace(seen, selection_problem=error.text)
    except TimeoutError:
        raise click.ClickException(
            f"cannot read all that placement {seen.placement.name} selects; may this user list those kinds?"
        ) from None
    finally:
        await cache.close()


# --- text -------------------------------------------------------------------------------------------------------
def plan_lines(view: PlanView, look: Look) -> list[str]:
    """Write a plan for people."""
    version = (
        f"version {view.snapshot}{' (new)' if view.is_new_snapshot else ''}"
        if view.snapshot
        else "no version"
    )
    where = f" -n {view.namespace}" if view.namespace else ""
    lines = [
        f"plan of {view.name}{where}: placement {view.placement}, strategy {view.strategy}, {version}",
        "",
    ]
    if view.refusal:
        lines += [*_wrap(f"REFUSED: {view.refusal}.", look), ""]
    if view.unmatched:
        lines += [*_wrap(f"in no stage: {', '.join(view.unmatched)}", look, "  "), ""]
    for number, stage in enumerate(view.stages, 1):
        lines += [f"   {task} before it" for task in stage.before]
        count = len(stage.clusters)
        what = (
            f"{count} cluster{'' if count == 1 else 's'}, {stage.at_a_time} at a time"
            if count
            else "no clusters, skipped"
        )
        lines.append(f"{number}. {stage.name}: {what}")
        lines += _wrap(f"     {_names(stage.clusters)}", look, "     ") if count else []
        lines += [f"   {task} after it" for task in stage.after]
    if view.leaving:
        lines += _wrap(f"{len(view.stages) + 1}. removed from: {_names(view.leaving)}", look, "     ")
    for change in view.changes:
        lines += ["", *_change(change, look)]
    lines += (
        ["", *(line for text in _duration(view) for line in _wrap(text, look))] if not view.refusal else []
    )
    for warning in view.warnings:
        lines += _wrap(f"note: {warning.sentence}", look, "  ")
    lines.append("nothing was written")
    return [line if look.is_unicode else line.replace("→", "->").replace("…", "...") for line in lines]


def _wrap(text: str, look: Look, indent: str = "") -> list[str]:
    from echelon.views.tree import wrapped

    return wrapped(text, look.width, indent)


def _names(names: tuple[str, ...]) -> str:
    rest = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f", … {rest} more" if rest > 0 else "")


def _change(change: PlannedChange, look: Look) -> list[str]:
    from echelon.views.changes import write_changes

    names = _names(change.clusters)
    if change.problem:
        return _wrap(f"cannot be rendered for {names}: {change.problem}", look, "  ")
    if not change.changes:
        return _wrap(f"no change on {names}", look, "  ")
    lines = write_changes(change.changes, "  ")
    rest = len(lines) - MAX_CHANGES
    more = [f"  … {rest} more lines; all of them: -o json"] if rest > 0 else []
    return [
        *_wrap(f"changes on {names}:", look, "  "),
        *(line[: look.width] for line in lines[:MAX_CHANGES]),
        *more,
    ]


def _duration(view: PlanView) -> list[str]:
    from echelon.rules.forecast import span_text

    plus = f" plus {view.approvals} approval{'' if view.approvals == 1 else 's'}" if view.approvals else ""
    if view.shortest_s is None or view.longest_s is None:
        return [f"no estimate of the time yet{plus}: no run of this placement has finished"]
    low, high = (span_text(timedelta(seconds=span)) for span in (view.shortest_s, view.longest_s))
    span = low if low == high else f"{low} to {high}"
    return [f"takes about {span}{plus} (learnt from {view.basis})"]
