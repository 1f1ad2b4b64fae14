"""What is served: one `Kind` per group, version and resource, and the catalog of a logical cluster.

A kind knows how its objects are named, stored and presented; it never looks at
requests. Built-in kinds are shared by all clusters; each cluster adds those its
CustomResourceDefinitions declare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from echelon.hub.conversion import Conversion
from echelon.hub.schema import Schema
from echelon.hub.status import qualified

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
Json = dict[str, Any]


@dataclass(slots=True, eq=False, kw_only=True)
class Subresource:
    """One path below an object, such as status or scale."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")
    accepted: tuple[Json, ...] = ()
    """Kinds that may be sent, where several may."""


@dataclass(slots=True, eq=False, kw_only=True)
class Kind:
    """One served version of one resource."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: dict[str, Subresource] = field(default_factory=dict)
    load_schema: Callable[[], Schema | None] | None = None
    """Compiles the schema; called at first use, because most kinds are never touched."""
    openapi: Json | None = None
    definition: str = ""
    """The name of a built-in kind's schema among the definitions."""
    storage_hash: str = ""
    columns: list[Json] | None = None
    custom: bool = False
    ending: bool = False
    """Whether the definition of the kind is being deleted: nothing new is created."""
    deprecation: str = ""
    """The warning sent with every answer of a deprecated version."""
    selectable: tuple[str, ...] = ()
    """Fields, beside metadata.name and metadata.namespace, that a field selector may name."""
    scale_paths: Mapping[str, str] | None = None
    """specReplicasPath, statusReplicasPath and labelSelectorPath of the scale subresource."""
    storage: str = ""
    """The resource this is stored as, if another group's (`events` of both groups are one)."""
    storage_version: str = ""
    """The apiVersion written in stored objects, if not this version's own."""
    to_storage: Callable[[Json], Json] | None = None
    from_storage: Callable[[Json], Json] | None = None

    plain: bool = True
    """Whether this version shows what is stored as it is, but for the apiVersion."""
    since: int = 0
    """The revision since which this schema holds: what was written before may not fit it."""
    stored_as: Kind | None = None
    """The version of this definition that is stored, if another."""
    versions: dict[str, Kind] = field(default_factory=dict)
    """All versions of this definition by name, served or not."""
    conversion: Conversion | None = None
    """The webhook that converts between them, if the definition has one."""

    _schema: Schema | None = field(init=False, default=None)
    api_version: str = field(init=False)
    resource: str = field(init=False)
    qualified: str = field(init=False)
    prefix: bytes = field(init=False)
    stored_prefix: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Work out what every request would otherwise work out again."""
        self.api_version = f"{self.group}/{self.version}" if self.group else self.version
        self.list_kind = self.list_kind or self.kind + "List"
        self.resource = self.storage or f"{self.group}/{self.plural}"
        self.storage_version = self.storage_version or self.api_version
        self.qualified = qualified(self.group, self.plural)
        self.prefix = _prefix(self.api_version, self.kind)
        self.stored_prefix = _prefix(self.storage_version, self.kind)

    @property
    def schema(self) -> Schema | None:
        """Return the compiled schema, or None where anything goes."""
        if self._schema is None and self.load_schema is not None:
            self._schema = self.load_schema()
        return self._schema

    @property
    def stored(self) -> bool:
        """Say whether there are objects of this kind, and not only requests such as access reviews."""
        return "list" in self.verbs

    @property
    def has_status(self) -> bool:
        """Say whether status is written through its own path only."""
        return "status" in self.subresources

    def present(self, stored: bytes) -> bytes:
        """Return a stored body as this version shows it."""
        if self.from_storage is not None:
            return encode(self.from_storage(msgspec.json.decode(stored)))
        if self.prefix is self.stored_prefix or self.prefix == self.stored_prefix:
            return stored
        return self.prefix + stored[len(self.stored_prefix) :]

    def read(self, stored: bytes) -> Json:
        """Decode a stored body as this version sees it."""
        obj: Json = msgspec.json.decode(stored)
        if self.from_storage is not None:
            return self.from_storage(obj)
        obj["apiVersion"] = self.api_version
        return obj

    def write(self, obj: Json) -> bytes:
        """Encode an object of this version as it is stored: apiVersion and kind come first."""
        if self.to_storage is not None:
            obj = self.to_storage(obj)
        body = {"apiVersion": self.storage_version, "kind": self.kind, "metadata": None, **obj}
        body["apiVersion"] = self.storage_version
        return encode(body)


def _prefix(api_version: str, kind: str) -> bytes:
    return encode({"apiVersion": api_version, "kind": kind})[:-1] + b","


encode = msgspec.json.Encoder().encode


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort versions as Kubernetes does: GA before beta before alpha, newest first."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not found:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found.group(2)]
    return (stage, -int(found.group(1)), -int(found.group(3) or 0), version)


class Catalog:
    """The kinds one logical cluster serves."""

    __slots__ = ("_by_kind", "_by_path", "_by_resource", "_indexed", "_shared", "version")

    def __init__(self, kinds: Iterable[Kind] = (), shared: Catalog | None = None) -> None:
        self._shared = shared
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str, str], Kind] = {}
        self._by_resource: dict[str, Kind] = {}
        self._indexed = -1
        self.version = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.group, kind.version, kind.kind] = kind
        self.version += 1

    def remove(self, kind: Kind) -> None:
        """Stop to serve a kind."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.group, kind.version, kind.kind), None)
        self.version += 1

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served at a path."""
        kind = self._by_path.get((group, version, plural))
        if kind is None and self._shared is not None:
            return self._shared.find(group, version, plural)
        return kind

    def of_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Return the kind of an object's apiVersion and kind."""
        found = self._by_kind.get((group, version, kind))
        if found is None and self._shared is not None:
            return self._shared.of_kind(group, version, kind)
        return found

    def own(self) -> list[Kind]:
        """Return the kinds that only this catalog serves."""
        return list(self._by_path.values())

    def all(self) -> list[Kind]:
        """Return every kind, shared ones first."""
        return [*(self._shared.all() if self._shared is not None else ()), *self._by_path.values()]

    def by_resource(self, resource: str) -> Kind | None:
        """Return any version of a stored resource, its storage version if served."""
        version = self.version + (self._shared.version if self._shared is not None else 0)
        if self._indexed != version:
            self._indexed = version
            self._by_resource = {}
            for kind in self.all():
                if kind.api_version == kind.storage_version or kind.resource not in self._by_resource:
                    self._by_resource[kind.resource] = kind
        return self._by_resource.get(resource)
