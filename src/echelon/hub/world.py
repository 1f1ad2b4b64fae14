"""Time, identity and chance, as the hub sees them.

Everything in the hub that would read a clock, draw a uuid or roll dice asks a
`World` for it. It must never reach for `datetime.now`, `uuid4` or `random`
itself, so that a simulated hub replays exactly from its seed.
"""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Protocol

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names: no vowels, so that no word appears by accident."""

SUFFIX_LENGTH = 5


class World(Protocol):
    """What the hub may ask of the outside."""

    def now(self) -> datetime:
        """Return the current moment, aware, in UTC."""

    def uuid(self) -> str:
        """Return a fresh uuid."""

    def token(self) -> str:
        """Return a fresh secret."""

    def suffix(self) -> str:
        """Return the five letters that complete a generateName."""


class RealWorld:
    """The machine's clock and its entropy."""

    def now(self) -> datetime:
        """Return the current moment."""
        return datetime.now(UTC)

    def uuid(self) -> str:
        """Return a random uuid."""
        return str(uuid.uuid4())

    def token(self) -> str:
        """Return a secret nobody can guess."""
        return secrets.token_urlsafe(32)

    def suffix(self) -> str:
        """Return five random letters."""
        return "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))


class SeededWorld:
    """A world that repeats itself: same seed, same uuids, names and tokens.

    Its time stands still until `advance` moves it, or follows `now_of` when a
    simulation has a clock of its own.
    """

    def __init__(self, seed: int = 0, start: datetime | None = None) -> None:
        self._chance = Random(seed)
        self.at = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the moment the test has reached."""
        return self.at

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.at += timedelta(seconds=seconds)

    def uuid(self) -> str:
        """Return the next uuid of this seed."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def token(self) -> str:
        """Return the next token of this seed."""
        return f"{self._chance.getrandbits(256):064x}"

    def suffix(self) -> str:
        """Return the next five letters of this seed."""
        return "".join(self._chance.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))


def rfc3339(moment: datetime) -> str:
    """Write a moment as Kubernetes' metav1.Time does: whole seconds, UTC."""
    return _whole_second(int(moment.timestamp()))


@lru_cache(maxsize=64)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Write a moment as Kubernetes' metav1.MicroTime does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
