"""The real kube-apiserver still answers as recorded: the recordings are facts, not history."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.compare import judge
from tests.conformance.endpoint import Endpoint, Kubeconfig
from tests.conformance.install import install_crds
from tests.conformance.recordings import load_recorded
from tests.conformance.runner import Sequence, load_sequences, run_one
from tests.conformance.sessions import Session, load_sessions, run_session
from tests.live import KUBECTL, Live
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture

pytestmark = [pytest.mark.real, pytest.mark.kubectl]
RECORDED = load_recorded()
SEQUENCES = {sequence.id: sequence for sequence in load_sequences()}
SESSIONS = {session.id: session for session in load_sessions()}


@pytest.fixture(scope="module")
def endpoint(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    plain = Live(tmp_path_factory.mktemp("conformance"), kubeconfig)  # recorded without our policies
    plain.echelon("uninstall", "hub", "--kubeconfig", str(kubeconfig), "--context", "hub")
    keeper = Kubeconfig(kubeconfig)  # keeps the credentials' files for as long as it lives
    reached = keeper.endpoint("hub")
    install_crds(reached)
    yield reached
    keeper.close()


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_the_real_server_answers_as_recorded(endpoint: Endpoint, sequence: Sequence) -> None:
    problems = judge(run_one(sequence, endpoint), RECORDED.get(sequence.id))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_kubectl_says_what_was_recorded(endpoint: Endpoint, kubeconfig: Path, session: Session) -> None:
    del endpoint  # the fleet's definitions are there
    problems = judge(run_session(session, kubeconfig, KUBECTL), RECORDED.get(session.id))
    assert not problems, "\n".join(problems)
