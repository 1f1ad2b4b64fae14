"""One difference between two servers, as it is shown and explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.generated.asks import Ask
from tests.conformance.generated.samples import Sample

Json = dict[str, Any]
REFUSED = 400


@dataclass(frozen=True)
class Difference:
    """What two servers answered differently, or told their watchers differently."""

    sequence: str
    sample: Sample
    ask: Ask
    real: tuple[int, Json]
    hub: tuple[int, Json]
    lines: tuple[str, ...]

    @property
    def is_refused_by_both(self) -> bool:
        """Say whether nothing was changed on either server, so that a sequence can go on."""
        return self.real[0] >= REFUSED and self.hub[0] >= REFUSED

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what is common to differences of one kind."""
        media = self.ask.media.removeprefix("application/").partition("-")[0]
        below = self.ask.path.partition("?")[0].removeprefix(self.sample.at).split("/")[2:]
        return (self.ask.method, media, "/".join([self.sample.plural, *below]), self.real[0], self.hub[0])
