"""Staged runs end to end, both scopes, on real Kubernetes: the same tests as on the embedded hub."""

from pathlib import Path
from typing import Any

import pytest

from echelon.api.scope import SCOPES
from tests.real.fleet import RealFleetWorld, swept  # noqa: F401 - swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_runs_fleet import *  # noqa: F403 - the same tests
from tests.scenarios.test_runs_fleet import Play
from tests.stories import Story

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
# A second of virtual time holds any number of requests; how long a run takes here is what `./dev bench` measures.
del test_90_a_run_takes_what_its_writes_take  # noqa: F821 - comes with the others


@pytest.fixture(params=SCOPES, ids=lambda scope: scope.name.lower())
def play(request: Any, kubeconfig: Path) -> Play:
    return Play(Story(RealFleetWorld(kubeconfig), request.param))
