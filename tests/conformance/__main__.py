"""Command line of the conformance suite.

python -m tests.conformance                                  the embedded hub, started for this
python -m tests.conformance --kubeconfig FILE [--context C]  any other server
python -m tests.conformance --record --kubeconfig FILE       keep a real server's answers as the right ones
python -m tests.conformance --known                          rewrite known.yaml from what differs now
python -m tests.conformance --table [--kubeconfig FILE]      passes per topic, embedded and real, for docs/conformance.md
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
from tests.conformance.runner import UNTIL_LIMIT_S, WORKERS, Result, Sequence, load_sequences, run
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
    parser.add_argument("--table", action="store_true", help="print passes per topic")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--patience", type=float, default=UNTIL_LIMIT_S, help="seconds to wait for a state")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--lines", type=int, default=SHOWN_LINES, help="differences shown per sequence")
    return parser


def _ask(options: argparse.Namespace, named: Path | None) -> tuple[list[Result], float]:
    """Runs what was chosen against one server; returns the results and the seconds it took."""
    with _server(named) as kubeconfig:
        keeper = Kubeconfig(kubeconfig)
        endpoint = keeper.endpoint(options.context or "hub")
        install_crds(endpoint)
        began = time.monotonic()
        chosen = _choose(load_sequences(), options.only)
        results = run(chosen, endpoint, options.workers, options.patience)
        sessions = _choose(load_sessions(), options.only)
        results += run_sessions(sessions, kubeconfig, str(find_or_build()), until_s=options.patience)
        return results, time.monotonic() - began


def _judge(results: list[Result]) -> dict[str, list[str]]:
    """Returns what is wrong with each result."""
    recorded = load_recorded()
    return {result.sequence.id: judge(result, recorded.get(result.sequence.id)) for result in results}


def main(argv: list[str] | None = None) -> int:
    """Runs the sequences and compares or records; returns 1 when any differs."""
    options = _parser().parse_args(argv)
    if options.table:
        print_table(options)
        return 0
    results, took = _ask(options, options.kubeconfig)
    if options.record:
        save_recorded(result for result in results if result.error is None)
        forget_unknown({one.id for one in (*load_sequences(), *load_sessions())})
    found = _judge(results)
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


def print_table(options: argparse.Namespace) -> None:
    """Prints the passes per topic of the embedded hub and, where one is named, of a real server."""
    columns = {"embedded": _judge(_ask(options, None)[0])}
    if options.kubeconfig is not None:
        columns["real"] = _judge(_ask(options, options.kubeconfig)[0])
    known = load_known()
    every = list(columns["embedded"])
    topics = sorted({name.partition("/")[0] for name in every})
    print("| topic | sequences | " + " | ".join(columns) + " | on purpose |")
    print("|---|---|" + "---|" * (len(columns) + 1))
    for topic in [*topics, ""]:
        ids = [name for name in every if name.startswith(f"{topic}/") or not topic]
        passed = [str(sum(not found[name] for name in ids)) for found in columns.values()]
        on_purpose = sum(name in known for name in ids)
        print(f"| {topic or '**all**'} | {len(ids)} | " + " | ".join(passed) + f" | {on_purpose or ''} |")


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
