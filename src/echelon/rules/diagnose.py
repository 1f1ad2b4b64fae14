"""Why a run does not go on: the guides as one pure function.

`diagnose` walks from the run to its stages, clusters, bindings, manifests and pods, as far as it was given to see,
and says each cause in one sentence with its evidence, whether it can recover by itself, and the next command. What
several clusters share is told once. Causes stand in the order of blame.

Never writes, never guesses: every sentence is backed by a condition or a state somebody can look up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from echelon.rules.diagnose_causes import BLAME, CAUSES, Recovery
from echelon.rules.diagnose_cluster import as_engine, spot_clusters
from echelon.rules.diagnose_parts import Depth, Evidence, Spotted, fill, listed, run_words
from echelon.rules.diagnose_run import spot_run
from echelon.rules.run_seen import Seen

NOTHING_DEEPER = Depth()
MAX_EVIDENCE = 6  # observations shown for one finding; the objects named hold the rest


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, told for everybody it concerns."""

    cause: str
    title: str
    sentence: str
    recovery: Recovery
    recovers: str
    fix: str
    stage: str = ""
    clusters: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next: tuple[str, ...] = ()


def diagnose(
    seen: Seen, now: datetime, depth: Depth = NOTHING_DEEPER, cluster: str = ""
) -> tuple[Finding, ...]:
    """R-DIAG-1: explain a run, or (with `cluster`) only that cluster of it, worst cause first."""
    status = seen.status
    seen = as_engine(seen, status, now)
    spotted = list(spot_clusters(seen, status, depth, now, cluster))
    if not cluster:
        spotted += spot_run(seen, status, now)
    return tell(seen, spotted)


def tell(seen: Seen, spotted: Iterable[Spotted]) -> tuple[Finding, ...]:
    """Word what was spotted about a run: equal causes together, worst first."""
    words = run_words(seen)
    findings = [finding_of(group, words) for group in _grouped(spotted)]
    return tuple(sorted(findings, key=lambda finding: (BLAME[finding.cause], -len(finding.clusters))))


def one_line(seen: Seen, now: datetime) -> str:
    """R-DIAG-2: the worst cause in one sentence, from what the hub knows; "" when nothing is wrong."""
    findings = diagnose(seen, now)
    return findings[0].sentence if findings else ""


def _grouped(spotted: Iterable[Spotted]) -> Iterable[list[Spotted]]:
    """R-DIAG-3: what differs only in the cluster is one finding."""
    groups: dict[tuple[object, ...], list[Spotted]] = {}
    for one in spotted:
        key = (one.cause, one.stage, tuple(sorted(one.words.items())))
        groups.setdefault(key, []).append(one)
    return groups.values()


def finding_of(group: list[Spotted], run: dict[str, str]) -> Finding:
    """Word one cause for all it concerns; `run` holds the words that are always there."""
    first = group[0]
    cause = CAUSES[first.cause]
    clusters = tuple(sorted({one.cluster for one in group if one.cluster}))
    about = {"clusters": listed(clusters), "where": f"on {listed(clusters)}"} if clusters else {}
    words = {**run, "stage": first.stage, **about, **first.own, **first.words}
    evidence = tuple(piece for one in group for piece in one.evidence)[:MAX_EVIDENCE]
    return Finding(
        cause=cause.id,
        title=cause.title,
        sentence=fill(cause.sentence, words),
        recovery=cause.recovery,
        recovers=cause.recovers,
        fix=fill(cause.fix, words),
        stage=first.stage,
        clusters=clusters,
        evidence=evidence,
        next=tuple(fill(command, words) for command in cause.next),
    )
