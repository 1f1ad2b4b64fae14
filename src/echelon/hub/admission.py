"""The gate before a write: whether the cluster lets it in.

Holds the checks that every Kubernetes API server makes, and the list of
further plugins (policies, webhooks). A plugin may wait; when none is interested
the write path does not wait either.
"""

from __future__ import annotations

from typing import Any, Protocol

from echelon.hub.call import Call

Json = dict[str, Any]


class Turns:
    """Which policies or webhooks of one plugin have had their turn on a write, and which are due for another."""

    def __init__(self) -> None:
        self.called: set[Any] = set()
        """Those that want to see the object again if it changes after them."""
        self.due: set[Any] = set()
        self.left = b""
        """The object as the plugin left it in the first round."""

    def changed(self) -> None:
        """Let all who have had their turn have another in the second round."""
        self.due |= self.called
        self.called = set()


class Rounds:
    """The rounds of mutations of one write: one, and a second where the first has changed something."""

    def __init__(self) -> None:
        self.again = False
        """This is the second round."""
        self.wanted = False
        self._turns: dict[str, Turns] = {}

    def turns_of(self, plugin: str) -> Turns:
        """Return what a plugin remembers between the rounds."""
        return self._turns.setdefault(plugin, Turns())


class Plugin(Protocol):
    """One admission plugin."""

    def interested(self, call: Call) -> bool:
        """Say whether this write must be shown to the plugin."""

    async def mutate(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
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
        """Let each plugin change the object, and once more where one of them asks for it."""
        rounds = Rounds()
        await self._round(call, new, old, rounds)
        if rounds.wanted:
            rounds.again = True
            await self._round(call, new, old, rounds)

    async def _round(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
        for plugin in self.plugins:
            if plugin.interested(call):
                await plugin.mutate(call, new, old, rounds)

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Let each plugin refuse."""
        for plugin in self.plugins:
            if plugin.interested(call):
                await plugin.validate(call, new, old)
