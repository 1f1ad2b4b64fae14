"""Why an External placement is not rolled out: nothing moves until a run moves it."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.api.conditions import find_condition
from echelon.api.names import RolloutType
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.api.staged import Run
from echelon.rules.diagnose import Finding, finding_of
from echelon.rules.diagnose_parts import Spotted, saying


def diagnose_placement(scope: Scope, placement: Placement, runs: Sequence[Run]) -> tuple[Finding, ...]:
    """R-DIAG-4: tell whether a placement waits for a run that nobody has made."""
    strategy = placement.spec.strategy
    if strategy is None or strategy.type != RolloutType.EXTERNAL or runs:
        return ()
    status = placement.status
    count = len(status.placement_statuses) if status else 0
    said = find_condition(status.conditions, f"{scope.condition_prefix}RolloutStarted") if status else None
    evidence = (saying(f"{scope.placement.kind} {placement.name}", said),) if said else ()
    words = {
        "placement": placement.name,
        "count": str(count),
        "n": f" -n {placement.namespace}" if placement.namespace else "",
    }
    return (finding_of([Spotted(cause="no-run", evidence=evidence)], words),)
