"""Members that leave, return and are tainted, on real Kubernetes: some of the tests as they run on the embedded hub."""

import pytest

from tests.real.fleet import story, swept, wide  # noqa: F401 - fixtures; swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_membership_fleet import (  # noqa: F401 - those that stand for the others
    test_a_member_that_returns_gets_what_changed_while_it_was_away,
    test_c1_c2_everything_stays_on_members_that_leave_and_is_taken_up_again_when_they_return,
    test_every_simulated_member_has_a_profile_with_a_healthy_control_plane,
    test_j7_taints_keep_new_placements_away_and_move_nothing,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
