"""Whether a member cluster can receive resources at all, and if not, why not.

Reads what the cluster's agent last said, and the clock. It never looks at generations: an agent that is a spec
behind still runs. The texts are grepped for and do not change.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition
from echelon.api.meta import TRUE

MAX_SILENCE = timedelta(minutes=5)  # five missed heartbeats at the default period
MAX_UNHEALTHY = timedelta(minutes=5)  # shorter illness is not worth moving anything

_NOT_CONNECTED = "cluster is not connected to the fleet: "
_MINUTES = re.compile(r"[0-9]+\.[0-9]{2} minutes ago")


def why_ineligible(cluster: MemberCluster, now: datetime) -> str | None:
    """R-PICK-8: nothing new is placed on a cluster that has left, is silent, has not joined or is ill for long."""
    if cluster.metadata.is_deleting:
        return "cluster has left the fleet"
    agents = cluster.status.agent_status if cluster.status else ()
    agent = next((agent for agent in agents if agent.type == "MemberAgent"), None)
    if agent is None:
        return _NOT_CONNECTED + "member agent not online yet"
    heard_at = agent.last_received_heartbeat
    if heard_at is None or now - heard_at > MAX_SILENCE:
        silence = _minutes(now, heard_at) if heard_at else "never"
        return _NOT_CONNECTED + f"no recent heartbeat signals (last received {silence})"
    joined = find_condition(agent.conditions, "Joined")
    if joined is None or joined.status != TRUE:
        return _NOT_CONNECTED + "member agent not joined yet"
    healthy = find_condition(agent.conditions, "Healthy")
    if healthy is None:
        return _NOT_CONNECTED + "health condition from member agent is not available"
    if healthy.status != TRUE and now - healthy.last_transition_time > MAX_UNHEALTHY:
        since = _minutes(now, healthy.last_transition_time)
        return _NOT_CONNECTED + f"unhealthy for a prolonged period of time (last transitioned {since})"
    return None


def _minutes(now: datetime, then: datetime) -> str:
    return f"{(now - then).total_seconds() / 60:.2f} minutes ago"


def without_minutes(reason: str) -> str:
    """Blank how long ago something was: the passing of time alone is no change worth writing."""
    return _MINUTES.sub("… minutes ago", reason)
