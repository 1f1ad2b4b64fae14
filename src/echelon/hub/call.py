"""What goes in and out of the hub: plain structs, no HTTP library.

`Request` and `Response` are all a transport needs to know. `Call` is a request
whose resource is known; the verbs work on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from echelon.hub.route import is_true

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.cluster import Cluster
    from echelon.hub.kinds import Kind
    from echelon.hub.store import Table

Query = dict[str, list[str]]
Body = bytes | list[bytes] | AsyncIterator[bytes]


@dataclass(slots=True, frozen=True)
class User:
    """Who asks, as the authenticator established it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Tell users apart by what authorisation looks at."""
        return hash((self.name, self.groups))


MASTERS = "system:masters"
ADMIN = User("admin", (MASTERS, "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(slots=True)
class Request:
    """One request; header names are lower-case, the path is still percent-encoded."""

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    body: bytes
    user: User


@dataclass(slots=True)
class Response:
    """One answer: whole bytes, a list of pieces, or a stream."""

    status: int
    body: Body = b""
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


class View(NamedTuple):
    """What admission sees of an object in a call about a part of it, and how that part is put back."""

    show: Callable[[dict[str, Any]], dict[str, Any]]
    put_back: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


@dataclass(slots=True)
class Call:
    """A request about objects of a known kind in a known cluster."""

    hub: Hub
    cluster: Cluster
    request: Request
    kind: Kind
    verb: str
    namespace: str
    name: str
    subresource: str = ""
    rest: str = ""
    warnings: list[str] = field(default_factory=list)
    view: View | None = None
    elsewhere: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] | None = None
    """By another version: which fields the write touches and removes there."""

    @property
    def table(self) -> Table:
        """Return the table of this kind."""
        return self.hub.store.table(self.cluster.name, self.kind.resource)

    @property
    def key(self) -> str:
        """Return the key of the object named."""
        return f"{self.namespace}/{self.name}" if self.kind.namespaced else self.name

    def option(self, name: str) -> str:
        """Return a query parameter, or nothing."""
        values = self.request.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Say whether a query parameter is set to true."""
        return is_true(self.request.query, name)

    def dry_run(self) -> bool:
        """Say whether the write must leave no trace."""
        return bool(self.request.query.get("dryRun"))
