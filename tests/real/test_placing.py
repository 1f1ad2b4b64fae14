"""Where things go, on real Kubernetes: the same tests as on the embedded hub."""

from pathlib import Path
from typing import Any

import pytest

from echelon.api.scope import CLUSTER, SCOPES
from tests.real.fleet import RealFleetWorld, swept  # noqa: F401 - swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.placing import Place
from tests.scenarios.test_placing import *  # noqa: F403 - the same tests

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def place(request: Any, kubeconfig: Path) -> Place:
    return Place(RealFleetWorld(kubeconfig), request.param)


@pytest.fixture
def wide(kubeconfig: Path) -> Place:
    return Place(RealFleetWorld(kubeconfig), CLUSTER)
