"""`./dev python -m tests.history`: record long histories of a hub that is killed again and again, and judge them.

--seeds 1 2 3 --rounds 40 --writers 12      one history for each seed; each round but the last ends with a kill
--keep DIR                                  keep the histories
--check FILE                                judge a history that was kept
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.history.checker import check
from tests.history.record import History, load
from tests.history.server import Process
from tests.history.workload import record


async def recorded(seed: int, chosen: argparse.Namespace) -> History:
    """Record one history in a folder of its own; odd seeds drop old revisions meanwhile."""
    with tempfile.TemporaryDirectory(prefix="history-") as folder:
        process = Process(Path(folder), members=1, short_history=bool(seed % 2))
        try:
            return await record(process, seed, chosen.rounds, chosen.writers)
        finally:
            await process.kill()


def told(history: History) -> str:
    """Return what is in a history."""
    outcomes = Counter(op.outcome for op in history.ops)
    events = sum(len(session.told) for session in history.sessions)
    return (
        f"{len(history.ops)} requests ({', '.join(f'{count} {name}' for name, count in sorted(outcomes.items()))}), "
        f"{len(history.sessions)} watches told {events} events"
    )


def judge(name: str, history: History) -> bool:
    """Print what is wrong with a history; say whether nothing is."""
    began = time.monotonic()
    problems = check(history)
    for problem in problems:
        print(f"  {problem}")
    verdict = f"{len(problems)} problems" if problems else "one order explains it all"
    print(f"{name}: {told(history)}: {verdict} (judged in {time.monotonic() - began:.1f} s)", flush=True)
    return not problems


def main() -> int:
    """Record and judge; the exit code says whether all histories were right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writers", type=int, default=12)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--check", type=Path)
    chosen = parser.parse_args()
    if chosen.check:
        return 0 if judge(chosen.check.name, load(chosen.check)) else 1
    good = True
    for seed in chosen.seeds:
        history = asyncio.run(recorded(seed, chosen))
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            history.save(chosen.keep / f"{seed}.json")
        good &= judge(f"seed {seed}", history)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
