"""`echelon history`, `diff`, `rollback`: the versions of a placement, what lies between them, and going back.

A rollback is a new run of an earlier version, shown as a plan first: forward and back are the same road, with the same
stages and gates.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from echelon.cli.connect import Hub, hub_options, namespace_option, with_hub
from echelon.cli.output import confirm, look_of, output_option, print_data, say, table

if TYPE_CHECKING:
    from echelon.api.snapshot import ResourceSnapshot
    from echelon.api.staged import Run
    from echelon.cli.lookup import Ref
    from echelon.views.run_shapes import RunView

SAME, DIFFERENT, ERROR = 0, 1, 2
MAX_NAME = 63


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a placement."""

    version: int
    created_at: datetime | None
    objects: int
    clusters: tuple[str, ...]
    runs: tuple[str, ...]
    is_latest: bool


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a placement has been."""

    snapshots: Sequence[ResourceSnapshot]
    versions: tuple[VersionRow, ...]
    runs: tuple[RunView, ...]
    objects: tuple[Run, ...]


async def read_past(hub: Hub, ref: Ref) -> Past:
    """Gather a placement's versions and runs."""
    from echelon.cli.lookup import Lists, all_seen, missing, parent_label
    from echelon.rules.snapshot_index import is_latest, is_master, resource_index
    from echelon.views.run import view

    reader = Lists(hub.client)
    if await reader.one(ref.scope.placement, ref.name, ref.namespace) is None:
        raise click.ClickException(await missing(hub.client, ref.scope.placement, ref))
    snapshots = await reader.all(ref.scope.resource_snapshot, ref.namespace, parent_label(ref.name))
    seen = [
        one
        for one in await all_seen(reader, ref.scope, ref.namespace)
        if one.run.spec.placement_name == ref.name
    ]
    bindings = await reader.all(ref.scope.binding, ref.namespace, parent_label(ref.name))
    now = datetime.now(UTC)
    views = sorted(
        (view(one.run, one, now) for one in seen), key=lambda one: (one.created_at or now, one.name)
    )
    versions = []
    for master in sorted((one for one in snapshots if is_master(one)), key=resource_index):
        index = resource_index(master)
        parts = [one for one in snapshots if resource_index(one) == index]
        versions.append(
            VersionRow(
                version=index,
                created_at=master.metadata.creation_timestamp,
                objects=sum(len(part.spec.selected_resources) for part in parts),
                clusters=tuple(
                    sorted(
                        one.spec.target_cluster
                        for one in bindings
                        if one.spec.resource_snapshot_name == master.name
                    )
                ),
                runs=tuple(f"{one.name} {one.state}" for one in views if one.snapshot_to == str(index)),
                is_latest=is_latest(master),
            )
        )
    return Past(
        snapshots=snapshots,
        versions=tuple(versions),
        runs=tuple(views),
        objects=tuple(one.run for one in seen),
    )


def _run_words(view: RunView) -> str:
    who = [f"by {view.requester}"] if view.requester else []
    if view.approvers:
        who.append(f"approved by {' and '.join(view.approvers)}")
    return f"{view.name} {view.state}" + (f" ({', '.join(who)})" if who else "")


@click.command()
@click.argument("placement")
@namespace_option
@output_option("json", "yaml")
@hub_options
def history(placement: str, namespace: str | None, output: str | None, **hub: Any) -> None:
    """List a placement's versions: when they were made, where they are, which runs carried them."""
    from echelon.cli.lookup import placement_ref

    ref = placement_ref(placement, namespace)
    past = with_hub(lambda reached: read_past(reached, ref), **hub)
    if output:
        runs = [
            {
                "name": one.name,
                "state": one.state,
                "version": one.snapshot_to,
                "requester": one.requester,
                "approvedBy": one.approvers,
            }
            for one in past.runs
        ]
        print_data({"version": 1, "versions": past.versions, "runs": runs}, output)
        return
    if not past.versions:
        say(f"placement {ref} has no versions yet; a run makes the first one")
        return
    click.echo(
        table(
            ["version", "age", "objects", "on clusters", "runs"], [_row(one, past) for one in past.versions]
        )
    )


def _row(one: VersionRow, past: Past) -> list[str]:
    from echelon.rules.forecast import span_text

    age = span_text(datetime.now(UTC) - one.created_at) if one.created_at else "-"
    clusters = ", ".join(one.clusters) if len(one.clusters) <= 3 else f"{len(one.clusters)} clusters"
    runs = ", ".join(_run_words(view) for view in past.runs if view.snapshot_to == str(one.version))
    label = f"{one.version} (latest)" if one.is_latest else str(one.version)
    return [label, age, str(one.objects), clusters or "-", runs or "-"]


# --- diff -------------------------------------------------------------------------------------------------------
@click.command()
@click.argument("placement")
@click.argument("before", type=click.IntRange(min=0))
@click.argument("after", type=click.IntRange(min=0))
@namespace_option
@output_option("json", "yaml")
@hub_options
def diff(
    placement: str, before: int, after: int, namespace: str | None, output: str | None, **hub: Any
) -> None:
    """Compare two versions of a placement; Secret values are shown as marks only.

    Exit codes as kubectl diff: 0 the same, 1 different, more than 1 an error.
    """
    from echelon.cli.lookup import placement_ref
    from echelon.rules.snapshots import content_of
    from echelon.views.changes import changes_between, write_changes

    ref = placement_ref(placement, namespace)
    try:
        past = with_hub(lambda reached: read_past(reached, ref), **hub)
        for version in (before, after):
            require(past, version, ref)
    except Exception as error:
        if isinstance(error, click.UsageError) or not _speaks(error):
            raise
        say(f"error: {error.format_message() if isinstance(error, click.ClickException) else error}")
        sys.exit(ERROR)
    old, new = (content_of(past.snapshots, version) for version in (before, after))
    changes = changes_between(old, new, os.urandom(16))
    if output:
        print_data({"version": 1, "changes": changes}, output)
    else:
        is_unicode = look_of().is_unicode
        for line in write_changes(changes):
            click.echo(line if is_unicode else line.replace("→", "->").replace("…", "..."))
    sys.exit(DIFFERENT if changes else SAME)


