"""Which clusters a placement gets: one scheduling cycle, from policy, fleet and bindings to new bindings.

The cycle first sorts the bindings it finds (released, unscheduled, dangling, obsolete, current), then asks the
policy:

    PickFixed   the named clusters, if they can receive anything
    PickAll     every cluster that passes the filters
    PickN       the best N of those that pass, picked from the highest score down

and ends with bindings to make, to carry over to the current policy, and to unschedule, and with the decisions
in the policy snapshot's status, written last. Picked clusters stay picked: a binding of the current policy is
never judged again, whatever becomes of labels, taints or health, until its cluster is gone.

With spread constraints, clusters are picked one by one, each pick changing the skew for the next. All picks are
made in one cycle, so no state between two picks ever reaches the world.

It never deletes a binding: unscheduled ones are removed by whoever rolls out, at a pace that keeps workloads up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition
from echelon.api.names import (
    ANNOTATION_NUMBER_OF_CLUSTERS,
    FINALIZER_SCHEDULER_CLEANUP,
    BindingState,
    MemberCondition,
    PlacementType,
)
from echelon.api.placement import Placement, PlacementPolicy
from echelon.api.scope import Scope
from echelon.api.snapshot import ClusterDecision, PolicySnapshot
from echelon.rules import binding_life as life
from echelon.rules import decisions as say
from echelon.rules.affinity import Preferences, UnusablePolicy, is_required, untolerated
from echelon.rules.decisions import Outcome, Score
from echelon.rules.eligible import why_ineligible
from echelon.rules.plan import NOTHING, Action, Plan, StatusWrite, ref_of
from echelon.rules.snapshot_index import latest_policy_snapshot, owned
from echelon.rules.spread import Spread


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a scheduling cycle looks at."""

    scope: Scope
    placement: Placement
    snapshots: Sequence[PolicySnapshot]
    bindings: Sequence[Binding]
    clusters: Mapping[str, MemberCluster]


class Pick(NamedTuple):
    """A cluster to be held, and why."""

    cluster: str
    decision: ClusterDecision


class Cycle(NamedTuple):
    """What a policy wants changed."""

    picks: Sequence[Pick] = ()
    drop: Sequence[Binding] = ()  # bindings to unschedule
    outcome: Outcome | None = None  # None: nothing is said


def schedule(seen: Seen, now: datetime) -> Plan:
    """Run one scheduling cycle."""
    if seen.placement.metadata.is_deleting:
        return _let_go(seen)
    snapshot = latest_policy_snapshot(owned(seen.snapshots, seen.placement))
    held = life.sort_bindings(seen.bindings, snapshot, seen.clusters)
    released = tuple(life.release(seen.scope, binding) for binding in held.released)
    if snapshot is None:
        return Plan(steps=(released,), why="no policy snapshot yet") if released else NOTHING
    try:
        cycle = _ask(seen, snapshot, held, now)
    except UnusablePolicy as error:
        cycle = Cycle(outcome=Outcome((), is_fulfilled=False, found_count=0, remark=str(error)))
    return _plan(seen, snapshot, held, cycle, released, now)


def _ask(seen: Seen, snapshot: PolicySnapshot, held: life.Held, now: datetime) -> Cycle:
    policy = snapshot.spec.policy
    kind = policy.placement_type if policy else PlacementType.PICK_ALL
    if policy and kind == PlacementType.PICK_FIXED:
        return _pick_fixed(policy, seen, held, now)
    if policy and kind == PlacementType.PICK_N:
        return _pick_n(snapshot, policy, seen, held, now)
    return _pick_all(policy, seen, held, now)


# --- the three policies ---------------------------------------------------------------------------------------------
def _pick_fixed(policy: PlacementPolicy, seen: Seen, held: life.Held, now: datetime) -> Cycle:
    """R-PICK-1: PickFixed takes the named clusters that can receive anything."""
    if not policy.cluster_names:
        return Cycle()  # nothing was named yet: say nothing, keep everything
    current = held.current_by_cluster()
    picks: list[Pick] = []
    kept: list[ClusterDecision] = []
    refused: list[ClusterDecision] = []
    missing: list[ClusterDecision] = []
    for name in dict.fromkeys(policy.cluster_names):
        cluster = seen.clusters.get(name)
        if name in current:
            kept.append(say.picked_by_name(name))
        elif cluster is None:
            missing.append(say.not_found(name))
        elif why := why_ineligible(cluster, now):
            refused.append(say.not_eligible(name, why))
        else:
            decision = say.picked_by_name(name)
            picks.append(Pick(name, decision))
            kept.append(decision)
    decisions = say.fitting(kept, (*refused, *missing))
    wanted = {pick.cluster for pick in picks}
    drop = [binding for binding in held.obsolete if binding.spec.target_cluster not in wanted]
    return Cycle(picks, drop, Outcome(decisions, not (refused or missing), len(kept)))


