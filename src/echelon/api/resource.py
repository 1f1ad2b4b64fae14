"""What a client has to know about a kind to reach it, and what a server has to know to serve it.

Only the shape of a row; the rows are in `registry.py`.
"""

import builtins
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from echelon.api.schema import Cel


class Column(NamedTuple):
    """One column that `kubectl get` prints. Priority 1 is shown only with `-o wide`."""

    name: str
    json_path: str
    type: Literal["string", "date", "integer"] = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a CustomResourceDefinition says beyond the schema."""

    description: str
    also_served: tuple[str, ...] = ()  # versions with the same schema as the stored one
    has_status: bool = True  # the status subresource
    columns: tuple[Column, ...] = ()
    cel: tuple[Cel, ...] = ()  # rules over the whole object


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: where it lives in the API and which Python type its objects decode to.

    `type` is dict for kinds that are not ours: they are passed on, not understood.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[Any] = dict
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    definition: Definition | None = field(default=None, compare=False, repr=False)

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def full_name(self) -> str:
        """`plural.group`, the name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