def _speaks(error: Exception) -> bool:
    from echelon.cli.main import is_expected

    return isinstance(error, click.ClickException) or is_expected(error)


def require(past: Past, version: int, ref: Ref) -> None:
    """Raise for a version that is not kept any more, naming those that are."""
    if version not in {one.version for one in past.versions}:
        kept = ", ".join(str(one.version) for one in past.versions) or "none"
        raise click.ClickException(f"placement {ref} has no version {version}; kept are: {kept}")


# --- rollback ---------------------------------------------------------------------------------------------------
@click.command()
@click.argument("placement")
@click.option(
    "--to", "version", type=click.IntRange(min=0), help="Version to go back to.  [default: the one before]"
)
@click.option("--strategy", help="Strategy of the new run.  [default: that of the last run]")
@click.option("--name", help="Name of the new run.  [default: PLACEMENT-rollback-VERSION]")
@click.option("-m", "--message", "why", metavar="WHY", default="", help="Why; kept with the run.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@namespace_option
@hub_options
def rollback(
    placement: str,
    version: int | None,
    strategy: str | None,
    name: str | None,
    why: str,
    yes: bool,
    dry_run: bool,
    namespace: str | None,
    **hub: Any,
) -> None:
    """Roll an earlier version out again: a new run, shown as a plan first."""
    from echelon.cli.lookup import placement_ref

    ref = placement_ref(placement, namespace)

    async def work(reached: Hub) -> None:
        past = await read_past(reached, ref)
        wanted = version if version is not None else earlier(past, ref)
        require(past, wanted, ref)
        run = _new_run(past, ref, wanted, strategy, name)
        await _carry_out(reached, ref, run, why, is_sure=yes, only_plan=dry_run)

    with_hub(work, **hub)


def earlier(past: Past, ref: Ref) -> int:
    """Return the version before: the last one that a run brought everywhere, other than what clusters have now."""
    held = {one.version for one in past.versions if one.clusters}
    kept = {one.version for one in past.versions}
    good = [
        int(view.snapshot_to)
        for view in past.runs
        if view.state == "succeeded" and view.snapshot_to.isdigit() and int(view.snapshot_to) in kept
    ]
    newest = max(held, default=-1)
    for candidate in reversed(good):
        if candidate != newest:
            return candidate
    older = [one for one in kept if one < newest]
    if not older:
        raise click.ClickException(f"placement {ref} has no earlier version; see: echelon history {ref}")
    return max(older)


def _new_run(past: Past, ref: Ref, version: int, strategy: str | None, name: str | None) -> dict[str, Any]:
    last = max(
        past.objects,
        key=lambda run: run.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC),
        default=None,
    )
    chosen = strategy or (last.spec.strategy_name if last else None)
    if chosen is None:
        raise click.UsageError(
            f"placement {ref} has had no run to take the strategy from; name one: --strategy"
        )
    resource = ref.scope.run
    metadata: dict[str, Any] = {
        "name": name or free_name(ref.name, version, {run.name for run in past.objects})
    }
    if ref.namespace:
        metadata["namespace"] = ref.namespace
    spec = {
        "placementName": ref.name,
        "resourceSnapshotIndex": str(version),
        "stagedRolloutStrategyName": chosen,
        "state": "Initialize",
    }
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def free_name(placement: str, version: int, taken: set[str]) -> str:
    """Name a rollback's run: short enough, and not taken by one before."""
    number = 1
    while True:
        suffix = f"-rollback-{version}" + (f"-{number}" if number > 1 else "")
        name = placement[: MAX_NAME - len(suffix)] + suffix
        if name not in taken:
            return name
        number += 1


async def _carry_out(
    hub: Hub, ref: Ref, body: dict[str, Any], why: str, *, is_sure: bool, only_plan: bool
) -> None:
    from echelon.cli.identity import tell, who_am_i
    from echelon.cli.plan import make_run, plan_lines, plan_new
    from echelon.rules.diagnose_run import STATE_REASON

    view = await plan_new(
        hub,
        ref.scope,
        make_run(ref.scope, msgspec.json.decode(msgspec.json.encode(body)), ref.namespace, "rollback"),
    )
    for line in plan_lines(view, look_of())[:-1]:
        say(line)
    if view.refusal:
        raise click.ClickException("the run would be refused; nothing was done")
    name = body["metadata"]["name"]
    if only_plan:
        say("nothing was written")
        return
    confirm(f"Create and start run {name}?", is_sure=is_sure)
    who = await who_am_i(hub)
    reason = f"{who}: {why or f'rollback to version {view.snapshot}'}"
    body["metadata"]["annotations"] = {STATE_REASON: reason}
    body["spec"]["state"] = "Run"
    made = await hub.client.create(ref.scope.run, body, ref.namespace)
    await tell(hub, ref.scope.run, made, "RollbackRequested", reason)
    option = f" -n {ref.namespace}" if ref.namespace else ""
    click.echo(f"run {name} created and started. Watch it: echelon watch {name}{option}")
