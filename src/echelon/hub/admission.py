"""The gate before a write: whether the cluster lets it in.

Holds the checks that every Kubernetes API server makes, and the list of
further plugins (policies, webhooks). A plugin may wait; when none is interested
the write path does not wait either.
"""

from __future__ import annotations

from typing import Any, Protocol

from echelon.hub.call import Call

Json = dict[str, Any]


class Plugin(Protocol):
    """One admission plugin."""

    def interested(self, call: Call) -> bool:
        """Say whether this write must be shown to the plugin."""

    async def mutate(self, call: Call, new: Json, old: Json | None) -> None:
        """Change the object in place, or raise a StatusError."""

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Raise a StatusError to refuse."""


class Admission:
    """All plugins of a hub, in order."""

    def __init__(self) -> None:
        self.plugins: list[Plugin] = []

    def quiet(self, call: Call) -> bool:
        """Say whether nobody needs to see this write."""
        return not any(plugin.interested(call) for plugin in self.plugins)

    async def mutate(self, call: Call, new: Json, old: Json | None) -> None:
        """Let each plugin change the object."""
        for plugin in self.plugins:
            if plugin.interested(call):
                await plugin.mutate(call, new, old)

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Let each plugin refuse."""
        for plugin in self.plugins:
            if plugin.interested(call):
                await plugin.validate(call, new, old)