def _pick_all(policy: PlacementPolicy | None, seen: Seen, held: life.Held, now: datetime) -> Cycle:
    """R-PICK-2: PickAll takes every cluster that passes the filters."""
    passing, refused = _filter(policy, seen, held, now)
    picks = [Pick(name, say.picked(name, Score())) for name in passing]
    wanted = set(passing)
    drop = [binding for binding in held.obsolete if binding.spec.target_cluster not in wanted]
    selected = [*_new_and_carried(picks, held), *held.decisions(held.scheduled), *held.decisions(held.bound)]
    outcome = Outcome(say.fitting(selected, _said(refused)), is_fulfilled=True, found_count=len(selected))
    return Cycle(picks, drop, outcome)


def _pick_n(
    snapshot: PolicySnapshot, policy: PlacementPolicy, seen: Seen, held: life.Held, now: datetime
) -> Cycle:
    """R-PICK-3: PickN keeps what it has and fills up with the best of those that pass the filters."""
    wanted = wanted_count(snapshot)
    present = len(held.scheduled) + len(held.bound)
    if present > wanted or (present == wanted and held.obsolete):
        return _downscale(held, present - wanted)
    if present == wanted:
        return _settled(snapshot, held)
    passing, refused = _filter(policy, seen, held, now)
    ranking = _rank(policy, seen, held, passing, wanted - present)
    picks = [*ranking.before, *ranking.last]
    names = {pick.cluster for pick in picks}
    drop = [binding for binding in held.obsolete if binding.spec.target_cluster not in names]
    selected = [
        *_new_and_carried(ranking.last, held),
        *sorted((pick.decision for pick in ranking.before), key=lambda decision: decision.cluster_name),
        *held.decisions(held.scheduled),
        *held.decisions(held.bound),
    ]
    unselected = [*ranking.outranked, *_said({**refused, **ranking.refused})]
    outcome = Outcome(say.fitting(selected, unselected), present + len(picks) == wanted, present + len(picks))
    return Cycle(picks, drop, outcome)


def wanted_count(snapshot: PolicySnapshot) -> int:
    """Return how many clusters a PickN policy wants now; the annotation follows edits, the spec does not."""
    text = snapshot.metadata.annotations.get(ANNOTATION_NUMBER_OF_CLUSTERS, "")
    if text.isascii() and text.isdigit():
        return int(text)
    return (snapshot.spec.policy.number_of_clusters if snapshot.spec.policy else 0) or 0


def _downscale(held: life.Held, surplus: int) -> Cycle:
    """R-PICK-4: of too many clusters scheduled ones go before bound ones, lower scores and smaller names first."""
    going = [*sorted(held.scheduled, key=_least_wanted), *sorted(held.bound, key=_least_wanted)][:surplus]
    names = {binding.name for binding in going}
    kept = [binding for binding in (*held.scheduled, *held.bound) if binding.name not in names]
    decisions = held.decisions(kept)
    outcome = Outcome(say.fitting(decisions, ()), is_fulfilled=True, found_count=len(kept))
    return Cycle(drop=[*held.obsolete, *going], outcome=outcome)


def _least_wanted(binding: Binding) -> tuple[int, int, int, str]:
    score = binding.spec.cluster_decision.cluster_score
    if score is None:
        return 0, 0, 0, binding.spec.target_cluster
    return 1, score.priority_score or 0, score.affinity_score or 0, binding.spec.target_cluster


def _settled(snapshot: PolicySnapshot, held: life.Held) -> Cycle:
    """Say nothing new while the status already names exactly the clusters held: a restart writes nothing."""
    kept = (*held.bound, *held.scheduled)
    said = snapshot.status.cluster_decisions if snapshot.status else ()
    named = {decision.cluster_name for decision in said if decision.selected}
    if say.is_answered(snapshot) and named == {binding.spec.target_cluster for binding in kept}:
        return Cycle()
    decisions = held.decisions(kept)
    return Cycle(outcome=Outcome(say.fitting(decisions, ()), is_fulfilled=True, found_count=len(kept)))


# --- filtering and ranking ------------------------------------------------------------------------------------------
def why_filtered(
    policy: PlacementPolicy | None, cluster: MemberCluster, namespace: str | None, now: datetime
) -> str | None:
    """R-PICK-5: filters in this order, the first refusal is the reason: affinity, eligibility, namespace, taints."""
    if not is_required(policy, cluster):
        return "cluster does not match with any of the required cluster affinity terms"
    if why := why_ineligible(cluster, now):
        return why
    if namespace and (why := _lacks_namespace(cluster, namespace)):
        return why
    taint = untolerated(cluster.spec.taints, policy.tolerations if policy else ())
    if taint is not None:
        return f"taint &{{Key:{taint.key} Value:{taint.value} Effect:{taint.effect}}} cannot be tolerated"
    return None


def _lacks_namespace(cluster: MemberCluster, namespace: str) -> str | None:
    status = cluster.status
    collects = status and find_condition(status.conditions, MemberCondition.NAMESPACE_COLLECTION_SUCCEEDED)
    if not status or not collects or namespace in status.namespaces:
        return None
    if not status.namespaces:
        return "cluster has no namespace information available"
    return "target namespace does not exist on cluster"


