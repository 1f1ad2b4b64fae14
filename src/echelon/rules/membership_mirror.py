"""What a member reports, as its MemberCluster shows it: mirrored, bounded, and judged where the hub knows better.

Pure. `mirror` gives the whole next status and the moment at which silence will be noticed; `transitions` words what
changed in the conditions people wait for.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from echelon.api.cluster import AgentStatus, InternalMemberCluster, MemberCluster, MemberClusterStatus
from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE, UNKNOWN, Condition, Conditions
from echelon.api.names import AgentType, MemberCondition
from echelon.rules.plan import Emit, Ref

MAX_MEMBER_CONDITIONS = (
    20  # what a member may add to its own MemberCluster; a full list tells nobody anything
)
MAX_MEMBER_PROPERTIES = 200  # likewise
MAX_MISSED_BEATS = 2  # one may be late, two in a row are silence
HUB_OWNED = frozenset({MemberCondition.READY_TO_JOIN, MemberCondition.JOINED, MemberCondition.HEALTHY})
EPOCH = datetime.fromtimestamp(0, UTC)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub decides."""

    unhealthy_after: timedelta = timedelta(seconds=60)  # never less than MAX_MISSED_BEATS periods
    force_delete_after: timedelta = timedelta(minutes=15)
    agents: tuple[str, ...] = (AgentType.MEMBER,)


def mirror(
    member: MemberCluster,
    desk: InternalMemberCluster | None,
    old: MemberClusterStatus,
    options: Options,
    now: datetime,
) -> tuple[MemberClusterStatus, datetime | None]:
    """R-MEMBER-3: what a member reports is mirrored within bounds, and never speaks for the hub."""
    if desk is None:
        return old, None
    report = desk.status
    agents = old.agent_status
    conditions = old.conditions
    if report is not None and report.agent_status:
        agents = tuple(_observed(agent, member.metadata.generation) for agent in report.agent_status)
    conditions = set_condition(conditions, _joined(member, agents, options), now)
    healthy, wake_at = _healthy(member, agents, options, now)
    if healthy is not None:
        conditions = set_condition(conditions, healthy, now)
    if report is None:
        return msgspec.structs.replace(old, conditions=conditions, agent_status=agents), wake_at
    mirrored = [condition for condition in report.conditions if condition.type not in HUB_OWNED]
    for condition in mirrored[:MAX_MEMBER_CONDITIONS]:
        conditions = _taken_over(conditions, condition, member.metadata.generation)
    properties = dict(sorted(report.properties.items())[:MAX_MEMBER_PROPERTIES])
    return (
        msgspec.structs.replace(
            old,
            conditions=conditions,
            agent_status=agents,
            properties=properties,
            resource_usage=report.resource_usage,
            namespaces=report.namespaces,
        ),
        wake_at,
    )


def _observed(agent: AgentStatus, generation: int) -> AgentStatus:
    conditions = tuple(
        msgspec.structs.replace(condition, observed_generation=generation) for condition in agent.conditions
    )
    return msgspec.structs.replace(agent, conditions=conditions)


def _taken_over(conditions: Conditions, reported: Condition, generation: int) -> Conditions:
    """Mirror one condition with the times the member gave it."""
    mine = msgspec.structs.replace(reported, observed_generation=generation)
    if any(condition.type == mine.type for condition in conditions):
        return tuple(mine if condition.type == mine.type else condition for condition in conditions)
    return (*conditions, mine)


