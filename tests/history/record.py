"""What a history is: every request with its times and outcome, and everything every watch was told."""

from __future__ import annotations

from pathlib import Path

import msgspec

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"
NEVER = 1e18
"""The end of a request that was not answered."""


class State(msgspec.Struct, frozen=True):
    """An object as somebody was shown it. A deleted one is its last state at the revision of its end."""

    name: str
    rev: int
    uid: str
    labels: dict[str, str] = {}
    data: dict[str, str] = {}

    def same(self, other: State) -> bool:
        """Say whether both are one object with the same content, at whatever revision."""
        return (self.name, self.uid, self.labels, self.data) == (
            other.name,
            other.uid,
            other.labels,
            other.data,
        )


class Op(msgspec.Struct):
    """One request. Until an answer has come nobody knows what became of it."""

    client: str
    kind: str
    """create, put, patch, delete, get or list"""
    scope: str
    """the collection's path"""
    name: str
    start: float
    end: float = NEVER
    outcome: str = UNKNOWN
    reason: str = ""
    token: str = ""
    """what a write leaves in the object, different for each"""
    labels: dict[str, str] = {}
    data: dict[str, str] = {}
    expect: int = 0
    """the revision the writer demands, or the one a list asks for; 0 for none"""
    seen: State | None = None
    rev: int = 0
    """the revision of a list"""
    items: list[State] = []
    uid: str = ""
    """what a delete says it has deleted"""


class Told(msgspec.Struct):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK, or SYNCED after the initial events."""

    at: float
    type: str
    state: State


class Session(msgspec.Struct):
    """One watch from its start to its break."""

    client: str
    scope: str
    after: int = 0
    initial: bool = False
    """whether it began with what is there"""
    label: str = ""
    """only objects whose label `l` has this value"""
    told: list[Told] = []
    until: int = 0
    """the watch was given all the time it needed to tell everything up to here"""


class History(msgspec.Struct):
    """Everything that was recorded, in the order it began."""

    base: int
    """what happened up to this revision is not in the history"""
    ops: list[Op] = []
    sessions: list[Session] = []

    def save(self, file: Path) -> None:
        """Keep it."""
        file.write_bytes(msgspec.json.encode(self))


def load(file: Path) -> History:
    """Read what was kept."""
    return msgspec.json.decode(file.read_bytes(), type=History)
