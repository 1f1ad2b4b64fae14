"""One ClusterProfile for each joined member: what tools outside the fleet may learn about it, kept true.

    joined            the profile is there, says what it is to say, and follows the member's health
    leaving, or gone  the profile goes at once

A silent agent turns `ControlPlaneHealthy` False by itself: the decision wakes when the next heartbeat is overdue.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api.cluster import AgentStatus, MemberCluster, MemberClusterStatus
from echelon.api.conditions import find_condition, is_true_at, set_condition
from echelon.api.meta import FALSE, TRUE, UNKNOWN, Condition, ConditionStatus
from echelon.api.names import (
    CLUSTER_MANAGER_NAME,
    CONTROL_PLANE_HEALTHY,
    FINALIZER_CLUSTER_PROFILE,
    FLEET_SYSTEM_NAMESPACE,
    LABEL_CLUSTER_MANAGER,
    PROPERTY_CA_DATA,
    PROPERTY_ENTRYPOINT,
    PROPERTY_K8S_VERSION,
    AgentType,
    MemberCondition,
)
from echelon.api.own import CLUSTER_PROFILES, MEMBER_CLUSTERS
from echelon.api.profile import (
    AccessProvider,
    ClusterEndpoint,
    ClusterProfile,
    ClusterProfileStatus,
    ClusterVersion,
)
from echelon.rules.membership_mirror import MAX_MISSED_BEATS, Options
from echelon.rules.plan import NOTHING, Create, Delete, Patch, Plan, StatusWrite, ref_of

EPOCH = datetime.fromtimestamp(0, UTC)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A member and the profile of its name; either may be missing."""

    member: MemberCluster | None = None
    profile: ClusterProfile | None = None
    options: Options = Options()


def step(seen: Seen, now: datetime) -> Plan:
    """R-PROFILE-1: a joined member has a profile that is kept as it is to be; it goes as soon as the member leaves."""
    member, profile = seen.member, seen.profile
    if member is None or member.metadata.is_deleting:
        return _withdraw(member, profile)
    if profile is None:
        return _publish(member)
    steps: tuple[tuple[Patch, ...], ...] = ()
    drift = _drift(member, profile)
    if drift:
        steps = ((Patch(ref=_unversioned(profile), body=drift),),)
    new, wake_at = _report(member, profile, seen.options, now)
    write = StatusWrite(ref=_unversioned(profile), old=profile.status, new=new)
    return Plan(steps=steps, status=write, wake_at=wake_at, why="following the member")


def _unversioned(profile: ClusterProfile) -> Any:
    return msgspec.structs.replace(ref_of(CLUSTER_PROFILES, profile), resource_version="")


def _withdraw(member: MemberCluster | None, profile: ClusterProfile | None) -> Plan:
    actions: list[tuple[Any, ...]] = []
    if profile is not None and profile.metadata.labels.get(LABEL_CLUSTER_MANAGER) == CLUSTER_MANAGER_NAME:
        actions.append((Delete(ref=_unversioned(profile)),))
    if member is not None and FINALIZER_CLUSTER_PROFILE in member.metadata.finalizers:
        rest = [name for name in member.metadata.finalizers if name != FINALIZER_CLUSTER_PROFILE]
        patch = Patch(
            ref=ref_of(MEMBER_CLUSTERS, member), body={"metadata": {"finalizers": rest}}, gone_ok=True
        )
        actions.append((patch,))
    return Plan(steps=tuple(actions), why="the member is leaving") if actions else NOTHING


def _publish(member: MemberCluster) -> Plan:
    conditions = (member.status or MemberClusterStatus()).conditions
    if not is_true_at(conditions, MemberCondition.JOINED, member.metadata.generation):
        return NOTHING
    body = {
        "apiVersion": CLUSTER_PROFILES.api_version,
        "kind": CLUSTER_PROFILES.kind,
        "metadata": {"name": member.name, "namespace": FLEET_SYSTEM_NAMESPACE, "labels": _LABELS},
        "spec": _spec(member),
    }
    made = Create(resource=CLUSTER_PROFILES, body=body)
    if FINALIZER_CLUSTER_PROFILE in member.metadata.finalizers:
        return Plan(steps=((made,),), why="the member has joined")
    held = {"metadata": {"finalizers": [*member.metadata.finalizers, FINALIZER_CLUSTER_PROFILE]}}
    keep = Patch(ref=ref_of(MEMBER_CLUSTERS, member), body=held)
    return Plan(steps=((keep,), (made,)), why="the member has joined")


