"""Command line of the conformance suite.

python -m tests.conformance                                  the embedded hub, started for this
python -m tests.conformance --kubeconfig FILE [--context C]  any other server
python -m tests.conformance --record --kubeconfig FILE       keep a real server's answers as the right ones
python -m tests.conformance --known                          rewrite known.yaml from what differs now
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import yaml
from tools.kubectl import find_or_build

from tests.conformance.compare import judge
from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Kubeconfig
from tests.conformance.install import install_crds
from tests.conformance.known import FILE as KNOWN_FILE
from tests.conformance.known import load_known
from tests.conformance.recordings import forget_unknown, load_recorded, save_recorded
from tests.conformance.runner import UNTIL_LIMIT_S, WORKERS, Sequence, load_sequences, run
from tests.conformance.sessions import Session, load_sessions, run_sessions

SHOWN_LINES = 8
REASON_LENGTH = 160
T = TypeVar("T", Sequence, Session)


def _choose(every: list[T], patterns: list[str]) -> list[T]:
    """Returns the sequences or sessions whose id matches one of the patterns; all without any."""
    if not patterns:
        return every
    return [one for one in every if any(fnmatch.fnmatch(one.id, f"*{p}*") for p in patterns)]


@contextmanager
def _server(kubeconfig: Path | None) -> Iterator[Path]:
    """Gives the named server, or an embedded hub that lives as long as it is needed."""
    if kubeconfig is not None:
        yield kubeconfig
        return
    with embedded_hub() as made:
        yield made


def _parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--context")
    parser.add_argument("--record", action="store_true", help="keep the answers as right ones")
    parser.add_argument("--known", action="store_true", help="rewrite known.yaml")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--patience", type=float, default=UNTIL_LIMIT_S, help="seconds to wait for a state")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--lines", type=int, default=SHOWN_LINES, help="differences shown per sequence")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs the sequences and compares or records; returns 1 when any differs."""
    options = _parser().parse_args(argv)
    sequences, sessions = load_sequences(), load_sessions()
    with _server(options.kubeconfig) as kubeconfig:
        keeper = Kubeconfig(kubeconfig)
        endpoint = keeper.endpoint(options.context or "hub")
        install_crds(endpoint)
        began = time.monotonic()
        results = run(_choose(sequences, options.only), endpoint, options.workers, options.patience)
        chosen = _choose(sessions, options.only)
        results += run_sessions(chosen, kubeconfig, str(find_or_build()), until_s=options.patience)
        took = time.monotonic() - began
    if options.record:
        save_recorded(result for result in results if result.error is None)
        forget_unknown({one.id for one in (*sequences, *sessions)})
    recorded = load_recorded()
    found = {result.sequence.id: judge(result, recorded.get(result.sequence.id)) for result in results}
    failed = {name: problems for name, problems in found.items() if problems}
    for name, problems in failed.items():
        print(f"FAILED {name}")
        for line in problems[: options.lines]:
            print(f"    {line}")
    if options.known:
        _rewrite_known(found)
    print(f"{len(results)} sequences and sessions in {took:.1f} s")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _rewrite_known(found: dict[str, list[str]]) -> None:
    """Takes out what equals now, adds what differs with its first difference as the reason."""
    known = {name: reason for name, reason in load_known().items() if found.get(name, True)}
    for name, problems in found.items():
        if problems:
            known.setdefault(name, problems[0][:REASON_LENGTH])
    text = yaml.safe_dump(known, sort_keys=True, width=1000, allow_unicode=True) if known else ""
    head = [line for line in KNOWN_FILE.read_text().splitlines(keepends=True) if line.startswith("#")]
    KNOWN_FILE.write_text("".join(head) + text)


if __name__ == "__main__":
    sys.exit(main())
