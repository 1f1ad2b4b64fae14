"""The estimated cost of rules is the real server's, to the last unit; what exceeds the budget is refused in its words."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from echelon.client.errors import Invalid
from echelon.hub.cel_compile import check_cel
from echelon.hub.cel_cost import estimate
from echelon.hub.cel_sizes import UNKNOWN, extent_of
from echelon.hub.cel_types import type_of
from echelon.hub.schema_cel import variables
from echelon.hub.schema_node import Rule, compile_schema
from tests.hub.serve import client, hub, world  # noqa: F401
from tests.hub.widgets import CRDS, MERGE, ask, widget_crd

COSTS = yaml.safe_load((Path(__file__).parent / "cel_costs.yaml").read_text())


def text(most=None, **more):
    return {"type": "string", **({} if most is None else {"maxLength": most}), **more}


def array(items, most=20, **more):
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most}), **more}


def mapping(values, most=15):
    return {
        "type": "object",
        "additionalProperties": values,
        **({} if most is None else {"maxProperties": most}),
    }


def fields(**properties):
    return {"type": "object", "properties": properties}


INTEGER = {"type": "integer"}
SCHEMA = fields(
    s=text(),
    s10=text(10),
    e=text(enum=["a", "abc", "abcdefgh"]),
    by=text(100, format="byte"),
    dt=text(format="date-time"),
    du=text(format="duration"),
    da=text(format="date"),
    i=INTEGER,
    n={"type": "number"},
    b={"type": "boolean"},
    ios={"x-kubernetes-int-or-string": True},
    l=array(text(5)),
    l2=array(text(7), 30),
    li=array(INTEGER),
    ls=array(text(5), **{"x-kubernetes-list-type": "set"}),
    lo=array(fields(k=text(6), v=INTEGER)),
    m=mapping(text(9)),
    mi=mapping(INTEGER),
    o=fields(x=INTEGER, y=text(8), z=fields(w=INTEGER)),
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ul=array(text(5), None),
    ul2=array(INTEGER, None),
    um=mapping(INTEGER, None),
)


def cost_of(source, schema=None):
    compiled = compile_schema(schema or SCHEMA)
    checked = check_cel(source, variables(type_of(compiled), Rule(rule=source)))
    return estimate(checked.tree, checked.types, extent_of(compiled))


def test_rules_cost_what_they_cost_a_real_server():
    assert len(COSTS) > 250
    assert [(rule, cost_of(rule)) for rule, _ in COSTS] == [(rule, cost) for rule, cost in COSTS]


@given(st.lists(st.sampled_from([rule for rule, _ in COSTS]), min_size=1, max_size=4))
def test_rules_together_cost_what_they_cost_alone(rules):
    whole = " && ".join(f"({rule})" for rule in rules)
    assert cost_of(whole) == min(sum(cost_of(rule) for rule in rules), UNKNOWN)


def with_rule(schema, rule, **more):
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def definition(spec):
    crd = widget_crd()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    return crd


async def refused(client, spec):
    with pytest.raises(Invalid) as caught:
        await ask(client, "POST", CRDS, definition(spec))
    return [(cause["field"], cause["message"]) for cause in caught.value.causes]


ADVICE = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
PATH = "spec.validation.openAPIV3Schema"


async def test_a_rule_that_could_cost_too_much_is_refused_and_the_limit_that_saves_it(client):
    spec = array(with_rule(text(), "self.matches('^[a-z]+$')"), None)
    [alone, named, total] = await refused(client, spec)
    where = f"{PATH}.properties[spec].items.x-kubernetes-validations[0].rule"
    assert alone == (
        where,
        f"Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}",
    )
    assert named == (
        where,
        "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
    )
    assert total[0] == PATH
    spec = array(with_rule(text(20), "self.matches('^[a-z]+$')"), 100)
    await ask(client, "POST", CRDS, definition(spec))


async def test_what_is_stored_already_may_cost_what_it_did(client):
    cheap = array(with_rule(text(20), "self.matches('^[a-z]+$')"), 100)
    await ask(client, "POST", CRDS, definition(cheap))
    found = await ask(client, "PATCH", f"{CRDS}/widgets.test.io", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert found["metadata"]["labels"] == {"a": "b"}
    dear = definition(array(with_rule(text(), "self.matches('^[a-z]+$')"), None))
    with pytest.raises(Invalid, match="exceeds budget"):
        await ask(client, "PATCH", f"{CRDS}/widgets.test.io", {"spec": dear["spec"]}, MERGE)


async def test_old_values_cannot_be_compared_where_items_have_none(client):
    for list_type in (None, "set"):
        more = {"x-kubernetes-list-type": list_type} if list_type else {}
        spec = array(with_rule(INTEGER, "self == oldSelf"), 3, **more)
        [(_, message)] = await refused(client, spec)
        within = f"{PATH}.properties[spec]"
        assert message.endswith(
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
        )
