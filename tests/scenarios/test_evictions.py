"""Evictions and disruption budgets (contract scenarios E1 to E16 of membership)."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.conditions import find_condition
from echelon.api.eviction import BudgetSpec
from echelon.api.names import ANNOTATION_EVICTED_BINDING
from echelon.api.own import (
    CLUSTER_BINDINGS,
    CLUSTER_PLACEMENTS,
    DISRUPTION_BUDGETS,
    EVICTIONS,
)
from echelon.client.errors import Invalid, NotFound
from echelon.controllers.eviction import Evictions
from echelon.rules import eviction as rule
from tests.deliveries import _condition
from tests.world import world

NAME = "web"
AVAILABLE = {"Available": ("True", "AllWorkAreAvailable")}


class Hub:
    """One placement on three clusters, and evictions of it."""

    def __init__(self, w) -> None:
        self.w, self.client = w, w.client()

    async def start(self, policy: dict[str, Any] | None = None, *, clusters=("c1", "c2", "c3")) -> None:
        await self.w.install()
        await self.engine()
        await self.place(policy)
        for cluster in clusters:
            await self.bind(cluster)
        await self.w.settle()

    async def engine(self) -> None:
        self.manager = await self.w.start(lambda m: [Evictions(m.cache)])

    async def restart(self) -> None:
        await self.manager.stop()
        self.w.managers.clear()
        await self.engine()
        await self.w.settle()

    async def place(self, policy: dict[str, Any] | None = None, **meta: Any) -> None:
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "app"}
        spec = {"resourceSelectors": [selector], **({"policy": policy} if policy else {})}
        await self.make(CLUSTER_PLACEMENTS, NAME, spec, **meta)

    async def make(self, kind, name, spec, **meta) -> Any:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, **meta},
            "spec": spec,
        }
        return await self.client.create(kind, body)

    async def bind(self, cluster, *, name="", state="Bound", annotations=None, says=AVAILABLE) -> str:
        name = name or f"{NAME}-{cluster}"
        spec = {
            "state": state,
            "resourceSnapshotName": "web-0-snapshot",
            "schedulingPolicySnapshotName": "web-0",
            "targetCluster": cluster,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        }
        meta = {
            "labels": {"kubernetes-fleet.io/parent-CRP": NAME},
            "annotations": annotations or {},
            "finalizers": ["kubernetes-fleet.io/scheduler-crb-cleanup"],
        }
        await self.make(CLUSTER_BINDINGS, name, spec, **meta)
        await self.say(name, **says)
        return name

    async def say(self, name, *, failed=False, **answers) -> None:
        conditions = [_condition(type_, *answer, 1) for type_, answer in answers.items()]
        status: dict[str, Any] = {"conditions": conditions}
        if failed:
            status["failedPlacements"] = [
                {
                    "version": "v1",
                    "kind": "ConfigMap",
                    "name": "cm",
                    "condition": _condition("Applied", "False", "X", 1),
                }
            ]
        await self.client.patch(CLUSTER_BINDINGS, name, None, {"status": status}, subresource="status")

    async def budget(self, **spec: Any) -> None:
        await self.make(DISRUPTION_BUDGETS, NAME, spec)

    async def evict(self, cluster="c1", name="evict") -> tuple[tuple[str, str], tuple[str, str] | None]:
        await self.make(EVICTIONS, name, {"placementName": NAME, "clusterName": cluster})
        return await self.answer(name)

    async def answer(self, name="evict"):
        await self.w.settle()
        conditions = (await self.client.get(EVICTIONS, name)).status.conditions
        valid, executed = (find_condition(conditions, type_) for type_ in ("Valid", "Executed"))
        return (
            (valid.status, valid.message),
            (executed.status, executed.message) if executed else None,
        )

    async def is_evicted(self, cluster="c1") -> bool:
        try:
            return (await self.client.get(CLUSTER_BINDINGS, f"{NAME}-{cluster}")).metadata.is_deleting
        except NotFound:
            return True


@pytest.fixture
def hub():
    with world(10) as w:
        yield Hub(w)


def play(hub, scenario):
    async def whole():
        await scenario()
        await hub.w.stop()

    hub.w.run(whole())


VALID = ("True", "Eviction is valid")


def counted(verdict, available=3, total=3):
    return (
        f"Eviction is {verdict} by specified ClusterResourcePlacementDisruptionBudget, "
        f"availablePlacements: {available}, totalPlacements: {total}"
    )


def test_e1_without_a_budget_an_eviction_is_carried_out(hub):
    async def scenario():
        await hub.start()
        assert await hub.evict() == (
            VALID,
            ("True", "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"),
        )
        assert [await hub.is_evicted(cluster) for cluster in ("c1", "c2", "c3")] == [True, False, False]
        seen = await hub.client.get(EVICTIONS, "evict")
        assert [(c.type, c.reason, c.observed_generation) for c in seen.status.conditions] == [
            ("Valid", "ClusterResourcePlacementEvictionValid", 1),
            ("Executed", "ClusterResourcePlacementEvictionExecuted", 1),
        ]

    play(hub, scenario)


@pytest.mark.parametrize(
    ("policy", "budget", "verdict"),
    [
        (None, {"minAvailable": 3}, "blocked"),
        (None, {"minAvailable": 2}, "allowed"),
        ({"placementType": "PickAll"}, {"minAvailable": 2}, "allowed"),
        (3, {"maxUnavailable": 0}, "blocked"),
        (3, {"maxUnavailable": 1}, "allowed"),
        (3, {"maxUnavailable": "33%"}, "allowed"),
        (3, {"maxUnavailable": "0%"}, "blocked"),
        (3, {"minAvailable": 3}, "blocked"),
        (3, {"minAvailable": 2}, "allowed"),
        (3, {"minAvailable": "66%"}, "allowed"),
        (3, {"minAvailable": "67%"}, "blocked"),
        (3, {"minAvailable": "100%"}, "blocked"),
        (3, {}, "blocked"),
    ],
)
def test_e3_e4_e5_e6_e14_a_budget_decides(hub, policy, budget, verdict):
    if policy == 3:
        policy = {"placementType": "PickN", "numberOfClusters": 3}

    async def scenario():
        await hub.start(policy)
        await hub.budget(**budget)
        valid, executed = await hub.evict()
        assert valid == VALID
        assert executed == ("True" if verdict == "allowed" else "False", counted(verdict))
        assert await hub.is_evicted() is (verdict == "allowed")
        reason = (await hub.client.get(EVICTIONS, "evict")).status.conditions[1].reason
        assert reason == f"ClusterResourcePlacementEviction{'' if verdict == 'allowed' else 'Not'}Executed"

    play(hub, scenario)


@pytest.mark.parametrize("budget", [{"maxUnavailable": 1}, {"minAvailable": "50%"}])
def test_e9_a_budget_that_cannot_be_meant_blocks(hub, budget):
    async def scenario():
        await hub.start()
        await hub.budget(**budget)
        assert (await hub.evict())[1] == ("False", rule.MISCONFIGURED)
        assert not await hub.is_evicted()

    play(hub, scenario)


def test_e7_an_eviction_that_makes_no_sense_is_answered_once_and_for_all(hub):
    async def scenario():
        await hub.w.install()
        await hub.engine()
        missing = "Failed to find ClusterResourcePlacement targeted by eviction"
        assert await hub.evict(name="early") == (("False", missing), None)
        await hub.place()
        await hub.bind("c1")
        assert await hub.answer("early") == (("False", missing), None)
        assert not await hub.is_evicted()
        nowhere = "Failed to find scheduler decision for placement in cluster targeted by eviction"
        assert await hub.evict("c9", name="nowhere") == (("False", nowhere), None)
        await hub.bind("c1", name="second")
        twice = "Found more than one scheduler decision for placement in cluster targeted by eviction"
        assert await hub.evict("c1", name="twice") == (("False", twice), None)

    play(hub, scenario)


def test_e7_pick_fixed_and_deleting_placements_are_refused(hub):
    async def scenario():
        await hub.w.install()
        await hub.engine()
        fixed = {"placementType": "PickFixed", "clusterNames": ["c1"]}
        await hub.place(fixed, finalizers=["kubernetes-fleet.io/crp-cleanup"])
        await hub.bind("c1")
        await hub.w.settle()
        message = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
        assert await hub.evict(name="fixed") == (("False", message), None)
        await hub.client.delete(CLUSTER_PLACEMENTS, NAME)
        await hub.w.settle()
        message = "Found deleting ClusterResourcePlacement targeted by eviction"
        assert await hub.evict(name="deleting") == (("False", message), None)

    play(hub, scenario)


def test_e8_only_what_was_delivered_can_be_evicted(hub):
    async def scenario():
        await hub.start(clusters=())
        await hub.bind("c1", state="Scheduled", says={})
        before = {"kubernetes-fleet.io/previous-binding-state": "Bound"}
        await hub.bind("c2", state="Unscheduled", annotations=before)
        await hub.bind("c3")
        await hub.client.delete(CLUSTER_BINDINGS, f"{NAME}-c3")
        await hub.w.settle()
        blocked = "Eviction is blocked, placement has not propagated resources to target cluster yet"
        assert await hub.evict("c1", "one") == (VALID, ("False", blocked))
        assert (await hub.evict("c2", "two"))[1] == ("True", rule.NO_BUDGET)
        assert await hub.is_evicted("c2")
        assert await hub.evict("c3", "three") == (VALID, ("True", rule.BEING_REMOVED))

    play(hub, scenario)


@pytest.mark.parametrize(
    ("says", "is_failed"),
    [
        ({"Overridden": ("False", "OverriddenFailed")}, True),
        ({"WorkSynchronized": ("False", "SyncWorkFailed")}, True),
        ({"Applied": ("False", "NotAllWorkHaveBeenApplied"), "failed": True}, True),
        ({"DiffReported": ("True", "AllWorkHaveDiffReported")}, True),
        ({"DiffReported": ("False", "NotAllWorkHaveDiffReported")}, True),
        ({"Applied": ("False", "ApplyInProgress")}, False),
        ({"Applied": ("False", "NotAllWorkHaveBeenApplied")}, False),
        (
            {"Applied": ("True", "AllWorkHaveBeenApplied"), "Available": ("False", "NotAllWorkAreAvailable")},
            False,
        ),
        ({"Applied": ("False", "ApplyPending")}, False),
    ],
)
def test_e10_e15_only_a_delivery_that_has_failed_goes_past_the_budget(hub, says, is_failed):
    async def scenario():
        await hub.start()
        await hub.budget(minAvailable=2)
        await hub.say(f"{NAME}-c1", **says)
        await hub.w.settle()
        executed = (await hub.evict())[1]
        if is_failed:
            assert executed == ("True", "Eviction is allowed, placement has failed")
        else:
            assert executed == ("False", counted("blocked", available=2))
        assert await hub.is_evicted() is is_failed

    play(hub, scenario)


@pytest.mark.parametrize(
    ("wanted", "available", "total", "budget", "is_allowed"),
    [
        (5, 3, 3, {"maxUnavailable": 1}, True),  # upscaling: bindings are still to come
        (5, 3, 3, {"minAvailable": 3}, False),
        (2, 3, 3, {"minAvailable": "100%"}, True),  # downscaling: more bindings than wanted
        (2, 1, 2, {"maxUnavailable": 1}, False),
        (2, 1, 2, {"maxUnavailable": 2}, True),
        (2, 1, 2, {"minAvailable": 1}, False),
        (10, 10, 10, {"maxUnavailable": "1%"}, True),
        (10, 9, 10, {"maxUnavailable": "10%"}, False),
    ],
)
def test_e11_arithmetic(wanted, available, total, budget, is_allowed):
    import msgspec

    from echelon.api.placement import Placement
    from echelon.rules.disruption import Counted, allowed_disruptions

    body = {
        "metadata": {"name": NAME},
        "spec": {"resourceSelectors": [], "policy": {"placementType": "PickN", "numberOfClusters": wanted}},
    }
    placement = msgspec.convert(body, Placement)
    spec = msgspec.convert(budget, BudgetSpec)
    assert (allowed_disruptions(spec, placement, Counted(available, total)) > 0) is is_allowed


@pytest.mark.parametrize("value", [0, 5, "2%", "02%", "10%", "100%"])
def test_e12_budgets_are_numbers_or_percentages(hub, value):
    async def scenario():
        await hub.w.install()
        for field in ("maxUnavailable", "minAvailable"):
            await hub.make(DISRUPTION_BUDGETS, f"b-{field}".lower(), {field: value})

    play(hub, scenario)


@pytest.mark.parametrize("value", [-1, "-1%", "101%", "10"])
@pytest.mark.parametrize("field", ["maxUnavailable", "minAvailable"])
def test_e12_other_budgets_are_refused(hub, field, value):
    async def scenario():
        await hub.w.install()
        with pytest.raises(Invalid, match=f"spec.{field}"):
            await hub.make(DISRUPTION_BUDGETS, NAME, {field: value})

    play(hub, scenario)


def test_e12_e16_both_limits_and_edits_of_an_eviction_are_refused(hub):
    async def scenario():
        await hub.start()
        with pytest.raises(Invalid, match="Both MaxUnavailable and MinAvailable cannot be specified"):
            await hub.budget(maxUnavailable=1, minAvailable=1)
        await hub.evict()
        with pytest.raises(Invalid, match="The PlacementName field is immutable"):
            await hub.client.patch(EVICTIONS, "evict", None, {"spec": {"placementName": "other"}})
        with pytest.raises(Invalid, match="The ClusterName field is immutable"):
            await hub.client.patch(EVICTIONS, "evict", None, {"spec": {"clusterName": "other"}})

    play(hub, scenario)


def test_two_evictions_at_once_never_use_a_budget_twice(hub):
    async def scenario():
        await hub.start()
        await hub.budget(minAvailable=2)
        for cluster in ("c1", "c2", "c3"):
            spec = {"placementName": NAME, "clusterName": cluster}
            await hub.make(EVICTIONS, f"evict-{cluster}", spec)
        await hub.w.settle()
        assert [await hub.is_evicted(cluster) for cluster in ("c1", "c2", "c3")].count(True) == 1
        answers = [(await hub.answer(f"evict-{cluster}"))[1][0] for cluster in ("c1", "c2", "c3")]
        assert sorted(answers) == ["False", "False", "True"]

    play(hub, scenario)


def test_a_crash_after_the_binding_was_noted_takes_that_binding_and_no_other(hub):
    async def scenario():
        await hub.start(clusters=("c1",))
        await hub.manager.stop()
        hub.w.managers.clear()
        binding = await hub.client.get(CLUSTER_BINDINGS, f"{NAME}-c1")
        noted = {ANNOTATION_EVICTED_BINDING: binding.metadata.uid}
        await hub.make(EVICTIONS, "evict", {"placementName": NAME, "clusterName": "c1"}, annotations=noted)
        # the binding is gone, and the scheduler has picked the cluster again
        await hub.client.patch(CLUSTER_BINDINGS, f"{NAME}-c1", None, {"metadata": {"finalizers": None}})
        await hub.client.delete(CLUSTER_BINDINGS, f"{NAME}-c1")
        await hub.bind("c1", name="successor")
        await hub.engine()
        assert await hub.answer() == (VALID, ("True", rule.BEING_REMOVED))
        assert not (await hub.client.get(CLUSTER_BINDINGS, "successor")).metadata.is_deleting

    play(hub, scenario)


def test_a_restart_leaves_answered_evictions_alone(hub):
    async def scenario():
        await hub.start()
        await hub.evict()
        await hub.restart()
        assert hub.manager.performer.write_count == 0

    play(hub, scenario)
