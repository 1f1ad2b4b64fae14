"""Everything a decision about a run may look at, gathered in one value; and the errors a decision can end in.

The rules see nothing else: no clock, no client, no memory of earlier decisions. Objects are shared with the
cache and never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.api.snapshot import PolicySnapshot, ResourceSnapshot
from echelon.api.staged import Approval, Run, RunStatus, Strategy
from echelon.rules.override import ClusterOverrides
from echelon.rules.plan import Action

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
    """Nothing can be decided yet; an event will bring the missing piece."""

    @property
    def text(self) -> str:
        """What is missing, for the log."""
        return str(self.args[0])


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub agent may set."""

    stuck_after: timedelta = DEFAULT_STUCK_AFTER


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest resource snapshot of a placement, as of now.

    `steps` are the writes that create it, empty when the existing one still describes the resources; `resources`
    is its content. `problem` is the author's error that makes a snapshot impossible; `wait` says why nothing
    can be said yet.
    """

    index: str = ""
    steps: tuple[tuple[Action, ...], ...] = ()
    resources: tuple[dict[str, Any], ...] = ()
    problem: str = ""
    wait: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state a decision depends on.

    `status` is what the run's status is to be taken for; it differs from `run.status` only while a status
    write is held back (see `rollout.py`). `latest` and `overrides` are filled only until the run is initialized.
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
    latest: Latest | None = None
    overrides: Mapping[str, ClusterOverrides] = {}
    override_problem: str = ""
    rivals: Mapping[str, Run] = {}
    options: Options = Options()
    held: RunStatus | None = None

    @property
    def status(self) -> RunStatus:
        """The run's status: the one held back if there is one, else as stored."""
        return self.held or self.run.status or RunStatus()

    def path(self, name: str) -> str:
        """Write a name of the run's scope as error texts do: `namespace/name`, or `/name`."""
        return f"{self.run.namespace or ''}/{name}"
