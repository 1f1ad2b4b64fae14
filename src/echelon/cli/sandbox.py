"""`echelon sandbox`: add, remove, slow down, cut off and break simulated members while the fleet runs.

Everything is said through the hub's own API (annotations of the MemberCluster), so it survives a restart and can be
done with kubectl as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from echelon.cli.serve import DATA, default_data, running

JOIN_TIMEOUT_S = 30.0


@click.group()
def sandbox() -> None:
    """Change the simulated members of 'echelon up' while they run, to rehearse."""


def with_hub(data: Path | None, work: Callable[[Any], Awaitable[str]]) -> None:
    """Run some work with a client of the running sandbox and print its sentence."""
    from echelon.client import kubeconfig
    from echelon.client.http import connect

    folder = (data or default_data()).absolute()
    held = running(folder)
    if held is None:
        raise click.ClickException(f"nothing is running on {folder}; start it with: echelon up --detach")

    async def whole() -> str:
        client = connect(kubeconfig.load(held.kubeconfig, "hub"))
        try:
            return await work(client)
        finally:
            await client.close()

    click.echo(asyncio.run(whole()))


async def existing(client: Any, name: str) -> Any:
    """Return a simulated member, or say which there are."""
    from echelon.api.own import MEMBER_CLUSTERS
    from echelon.client.errors import NotFound
    from echelon.sandbox.fleet import SIMULATED

    try:
        member = await client.get(MEMBER_CLUSTERS, name)
    except NotFound:
        names = ", ".join(item.metadata.name for item in (await client.list(MEMBER_CLUSTERS)).items)
        raise click.ClickException(f"there is no member {name}; there are: {names or 'none'}") from None
    if member.metadata.annotations.get(SIMULATED) != "true":
        raise click.ClickException(f"{name} is a real cluster; only simulated members can be changed here")
    return member


async def annotate(client: Any, name: str, **values: str | None) -> None:
    """Set or remove (None) annotations of a simulated member."""
    from echelon.api.own import MEMBER_CLUSTERS

    await existing(client, name)
    await client.patch(MEMBER_CLUSTERS, name, None, {"metadata": {"annotations": values}})


@sandbox.command()
@click.argument("name")
@click.option(
    "--label",
    "-l",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label of the member; may be repeated.",
)
@DATA
def add(name: str, labels: tuple[str, ...], data: Path | None) -> None:
    """Add a simulated member and wait until it has joined."""
    pairs = [label.partition("=") for label in labels]
    wrong = [label for label, pair in zip(labels, pairs, strict=True) if not pair[1] or not pair[0]]
    if wrong:
        raise click.BadParameter(f"'{wrong[0]}' is not KEY=VALUE", param_hint="--label")

    async def work(client: Any) -> str:
        from echelon.api.own import MEMBER_CLUSTERS
        from echelon.client.cache import Cache
        from echelon.sandbox.fleet import has_joined, member_manifest

        await client.create(MEMBER_CLUSTERS, member_manifest(name, {key: value for key, _, value in pairs}))
        cache = Cache(client)
        store = cache.store(MEMBER_CLUSTERS)
        joined = asyncio.Event()
        store.subscribe(
            lambda _old, new: joined.set() if new and new.metadata.name == name and has_joined(new) else None
        )
        try:
            await asyncio.wait_for(joined.wait(), JOIN_TIMEOUT_S)
        except TimeoutError:
            raise click.ClickException(
                f"{name} has not joined in {JOIN_TIMEOUT_S:.0f} s; see: kubectl describe membercluster {name}"
            ) from None
        finally:
            await cache.close()
        return f"{name} has joined. Next: kubectl --context {name} get nodes"

    with_hub(data, work)


@sandbox.command()
@click.argument("name")
@DATA
def remove(name: str, data: Path | None) -> None:
    """Let a simulated member leave the fleet."""

    async def work(client: Any) -> str:
        from echelon.api.own import MEMBER_CLUSTERS

        await existing(client, name)
        await client.delete(MEMBER_CLUSTERS, name)
        return f"{name} is leaving. See: kubectl get memberclusters"

    with_hub(data, work)


@sandbox.command()
@click.argument("name")
@DATA
def cut(name: str, data: Path | None) -> None:
    """Cut the link between a member and the hub."""

    async def work(client: Any) -> str:
        from echelon.sandbox.fleet import LINK

        await annotate(client, name, **{LINK: "cut"})
        return f"{name} is cut off. Undo: echelon sandbox mend {name}"

    with_hub(data, work)


@sandbox.command()
@click.argument("name")
@click.argument("delay", default="2s")
@DATA
def slow(name: str, delay: str, data: Path | None) -> None:
    """Make a member's link to the hub slow; DELAY is for each way (2s)."""

    async def work(client: Any) -> str:
        from echelon.sandbox.fleet import LINK, delay_of

        if delay_of(delay) is None:
            raise click.BadParameter(
                f"'{delay}' is not a delay; write it like 200ms or 2s", param_hint="DELAY"
            )
        await annotate(client, name, **{LINK: delay})
        return f"{name} answers {delay} late each way. Undo: echelon sandbox mend {name}"

    with_hub(data, work)


@sandbox.command("break")
@click.argument("name")
@DATA
def break_(name: str, data: Path | None) -> None:
    """Break a member's workloads: new pods do not start any more."""

    async def work(client: Any) -> str:
        from echelon.sandbox.fleet import WORKLOADS

        await annotate(client, name, **{WORKLOADS: "broken"})
        return f"new pods do not start on {name}. Undo: echelon sandbox mend {name}"

    with_hub(data, work)


@sandbox.command()
@click.argument("name")
@DATA
def mend(name: str, data: Path | None) -> None:
    """Undo slow, cut and break."""

    async def work(client: Any) -> str:
        from echelon.sandbox.fleet import LINK, WORKLOADS

        await annotate(client, name, **{LINK: None, WORKLOADS: None})
        return f"{name} behaves again"

    with_hub(data, work)
