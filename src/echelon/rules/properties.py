"""What a member says about itself beyond its nodes: how a property provider's answers are worded and bounded.

A provider is somebody's code that knows more about a cluster than its API does (costs, sizes, where it is reached).
Whatever it returns is cut to what a hub may be told; how it went is one condition. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from echelon.api.cluster import PropertyValue, ResourceUsage
from echelon.api.meta import FALSE, MAX_CONDITION_MESSAGE, TRUE, Condition, ConditionStatus, timestamp
from echelon.api.names import MemberCondition

MAX_START_S: Final = (
    10.0  # a provider that takes longer is done without, and started again at a later heartbeat
)
MAX_COLLECT_S: Final = 10.0
MAX_CALLS: Final = 3  # of one provider at a time: calls that hang must not pile up
MAX_NAMESPACES: Final = 200  # a member reports; more would make its desk too big to write every minute


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider returned."""

    properties: Mapping[str, PropertyValue] = {}
    usage: ResourceUsage | None = None
    namespaces: Mapping[str, str] | None = None
    conditions: tuple[Condition, ...] = ()


def started(now: datetime) -> Condition:
    """Say that the provider runs."""
    message = "The property provider has started successfully"
    return _condition(MemberCondition.PROPERTY_PROVIDER_STARTED, TRUE, "Started", message, now)


def start_timed_out(now: datetime) -> Condition:
    """Say that the provider did not start in time."""
    message = "The property provider does not start up in time"
    return _condition(MemberCondition.PROPERTY_PROVIDER_STARTED, FALSE, "TimedOut", message, now)


def start_failed(error: str, now: datetime) -> Condition:
    """Say that the provider did not start."""
    message = f"Failed to start the property provider: {error}"
    return _condition(MemberCondition.PROPERTY_PROVIDER_STARTED, FALSE, "FailedToStart", message, now)


def collected(now: datetime) -> Condition:
    """Say that the provider answered."""
    message = "The property provider has returned the latest cluster properties"
    kind = MemberCondition.PROPERTY_COLLECTION_SUCCEEDED
    return _condition(kind, TRUE, "PropertiesCollected", message, now)


def collect_timed_out(now: datetime) -> Condition:
    """Say that the provider did not answer in time."""
    message = "The property provider does not respond in time"
    return _condition(MemberCondition.PROPERTY_COLLECTION_SUCCEEDED, FALSE, "TimedOut", message, now)


def collect_failed(error: str, now: datetime) -> Condition:
    """Say that the provider answered with an error."""
    message = f"The property provider has failed: {error}"
    return _condition(MemberCondition.PROPERTY_COLLECTION_SUCCEEDED, FALSE, "CollectionFailed", message, now)


def too_many_calls(now: datetime) -> Condition:
    """Say that the provider still owes earlier answers."""
    message = "There are too many on-going calls to the property provider; will retry if some calls return"
    return _condition(MemberCondition.PROPERTY_COLLECTION_SUCCEEDED, FALSE, "TooManyCalls", message, now)


def namespaces_of(namespaces: Iterable[Mapping[str, Any]], now: datetime) -> tuple[dict[str, str], Condition]:
    """R-BEAT-3: the oldest namespaces that stay are listed, each with the AppliedWork that owns it."""
    staying = [one for one in namespaces if not one["metadata"].get("deletionTimestamp")]
    oldest_first = sorted(
        staying, key=lambda one: (one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"])
    )
    listed = {one["metadata"]["name"]: _work_of(one) for one in oldest_first[:MAX_NAMESPACES]}
    kind = MemberCondition.NAMESPACE_COLLECTION_SUCCEEDED
    if len(oldest_first) <= MAX_NAMESPACES:
        message = "All namespaces have been collected successfully"
        return listed, _condition(kind, TRUE, "Succeeded", message, now)
    message = (
        "Namespaces are collected in a degraded mode since the number of namespaces reaches the track limit"
    )
    return listed, _condition(kind, FALSE, "Degraded", message, now)


def _work_of(namespace: Mapping[str, Any]) -> str:
    for owner in namespace["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == "AppliedWork":
            return str(owner["name"])
    return ""


def _condition(kind: str, status: ConditionStatus, reason: str, message: str, now: datetime) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:MAX_CONDITION_MESSAGE],
        last_transition_time=timestamp(now),
    )
