"""`./dev python -m tests.hub.fuzz --examples 5000 --seed 1`: what `test_bad_input` does, for as long as wanted.

Each example is a new hub and up to twelve requests to it: random ones, or a definition, policy, selectors, patches or
headers made of random pieces. The first one that is answered wrongly ends it, made small.
"""

from __future__ import annotations

import argparse
import asyncio
import resource

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.hub.inputs import LANGUAGES
from tests.hub.test_bad_input import REQUESTS, sequence


def main() -> None:
    """Send random sequences of requests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    sent = 0

    @seed(chosen.seed)
    @settings(
        max_examples=chosen.examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.one_of(st.lists(REQUESTS, min_size=1, max_size=12), *LANGUAGES.values()))
    def search(requests: list) -> None:
        nonlocal sent
        sent += len(requests)
        asyncio.run(sequence(requests))

    search()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{sent} requests in {chosen.examples} sequences, all answered; {peak} MiB at most")


if __name__ == "__main__":
    main()
