"""How commands reach a hub: the options they share, the kubeconfig they read, one event loop per command.

Habits of kubectl: --kubeconfig, --context, --as, -n. Without any of them and without a kubeconfig of one's own, the
sandbox started by `echelon up` is used. Ctrl-C anywhere ends the command and leaves the terminal as it was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from echelon.client.base import Client
    from echelon.client.kubeconfig import Access

T = TypeVar("T")
CLOSING_S = (
    0.01  # a connection that was cut in the middle of an answer needs the loop a few times more to end
)


class Hub:
    """A hub as a command sees it: a client, and the members one can reach with the same kubeconfig."""

    def __init__(self, client: Client, access: Access, kubeconfig: str | None) -> None:
        self.client = client
        self.access = access
        self.kubeconfig = kubeconfig
        self._members: dict[str, Client | None] = {}

    def member(self, name: str) -> Client | None:
        """Return a client for the member whose context has its name; None when there is no such context."""
        if name not in self._members:
            self._members[name] = self._connect_member(name)
        return self._members[name]

    def _connect_member(self, name: str) -> Client | None:
        from echelon.client.http import connect
        from echelon.client.kubeconfig import ConfigError, contexts, load

        if name == self.access.context:
            return None
        try:
            return connect(load(self.kubeconfig, name)) if name in contexts(self.kubeconfig) else None
        except ConfigError:
            return None

    async def close(self) -> None:
        """Let go of all connections."""
        for client in (self.client, *self._members.values()):
            if client is not None:
                await client.close()


def hub_options(command: Any) -> Any:
    """Add the options with which every command finds its hub."""
    for option in reversed(
        (
            click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the hub."),
            click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
            click.option("--hub-cluster-context", "context", metavar="NAME", hidden=True),
            click.option("--as", "as_user", metavar="USER", help="Act as another user."),
        )
    ):
        command = option(command)
    return command


def namespace_option(command: Any) -> Any:
    """Add -n: given, the namespaced kinds are meant, without it the cluster-scoped ones."""
    option = click.option(
        "-n", "--namespace", metavar="NS", help="Namespace, for namespaced runs and placements."
    )
    return option(command)


def with_hub(
    work: Callable[[Hub], Awaitable[T]],
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    as_user: str | None = None,
) -> T:
    """Run some work with a hub and return its result."""

    async def whole() -> T:
        hub = open_hub(kubeconfig, context, as_user)
        try:
            return await work(hub)
        finally:
            await hub.close()
            await asyncio.sleep(CLOSING_S)

    return asyncio.run(whole())


def open_hub(kubeconfig: str | None, context: str | None, as_user: str | None) -> Hub:
    """Read the kubeconfig and make the client; needs a running event loop."""
    import msgspec

    from echelon.client.http import connect
    from echelon.client.kubeconfig import load

    path = kubeconfig or sandbox_kubeconfig()
    access = load(path, context)
    if as_user:
        access = msgspec.structs.replace(access, impersonate=as_user)
    client = connect(access, field_manager="echelon-cli", user_agent="echelon-cli")
    return Hub(client, access, path)


def sandbox_kubeconfig() -> str | None:
    """Return the kubeconfig of the sandbox that runs here, if the user has none of his own."""
    if os.environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").exists():
        return None
    from echelon.cli.serve import default_data, running

    held = running(default_data().absolute())
    return held.kubeconfig if held else None