_LABELS = {LABEL_CLUSTER_MANAGER: CLUSTER_MANAGER_NAME}


def _spec(member: MemberCluster) -> dict[str, Any]:
    return {"displayName": member.name, "clusterManager": {"name": CLUSTER_MANAGER_NAME}}


def _drift(member: MemberCluster, profile: ClusterProfile) -> dict[str, Any]:
    """Return what of the profile has to be put right (its cluster manager cannot be changed by anybody)."""
    patch: dict[str, Any] = {}
    if profile.spec.display_name != member.name:
        patch["spec"] = {"displayName": member.name}
    if profile.metadata.labels.get(LABEL_CLUSTER_MANAGER) != CLUSTER_MANAGER_NAME:
        patch["metadata"] = {"labels": _LABELS}
    return patch


def _report(
    member: MemberCluster, profile: ClusterProfile, options: Options, now: datetime
) -> tuple[ClusterProfileStatus, datetime | None]:
    old = profile.status or ClusterProfileStatus()
    condition, wake_at = health_of(member, options, now)
    current = msgspec.structs.replace(condition, observed_generation=profile.metadata.generation)
    new = msgspec.structs.replace(old, conditions=set_condition(old.conditions, current, now))
    status = member.status or MemberClusterStatus()
    is_collected = is_true_at(
        status.conditions, MemberCondition.PROPERTY_COLLECTION_SUCCEEDED, member.metadata.generation
    )
    if not is_collected:
        return msgspec.structs.replace(new, version=None, access_providers=()), wake_at
    known = {name: one.value for name, one in status.properties.items()}
    endpoint = ClusterEndpoint(
        server=known.get(PROPERTY_ENTRYPOINT, ""),
        certificate_authority_data=known.get(PROPERTY_CA_DATA, "").encode(),
    )
    version = known.get(PROPERTY_K8S_VERSION)
    return (
        msgspec.structs.replace(
            new,
            version=ClusterVersion(kubernetes=version) if version else None,
            access_providers=(AccessProvider(name=CLUSTER_MANAGER_NAME, cluster=endpoint),),
        ),
        wake_at,
    )


def health_of(member: MemberCluster, options: Options, now: datetime) -> tuple[Condition, datetime | None]:
    """R-PROFILE-2: the control plane of a silent member turns unhealthy by itself; the answer says when to ask again."""
    agents = (member.status or MemberClusterStatus()).agent_status
    agent = next((one for one in agents if one.type == AgentType.MEMBER), None)
    if agent is None:
        message = "The Fleet member agent has not reported its status yet"
        return _condition(UNKNOWN, "MemberAgentReportedNoStatus", message), None
    overdue_at = _overdue_at(member, agent, options)
    healthy = find_condition(agent.conditions, MemberCondition.HEALTHY)
    if healthy is None:
        message = "The Fleet member agent has reported its status, but the health condition is missing"
        return _condition(UNKNOWN, "MemberAgentReportedNoHealthInfo", message), overdue_at
    if overdue_at is not None and now >= overdue_at:
        message = "The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster"
        return _condition(FALSE, "MemberAgentHeartbeatLost", message), None
    if healthy.status == UNKNOWN:
        message = "The Fleet member agent health check result is out of date or unknown"
        return _condition(UNKNOWN, "MemberAgentReportedNoHealthInfo", message), overdue_at
    if healthy.status == FALSE:
        message = "The Fleet member agent reports that the API server is unhealthy"
        return _condition(FALSE, "MemberClusterAPIServerUnhealthy", message), overdue_at
    message = "The Fleet member agent reports that the API server is healthy"
    return _condition(TRUE, "MemberClusterAPIServerHealthy", message), overdue_at


def _overdue_at(member: MemberCluster, agent: AgentStatus, options: Options) -> datetime | None:
    if agent.last_received_heartbeat is None:
        return None
    period = timedelta(seconds=member.spec.heartbeat_period_seconds)
    return agent.last_received_heartbeat + max(options.unhealthy_after, period * MAX_MISSED_BEATS)


def _condition(status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(
        type=CONTROL_PLANE_HEALTHY,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=EPOCH,  # set_condition knows the true time
    )
