"""Envelopes, evictions, reporting back and leaving, on real Kubernetes: some of the tests as they run on the embedded hub."""

import pytest

from tests.real.fleet import story, swept, wide  # noqa: F401 - fixtures; swept acts by itself
from tests.real.lab import kubeconfig  # noqa: F401 - a fixture
from tests.scenarios.test_delivery_fleet import (  # noqa: F401 - those that stand for the others
    test_a_deleted_placement_leaves_members_and_hub_clean,
    test_a_restarted_engine_writes_nothing_when_nothing_changed,
    test_an_abandoning_placement_leaves_its_resources_on_the_members,
    test_e1_e2_envelopes_are_listed_and_their_content_is_placed,
    test_e3_what_is_not_available_inside_an_envelope_is_listed_with_it,
    test_e5_an_object_without_a_name_of_its_own_is_refused_and_the_rest_is_applied,
    test_eviction_e1_from_a_tainted_cluster_the_resources_go_for_good,
    test_eviction_e2_an_untainted_cluster_is_picked_again,
)
from tests.scenarios.test_delivery_fleet import test_h_the_status_of_the_one_member_comes_back as comes_back
from tests.stories import Story

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_h_the_status_of_the_one_member_comes_back(story: Story) -> None:
    """Not onto the Deployment itself: the hub's own deployment controller says there what it sees on the hub."""
    comes_back(story, "WorkAPI")
