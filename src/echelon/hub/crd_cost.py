"""Refuses definitions whose rules could cost too much, before any object is written, in kube-apiserver's words.

What it decides: how often a rule can run for one object (`times`), and whether one rule, or all together, exceed the budget.

What it must never do: judge rules that do not compile; they are refused for that.
"""

from __future__ import annotations

from echelon.hub.builtins_pod_rules import Found
from echelon.hub.cel_compile import Checked
from echelon.hub.cel_cost import estimate
from echelon.hub.cel_cost_calls import capped
from echelon.hub.cel_sizes import Extent, extent_of, most_times
from echelon.hub.schema_node import Schema

PER_RULE, PER_DEFINITION = 10_000_000, 100_000_000
WORTH_NAMING = 1_000_000
MOST_NAMED = 4
"""Rules that are named when all together are too expensive."""


class Budget:
    """What the rules of one schema may cost together."""

    def __init__(self) -> None:
        self.total = 0
        self._rules: list[tuple[int, str]] = []

    def spend(self, found: Found, cost: int, field: str, what: str) -> None:
        """Count one expression, and refuse it when it is too expensive by itself."""
        if cost > PER_RULE:
            found.forbidden(field, _exceeds(f"estimated {what} cost", cost, PER_RULE))
        self.total = capped(self.total + cost)
        if cost >= WORTH_NAMING:
            self._rules.append((cost, field))

    def close(self, found: Found, path: str) -> None:
        """Refuse the schema when its rules are too expensive together."""
        if self.total <= PER_DEFINITION:
            return
        for _, field in sorted(self._rules, key=lambda rule: -rule[0])[:MOST_NAMED]:
            found.forbidden(
                field,
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            )
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.forbidden(path, _exceeds(what, self.total, PER_DEFINITION))


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    times = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


class Place:
    """Where rules stand: how large values are there, and how often there can be one in an object."""

    def __init__(self, extent: Extent | None, times: int | None) -> None:
        self.extent = extent
        self._times = times

    def cost(self, rule: Checked) -> int:
        """Return what a rule can cost in one object."""
        times = self._times
        if times is None:
            times = most_times(self.extent.least_bytes if self.extent is not None else 0)
        return capped(self.cost_once(rule) * times)

    def cost_once(self, expression: Checked) -> int:
        """Return what one evaluation can cost."""
        return estimate(expression.tree, expression.types, self.extent)


def place_of(schema: Schema, times: int | None, *, root: bool) -> Place:
    """Return the place that a schema is, when its values can be there `times` times (None: no limit but the request's)."""
    return Place(extent_of(schema, root=root), times)


def times_below(schema: Schema, child: Schema, times: int | None) -> int | None:
    """Return how often the values of a child can be there."""
    if child is schema.items:
        most = schema.max_items
    elif child is schema.additional:
        most = schema.max_properties
    else:
        return times
    return None if times is None or most is None else capped(times * max(most, 0))
