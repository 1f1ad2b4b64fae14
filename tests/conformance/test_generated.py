"""The generator of requests: repeatable, and blind to what differs between any two servers."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Kubeconfig
from tests.conformance.generated.__main__ import make_namespace, prepare
from tests.conformance.generated.asks import Ask
from tests.conformance.generated.difference import Difference
from tests.conformance.generated.explained import Explanation, explain, load
from tests.conformance.generated.samples import pick, samples
from tests.conformance.generated.sequence import Plan, run
from tests.conformance.generated.servers import Server

MANY = 12


def test_the_same_seed_makes_the_same_requests():
    one, again, other = Plan("7"), Plan("7"), Plan("8")
    asked = [one.requests_of(number, "default") for number in range(MANY)]
    assert asked == [again.requests_of(number, "default") for number in range(MANY)]
    assert asked != [other.requests_of(number, "default") for number in range(MANY)]


@pytest.fixture(scope="module")
def servers():
    with embedded_hub() as kubeconfig:
        configuration = Kubeconfig(kubeconfig)
        made = Server(configuration.endpoint("hub")), Server(configuration.endpoint("member1"))
        for server in made:
            prepare(server)
            make_namespace(server, "generated")
        yield made


@pytest.mark.parametrize("kind", ["configmaps", "gadgets", "services"])
def test_two_servers_of_one_kind_never_differ(servers, kind):
    outcomes = [run(Plan("1", kind), number, servers, "generated") for number in range(MANY)]
    assert [outcome.difference for outcome in outcomes] == [None] * MANY
    assert sum(outcome.events for outcome in outcomes) > MANY


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.plural)
def test_every_sample_is_legal(servers, sample):
    for server in servers:
        body = sample.within("generated").legal("legal", "legal")
        assert server.ask("POST", sample.within("generated").at + "?dryRun=All", body)[0] == 201


def difference(kind: str, real: int, hub: int, message: str = "", field: str = "") -> Difference:
    details = {"causes": [{"field": field}]} if field else {}
    sample = next(sample for sample in samples() if sample.plural == kind)
    answer = {"message": message, "details": details}
    return Difference(
        "g1-1", sample, Ask("POST", sample.at), (real, answer), (hub, {"message": message}), ("code",)
    )


def test_an_explanation_is_about_all_it_names_and_nothing_else():
    one = Explanation("why", (422,), (201,), kinds=("pods",), fields=("spec.containers[*].image",))
    assert one.fits(difference("pods", 422, 201, field="spec.containers[3].image"))
    assert not one.fits(difference("pods", 422, 201, field="spec.containers[3].name"))
    assert not one.fits(difference("secrets", 422, 201, field="spec.containers[3].image"))
    assert not one.fits(difference("pods", 409, 201, field="spec.containers[3].image"))


def test_a_failure_of_the_real_server_is_explained_where_the_hub_blames_the_request():
    assert explain(difference("pods", 500, 400), load()) is not None
    assert explain(difference("pods", 500, 201), load()) is None


def test_a_kind_can_be_asked_for_alone():
    assert pick(Random(1), "leases").plural == "leases"
