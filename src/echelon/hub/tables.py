"""Tables: what `kubectl get` prints, evaluated on the server.

What it decides: which printer makes the rows of a kind, and how much of each object
goes along with its row.

What it must never do: fail on an object that a printer does not foresee; its row
then has the name alone.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any

from echelon.hub import tables_apps, tables_core, tables_custom, tables_more, tables_pods
from echelon.hub.call import Call
from echelon.hub.gotext import quote
from echelon.hub.kinds import Kind
from echelon.hub.status import bad_request

Json = dict[str, Any]

_ROWS = {**tables_core.ROWS, **tables_apps.ROWS, **tables_more.ROWS}
_INCLUDE = ("None", "Metadata", "Object")
_SURPRISES = (KeyError, TypeError, AttributeError, ValueError, IndexError)


def table_of(call: Call, objects: list[Json], meta: Json) -> Json:
    """Render objects as a meta.k8s.io/v1 Table."""
    include = call.option("includeObject") or "Metadata"
    if include not in _INCLUDE:
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(include)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    now = call.hub.world.now()
    table: Json = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    table["columnDefinitions"] = columns_of(call.kind)
    table["rows"] = [row_of(call.kind, obj, now, include) for obj in objects]
    if not objects and not call.kind.custom and call.kind.resource not in _ROWS:
        table["rows"] = None  # as Go prints a list that was never made
    return table


@lru_cache(maxsize=1024)
def columns_of(kind: Kind) -> list[Json]:
    """Return the column definitions of a kind."""
    if kind.custom:
        return tables_custom.definitions(kind.columns)
    return [{"description": "", **column} for column in kind.columns or ()]


def row_of(kind: Kind, obj: Json, now: dt.datetime, include: str = "None") -> Json:
    """Return one row."""
    row: Json = {"cells": cells_of(kind, obj, now), "object": None}
    if kind.resource == "/pods":
        conditions = tables_pods.conditions(obj)
        if conditions:
            row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row


def cells_of(kind: Kind, obj: Json, now: dt.datetime) -> list[Any]:
    """Return the cells of one row."""
    if kind.custom:
        return tables_custom.cells(obj, kind.columns, now)
    printer = _ROWS.get(kind.resource)
    if printer is None:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]
    try:
        return printer(obj, now)
    except _SURPRISES:
        return [obj["metadata"]["name"], *[None] * (len(kind.columns or ()) - 1)]
