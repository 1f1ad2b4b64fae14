"""When a controller last wrote the status of each of its keys: only a matter of pace, nothing is lost with it."""

from __future__ import annotations

from datetime import datetime

from echelon.api.scope import Key
from echelon.rules.pace import SHARED


class LastWrites:
    """The last write of each key, the latest last."""

    def __init__(self) -> None:
        self._at: dict[Key, datetime] = {}

    def note(self, key: Key, now: datetime) -> None:
        """Note that a key's status is being written."""
        self._at.pop(key, None)
        self._at[key] = now

    def at(self, key: Key) -> datetime | None:
        """Return when a key was last written."""
        return self._at.get(key)

    def busy(self, now: datetime) -> int:
        """Return how many keys were written lately: so many share the pace."""
        count = 0
        for at in reversed(self._at.values()):
            if now - at > SHARED:
                break
            count += 1
        return count

    def forget(self, key: Key) -> None:
        """Forget a key that is gone."""
        self._at.pop(key, None)
