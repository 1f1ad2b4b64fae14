"""Everything a decision about a run may look at, gathered in one value; and the errors a decision can end in.

The rules see nothing else: no clock, no client, and of earlier decisions nothing but what saves working the same
thing out again. Objects are shared with the cache and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.override import OverrideSnapshot
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot
from echelon.api.staged import Approval, Run, RunStatus, StageStatus, Strategy
from echelon.rules.snapshot_index import owned

DEFAULT_STUCK_AFTER = timedelta(minutes=5)  # the contract's threshold; a flag of the hub agent

# How errors are worded; scripts search for these, so they never change.
CANNOT_CONTINUE = "cannot continue the updateRun: "
INVALID = "cannot continue the updateRun: failed to validate the updateRun: "
CLIENT_ERROR = "failed to process the request due to a client error: "
UNEXPECTED = "unexpected behavior which cannot be handled by the controller: "


class Abort(Exception):
    """The run cannot go on, for good. The text is what the user reads."""

    @property
    def text(self) -> str:
        """What the user reads."""
        return str(self.args[0])


class NotYet(Exception):
    """Nothing can be decided yet; an event will bring the missing piece, or `until` ends the patience."""

    def __init__(self, text: str, until: datetime | None = None) -> None:
        super().__init__(text)
        self.until = until

    @property
    def text(self) -> str:
        """What is missing, for the log."""
        return str(self.args[0])


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub agent may set."""

    stuck_after: timedelta = DEFAULT_STUCK_AFTER


@dataclass(slots=True)
class Planned:
    """The stages as they were last planned, and from what: nobody plans 1,000 clusters anew because one has moved."""

    basis: object = None
    stages: Sequence[StageStatus] = ()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state a decision depends on.

    What the placement selects (`resources`, or the author's error) and the override snapshots are filled only until
    the run is initialized. `rivals` are the other runs of the placement by name. `written_at` is when this process
    last wrote the run's status, if it did, and `busy` how many it has written lately: they pace writes and nothing else. `planned` saves planning the same again;
    `fleet` grows whenever a member cluster comes, goes or is relabelled.
    """

    scope: Scope
    run: Run
    placement: Placement | None = None
    policy_snapshots: Sequence[PolicySnapshot] = ()
    bindings: Sequence[Binding] = ()
    strategy: Strategy | None = None
    clusters: Mapping[str, MemberCluster] = {}
    approvals: Mapping[str, Approval] = {}
    snapshots: Sequence[ResourceSnapshot] = ()
    resources: Sequence[Mapping[str, Any]] | None = None
    selection_problem: str = ""
    cluster_overrides: Sequence[OverrideSnapshot] = ()
    namespaced_overrides: Sequence[OverrideSnapshot] = ()
    rivals: Mapping[str, Run] = {}
    options: Options = Options()
    written_at: datetime | None = None
    busy: int = 1
    planned: Planned | None = None
    fleet: int = 0

    @property
    def status(self) -> RunStatus:
        """The run's status; an empty one before the first write."""
        return self.run.status or RunStatus()

    @property
    def own_policies(self) -> list[PolicySnapshot]:
        """R-INIT-14: the policy snapshots that the placement owns; a label alone proves nothing."""
        return owned(self.policy_snapshots, self.placement) if self.placement else []

    @property
    def own_snapshots(self) -> list[ResourceSnapshot]:
        """R-INIT-15: the resource snapshots that the placement owns; a forged one never becomes a version."""
        return owned(self.snapshots, self.placement) if self.placement else []

    def path(self, name: str) -> str:
        """Write a name of the run's scope as error texts do: `namespace/name`, or `/name`."""
        return f"{self.run.namespace or ''}/{name}"
