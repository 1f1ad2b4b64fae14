"""The metrics of members and of their Works."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from echelon.api.own import MEMBER_CLUSTERS
from echelon.controllers.membership import Membership
from echelon.runtime.member_metrics import AgentMetrics, MemberMetrics
from tests.agent.fleet import MEMBER, Fleet, config_map, space
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(51) as made:
        yield made


def run(w, scenario):
    async def whole():
        registry = CollectorRegistry()
        fleet = Fleet(w)
        await w.install()
        await w.start(lambda manager: [Membership(manager.cache, metrics=MemberMetrics(registry))])
        await fleet.join(MEMBER, metrics=AgentMetrics(registry))
        await w.settle()
        await scenario(fleet, registry)
        await w.stop()

    w.run(whole())


def test_how_a_member_is_can_be_read_for_as_long_as_it_is_one(w):
    async def scenario(fleet, registry):
        def said(type_):
            return registry.get_sample_value("echelon_member_condition", {"member": MEMBER, "type": type_})

        def beaten():
            return registry.get_sample_value(
                "echelon_member_last_heartbeat_timestamp_seconds", {"member": MEMBER}
            )

        assert (said("Joined"), said("Healthy"), said("ReadyToJoin")) == (1.0, 1.0, 1.0)
        assert abs(beaten() - w.now().timestamp()) < 60
        assert registry.get_sample_value("join_result_counter", {"result": "success"}) == 1.0
        w.links[MEMBER].cut()
        await fleet.world.until(lambda: said("Healthy") == 0.0, 300)
        w.links[MEMBER].mend()
        await fleet.hub.delete(MEMBER_CLUSTERS, MEMBER)
        await fleet.world.until(lambda: said("Joined") is None, 300)
        assert beaten() is None
        assert registry.get_sample_value("leave_result_counter", {"result": "success"}) == 1.0

    run(w, scenario)


def test_every_report_on_a_work_counts_by_what_it_says(w):
    async def scenario(fleet, registry):
        def works(**labels):
            every = {
                "apply_status": "Skipped",
                "availability_status": "Skipped",
                "diff_reporting_status": "Skipped",
            }
            return registry.get_sample_value("fleet_work_processing_requests_total", {**every, **labels})

        await fleet.place("work", space(), config_map())
        await fleet.settled("work")
        good = {"apply_status": "AllManifestsApplied", "availability_status": "AllManifestsAvailable"}
        assert works(**good) == 1.0
        manifest = {
            "apply_status": "Applied",
            "availability_status": "Available",
            "diff_reporting_status": "Skipped",
            "drift_detection_status": "NotFound",
            "diff_detection_status": "NotFound",
        }
        assert registry.get_sample_value("fleet_manifest_processing_requests_total", manifest) == 2.0
        await fleet.place("work", space(), config_map(), applyStrategy={"type": "ReportDiff"})
        await fleet.settled("work")
        assert works(diff_reporting_status="AllManifestsDiffReported") == 1.0

    run(w, scenario)
