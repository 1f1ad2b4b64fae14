"""One generated sequence on two servers: the same requests, then what both said and what their watches told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.conformance.compare import differences
from tests.conformance.generated.asks import IN_BACKGROUND, MEDIA, REVISION, UID, Ask, ask
from tests.conformance.generated.difference import Difference
from tests.conformance.generated.explained import Explanation, explain
from tests.conformance.generated.samples import Sample, pick
from tests.conformance.generated.servers import NO_ANSWER, Server
from tests.conformance.normal import Normaliser

Json = dict[str, Any]
STEPS = 12
TOKEN_VOLUME = re.compile(r"kube-api-access-\w{5}")
SELECTED = "?labelSelector=x%3Dy"


@dataclass
class Outcome:
    """What came of one sequence."""

    requests: int = 0
    events: int = 0
    unanswered: bool = False
    """A real kube-apiserver ends some connections without a word: there is nothing to compare with then."""
    explained: list[str] = field(default_factory=list)
    """The reasons of differences that stay."""
    difference: Difference | None = None
    """One that nothing explains; it ends the sequence."""


@dataclass
class _Side:
    """One server's side of a sequence: how its values are called, and what it told of the objects last."""

    server: Server
    normaliser: Normaliser = field(default_factory=lambda: Normaliser({}))
    known: dict[str, Json] = field(default_factory=dict)

    def send(self, asked: Ask, name: str) -> tuple[int, Json]:
        code, document = self.server.ask(
            asked.method, asked.path, self._filled(asked.body, name), asked.media
        )
        meta = document.get("metadata")
        if code < 400 and isinstance(meta, dict) and meta.get("name") == name:
            self.known[name] = meta
        return code, document

    def _filled(self, body: Any, name: str) -> Any:
        """Put this server's revision and uid of an object where a request wants them."""
        known = self.known.get(name, {})
        values = {REVISION: known.get("resourceVersion", "1"), UID: known.get("uid", "1")}
        if isinstance(body, dict):
            return {key: self._filled(value, name) for key, value in body.items()}
        return values.get(body, body) if isinstance(body, str) else body

    def seen(self, answer: tuple[int, Json], *, words: bool) -> Any:
        """Return of an answer what must be equal."""
        code, document = answer
        if code >= 400 and not words:
            return {"code": code, "reason": document.get("reason")}
        return {"code": code, "body": self._plain(document)}

    def _plain(self, document: Any) -> Any:
        """Take out what differs between any two servers."""
        return self.normaliser.body(json.loads(TOKEN_VOLUME.sub("kube-api-access-x", json.dumps(document))))

    def clean(self, sample: Sample, sequence: str) -> None:
        """Remove the sequence's objects, and make and remove one that ends its part of the watches."""
        end = sample.legal(f"{sequence}-end", sequence)
        end["metadata"].pop("finalizers", None)
        code, document = self.server.ask("POST", sample.at, end)
        if code != 201:
            raise RuntimeError(f"{sample.plural}: the sample is not legal: {document}")
        for name in (sequence, f"{sequence}-b", f"{sequence}-end"):
            path = f"{sample.at}/{name}"
            _, document = self.server.ask("DELETE", path, {"gracePeriodSeconds": 0, **IN_BACKGROUND})
            if (document.get("metadata") or {}).get("finalizers"):
                self.server.ask("PATCH", path, {"metadata": {"finalizers": None}}, MEDIA["merge"])

    def events(self, sample: Sample, sequence: str) -> list[Any]:
        """Return what the watches told of the sequence."""
        told: list[Any] = []
        for query in ("", SELECTED):
            taken = self.server.stream(sample.at + query).take({sequence, f"{sequence}-b"}, f"{sequence}-end")
            told += [self._plain(event) for event in taken]
        return told


@dataclass(frozen=True)
class Plan:
    """What is generated, and how closely it is compared."""

    seed: str
    only: str = ""
    """One resource alone."""
    words: bool = False
    """Whether the texts of refusals must be equal too."""
    known: tuple[Explanation, ...] = ()
    """Differences that stay."""

    def requests_of(self, number: int, namespace: str) -> tuple[Sample, str, list[tuple[Ask, str]]]:
        """Return the kind, the name and the requests of a sequence."""
        chance = Random(f"{self.seed}-{number}")
        sample = pick(chance, self.only).within(namespace)
        name = f"g{self.seed}-{number}"
        return sample, name, [ask(chance, sample, name) for _ in range(STEPS)]

    def told(self, number: int) -> Iterator[str]:
        """Describe a sequence for a person."""
        for asked, _ in self.requests_of(number, "default")[2]:
            yield f"{asked.method} {asked.path} {asked.media} {json.dumps(asked.body)}"


def run(plan: Plan, number: int, servers: tuple[Server, Server], namespace: str) -> Outcome:
    """Carry out one sequence on a real server and on the hub."""
    sample, name, asks = plan.requests_of(number, namespace)
    real, hub = (_Side(server) for server in servers)
    for side in (real, hub):
        for query in ("", SELECTED):
            side.server.stream(sample.at + query)
    outcome = Outcome()
    is_same = all(_step(plan, outcome, (real, hub), sample, *each) for each in asks)
    for side in (real, hub):
        side.clean(sample, name)
    told = [side.events(sample, name) for side in (real, hub)]
    outcome.events = len(told[0])
    lines = tuple(differences(*told, "events")) if is_same else ()
    if lines:
        outcome.difference = Difference(name, sample, Ask("WATCH", sample.at), (200, {}), (200, {}), lines)
    return outcome


def _step(
    plan: Plan, outcome: Outcome, sides: tuple[_Side, _Side], sample: Sample, asked: Ask, about: str
) -> bool:
    """Send one request to both; say whether the objects of the two servers can be compared any further."""
    real, hub = sides
    theirs, mine = real.send(asked, about), hub.send(asked, about)
    outcome.requests += 1
    if theirs[0] == NO_ANSWER:
        outcome.unanswered = True
        return False
    lines = tuple(differences(real.seen(theirs, words=plan.words), hub.seen(mine, words=plan.words)))
    if not lines:
        return True
    found = Difference(about, sample, asked, theirs, mine, lines)
    why = explain(found, plan.known)
    if why is None:
        outcome.difference = found
        return False
    outcome.explained.append(why.reason)
    return found.is_refused_by_both
