"""Differences that stay: each with its reason, in explained.yaml."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.conformance.generated.difference import Difference

FILE = Path(__file__).parent / "explained.yaml"


@dataclass(frozen=True)
class Explanation:
    """One entry: which differences it is about, and why they are."""

    reason: str
    real: tuple[int, ...]
    hub: tuple[int, ...]
    kinds: tuple[str, ...] = ()
    """Resources; all when empty."""
    fields: tuple[str, ...] = ()
    """Patterns, one of which fits each field that the real server refused, with `*` for the places in lists."""
    says: str = ""
    """Words of the real server's refusal."""
    hub_says: str = ""
    """Words of the hub's."""
    sent: str = ""
    """Text of the request's body."""
    same_words: bool = False
    """Both say the same."""
    below: str = ""
    """The subresource."""
    only: tuple[str, ...] = ()
    """Beginnings, one of which each line of the difference has."""

    def fits(self, found: Difference) -> bool:
        """Say whether this explains a difference."""
        document = found.real[1]
        causes = (document.get("details") or {}).get("causes") or []
        return (
            found.real[0] in self.real
            and found.hub[0] in self.hub
            and (not self.kinds or found.sample.plural in self.kinds)
            and self.sent in json.dumps(found.ask.body)
            and (not self.same_words or document.get("message") == found.hub[1].get("message"))
            and f"/{self.below}" in f"{found.key[2]}/"
            and (not self.only or all(line.startswith(self.only) for line in found.lines))
            and self.says in str(document.get("message", ""))
            and self.hub_says in str(found.hub[1].get("message", ""))
            and (
                not self.fields
                or (bool(causes) and all(self._names(cause.get("field", "")) for cause in causes))
            )
        )

    def _names(self, field: str) -> bool:
        return any(fnmatchcase(field, pattern.replace("[", "[[]")) for pattern in self.fields)


def load() -> tuple[Explanation, ...]:
    """Read the list."""
    return tuple(
        Explanation(
            row["reason"],
            tuple(row["real"]),
            tuple(row["hub"]),
            tuple(row.get("kinds", ())),
            tuple(row.get("fields", ())),
            row.get("says", ""),
            row.get("hubSays", ""),
            row.get("sent", ""),
            row.get("sameWords", False),
            row.get("below", ""),
            tuple(row.get("only", ())),
        )
        for row in yaml.safe_load(FILE.read_text()) or ()
    )


def explain(found: Difference, known: tuple[Explanation, ...]) -> Explanation | None:
    """Return why a difference is there, if that is known."""
    return next((one for one in known if one.fits(found)), None)
