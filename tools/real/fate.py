"""What can happen to a lab, and happens at random: processes are killed, servers freeze, networks are cut, a store is full.

What a stroke broke is mended a moment later, as whoever runs the real thing would: a kubelet starts again what has ended
(also an agent that ended by itself, having lost its lease), an operator makes room in the store.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import plan
from agents import Agents
from lab import Lab
from rest import Rest

PAUSE_S = (8.0, 14.0)  # between two strokes: control planes need a few seconds to come back
DEAD_S = 2.0  # until somebody starts again what was killed
FROZEN_S = 6.0
CUT_S = 12.0  # longer than a leader may go without renewing its lease
FULL_S = 8.0
TEND_EVERY_S = 0.5


class Fate:
    """Strikes one lab, and mends it."""

    def __init__(
        self, lab: Lab, agents: Agents, chance: random.Random, kinds: list[str] | None = None
    ) -> None:
        self.lab, self.agents, self.chance = lab, agents, chance
        self.strokes: Counter[str] = Counter()
        self.kinds = kinds or list(KINDS)
        state = lab.load()
        self._components = {c.name: c for c in plan.plan_lab(lab.layout(state), state.members)}
        self._mends: list[tuple[float, Callable[[], None]]] = []
        self._dead: dict[str, float] = {}  # what was killed, and until when it stays so
        self._next = 0.0
        self._tended = 0.0

    def pass_by(self) -> None:
        """Strike when it is time to, and mend what is due."""
        self.tend()
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.chance.uniform(*PAUSE_S)
            self.strike(self.chance.choice(self.kinds))

    def strike(self, kind: str) -> None:
        """Do one thing."""
        self.strokes[kind] += 1
        KINDS[kind](self)

    def tend(self) -> None:
        """Mend what is due, and start what has ended."""
        now = time.monotonic()
        for row in [row for row in self._mends if row[0] <= now]:
            self._mends.remove(row)
            row[1]()
        if now - self._tended < TEND_EVERY_S:
            return
        self._tended = now
        for name, component in self._components.items():
            if self._is_over(name, self.lab.processes.find(name), now):
                self.lab.processes.start(name, component.argv)
        for name in (*self.agents.links(), *self.agents.names()):
            if self._is_over(name, self.agents.processes.find(name), now):
                self.agents.start(name)

    def _is_over(self, name: str, pid: int | None, now: float) -> bool:
        if pid is not None or self._dead.get(name, 0.0) > now:
            return False
        self._dead.pop(name, None)
        return True

    def calm(self) -> None:
        """Mend everything now."""
        mends, self._mends = self._mends, []
        for _, mend in mends:
            mend()
        self._dead.clear()
        self._tended = 0.0
        self.tend()

    # strokes

    def kill(self, name: str) -> None:
        """Kill a component of the lab, an agent or a link."""
        self._dead[name] = time.monotonic() + DEAD_S
        processes = self.lab.processes if name in self._components else self.agents.processes
        processes.kill(name)

    def freeze(self, name: str, for_s: float) -> None:
        """Stop a process and let it go on later."""
        processes = self.lab.processes if name in self._components else self.agents.processes
        if processes.send(name, signal.SIGSTOP):
            self._later(for_s, lambda: processes.send(name, signal.SIGCONT))

    def fill_store(self) -> None:
        """Tell etcd that its space is used up, as its own quota does: it refuses every write until told otherwise."""
        if self._alarm("ACTIVATE"):
            self._later(FULL_S, self.empty_store)

    def empty_store(self) -> None:
        """Make room again, however often that has to be said."""
        if not self._alarm("DEACTIVATE"):
            self._later(1.0, self.empty_store)

    def _alarm(self, action: str) -> bool:
        pki = self.lab.dir / "pki"
        url = self.lab.layout(self.lab.load()).url("etcd")
        client = Rest(url, pki / "ca.crt", pki / "etcd-client.crt", pki / "etcd-client.key", timeout_s=5.0)
        try:
            body = {"action": action, "memberID": "0", "alarm": "NOSPACE"}
            return client.send("POST", "/v3/maintenance/alarm", body).code == 200
        except OSError:
            return False
        finally:
            client.close()

    def _later(self, after_s: float, mend: Callable[[], Any]) -> None:
        self._mends.append((time.monotonic() + after_s, mend))

    def hub_agents(self) -> list[str]:
        """Names the replicas of the hub agent."""
        return [name for name in self.agents.names() if name.startswith("hub-")]

    def any_server(self) -> str:
        """Names one of the API servers."""
        return f"{self.chance.choice(['hub', *self.agents.members])}/apiserver"


KINDS: dict[str, Callable[[Fate], None]] = {
    "hub agent": lambda fate: fate.kill(fate.chance.choice(fate.hub_agents())),
    "member agent": lambda fate: fate.kill(fate.chance.choice(fate.agents.members)),
    "API server": lambda fate: fate.kill(fate.any_server()),
    "etcd": lambda fate: fate.kill("etcd"),
    "frozen API server": lambda fate: fate.freeze(fate.any_server(), FROZEN_S),
    "network swallows": lambda fate: fate.freeze(fate.chance.choice(fate.agents.links()), CUT_S),
    "network resets": lambda fate: fate.kill(fate.chance.choice(fate.agents.links())),
    "full store": Fate.fill_store,
}
