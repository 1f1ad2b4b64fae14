"""What a member's agent says on its desk on the hub, and when it says it next.

Join: a heartbeat every period, with health, usage and properties. Leave: one last word, `Joined=False`, and silence.
The agent's probe of its own cluster (is it up, what has it got) is an argument; this rule only words it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from echelon.api.cluster import (
    AgentStatus,
    InternalMemberCluster,
    InternalMemberClusterStatus,
    PropertyValue,
    ResourceUsage,
)
from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, Condition, Conditions, timestamp
from echelon.api.names import (
    PROPERTY_K8S_VERSION,
    PROPERTY_NODE_COUNT,
    AgentType,
    MemberCondition,
    MembershipState,
)
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS
from echelon.rules.plan import Emit, Plan, StatusWrite, ref_of
from echelon.rules.quantity import parse_quantity

HEALTHY = 200  # what /readyz answers with
MAX_UNHEALTHY_PERIOD_S = 10.0  # a cluster that is down is asked more often: its return is news
JITTER = 0.05  # agents that started together do not beat together
RESOURCES = ("cpu", "memory")
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
EPOCH = datetime.fromtimestamp(0, UTC)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent found when it looked at its own cluster."""

    ready_code: int  # HTTP status of /readyz; 0 when nothing answered
    usage: ResourceUsage | None = None
    properties: Mapping[str, PropertyValue] = {}
    namespaces: Mapping[str, str] | None = None
    conditions: Conditions = ()  # how the collection of all this went


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The desk and, when a heartbeat is due, the probe."""

    desk: InternalMemberCluster
    probe: Probe | None = None


def due_at(desk: InternalMemberCluster) -> datetime | None:
    """R-BEAT-1: a heartbeat is due every period, spread by name; an unhealthy member is asked more often."""
    agent = _agent(desk.status or InternalMemberClusterStatus())
    joined = find_condition(agent.conditions, MemberCondition.JOINED)
    current = joined is not None and joined.observed_generation == desk.metadata.generation
    if agent.last_received_heartbeat is None or not current:
        return None
    period_s: float = desk.spec.heartbeat_period_seconds
    healthy = find_condition(agent.conditions, MemberCondition.HEALTHY)
    if healthy is not None and healthy.status == FALSE:
        period_s = min(period_s, MAX_UNHEALTHY_PERIOD_S)
    # The share of jitter follows from the name, so that a restart keeps the beat.
    share = (zlib.crc32(f"{desk.name}{agent.last_received_heartbeat}".encode()) % 1000) / 1000
    return agent.last_received_heartbeat + timedelta(seconds=period_s * (1 + JITTER * (2 * share - 1)))


def needs_probe(desk: InternalMemberCluster, now: datetime) -> bool:
    """Tell whether the agent has to look at its cluster now."""
    if desk.spec.state != MembershipState.JOIN:
        return False
    due = due_at(desk)
    return due is None or now >= due


def step(seen: Seen, now: datetime) -> Plan:
    """R-BEAT-2: a joined member says how it is at every beat; one that leaves says so once and is silent."""
    desk = seen.desk
    old = desk.status or InternalMemberClusterStatus()
    ref = ref_of(INTERNAL_MEMBER_CLUSTERS, desk)
    if desk.spec.state == MembershipState.LEAVE:
        new = _say(desk, old, MemberCondition.JOINED, FALSE, "InternalMemberClusterLeft", "", now)
        events = _events(ref, old, new)
        return Plan(status=StatusWrite(ref=ref, old=old, new=new), events=events, why="leaving")
    if desk.spec.state != MembershipState.JOIN or seen.probe is None:
        return Plan(wake_at=due_at(desk), why="not due")
    probe = seen.probe
    beat = msgspec.structs.replace(_agent(old), last_received_heartbeat=timestamp(now))
    new = _with_agent(old, beat)
    if probe.ready_code == HEALTHY:
        new = _say(desk, new, MemberCondition.HEALTHY, TRUE, "InternalMemberClusterHealthy", "", now)
    else:
        message = f"health probe failed with status code {probe.ready_code}"
        new = _say(desk, new, MemberCondition.HEALTHY, FALSE, "InternalMemberClusterUnhealthy", message, now)
    new = _say(desk, new, MemberCondition.JOINED, TRUE, "InternalMemberClusterJoined", "", now)
    changes: dict[str, Any] = {}
    if probe.properties:
        changes["properties"] = probe.properties
    if probe.usage is not None:
        changes["resource_usage"] = probe.usage
    if probe.namespaces is not None:
        changes["namespaces"] = probe.namespaces
    if probe.ready_code == HEALTHY:
        changes["conditions"] = _worded(desk, old.conditions, probe.conditions, now)
    new = msgspec.structs.replace(new, **changes)
    due = due_at(msgspec.structs.replace(desk, status=new)) or now
    # Times are kept in whole seconds: without this, a short period could be over before it began.
    earliest = now + timedelta(seconds=desk.spec.heartbeat_period_seconds / 2)
    return Plan(
        status=StatusWrite(ref=ref, old=old, new=new),
        events=_events(ref, old, new),
        wake_at=max(due, earliest) if probe.ready_code == HEALTHY else max(due, now + timedelta(seconds=1)),
        why="heartbeat",
    )


def _worded(desk: InternalMemberCluster, held: Conditions, said: Conditions, now: datetime) -> Conditions:
    """Keep what is still said, with the time since when it holds."""
    kept: Conditions = tuple(one for one in held if any(new.type == one.type for new in said))
    for one in said:
        current = msgspec.structs.replace(one, observed_generation=desk.metadata.generation)
        kept = set_condition(kept, current, now)
    return kept


def _agent(status: InternalMemberClusterStatus) -> AgentStatus:
    for agent in status.agent_status:
        if agent.type == AgentType.MEMBER:
            return agent
    return AgentStatus(type=AgentType.MEMBER)


def _with_agent(status: InternalMemberClusterStatus, agent: AgentStatus) -> InternalMemberClusterStatus:
    others = tuple(other for other in status.agent_status if other.type != agent.type)
    return msgspec.structs.replace(status, agent_status=(agent, *others))


def _say(
    desk: InternalMemberCluster,
    status: InternalMemberClusterStatus,
    kind: MemberCondition,
    value: Any,
    reason: str,
    message: str,
    now: datetime,
) -> InternalMemberClusterStatus:
    agent = _agent(status)
    condition = Condition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        observed_generation=desk.metadata.generation,
        last_transition_time=EPOCH,
    )
    conditions: Conditions = set_condition(agent.conditions, condition, now)
    return _with_agent(status, msgspec.structs.replace(agent, conditions=conditions))


_SAID = {
    (MemberCondition.JOINED, TRUE): ("InternalMemberClusterJoined", "internal member cluster joined"),
    (MemberCondition.JOINED, FALSE): ("InternalMemberClusterLeft", "internal member cluster left"),
    (MemberCondition.HEALTHY, TRUE): ("InternalMemberClusterHealthy", "internal member cluster healthy"),
    (MemberCondition.HEALTHY, FALSE): ("InternalMemberClusterUnhealthy", "internal member cluster unhealthy"),
}


def _events(ref: Any, old: InternalMemberClusterStatus, new: InternalMemberClusterStatus) -> tuple[Emit, ...]:
    events = []
    for kind in (MemberCondition.HEALTHY, MemberCondition.JOINED):
        before = find_condition(_agent(old).conditions, kind)
        after = find_condition(_agent(new).conditions, kind)
        if after is None or (before is not None and before.status == after.status):
            continue
        reason, message = _SAID[kind, after.status]
        warning = kind is MemberCondition.HEALTHY and after.status == FALSE
        events.append(
            Emit(about=ref, reason=reason, message=message, type="Warning" if warning else "Normal")
        )
    return tuple(events)


# --- wording what the cluster has ----------------------------------------------------------------------------------
def usage_of(
    nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], now: datetime
) -> ResourceUsage:
    """Add up what nodes have and what the running pods on them leave."""
    capacity = dict.fromkeys(RESOURCES, Fraction(0))
    allocatable = dict.fromkeys(RESOURCES, Fraction(0))
    for node in nodes:
        status = node.get("status") or {}
        for name in RESOURCES:
            capacity[name] += _amount(status.get("capacity"), name)
            allocatable[name] += _amount(status.get("allocatable"), name)
    available = dict(allocatable)
    for pod in pods:
        if (pod.get("spec") or {}).get("nodeName") and (pod.get("status") or {}).get(
            "phase"
        ) not in FINISHED_PHASES:
            for name in RESOURCES:
                available[name] -= pod_request(pod["spec"], name)
    return ResourceUsage(
        capacity=_amounts_worded(capacity),
        allocatable=_amounts_worded(allocatable),
        available=_amounts_worded({name: max(value, Fraction(0)) for name, value in available.items()}),
        observation_time=timestamp(now),
    )


def pod_request(spec: Mapping[str, Any], name: str) -> Fraction:
    """Return what a pod asks for: its containers together, or the largest init container, plus overhead."""

    def asked(container: Mapping[str, Any]) -> Fraction:
        return _amount((container.get("resources") or {}).get("requests"), name)

    running = sum((asked(container) for container in spec.get("containers") or ()), Fraction(0))
    starting = max((asked(container) for container in spec.get("initContainers") or ()), default=Fraction(0))
    return max(running, starting) + _amount(spec.get("overhead"), name)


def _amount(amounts: Mapping[str, Any] | None, name: str) -> Fraction:
    return parse_quantity(str((amounts or {}).get(name, "0")))


def _amounts_worded(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    cpu, memory = amounts["cpu"], amounts["memory"]
    milli = cpu * 1000
    worded_cpu = str(int(cpu)) if cpu.denominator == 1 else f"{-(-milli.numerator // milli.denominator)}m"
    kibi = memory / 1024
    worded_memory = f"{int(kibi)}Ki" if kibi.denominator == 1 and kibi else str(int(memory))
    return {"cpu": worded_cpu, "memory": worded_memory}


def properties_of(node_count: int, version: str, now: datetime) -> dict[str, PropertyValue]:
    """Word the properties every cluster has."""
    at = timestamp(now)
    properties = {PROPERTY_NODE_COUNT: PropertyValue(value=str(node_count), observation_time=at)}
    if version:
        properties[PROPERTY_K8S_VERSION] = PropertyValue(value=version, observation_time=at)
    return properties
