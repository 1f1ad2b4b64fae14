"""Applying, taking over, merging, drift and reports on real Kubernetes: the same tests as on the embedded hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.test_drift import *  # noqa: F403 - the same tests
from tests.agent.test_merge import *  # noqa: F403
from tests.agent.test_report_diff import *  # noqa: F403
from tests.agent.test_takeover import *  # noqa: F403
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.real.members import RealWorld

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


@pytest.fixture
def w(kubeconfig: Path) -> Iterator[RealWorld]:
    """Real clusters take the place of the embedded ones."""
    return RealWorld(kubeconfig)
