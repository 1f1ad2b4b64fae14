"""kubectl cannot tell the embedded hub from a real kube-apiserver: same words, same exit codes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.compare import judge
from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Kubeconfig
from tests.conformance.install import install_crds
from tests.conformance.known import load_known
from tests.conformance.recordings import load_recorded
from tests.conformance.sessions import Session, load_sessions, run_session

SESSIONS = {session.id: session for session in load_sessions()}
RECORDED = load_recorded()
KNOWN = load_known()
PATIENCE_S = 15.0

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with embedded_hub() as path:
        keeper = Kubeconfig(path)
        install_crds(keeper.endpoint("hub"))
        yield path


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
def test_kubectl_says_what_it_says_with_kube_apiserver(kubeconfig: Path, session: Session) -> None:
    kubectl = os.environ.get("ECHELON_KUBECTL") or shutil.which("kubectl")
    assert kubectl, "no kubectl: run the tests with ./dev test, which finds or builds one"
    problems = judge(run_session(session, kubeconfig, kubectl, PATIENCE_S), RECORDED.get(session.id))
    if session.id in KNOWN:
        assert problems, f"{session.id} equals the real server now: take it out of known.yaml"
        pytest.xfail(KNOWN[session.id])
    assert not problems, "\n".join(problems)
