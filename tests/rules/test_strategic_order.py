"""How lists are ordered by a strategic patch: each case observed on a real kube-apiserver."""

import pytest

from echelon.hub import builtins
from echelon.rules.strategic import apply_strategic

OBSERVED = [
    (["A", "E"], ["B", "-A"], ["B"], ["E", "B"]),
    (["E", "A"], ["B", "-A"], ["B"], ["E", "B"]),
    (["E"], ["B"], ["B"], ["B", "E"]),
    (["E", "F"], ["B"], ["B"], ["B", "E", "F"]),
    (["A", "E"], ["B"], ["A", "B"], ["A", "B", "E"]),
    (["E", "A"], ["B"], ["A", "B"], ["E", "A", "B"]),
    (["E", "A", "F"], ["B"], ["B", "A"], ["B", "E", "A", "F"]),
    (["A", "E", "F"], ["C", "B"], ["C", "B", "A"], ["C", "B", "A", "E", "F"]),
    (["A", "E"], ["B"], None, ["B", "A", "E"]),
    (["A", "E", "F"], ["-E"], ["A"], ["A", "F"]),
    (["A", "E"], ["B", "A"], ["B", "A"], ["B", "A", "E"]),
    (["A", "E", "G"], ["B", "-A", "-G"], ["B"], ["E", "B"]),
]


@pytest.mark.parametrize(("live", "patch", "order", "expected"), OBSERVED)
def test_items_stand_where_a_real_server_puts_them(live, patch, order, expected):
    schema = builtins.catalog().find("", "v1", "pods").schema
    pod = {"spec": {"containers": [{"name": "c", "env": [{"name": name} for name in live]}]}}
    env = [
        {"name": name[1:], "$patch": "delete"} if name[0] == "-" else {"name": name, "value": "1"}
        for name in patch
    ]
    change = {"name": "c", "env": env}
    if order is not None:
        change["$setElementOrder/env"] = [{"name": name} for name in order]
    made = apply_strategic(pod, {"spec": {"containers": [change]}}, schema)
    assert [one["name"] for one in made["spec"]["containers"][0]["env"]] == expected
