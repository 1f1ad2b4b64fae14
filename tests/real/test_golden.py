"""What the peer recorded, replayed on real Kubernetes: the same tests as on the embedded hub."""

from pathlib import Path

import pytest

from echelon.api.builtin import NAMESPACES
from tests.real.fleet import real_world, swept  # noqa: F401 - swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.rollouts import NAMESPACE, Rollout
from tests.scenarios import test_delivery_golden, test_runs_golden
from tests.scenarios.test_delivery_golden import *  # noqa: F403 - the same tests
from tests.scenarios.test_runs_golden import *  # noqa: F403
from tests.world import namespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), *test_runs_golden.pytestmark]


async def make_namespace(r: Rollout) -> None:
    """The definitions are there already."""
    await r.client.create(NAMESPACES, namespace(NAMESPACE))


@pytest.fixture(autouse=True)
def lab_instead(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab takes the place of the world that tests make for themselves."""
    for where in ("tests.rollouts.world", f"{test_delivery_golden.__name__}.world"):
        monkeypatch.setattr(where, lambda *_, **__: real_world(kubeconfig))
    monkeypatch.setattr(Rollout, "install", make_namespace)
