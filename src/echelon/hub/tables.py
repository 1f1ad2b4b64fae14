"""Tables: the columns that `kubectl get` prints, evaluated on the server."""

from __future__ import annotations

from typing import Any

from echelon.hub.call import Call
from echelon.hub.world import rfc3339

Json = dict[str, Any]


def table_of(call: Call, objects: list[Json], meta: Json) -> Json:
    """Render objects as a meta.k8s.io/v1 Table."""
    include = call.option("includeObject") or "Metadata"
    rows = []
    for obj in objects:
        row: Json = {
            "cells": [
                obj["metadata"]["name"],
                obj["metadata"].get("creationTimestamp", rfc3339(call.hub.world.now())),
            ]
        }
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ],
        "rows": rows,
    }
