"""`echelon clusters`, `drain`, `uncordon`: the members of the fleet, and taking work off one.

Draining keeps new placements away with a taint and evicts those that are there, within their disruption budgets. The
syntax of the peer's plugin (`draincluster`, `uncordoncluster`) is taken too; unlike there, a drain that is blocked
ends with an exit code that says so.
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.connect import Hub, hub_options, with_hub
from echelon.cli.duration import Duration
from echelon.cli.output import output_option, print_data, say, table

if TYPE_CHECKING:
    from echelon.api.binding import Binding
    from echelon.api.cluster import MemberCluster
    from echelon.api.eviction import Eviction

MAX_TRIES = 5  # of a write that somebody else's write came before
MAX_NAME = 253  # of an object
EVICTION_TIMEOUT_S = 60.0


@click.command()
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only clusters with these labels (stage=canary)."
)
@output_option()
@hub_options
def clusters(selector: str, output: str | None, **hub: Any) -> None:
    """List member clusters: whether they are there, when they were last heard, what keeps placements away."""
    from echelon.api.own import MEMBER_CLUSTERS

    async def work(reached: Hub) -> list[MemberCluster]:
        return (await reached.client.list(MEMBER_CLUSTERS, labels=selector)).items

    found = sorted(with_hub(work, **hub), key=lambda one: one.name)
    if output in {"json", "yaml"}:
        print_data({"version": 1, "items": [_facts(one) for one in found]}, output)
    elif output == "name":
        for one in found:
            click.echo(f"membercluster.cluster.kubernetes-fleet.io/{one.name}")
    elif not found:
        say("no member clusters" + (f" with {selector}" if selector else ""))
    else:
        _print_clusters([_facts(one) for one in found], is_wide=output == "wide")


def _facts(member: MemberCluster) -> dict[str, Any]:
    from echelon.api.names import PROPERTY_NODE_COUNT
    from echelon.rules.diagnose_cluster import last_heartbeat, spot_member

    now = datetime.now(UTC)
    troubles = [one.cause for one in spot_member(member.name, member, now)]
    status = member.status
    is_joined = (
        any(one.type == "Joined" and one.status == "True" for one in status.conditions) if status else False
    )
    state = troubles[0].removeprefix("member-") if troubles else ("joined" if is_joined else "joining")
    nodes = status.properties.get(PROPERTY_NODE_COUNT) if status else None
    return {
        "name": member.name,
        "state": state,
        "heartbeat": last_heartbeat(member),
        "nodes": nodes.value if nodes else "",
        "taints": [f"{one.key}={one.value}:{one.effect}" for one in member.spec.taints],
        "is_cordoned": is_cordoned(member),
        "labels": dict(member.metadata.labels),
    }


def _print_clusters(rows: list[dict[str, Any]], *, is_wide: bool) -> None:
    from echelon.rules.forecast import span_text

    now = datetime.now(UTC)
    header = ["name", "state", "last heard", "nodes", "cordoned", "labels"]
    out = []
    for row in rows:
        heard = f"{span_text(now - row['heartbeat'])} ago" if row["heartbeat"] else "never"
        labels = {
            key: value for key, value in row["labels"].items() if is_wide or "kubernetes-fleet.io/" not in key
        }
        written = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "-"
        out.append(
            [
                row["name"],
                row["state"],
                heard,
                row["nodes"] or "-",
                "yes" if row["is_cordoned"] else "no",
                written,
            ]
        )
    click.echo(table(header, out))


# --- cordon -----------------------------------------------------------------------------------------------------
def is_cordoned(member: MemberCluster) -> bool:
    """Whether the taint of a drain keeps placements away."""
    from echelon.api.names import CORDON_TAINT_KEY, CORDON_TAINT_VALUE

    return any((one.key, one.value) == (CORDON_TAINT_KEY, CORDON_TAINT_VALUE) for one in member.spec.taints)


async def set_cordon(hub: Hub, name: str, *, wanted: bool) -> bool:
    """Add or remove exactly the taint of a drain; whether that changed anything."""
    from echelon.api.names import CORDON_TAINT_KEY, CORDON_TAINT_VALUE
    from echelon.api.own import MEMBER_CLUSTERS
    from echelon.api.scope import CLUSTER
    from echelon.cli.lookup import Ref, missing
    from echelon.client.errors import Conflict, NotFound

    taint = {"key": CORDON_TAINT_KEY, "value": CORDON_TAINT_VALUE, "effect": "NoSchedule"}
    for attempt in range(MAX_TRIES):
        try:
            member = await hub.client.get(MEMBER_CLUSTERS, name)
        except NotFound:
            text = await missing(hub.client, MEMBER_CLUSTERS, Ref(CLUSTER, None, name))
            raise click.ClickException(text.removesuffix("; for a namespaced one add -n NAMESPACE")) from None
        if is_cordoned(member) is wanted:
            return False
        held = [
            {"key": one.key, "value": one.value, "effect": one.effect.value}
            for one in member.spec.taints
            if (one.key, one.value) != (CORDON_TAINT_KEY, CORDON_TAINT_VALUE)
        ]
        body = {
            "metadata": {"resourceVersion": member.metadata.resource_version},
            "spec": {"taints": [*held, taint] if wanted else held or None},
        }
        try:
            await hub.client.patch(MEMBER_CLUSTERS, name, None, body)
        except Conflict:
            if attempt == MAX_TRIES - 1:
                raise
        else:
            return True
    raise AssertionError("unreachable")


@click.command()
@click.argument("cluster")
@hub_options
def uncordon(cluster: str, **hub: Any) -> None:
    """Let a drained cluster be picked again."""
    click.echo(with_hub(lambda reached: _uncordon(reached, cluster), **hub))


async def _uncordon(hub: Hub, cluster: str) -> str:
    if await set_cordon(hub, cluster, wanted=False):
        return f"uncordoned member cluster {cluster}"
    return f"member cluster {cluster} was not cordoned"


# --- drain ------------------------------------------------------------------------------------------------------
@click.command()
@click.argument("cluster")
@click.option("--timeout", type=Duration(), default="60s", show_default=True, help="For each eviction.")
@hub_options
def drain(cluster: str, timeout: float, **hub: Any) -> None:
    """Move placements off a cluster and keep new ones away, within their disruption budgets."""

    async def work(reached: Hub) -> bool:
        return await drained(reached, cluster, timeout)

    if not with_hub(work, **hub):
        raise click.ClickException(f"{cluster} is cordoned but not drained; see above, then try again")
    click.echo(f"drained {cluster}; let it be picked again with: echelon uncordon {cluster}")


async def drained(hub: Hub, cluster: str, timeout_s: float) -> bool:
    """Cordon and evict; whether everything that can be evicted is going."""
    from echelon.api.names import LABEL_PARENT_CRP
    from echelon.api.own import CLUSTER_BINDINGS

    await set_cordon(hub, cluster, wanted=True)
    there = [
        one
        for one in (await hub.client.list(CLUSTER_BINDINGS)).items
        if one.spec.target_cluster == cluster and not one.metadata.is_deleting
    ]
    await _note_namespaced(hub, cluster)
    placements = sorted({one.metadata.labels.get(LABEL_PARENT_CRP, "") for one in there} - {""})
    verdicts = [await _evict(hub, placement, cluster, timeout_s) for placement in placements]
    for placement, (is_going, why) in zip(placements, verdicts, strict=True):
        say(f"{'evicted' if is_going else 'not evicted'}: {placement}: {why}")
    return all(is_going for is_going, _ in verdicts)


async def _note_namespaced(hub: Hub, cluster: str) -> None:
    """Say what a drain does not reach: evictions exist for cluster-scoped placements only."""
    from echelon.api.own import BINDINGS

    bindings: list[Binding] = (await hub.client.list(BINDINGS)).items
    left = [one for one in bindings if one.spec.target_cluster == cluster and not one.metadata.is_deleting]
    if left:
        names = ", ".join(sorted({f"{one.namespace}/{one.name}" for one in left})[:5])
        say(f"note: {len(left)} namespaced placement(s) stay on {cluster}, they cannot be evicted: {names}")


async def _evict(hub: Hub, placement: str, cluster: str, timeout_s: float) -> tuple[bool, str]:
    from echelon.api.own import EVICTIONS

    name = f"drain-eviction-{placement}-{cluster}"[: MAX_NAME - 9] + f"-{secrets.token_hex(4)}"
    body = {
        "apiVersion": EVICTIONS.api_version,
        "kind": EVICTIONS.kind,
        "metadata": {"name": name},
        "spec": {"placementName": placement, "clusterName": cluster},
    }
    made: Eviction = await hub.client.create(EVICTIONS, body)
    try:
        async with asyncio.timeout(timeout_s):
            verdict = await _verdict(hub, made)
    except TimeoutError:
        return (
            False,
            f"no answer in {timeout_s:.0f} s; see: kubectl describe {EVICTIONS.short_names[0]} {name}",
        )
    return verdict


async def _verdict(hub: Hub, made: Eviction) -> tuple[bool, str]:
    """Wait until the eviction is decided."""
    from echelon.api.own import EVICTIONS

    selector = f"metadata.name={made.name}"
    verdict = decided(made)
    while verdict is None:
        page = await hub.client.list(EVICTIONS, fields=selector)
        verdict = decided(page.items[0]) if page.items else (False, "the eviction was deleted")
        if verdict is not None:
            break
        async for event in hub.client.watch(
            EVICTIONS, resource_version=page.resource_version, fields=selector
        ):
            if event.type in {"ADDED", "MODIFIED"}:
                verdict = decided(event.object)
            if verdict is not None:
                break
    return verdict


def decided(eviction: Eviction) -> tuple[bool, str] | None:
    """Return what became of an eviction; None while nothing has."""
    conditions = {one.type: one for one in eviction.status.conditions} if eviction.status else {}
    valid, executed = conditions.get("Valid"), conditions.get("Executed")
    if executed is not None:
        return executed.status == "True", executed.message
    if valid is not None and valid.status == "False":
        is_gone = valid.message.startswith("Failed to find scheduler decision")
        return is_gone, "it is gone already" if is_gone else valid.message
    return None


# --- the peer's syntax ------------------------------------------------------------------------------------------
@click.command()
@click.option("--cluster-name", required=True, help="The cluster.")
@click.option("--timeout", type=Duration(), default="5m")
@hub_options
def draincluster(cluster_name: str, timeout: float, **hub: Any) -> None:
    """Drain a cluster, in the syntax of kubectl fleet."""

    async def work(reached: Hub) -> bool:
        return await drained(reached, cluster_name, timeout)

    is_drained = with_hub(work, **hub)
    click.echo(f"drain was {'' if is_drained else 'not '}successful for cluster {cluster_name}")
    click.echo(f"reminder: uncordon the cluster {cluster_name} to remove cordon taint if needed")
    if not is_drained:
        raise click.exceptions.Exit(1)


@click.command()
@click.option("--cluster-name", required=True, help="The cluster.")
@click.option("--timeout", type=Duration(), default="5m")
@hub_options
def uncordoncluster(cluster_name: str, timeout: float, **hub: Any) -> None:
    """Uncordon a cluster, in the syntax of kubectl fleet."""
    del timeout

    async def work(reached: Hub) -> bool:
        return await set_cordon(reached, cluster_name, wanted=False)

    with_hub(work, **hub)
    click.echo(f"uncordoned member cluster {cluster_name}")