def _joined(member: MemberCluster, agents: tuple[AgentStatus, ...], options: Options) -> Condition:
    """R-MEMBER-4: a member has joined (or left) when every expected agent says so; else nobody knows yet."""
    unknown = "MemberClusterJoinStateUnknown"
    reported = {agent.type: agent for agent in agents if agent.type in options.agents}
    if len(reported) < len(options.agents):
        message = (
            f"Member cluster {member.name} has not reported all the expected agents, "
            f"expected {len(options.agents)}, got {len(reported)}"
        )
        return condition_of(MemberCondition.JOINED, UNKNOWN, unknown, message, member)
    states = []
    for kind, agent in reported.items():
        joined = find_condition(agent.conditions, MemberCondition.JOINED)
        if joined is None:
            message = f"Member cluster {member.name} has not reported the join condition for agent {kind}"
            return condition_of(MemberCondition.JOINED, UNKNOWN, unknown, message, member)
        states.append(joined.status)
    if all(state == TRUE for state in states):
        message = "Member cluster has successfully joined the fleet"
        return condition_of(MemberCondition.JOINED, TRUE, "MemberClusterJoined", message, member)
    if all(state == FALSE for state in states):
        message = "Member cluster has left the fleet"
        return condition_of(MemberCondition.JOINED, FALSE, "MemberClusterLeft", message, member)
    message = "Member agents are not in a consistent state"
    return condition_of(MemberCondition.JOINED, UNKNOWN, unknown, message, member)


def _healthy(
    member: MemberCluster, agents: tuple[AgentStatus, ...], options: Options, now: datetime
) -> tuple[Condition | None, datetime | None]:
    """R-MEMBER-5: a member whose heartbeats stop turns unhealthy by itself; the answer says when to ask again."""
    agent = next((agent for agent in agents if agent.type == AgentType.MEMBER), None)
    if agent is None or agent.last_received_heartbeat is None:
        return None, None
    period = timedelta(seconds=member.spec.heartbeat_period_seconds)
    limit = max(options.unhealthy_after, period * MAX_MISSED_BEATS)
    overdue_at = agent.last_received_heartbeat + limit
    if now >= overdue_at:
        message = "The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster"
        return condition_of(MemberCondition.HEALTHY, FALSE, "MemberAgentHeartbeatLost", message, member), None
    reported = find_condition(agent.conditions, MemberCondition.HEALTHY)
    if reported is None:
        message = "The Fleet member agent has reported its status, but the health condition is missing"
        state = condition_of(
            MemberCondition.HEALTHY, UNKNOWN, "MemberAgentReportedNoHealthInfo", message, member
        )
    elif reported.status == TRUE:
        message = "The Fleet member agent reports that the API server is healthy"
        state = condition_of(MemberCondition.HEALTHY, TRUE, "MemberClusterAPIServerHealthy", message, member)
    else:
        message = "The Fleet member agent reports that the API server is unhealthy"
        if reported.message:
            message += f": {reported.message}"
        state = condition_of(
            MemberCondition.HEALTHY, FALSE, "MemberClusterAPIServerUnhealthy", message, member
        )
    return state, overdue_at


# (condition, status) -> Event reason and message; without a message it is a warning that quotes the condition.
_SAID = {
    ("ReadyToJoin", TRUE): ("MemberClusterReadyToJoin", "member cluster ready to join"),
    ("Joined", TRUE): ("MemberClusterJoined", "member cluster joined"),
    ("Joined", FALSE): ("MemberClusterLeft", "member cluster left"),
    ("Healthy", TRUE): ("MemberClusterHealthy", "member cluster healthy"),
    ("Healthy", FALSE): ("MemberClusterUnhealthy", ""),
}


def transitions(ref: Ref, old: MemberClusterStatus, new: MemberClusterStatus) -> list[Emit]:
    """Say what changed in the conditions people wait for."""
    events = []
    for condition in new.conditions:
        before = find_condition(old.conditions, condition.type)
        said = _SAID.get((condition.type, condition.status))
        if said is None or (before is not None and before.status == condition.status):
            continue
        reason, message = said
        kind: Literal["Normal", "Warning"] = "Normal" if message else "Warning"
        events.append(Emit(about=ref, reason=reason, message=message or condition.message, type=kind))
    return events


def condition_of(kind: str, status: Any, reason: str, message: str, member: MemberCluster) -> Condition:
    """Make a condition that speaks about a member as it is."""
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=member.metadata.generation,
        last_transition_time=EPOCH,  # set_condition knows the true time
    )
