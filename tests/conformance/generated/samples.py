"""The kinds whose objects are generated: one legal object of each, from samples.yaml."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.hub.widgets import widget_crd

Json = dict[str, Any]
HERE = Path(__file__).parent
MARK = {"x": "y"}
"""A label that objects have unless a request takes it away: one of the watches selects by it."""
OWNER = "sequence"
"""The label that says which sequence an object belongs to."""


@dataclass(frozen=True)
class Sample:
    """One kind: where its objects live and what one looks like."""

    at: str
    object: Json
    subresources: tuple[str, ...]
    weight: int

    @property
    def plural(self) -> str:
        """Return the resource's name."""
        return self.at.rpartition("/")[2]

    def within(self, namespace: str) -> Sample:
        """Return the kind as it is in another namespace."""
        return replace(self, at=self.at.replace("/namespaces/default/", f"/namespaces/{namespace}/"))

    def legal(self, name: str, sequence: str) -> Json:
        """Return a legal object."""
        obj = copy.deepcopy(self.object)
        obj["metadata"] = {**obj.get("metadata", {}), "name": name, "labels": {**MARK, OWNER: sequence}}
        return obj


@lru_cache(maxsize=1)
def samples() -> list[Sample]:
    """Return all kinds."""
    rows = yaml.safe_load((HERE / "samples.yaml").read_text())
    return [
        Sample(row["at"], row["object"], tuple(row.get("subresources", ())), row.get("weight", 1))
        for row in rows
    ]


def pick(chance: Random, only: str) -> Sample:
    """Choose a kind."""
    found = [sample for sample in samples() if only in ("", sample.plural)]
    return chance.choices(found, [sample.weight for sample in found])[0]


def definitions() -> Iterator[Json]:
    """Yield the definitions that the custom kinds need."""
    yield widget_crd()
    yield yaml.safe_load((HERE / "gadget.yaml").read_text())
