"""Overrides, on real Kubernetes: some of the tests as they run on the embedded hub."""

import pytest

from tests.real.fleet import story, swept, wide  # noqa: F401 - fixtures; swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_overrides_fleet import (  # noqa: F401 - those that stand for the others
    test_c1_to_c4_an_override_of_a_namespace_comes_changes_and_goes,
    test_c6_each_cluster_gets_its_own_rules,
    test_c9_c16_a_delete_rule_keeps_the_object_off_its_clusters,
    test_c12_of_two_overrides_the_namespaced_one_wins,
    test_c15_c17_variables_stand_for_each_clusters_name_and_labels,
    test_c18_a_missing_label_stops_a_rollout_and_leaves_members_as_they_are,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
