"""Keeps the metrics of members and of their Works true by following the objects themselves. Decides nothing.

On the hub: how every member is, for as long as it is one. In an agent: every report on a Work, by what it says; these
names and labels are contract.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from echelon.api.cluster import InternalMemberCluster, MemberCluster, MemberClusterStatus
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE
from echelon.api.names import AgentType, MemberCondition
from echelon.api.work import Work
from echelon.rules.work_metrics import is_current, of_manifest, standing

_VALUES = {TRUE: 1.0, FALSE: 0.0}
_FOLLOWED = (MemberCondition.READY_TO_JOIN, MemberCondition.JOINED, MemberCondition.HEALTHY)
_STANDING = ("apply_status", "availability_status", "diff_reporting_status")


class MemberMetrics:
    """How the members of a fleet are; on the hub."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.conditions = Gauge(
            "echelon_member_condition",
            "A member's condition: 1 is True, 0 is False, -1 is unknown.",
            ("member", "type"),
            registry=registry,
        )
        self.heartbeats = Gauge(
            "echelon_member_last_heartbeat_timestamp_seconds",
            "When a member's agent last reported, in seconds since 1970.",
            ("member",),
            registry=registry,
        )
        self._beating: set[str] = set()

    def sees(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Take a change of a member in."""
        if new is None:
            if old is not None:
                self._forget(old.name)
            return
        status = new.status or MemberClusterStatus()
        for type_ in _FOLLOWED:
            found = find_condition(status.conditions, type_)
            value = _VALUES.get(found.status, -1.0) if found is not None else -1.0
            self.conditions.labels(new.name, type_).set(value)
        for agent in status.agent_status:
            if agent.type == AgentType.MEMBER and agent.last_received_heartbeat is not None:
                self._beating.add(new.name)
                self.heartbeats.labels(new.name).set(agent.last_received_heartbeat.timestamp())

    def _forget(self, name: str) -> None:
        for type_ in _FOLLOWED:
            self.conditions.remove(name, type_)
        if name in self._beating:
            self._beating.discard(name)
            self.heartbeats.remove(name)


class AgentMetrics:
    """What an agent has reported; in the agent's process, for all members it serves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.works = Counter(
            "fleet_work_processing_requests",
            "Reports on Works.",
            _STANDING,
            registry=registry,
        )
        self.manifests = Counter(
            "fleet_manifest_processing_requests",
            "Reports on manifests.",
            (*_STANDING, "drift_detection_status", "diff_detection_status"),
            registry=registry,
        )
        # Gauges, because a counter's name would get an ending that these names do not have.
        self.joins = Gauge("join_result_counter", "Times a member joined.", ("result",), registry=registry)
        self.leaves = Gauge("leave_result_counter", "Times a member left.", ("result",), registry=registry)

    def sees_work(self, old: Work | None, new: Work | None) -> None:
        """Take a change of a Work in; a report that is not about its present generation does not count."""
        if new is None or new.status is None or not is_current(new):
            return
        if old is None or old.status == new.status:
            return  # what is found at the start was counted when it was reported
        self.works.labels(*standing(new.status.conditions)).inc()
        for entry in new.status.manifest_conditions:
            self.manifests.labels(*of_manifest(entry)).inc()

    def sees_desk(self, old: InternalMemberCluster | None, new: InternalMemberCluster | None) -> None:
        """Take a change of a member's desk in."""
        if old is None or new is None:
            return
        before, after = _joined(old), _joined(new)
        if after == before:
            return
        if after == TRUE:
            self.joins.labels("success").inc()
        elif after == FALSE:
            self.leaves.labels("success").inc()


def _joined(desk: InternalMemberCluster) -> str:
    for agent in desk.status.agent_status if desk.status else ():
        if agent.type == AgentType.MEMBER:
            found = find_condition(agent.conditions, MemberCondition.JOINED)
            return found.status if found is not None else ""
    return ""
