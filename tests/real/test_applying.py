"""Taking over, drift and differences as placements show them, on real Kubernetes: some of the tests as they run on the embedded hub."""

import pytest

from tests.real.fleet import story, swept, wide  # noqa: F401 - fixtures; swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_apply_fleet import (  # noqa: F401 - those that stand for the others
    test_a1_a_shared_namespace_outlives_the_placement,
    test_a2_a3_what_nobody_owns_is_taken_over_and_goes_with_the_placement,
    test_a4_an_owned_namespace_is_refused_and_what_is_in_it_is_placed,
    test_a6_two_placements_never_share_an_object,
    test_b1_always_taking_over_overwrites_what_the_hub_speaks_of,
    test_b5_in_both_scopes,
    test_b7_b8_in_both_scopes,
    test_b9_differences_and_drifts_of_a_workload_on_three_members,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
