"""The embedded hub answers every sequence as a real kube-apiserver did."""

from collections.abc import Iterator

import pytest

from tests.conformance.compare import judge
from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Endpoint, Kubeconfig
from tests.conformance.install import install_crds
from tests.conformance.known import load_known
from tests.conformance.recordings import load_recorded
from tests.conformance.runner import Sequence, load_sequences, run_one
from tests.conformance.sessions import load_sessions

SEQUENCES = {sequence.id: sequence for sequence in load_sequences()}
SESSIONS = {session.id for session in load_sessions()}
RECORDED = load_recorded()
KNOWN = load_known()
PATIENCE_S = 6.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with embedded_hub() as kubeconfig:
        keeper = Kubeconfig(kubeconfig)
        reached = keeper.endpoint("hub")
        install_crds(reached)
        yield reached


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_the_hub_answers_as_kube_apiserver_does(endpoint: Endpoint, sequence: Sequence) -> None:
    problems = judge(run_one(sequence, endpoint, PATIENCE_S), RECORDED.get(sequence.id))
    if sequence.id in KNOWN:
        assert problems, f"{sequence.id} equals the real server now: take it out of known.yaml"
        pytest.xfail(KNOWN[sequence.id])
    assert not problems, "\n".join(problems)


def test_every_sequence_and_session_has_its_recording() -> None:
    assert RECORDED.keys() == SEQUENCES.keys() | SESSIONS


def test_every_known_difference_names_a_sequence() -> None:
    assert KNOWN.keys() - SEQUENCES.keys() - SESSIONS == set()
