"""Taking over, drift and differences as placements show them, on real Kubernetes: the same tests as on the embedded hub."""

from pathlib import Path
from typing import Any

import pytest

from echelon.api.scope import CLUSTER, SCOPES
from tests.real.fleet import RealFleetWorld
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_apply_fleet import *  # noqa: F403 - the same tests
from tests.stories import Story

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name)
def story(request: Any, kubeconfig: Path) -> Story:
    return Story(RealFleetWorld(kubeconfig), request.param)


@pytest.fixture
def wide(kubeconfig: Path) -> Story:
    return Story(RealFleetWorld(kubeconfig), CLUSTER)
