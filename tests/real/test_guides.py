"""The guides, replayed on real Kubernetes: the same tests as on the sandbox."""

import pytest

from tests.guides.test_guides import *  # noqa: F403 - the same tests
from tests.real.lab import kubeconfig, live  # noqa: F401 - fixtures; live takes the place of the sandbox's

pytestmark = [pytest.mark.real, pytest.mark.kubectl, pytest.mark.timeout(240)]
