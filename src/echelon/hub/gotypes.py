"""The Go types of built-in kinds, from data distilled from the published client library (see tools/real/wire.py).

What it does: reads `data/wire.json` once per process.

What it must never do: look at objects; `protobuf` and `builtins_go` do.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import msgspec


class Field(msgspec.Struct, frozen=True, array_like=True):
    """One field of a Go struct."""

    name: str
    code: str
    """Its type; tools/real/wire.py says how to read it."""
    always: str = ""
    """Not empty where JSON shows the field even if it is empty."""


Fields = dict[str, Field]
"""By number in protocol buffers."""


class GoTypes(msgspec.Struct, frozen=True):
    """The data file."""

    kinds: dict[str, str]
    """The type of an apiVersion and kind."""
    types: dict[str, Fields]


@lru_cache(maxsize=1)
def go_types() -> GoTypes:
    """Return the data."""
    path = files("echelon.hub").joinpath("data/wire.json")
    return msgspec.json.decode(path.read_bytes(), type=GoTypes)
