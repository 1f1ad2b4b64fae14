"""`echelon install hub|member`, `echelon uninstall hub|member`: put the agents into a cluster and take them out again.

Installing is server-side apply, so doing it again upgrades and leaves alone what others have set. Uninstalling takes
out what runs and what it may do; the definitions, and with them everybody's objects, stay.
"""

from __future__ import annotations

import asyncio
from typing import Any

import click

FIELD_MANAGER = "echelon-install"
KEPT = frozenset({"CustomResourceDefinition", "Namespace"})  # with them everybody's objects would go


@click.group()
def install() -> None:
    """Install the agents into a cluster (or print the manifests with --print)."""


@click.group()
def uninstall() -> None:
    """Take the agents out of a cluster; definitions and objects stay."""


def where(command: Any) -> Any:
    """Add the options that say which cluster is meant."""
    for option in reversed(
        (
            click.option("--kubeconfig", help="Kubeconfig of the cluster."),
            click.option("--context", help="Context of the kubeconfig."),
            click.option(
                "--namespace", "-n", default="fleet-system", show_default=True, help="Namespace of the agent."
            ),
        )
    ):
        command = option(command)
    return command


def common(command: Any) -> Any:
    """Add the options every installation has."""
    for option in reversed(
        (
            where,
            click.option("--image", help="Image of the agent.  [default: this version's]"),
            click.option(
                "--print",
                "only_print",
                is_flag=True,
                help="Print YAML instead, for kubectl apply --server-side -f -",
            ),
        )
    ):
        command = option(command)
    return command


@install.command()
@common
@click.option(
    "--replicas", type=click.IntRange(1, 10), default=2, show_default=True, help="One works, the others wait."
)
@click.option("--stuck-after", default="5m", show_default=True, help="A cluster that takes longer is stuck.")
def hub(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    image: str | None,
    only_print: bool,
    replicas: int,
    stuck_after: str,
) -> None:
    """Install definitions, rights, policies and the hub agent."""
    from echelon.install.manifests import hub_manifests
    from echelon.install.workload import Values

    values = Values(namespace=namespace, replicas=replicas, stuck_after=stuck_after, **_image(image))
    _deliver(hub_manifests(values), kubeconfig, context, only_print)


@install.command()
@common
@click.option("--name", required=True, help="Name of the MemberCluster on the hub.")
@click.option(
    "--hub-secret",
    default="echelon-hub-kubeconfig",
    show_default=True,
    help="Secret with the kubeconfig of the hub.",
)
def member(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    image: str | None,
    only_print: bool,
    name: str,
    hub_secret: str,
) -> None:
    """Install the member agent."""
    from echelon.install.manifests import member_manifests
    from echelon.install.workload import Values

    values = Values(namespace=namespace, member=name, hub_secret=hub_secret, **_image(image))
    _deliver(member_manifests(values), kubeconfig, context, only_print)


@uninstall.command("hub")
@where
def uninstall_hub(kubeconfig: str | None, context: str | None, namespace: str) -> None:
    """Take the hub agent, its rights and the policies out."""
    from echelon.install.manifests import hub_manifests
    from echelon.install.workload import Values

    asyncio.run(_remove(hub_manifests(Values(namespace=namespace)), kubeconfig, context))


@uninstall.command("member")
@where
def uninstall_member(kubeconfig: str | None, context: str | None, namespace: str) -> None:
    """Take the member agent and its rights out; what it has applied stays."""
    from echelon.install.manifests import member_manifests
    from echelon.install.workload import Values

    asyncio.run(_remove(member_manifests(Values(namespace=namespace)), kubeconfig, context))


def _image(image: str | None) -> dict[str, Any]:
    return {"image": image} if image else {}


def _deliver(
    manifests: list[dict[str, Any]], kubeconfig: str | None, context: str | None, only_print: bool
) -> None:
    if only_print:
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        click.echo(yaml.dump_all(manifests, Dumper=dumper, sort_keys=False), nl=False)
        return
    asyncio.run(_apply(manifests, kubeconfig, context))


async def _apply(manifests: list[dict[str, Any]], kubeconfig: str | None, context: str | None) -> None:
    """Apply one after the other; our fields are ours, what others set stays."""
    from echelon.api.registry import resource_of
    from echelon.client import kubeconfig as config
    from echelon.client.errors import NotFound
    from echelon.client.http import connect
    from echelon.install.authors import NEWER_KINDS

    access = config.load(kubeconfig, context)
    client = connect(access, field_manager=FIELD_MANAGER)
    try:
        for manifest in manifests:
            resource = resource_of(manifest)
            meta = manifest["metadata"]
            try:
                await client.patch(
                    resource, meta["name"], meta.get("namespace"), manifest, type="apply", force=True
                )
            except NotFound:
                if resource.kind not in NEWER_KINDS:
                    raise
                click.echo(f"{resource.kind} {meta['name']}: left out, this server is too old for it")
            else:
                click.echo(f"{resource.kind} {meta['name']}")
    finally:
        await client.close()
    click.echo(
        f"\ninstalled into {access.server}. Next: kubectl -n {manifests[-1]['metadata']['namespace']} get pods"
    )


async def _remove(manifests: list[dict[str, Any]], kubeconfig: str | None, context: str | None) -> None:
    """Delete what was applied, the last first: the agent ends before its rights do."""
    from echelon.api.registry import resource_of
    from echelon.client import kubeconfig as config
    from echelon.client.errors import NotFound
    from echelon.client.http import connect

    access = config.load(kubeconfig, context)
    client = connect(access, field_manager=FIELD_MANAGER)
    try:
        for manifest in reversed(manifests):
            if manifest["kind"] in KEPT:
                continue
            meta = manifest["metadata"]
            try:
                await client.delete(resource_of(manifest), meta["name"], meta.get("namespace"))
            except NotFound:
                continue
            click.echo(f"{manifest['kind']} {meta['name']}")
    finally:
        await client.close()
    click.echo(
        f"\nremoved from {access.server}. The definitions, all objects of theirs and the namespace stay; installing "
        "again goes on where this ended."
    )
