"""The metric of placements: one series for each place a placement has stood at, gone with the placement."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from echelon.rules.placement_status import standing
from echelon.runtime.placement_metrics import PlacementMetrics
from tests.rules.pretend import NOW, SCOPES, Store, a_condition, a_placement, namespace_of

NAME = "fleet_workload_placement_status_last_timestamp_seconds"
ALL = ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]


class Stopped:
    def now(self):
        return NOW


def placed(scope, *said):
    prefix = scope.condition_prefix
    body = a_placement(scope)
    rows = [row if isinstance(row, tuple) else (row, "True", row) for row in said]
    conditions = [a_condition(prefix + t, s, reason=r, observedGeneration=1) for t, s, r in rows]
    body["status"] = {"conditions": conditions}
    return Store().put(scope.placement, body)


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_where_a_placement_stands(scope):
    prefix = scope.condition_prefix
    assert standing(scope, placed(scope)) == ("1", f"{prefix}Scheduled", "nil", "nil")
    blocked = placed(scope, "Scheduled", ("RolloutStarted", "False", "RolloutNotStartedYet"))
    assert standing(scope, blocked) == ("1", f"{prefix}RolloutStarted", "False", "RolloutNotStartedYet")
    assert standing(scope, placed(scope, *ALL)) == ("1", "Completed", "True", "Completed")
    edited = placed(scope, *ALL)
    edited = msgspec.structs.replace(edited, metadata=msgspec.structs.replace(edited.metadata, generation=2))
    assert standing(scope, edited) == ("2", f"{prefix}Scheduled", "nil", "nil")


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_the_series_of_a_placement_live_as_long_as_it(scope):
    registry = CollectorRegistry()
    metrics = PlacementMetrics(registry, Stopped())
    new, done = placed(scope), placed(scope, *ALL)
    metrics.sees(scope, None, new)
    metrics.sees(scope, new, new)
    metrics.sees(scope, new, done)
    labels = {"namespace": namespace_of(scope) or "", "name": "p", "generation": "1"}
    labels |= {"conditionType": "Completed", "status": "True", "reason": "Completed"}
    assert registry.get_sample_value(NAME, labels) == NOW.timestamp()
    assert len(next(iter(metrics.status.collect())).samples) == 2
    metrics.sees(scope, done, None)
    assert next(iter(metrics.status.collect())).samples == []
