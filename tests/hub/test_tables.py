"""Tables: the same object at the same time prints the same cells as on kube-apiserver."""

import datetime as dt
import json
from pathlib import Path

import pytest

from echelon.hub import builtins, tables, tables_custom
from echelon.hub.tables_text import human_duration
from tests.hub.serve import client, hub, world  # noqa: F401

RECORDED = json.loads((Path(__file__).parents[1] / "conformance" / "recorded" / "tables.json").read_text())


def kind_of(path):
    parts = path.strip("/").split("/")
    group, version, plural = ("", parts[1], parts[2]) if parts[0] == "api" else tuple(parts[1:4])
    return builtins.catalog().find(group, version, plural)


def seconds(text):
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize("path", sorted(RECORDED))
def test_rows_equal_the_recorded_ones(path):
    recorded, kind = RECORDED[path], kind_of(path)
    columns = [
        {key: value for key, value in column.items() if key != "description"}
        for column in tables.columns_of(kind)
    ]
    assert columns == recorded["columns"]
    for row in recorded["rows"]:
        assert tables.cells_of(kind, row["object"], seconds(recorded["at"])) == row["cells"]


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (305, "5m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (3000 * 86400, "8y"),
    ],
)
def test_ages_have_two_units_at_most(length, shown):
    assert human_duration(length) == shown


NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
OBJ = {
    "metadata": {
        "name": "x",
        "creationTimestamp": "2026-01-01T23:59:00Z",
        "annotations": {"a.b/c": "v"},
    },
    "spec": {"n": 3, "f": 1.5, "on": True, "list": ["a", "b"], "map": {"k": 1}},
    "status": {
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Progressing", "status": "False", "observedGeneration": 4},
        ]
    },
}


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", '.status.conditions[?(@.type=="Progressing")].status', "False"),
        ("integer", ".status.conditions[?(@.type=='Progressing')].observedGeneration", 4),
        ("string", '.status.conditions[?(@.type=="Gone")].status', None),
        ("date", ".metadata.creationTimestamp", "60s"),
        ("string", ".metadata.creationTimestamp", "2026-01-01T23:59:00Z"),
        ("integer", ".spec.n", 3),
        ("integer", ".spec.f", 1),
        ("number", ".spec.n", 3.0),
        ("boolean", ".spec.on", True),
        ("string", ".spec.on", "true"),
        ("string", ".spec.list", '["a","b"]'),
        ("string", ".spec.list[1]", "b"),
        ("string", ".spec.list[*]", "a"),
        ("string", ".spec.map", '{"k":1}'),
        ("string", r".metadata.annotations.a\.b/c", "v"),
        ("string", ".metadata.annotations['a.b/c']", "v"),
        ("integer", ".spec.on", None),
        ("string", ".nope.nope", None),
        ("string", "]broken[", None),
    ],
)
def test_printer_columns_find_and_print_by_type(kind, path, cell):
    column = {"name": "C", "type": kind, "jsonPath": path}
    assert tables_custom.cells(OBJ, [column], NOW) == ["x", cell]


def test_a_definition_without_columns_shows_the_age():
    assert tables_custom.cells(OBJ, None, NOW) == ["x", "60s"]
    assert [c["name"] for c in tables_custom.definitions(None)] == ["Name", "Age"]


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CM = "/api/v1/namespaces/default/configmaps"


async def ask(hub, path, **query):
    from echelon.hub.call import ADMIN, Request

    query = {name: [value] for name, value in query.items()}
    response = await hub.handle(Request("GET", path, query, {"accept": TABLE}, b"", ADMIN))
    return json.loads(response.body)


async def test_a_list_and_an_object_come_as_tables(hub, client):
    await client.raw("POST", CM, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    listed = await ask(hub, CM)
    assert listed["kind"] == "Table"
    assert [column["name"] for column in listed["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert listed["rows"][0]["cells"][:2] == ["a", 1]
    assert listed["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = await ask(hub, CM + "/a", includeObject="Object")
    assert one["rows"][0]["object"]["data"] == {"k": "v"}
    none = await ask(hub, CM, includeObject="None")
    assert none["rows"][0]["object"] is None
