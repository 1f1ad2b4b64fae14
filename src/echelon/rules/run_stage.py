"""Moves the clusters of one stage along: takes in what happened, then fills the free slots.

Theory. A walk goes over the stage's clusters twice. The first time it takes in: clusters on record as started that
are done now, clusters this run has handed over without a record yet (their stamp says since when), clusters that
somebody else has moved. The second time, in the recorded order, it gives free slots to clusters whose turn it is.
Stopping is the first walk alone. Deleting has no slots: all bindings go at once.

Never looks at tasks or at other stages; never marks a stage or a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from echelon.api.binding import Binding
from echelon.api.conditions import find_condition
from echelon.api.staged import ClusterStatus, StageStatus
from echelon.rules.hand_over import Target
from echelon.rules.plan import Action, Delete, ref_of
from echelon.rules.run_cluster import (
    classify_cluster,
    hand_over,
    mover_name,
    preempted_text,
    started_by,
    target_of,
)
from echelon.rules.run_look import Look, Preempted
from echelon.rules.run_phases import STARTED, SUCCEEDED, ClusterPhase, Moment, mark
from echelon.rules.run_seen import CANNOT_CONTINUE, UNEXPECTED, Abort
from echelon.rules.run_validation import max_concurrency

_TICK = timedelta(milliseconds=1)  # "longer than the threshold" begins just after it


@dataclass(slots=True)
class Walk:
    """What a walk over the clusters of a stage found and wants."""

    entries: tuple[ClusterStatus, ...] = ()
    actions: tuple[Action, ...] = ()
    in_flight: int = 0
    has_moved: bool = False
    stuck: tuple[str, ...] = ()
    wake_at: datetime | None = None

    @property
    def is_done(self) -> bool:
        """Whether every cluster is done."""
        return all(_is_over(entry) for entry in self.entries)


def _is_over(entry: ClusterStatus) -> bool:
    return find_condition(entry.conditions, SUCCEEDED) is not None


@dataclass(slots=True)
class _Walker:
    """The state of one walk."""

    look: Look
    index: int
    bindings: Mapping[str, Binding]
    missing: str  # how the text about a missing binding ends
    entries: list[ClusterStatus]
    limit: int
    plain_target: Target | None = None
    recorded: int = 0  # in flight and on record as started
    unrecorded: list[int] = field(default_factory=list)  # in flight, handed over by this run, not on record
    turns: list[int] = field(default_factory=list)  # not started by this run
    stuck: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    preempted: Preempted | None = None
    has_moved: bool = False
    wake_at: datetime | None = None

    def take_in(self) -> None:
        """R-WALK-1: see how far every cluster is."""
        for position, entry in enumerate(self.entries):
            outcome = find_condition(entry.conditions, SUCCEEDED)
            if outcome is None:
                self._take_in(position, entry)
            elif outcome.status != "True":
                raise Abort(
                    f"{CANNOT_CONTINUE}the cluster `{entry.cluster_name}` in the stage "
                    f"{self.look.stage(self.index).stage_name} has failed"
                )
        if self.preempted is not None:  # the others' progress is still told
            stage = self.look.stage(self.index)
            self.look.set_stage(self.index, replace(stage, clusters=tuple(self.entries)))
            raise self.preempted

    def _take_in(self, position: int, entry: ClusterStatus) -> None:
        binding = self.bindings.get(entry.cluster_name)
        phase = classify_cluster(
            entry, binding, self._target(entry), self.look.now, self.look.seen.options.stuck_after
        )
        stage = self.look.stage(self.index).stage_name
        if phase is ClusterPhase.GONE or binding is None:
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}the binding for cluster `{entry.cluster_name}` in stage `{stage}` "
                f"is not found in the toBeUpdatedBindings map{self.missing}"
            )
        if phase is ClusterPhase.PREEMPTED:
            rival = mover_name(binding, self.look.seen)
            text = preempted_text(entry.cluster_name, stage, binding, rival)
            self.preempted = self.preempted or Preempted(text, self.index, position)
        elif phase is ClusterPhase.PENDING:
            self.turns.append(position)
        elif phase in (ClusterPhase.UPDATING, ClusterPhase.STUCK):
            self._still(entry, is_stuck=phase is ClusterPhase.STUCK)
        elif find_condition(entry.conditions, STARTED) is not None:
            self._done(position)
        elif started_by(binding, self.look.seen.run) is None:
            self.turns.append(
                position
            )  # on target by somebody else's doing: its turn comes, like any other's
        elif phase is ClusterPhase.DONE:
            self._start(position)
            self._done(position)
        else:
            self.unrecorded.append(position)

    def _target(self, entry: ClusterStatus) -> Target:
        if entry.resource_override_snapshots or entry.cluster_resource_override_snapshots:
            return target_of(self.look.seen.run, self.look.status, entry)
        if self.plain_target is None:  # the same for every cluster without overrides
            self.plain_target = target_of(self.look.seen.run, self.look.status, entry)
        return self.plain_target

    def _still(self, entry: ClusterStatus, *, is_stuck: bool) -> None:
        self.recorded += 1
        if is_stuck:
            self.stuck.append(entry.cluster_name)
            return
        started = find_condition(entry.conditions, STARTED)
        assert started is not None, "only started clusters update"
        self._wake(started.last_transition_time)

    def _wake(self, started_at: datetime) -> None:
        at = started_at + self.look.seen.options.stuck_after + _TICK
        self.wake_at = at if self.wake_at is None else min(self.wake_at, at)

    def record(self) -> None:
        """R-WALK-2: what this run has handed over goes on record, as far as there are slots to show it in."""
        for position in self.unrecorded:
            if self.recorded >= self.limit:
                return
            self._start(position)
            self.recorded += 1

    def fill(self) -> None:
        """R-WALK-3: free slots go to the next clusters in the recorded order."""
        free = self.limit - self._in_flight()
        for position in self.turns:
            if free <= 0:
                return
            entry = self.entries[position]
            binding, target = self.bindings[entry.cluster_name], self._target(entry)
            patch = hand_over(binding, target, self.look.seen, self.look.at)
            self._start(position)
            if patch is None and _is_done(self.entries[position], binding, target, self.look.now):
                self._done(position)
                continue
            if patch is not None:
                self.actions.append(patch)
            self.recorded += 1
            free -= 1

    def _in_flight(self) -> int:
        unshown = [
            at for at in self.unrecorded if find_condition(self.entries[at].conditions, STARTED) is None
        ]
        return self.recorded + len(unshown)

    def _start(self, position: int) -> None:
        entry = self.entries[position]
        since = started_by(self.bindings[entry.cluster_name], self.look.seen.run) or self.look.now
        at = Moment(since, self.look.at.generation)
        self.entries[position] = replace(entry, conditions=mark(entry.conditions, ClusterPhase.UPDATING, at))
        self.has_moved = True
        self._wake(since)

    def _done(self, position: int) -> None:
        entry = self.entries[position]
        said = mark(entry.conditions, ClusterPhase.DONE, self.look.at)
        self.entries[position] = replace(entry, conditions=said)
        self.has_moved = True

    def walked(self) -> Walk:
        """Return what was found."""
        return Walk(
            entries=tuple(self.entries) if self.has_moved else self.look.stage(self.index).clusters,
            actions=tuple(self.actions),
            in_flight=self._in_flight(),
            has_moved=self.has_moved,
            stuck=tuple(self.stuck),
            wake_at=self.wake_at,
        )


def _is_done(entry: ClusterStatus, binding: Binding, target: Target, now: datetime) -> bool:
    return classify_cluster(entry, binding, target, now, timedelta.max) is ClusterPhase.DONE


def _walker(look: Look, index: int, bindings: Mapping[str, Binding], missing: str = "") -> _Walker:
    clusters = look.stage(index).clusters
    limit = max_concurrency(look.spec(index).max_concurrency, len(clusters))
    return _Walker(look, index, bindings, missing, list(clusters), limit)


def update_clusters(look: Look, index: int, bindings: Mapping[str, Binding]) -> Walk:
    """R-STAGE-9: never more than maxConcurrency clusters of a stage are updating."""
    walker = _walker(look, index, bindings)
    walker.take_in()
    walker.record()
    walker.fill()
    return walker.walked()


def finish_clusters(look: Look, index: int, bindings: Mapping[str, Binding]) -> Walk:
    """R-STOP-2: see started clusters through; a stop does not overlook a preemption."""
    walker = _walker(look, index, bindings, " during stopping")
    walker.take_in()
    walker.record()
    return walker.walked()


def delete_clusters(
    look: Look, stage: StageStatus, leaving: Mapping[str, Binding], *, may_delete: bool
) -> Walk:
    """R-WALK-4: delete the bindings of leaving clusters; one is on record as started once its deletion is seen."""
    entries: list[ClusterStatus] = []
    walk = Walk()
    actions: list[Action] = []
    during = "" if may_delete else " during stopping"
    for entry in stage.clusters:
        name, said = entry.cluster_name, entry.conditions
        binding = leaving.get(name)
        is_started = find_condition(said, STARTED) is not None
        if binding is None:
            said = (
                mark(mark(said, ClusterPhase.UPDATING, look.at), ClusterPhase.DONE, look.at)
                if not _is_over(entry)
                else said
            )
        elif _is_over(entry):
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}the deleted cluster `{name}` in the deleting stage still has a "
                f"binding{during}"
            )
        elif binding.metadata.is_deleting:
            said = mark(said, ClusterPhase.UPDATING, look.at)
            walk.in_flight += 1
        elif is_started:
            raise Abort(
                f"{CANNOT_CONTINUE}{UNEXPECTED}the cluster `{name}` in the deleting stage is marked as deleting "
                f"but its corresponding binding is not deleting{during}"
            )
        elif may_delete:
            actions.append(Delete(ref=ref_of(look.seen.scope.binding, binding)))
        walk.has_moved = walk.has_moved or said is not entry.conditions
        entries.append(entry if said is entry.conditions else replace(entry, conditions=said))
    walk.entries, walk.actions = tuple(entries), tuple(actions)
    return walk