def _filter(
    policy: PlacementPolicy | None, seen: Seen, held: life.Held, now: datetime
) -> tuple[list[str], dict[str, str]]:
    """Split the fleet into the names that may be picked anew and the reasons why others may not."""
    current = held.current_by_cluster()
    passing: list[str] = []
    refused: dict[str, str] = {}
    for name in sorted(seen.clusters):
        why = why_filtered(policy, seen.clusters[name], seen.placement.namespace, now)
        if why:
            refused[name] = why
        elif name not in current:
            passing.append(name)
    return passing, refused


def _said(refused: Mapping[str, str]) -> list[ClusterDecision]:
    return [say.filtered(name, refused[name]) for name in sorted(refused)]


class Ranking(NamedTuple):
    """The picks of a cycle, and what the last look at the other clusters said."""

    before: Sequence[Pick]  # picked before the last look
    last: Sequence[Pick]
    outranked: Sequence[ClusterDecision]
    refused: Mapping[str, str]


def _rank(
    policy: PlacementPolicy, seen: Seen, held: life.Held, passing: Sequence[str], count: int
) -> Ranking:
    """R-PICK-6: spread before affinity before being held already; among equals the greatest name is picked first."""
    preferences = Preferences(policy, seen.clusters.values())
    obsolete = {binding.spec.target_cluster for binding in held.obsolete}
    affinity = {name: (preferences.score(seen.clusters[name]), int(name in obsolete)) for name in passing}
    fleet = tuple(seen.clusters.values())
    spread = Spread(policy.topology_spread_constraints, fleet, held.current_by_cluster())
    batch = 1 if spread else count
    before: list[Pick] = []
    last: list[Pick] = []
    while True:
        refused = {name: why for name in affinity if (why := spread.refusal(name))}
        scored = sorted(
            ((Score(spread.score(name), *affinity[name]), name) for name in affinity if name not in refused),
            reverse=True,
        )
        before += last
        last = [Pick(name, say.picked(name, score)) for score, name in scored[:batch]]
        left = [say.outranked(name, score) for score, name in scored[batch:]]
        for pick in last:
            spread.add(pick.cluster)
            del affinity[pick.cluster]
        if not last or len(before) + len(last) >= count:
            return Ranking(before, last, left, refused)


def _new_and_carried(picks: Sequence[Pick], held: life.Held) -> list[ClusterDecision]:
    """Order decisions as they are carried out: new bindings first, then those taken over."""
    taken_over = held.reusable()
    new = [pick.decision for pick in picks if pick.cluster not in taken_over]
    return new + [pick.decision for pick in picks if pick.cluster in taken_over]


# --- carrying it out ------------------------------------------------------------------------------------------------
def _plan(
    seen: Seen,
    snapshot: PolicySnapshot,
    held: life.Held,
    cycle: Cycle,
    released: tuple[Action, ...],
    now: datetime,
) -> Plan:
    reusable = held.reusable()
    taken = {binding.name for binding in seen.bindings}
    kept: list[Action] = [*released]
    for pick in cycle.picks:
        binding = reusable.get(pick.cluster)
        if binding is None:
            name = life.free_name(seen.placement, pick.cluster, taken)
            kept.append(life.make(seen.scope, seen.placement, snapshot.name, name, pick.decision))
        else:
            kept.append(life.take_over(seen.scope, binding, snapshot.name, pick.decision))
    dropped = tuple(life.unschedule(seen.scope, binding) for binding in (*held.dangling, *cycle.drop))
    steps = tuple(step for step in (_finalizer(seen), tuple(kept), dropped) if step)
    status = say.status_of(snapshot, cycle.outcome, now) if cycle.outcome else None
    write = None
    if status is not None:
        write = StatusWrite(ref=ref_of(seen.scope.policy_snapshot, snapshot), old=snapshot.status, new=status)
    if not steps and write is None:
        return NOTHING
    why = f"{len(cycle.picks)} picked, {len(dropped)} unscheduled"
    return Plan(steps=steps, status=write, why=why)


def _finalizer(seen: Seen) -> tuple[Action, ...]:
    patch = life.with_finalizer(seen.scope.placement, seen.placement, FINALIZER_SCHEDULER_CLEANUP)
    return (patch,) if patch else ()


def _let_go(seen: Seen) -> Plan:
    """Let a deleted placement's bindings go, then the placement. It does not wait for bindings to disappear."""
    if FINALIZER_SCHEDULER_CLEANUP not in seen.placement.metadata.finalizers:
        released = tuple(life.release(seen.scope, b) for b in seen.bindings if life.is_kept_by_scheduler(b))
        return Plan(steps=(released,)) if released else NOTHING
    steps = (
        tuple(life.release(seen.scope, b) for b in seen.bindings if life.is_kept_by_scheduler(b)),
        tuple(life.delete(seen.scope, b) for b in seen.bindings if not b.metadata.is_deleting),
        (life.without_finalizer(seen.scope.placement, seen.placement, FINALIZER_SCHEDULER_CLEANUP),),
    )
    return Plan(steps=tuple(step for step in steps if step), why="placement is being deleted")


__all__ = ["BindingState", "Seen", "schedule", "wanted_count", "why_filtered"]
