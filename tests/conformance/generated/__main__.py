"""Send random request sequences to a real API server and to the embedded hub, and compare everything told.

python -m tests.conformance.generated --kubeconfig REAL [--seed 1] [--count 1000] [--kind configmaps] [--number 17]

A sequence is twelve requests about two objects of one kind; it ends early where the two servers' objects differ. Codes and reasons
must be equal, whole documents of answers that succeed with their field managers, and what two watches of the collection
told meanwhile, one of them with a selector. Identifiers, revisions and times are compared by when they are the same.
The texts of refusals are compared only with --words: the sequences written by hand compare them.

Exit code 0: nothing differs but what explained.yaml explains.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Kubeconfig
from tests.conformance.generated.difference import Difference
from tests.conformance.generated.explained import load
from tests.conformance.generated.samples import definitions
from tests.conformance.generated.sequence import Outcome, Plan, run
from tests.conformance.generated.servers import Server
from tests.hub.widgets import CRDS

SHOWN = 500
WORKERS = 8


def prepare(server: Server) -> None:
    """Define the custom kinds, and wait until they are served."""
    for definition in definitions():
        server.ask("POST", CRDS, definition)
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        for _ in range(300):
            if server.ask("GET", path)[0] == 200:
                break
            time.sleep(0.05)


def make_namespace(server: Server, name: str) -> None:
    """Make a namespace, unless it is there; pods need its service account, for which nobody else may care."""
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    server.ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})


def carry_out(plan: Plan, numbers: list[int], kubeconfigs: list[Path]) -> list[Outcome]:
    """Carry out sequences side by side, each worker in a namespace of its own."""
    configurations = [Kubeconfig(path) for path in kubeconfigs]  # they own the credentials' files
    endpoints = [configuration.endpoint() for configuration in configurations]
    for endpoint in endpoints:
        prepare(Server(endpoint))

    def work(worker: int) -> list[Outcome]:
        real, hub = (Server(endpoint) for endpoint in endpoints)
        namespace = f"generated-{worker}"
        for server in (real, hub):
            make_namespace(server, namespace)
        return [run(plan, number, (real, hub), namespace) for number in numbers[worker::WORKERS]]

    with ThreadPoolExecutor(WORKERS) as pool:
        return [outcome for outcomes in pool.map(work, range(WORKERS)) for outcome in outcomes]


def show(cases: list[Difference]) -> None:
    """Print the first of several differences of one kind."""
    first = cases[0]
    print(len(cases), *first.key, "first in", first.sequence)
    print("   ", first.ask.method, first.ask.path, _cut(first.ask.body))
    print("    real:", _cut(first.real[1].get("message", "")))
    print("    hub: ", _cut(first.hub[1].get("message", "")))
    for line in first.lines[:6]:
        print("       ", _cut(line))


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def report(outcomes: list[Outcome], shown: int) -> int:
    """Print what came of all sequences; return how many differences nothing explains."""
    unexplained: dict[tuple[Any, ...], list[Difference]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.difference is not None:
            unexplained[outcome.difference.key].append(outcome.difference)
    reasons = Counter(reason for outcome in outcomes for reason in outcome.explained)
    for cases in sorted(unexplained.values(), key=len, reverse=True)[:shown]:
        show(cases)
    for reason, count in reasons.most_common():
        print(f"explained {count}: {reason}")
    total = sum(map(len, unexplained.values()))
    requests, events = sum(one.requests for one in outcomes), sum(one.events for one in outcomes)
    print(
        f"{len(outcomes)} sequences, {requests} requests, {events} watch events; "
        f"{sum(one.unanswered for one in outcomes)} ended without an answer of the real server, "
        f"{reasons.total()} answers differ for a known reason, {total} unexplained"
    )
    return total


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.generated")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of a real API server")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=1000, help="sequences")
    parser.add_argument("--kind", default="", help="one resource alone, such as configmaps")
    parser.add_argument("--number", type=int, help="one sequence alone, and its requests printed")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--words", action="store_true", help="compare the texts of refusals too")
    options = parser.parse_args()
    plan = Plan(options.seed, options.kind, options.words, load())
    numbers = list(range(options.count))
    if options.number is not None:
        numbers = [options.number]
        print("\n".join(plan.told(options.number)))
    with embedded_hub() as kubeconfig:
        outcomes = carry_out(plan, numbers, [options.kubeconfig, kubeconfig])
    return 1 if report(outcomes, options.show) else 0


if __name__ == "__main__":
    sys.exit(main())
