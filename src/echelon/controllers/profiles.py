"""ClusterProfiles: watches members and their profiles, loads a pair, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api.names import FLEET_SYSTEM_NAMESPACE
from echelon.api.own import CLUSTER_PROFILES, MEMBER_CLUSTERS
from echelon.client.cache import Cache
from echelon.rules import membership, profiles
from echelon.rules.plan import Key, Plan
from echelon.runtime.controller import Watch, each


def _of_profile(old: Any | None, new: Any | None) -> Iterable[Key]:
    """Return the member a profile is about."""
    profile = new if new is not None else old
    return (Key(None, profile.name),) if profile is not None else ()


class Profiles:
    """Loads one member and its profile."""

    name = "clusterprofile"
    workers = 2

    def __init__(self, cache: Cache, options: membership.Options | None = None) -> None:
        self.options = options or membership.Options()
        self._members = cache.store(MEMBER_CLUSTERS)
        self._profiles = cache.store(CLUSTER_PROFILES, FLEET_SYSTEM_NAMESPACE)

    @property
    def watches(self) -> Sequence[Watch]:
        """Follow members and profiles."""
        return (
            each(MEMBER_CLUSTERS),
            Watch(CLUSTER_PROFILES, _of_profile, FLEET_SYSTEM_NAMESPACE),
        )

    async def load(self, key: Key) -> profiles.Seen | None:
        """Gather one member and its profile."""
        member = self._members.get(key.name)
        profile = self._profiles.get(key.name, FLEET_SYSTEM_NAMESPACE)
        if member is None and profile is None:
            return None
        return profiles.Seen(member=member, profile=profile, options=self.options)

    def decide(self, seen: profiles.Seen, now: datetime) -> Plan:
        """Apply the rule."""
        return profiles.step(seen, now)
