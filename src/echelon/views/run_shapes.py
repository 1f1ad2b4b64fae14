"""The shape of a RunView: what it holds, and the words and letters in it. Shapes only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from echelon.rules.diagnose import Finding
from echelon.rules.forecast import Estimate
from echelon.rules.run_phases import ClusterPhase, RunPhase, StagePhase

VERSION = 1
MAX_SHOWN = 100  # clusters of a stage told in detail; the letters tell the rest

# one letter per cluster, in the order of the stage's names
LETTERS: Mapping[ClusterPhase, str] = {
    ClusterPhase.PENDING: "P",
    ClusterPhase.STARTING: "U",
    ClusterPhase.UPDATING: "U",
    ClusterPhase.STUCK: "S",
    ClusterPhase.DONE: "D",
    ClusterPhase.PREEMPTED: "T",
    ClusterPhase.FAILED: "F",
    ClusterPhase.GONE: "G",
}
STATES: Mapping[str, str] = {
    "P": "pending",
    "U": "updating",
    "S": "stuck",
    "D": "done",
    "T": "taken over",
    "F": "failed",
    "G": "gone",
}
INTERESTING = "FTSGU"  # in this order: what somebody should look at comes first
RUN_STATES: Mapping[RunPhase, str] = {
    RunPhase.NEW: "new",
    RunPhase.INITIALIZED: "initialized",
    RunPhase.INIT_FAILED: "failed",
    RunPhase.PROGRESSING: "progressing",
    RunPhase.WAITING: "waiting",
    RunPhase.STUCK: "stuck",
    RunPhase.STOPPING: "stopping",
    RunPhase.STOPPED: "stopped",
    RunPhase.SUCCEEDED: "succeeded",
    RunPhase.FAILED: "failed",
}
STAGE_STATES: Mapping[StagePhase, str] = {
    StagePhase.NEW: "pending",
    StagePhase.WAITING_BEFORE: "waiting",
    StagePhase.STARTED: "updating",
    StagePhase.WAITING_AFTER: "waiting",
    StagePhase.STOPPING: "stopping",
    StagePhase.STOPPED: "stopped",
    StagePhase.SUCCEEDED: "done",
    StagePhase.SKIPPED: "skipped",
    StagePhase.FAILED: "failed",
}
OVER = frozenset({"succeeded", "failed"})


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """An approval or a wait beside a stage. `state`: pending, open, done, or not counted."""

    kind: str  # approval | wait
    side: str  # before | after
    state: str
    request: str = ""
    wait_s: int = 0
    until: datetime | None = None
    since: datetime | None = None
    approved_by: str = ""  # as the API server noted it


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster worth looking at."""

    name: str
    state: str
    since: datetime | None = None
    message: str = ""


class StageView(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: its clusters as letters, the interesting ones in words, and what surrounds it."""

    name: str
    state: str
    done: int
    total: int
    at_a_time: int
    clusters: tuple[str, ...]
    letters: str
    shown: tuple[ClusterView, ...] = ()
    before: tuple[TaskView, ...] = ()
    after: tuple[TaskView, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    is_delete: bool = False


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run as people look at it."""

    version: int = VERSION
    kind: str
    short_kind: str
    namespace: str | None
    name: str
    revision: str
    placement: str
    strategy: str
    snapshot_from: str
    snapshot_to: str
    wanted: str  # spec.state
    state: str
    headline: str
    since: datetime | None
    created_at: datetime | None
    seen_at: datetime
    done: int
    total: int
    stages: tuple[StageView, ...]
    estimate: Estimate | None
    findings: tuple[Finding, ...]
    requester: str = ""  # who asked for the run as it is, as the API server noted it
    stale: str = ""  # why this may be out of date: the hub does not answer

    @property
    def ref(self) -> str:
        """How commands name the run: `NAME` or `NAME -n NAMESPACE`."""
        return f"{self.name} -n {self.namespace}" if self.namespace else self.name

    @property
    def approvers(self) -> tuple[str, ...]:
        """Who gave the run's approvals, in order, each once."""
        tasks = [task for stage in self.stages for task in (*stage.before, *stage.after)]
        return tuple(dict.fromkeys(task.approved_by for task in tasks if task.approved_by))

    @property
    def is_over(self) -> bool:
        """Whether the run will never change again."""
        return self.state in OVER
