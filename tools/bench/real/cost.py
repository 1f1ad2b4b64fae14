"""What something on the lab cost: CPU seconds and memory of processes, requests by who sent them."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tools.bench.real.fakes import AGENT as FAKES

TICKS = os.sysconf("SC_CLK_TCK")
REST_S, REST_LIMIT_S = 3.0, 600.0
ENGINE = "system:serviceaccount:fleet-system:echelon-hub-agent"
BENCH = "bench"


def cpu_s(pid: int) -> float:
    """Return the CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int, which: str = "VmRSS") -> int:
    """Return the memory of a process, now or (VmHWM) at its highest."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(f"{which}:"))


class Before(NamedTuple):
    """Where everything stood before."""

    cpu_s: Mapping[str, float]
    audit_at: int


class Meter:
    """Measures from one moment to another."""

    def __init__(self, pids: Mapping[str, int], audit: Path) -> None:
        self.pids, self.audit = pids, audit
        self._before = self._now()

    def _now(self) -> Before:
        spent = {name: cpu_s(pid) for name, pid in self.pids.items()}
        return Before(spent, self.audit.stat().st_size if self.audit.exists() else 0)

    def start(self) -> None:
        """Begin anew."""
        self._before = self._now()

    async def at_rest(self) -> None:
        """Wait until nobody has asked for anything for a while, leases aside; then begin."""
        async with asyncio.timeout(REST_LIMIT_S):
            while True:
                self.start()
                await asyncio.sleep(REST_S)
                if all(what == "leases" for _, _, what in self.requests()):
                    break
        self.start()

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds since, by process."""
        return {name: spent - self._before.cpu_s[name] for name, spent in self._now().cpu_s.items()}

    def requests(self) -> Counter[tuple[str, str, str]]:
        """Count the requests since by (who, verb, resource); a watch counts when it ends, so watches are left out."""
        found: Counter[tuple[str, str, str]] = Counter()
        with self.audit.open() as file:
            file.seek(self._before.audit_at)
            for line in file:
                event = json.loads(line)
                who = who_of(event)
                if who and event["verb"] != "watch":
                    found[who, event["verb"], what_of(event)] += 1
        return found


def who_of(event: Mapping[str, Any]) -> str:
    """Tell whose request it was; nothing for the lab's own components and the bench."""
    user, agent = event["user"]["username"], event.get("userAgent", "")
    if user == ENGINE:
        return "hub agent"
    if agent == FAKES or agent.startswith("echelon-member-agent"):
        return "members"
    return ""


def what_of(event: Mapping[str, Any]) -> str:
    """Name a resource with its subresource."""
    ref = event.get("objectRef") or {}
    return "/".join(part for part in (ref.get("resource", ""), ref.get("subresource", "")) if part)
