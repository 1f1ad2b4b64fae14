"""Command line of the conformance suite.

python -m tests.conformance --kubeconfig FILE [--context hub] [--record] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path

from tests.conformance.compare import judge
from tests.conformance.endpoint import Kubeconfig
from tests.conformance.recordings import forget_unknown, load_recorded, save_recorded
from tests.conformance.runner import WORKERS, Sequence, load_sequences, run

SHOWN_LINES = 8


def _choose(sequences: list[Sequence], patterns: list[str]) -> list[Sequence]:
    """Returns the sequences whose id matches one of the patterns; all without any."""
    if not patterns:
        return sequences
    return [one for one in sequences if any(fnmatch.fnmatch(one.id, f"*{p}*") for p in patterns)]


def main(argv: list[str] | None = None) -> int:
    """Runs the sequences and compares or records; returns 1 when any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--context")
    parser.add_argument("--record", action="store_true", help="keep the answers as right ones")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--lines", type=int, default=SHOWN_LINES, help="differences shown per sequence")
    options = parser.parse_args(argv)

    every = load_sequences()
    chosen = _choose(every, options.only)
    kubeconfig = Kubeconfig(options.kubeconfig)
    began = time.monotonic()
    results = run(chosen, kubeconfig.endpoint(options.context), options.workers)
    if options.record:
        save_recorded(result for result in results if result.error is None)
        forget_unknown({sequence.id for sequence in every})
    recorded = load_recorded()
    failed = 0
    for result in results:
        problems = judge(result, recorded.get(result.sequence.id))
        failed += bool(problems)
        if problems:
            print(f"FAILED {result.sequence.id}")
            for line in problems[: options.lines]:
                print(f"    {line}")
    print(f"{len(results)} sequences in {time.monotonic() - began:.1f} s")
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
