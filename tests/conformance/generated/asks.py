"""One random request about the objects of a sequence. Pure: the same chance makes the same requests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.conformance.generated.samples import OWNER, Sample

Json = dict[str, Any]
JSON = "application/json"
MEDIA = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
REVISION = "$revision"
"""In a body: the revision that the server told of the object last."""
UID = "$uid"

VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    1.5,
    "",
    "a",
    "A B",
    "x" * 70,
    "10Gi",
    [],
    {},
    [None],
    [{}],
    {"a": None},
    ["a", "a"],
]
IDENTITY = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "labels", OWNER)}
IN_BACKGROUND = {"propagationPolicy": "Background"}
"""Of every deletion: the other ways need a controller, which would also touch what is compared."""
OPTIONS = [
    "",
    "",
    "",
    "",
    "fieldValidation=Strict",
    "fieldValidation=Ignore",
    "dryRun=All",
    "fieldManager=other",
]


@dataclass(frozen=True)
class Ask:
    """A request; the body may hold `REVISION` and `UID`."""

    method: str
    path: str
    body: Any = None
    media: str = JSON


@dataclass(frozen=True)
class About:
    """What a request is about: a kind, a sequence, and one of its two objects."""

    sample: Sample
    sequence: str
    name: str

    @property
    def path(self) -> str:
        """Return the object's path."""
        return f"{self.sample.at}/{self.name}"

    def legal(self) -> Json:
        """Return a legal object."""
        return self.sample.legal(self.name, self.sequence)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Walk the paths of a document that a request may break."""
    if at and at not in IDENTITY:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*at, index))


def mutated(chance: Random, obj: Json) -> Json:
    """Change a few things of an object, take some away or add too many."""
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        found = list(places(obj))
        *way, last = chance.choice(found)
        holder: Any = obj
        for step in way:
            holder = holder[step]
        how = chance.random()
        if how < 0.3:
            del holder[last]
        elif isinstance(holder, dict) and how < 0.4:
            holder["unknown"] = 1
        elif isinstance(holder, list) and how < 0.5:
            holder.append(copy.deepcopy(holder[last]))
        else:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
    return obj


def _query(*parts: str) -> str:
    told = "&".join(part for part in parts if part)
    return f"?{told}" if told else ""


def _create(chance: Random, about: About) -> Ask:
    return Ask("POST", about.sample.at + _query(chance.choice(OPTIONS)), mutated(chance, about.legal()))


def _update(chance: Random, about: About, below: str = "") -> Ask:
    body = mutated(chance, about.legal())
    if isinstance(body.get("metadata"), dict):
        revision = chance.choice([None, REVISION, REVISION, REVISION, "1", "x"])
        if revision is not None:
            body["metadata"]["resourceVersion"] = revision
        if chance.random() < 0.1:
            body["metadata"]["uid"] = chance.choice([UID, "0"])
    return Ask("PUT", about.path + below + _query(chance.choice(OPTIONS)), body)


def _merge(chance: Random, about: About, below: str = "") -> Ask:
    return _partly(chance, about, "merge", below)


def _strategic(chance: Random, about: About, below: str = "") -> Ask:
    return _partly(chance, about, "strategic", below)


def _partly(chance: Random, about: About, how: str, below: str) -> Ask:
    changed = mutated(chance, about.legal())
    body = {key: value for key, value in changed.items() if chance.random() < 0.7}
    return Ask("PATCH", about.path + below + _query(chance.choice(OPTIONS)), body, MEDIA[how])


def _json(chance: Random, about: About, below: str = "") -> Ask:
    ways = ["/" + "/".join(map(str, at)) for at in places(about.legal())]
    operations: list[Json] = []
    for _ in range(chance.choice([1, 1, 2])):
        name = chance.choice(["add", "remove", "replace", "test", "copy", "move"])
        operation: Json = {"op": name, "path": chance.choice(ways)}
        if name in ("copy", "move"):
            operation["from"] = chance.choice(ways)
        elif name != "remove":
            operation["value"] = copy.deepcopy(chance.choice(VALUES))
        operations.append(operation)
    return Ask("PATCH", about.path + below + _query(chance.choice(OPTIONS)), operations, MEDIA["json"])


def _apply(chance: Random, about: About, below: str = "") -> Ask:
    force = chance.choice(["", "force=true"])
    options = chance.choice(["", "", "", "fieldValidation=Strict", "dryRun=All"])
    query = _query(f"fieldManager={chance.choice('mn')}", force, options)
    return Ask("PATCH", about.path + below + query, mutated(chance, about.legal()), MEDIA["apply"])


def _delete(chance: Random, about: About) -> Ask:
    conditions = [
        {},
        {},
        {},
        {"resourceVersion": REVISION},
        {"resourceVersion": "1"},
        {"uid": UID},
        {"uid": "0"},
    ]
    chosen = chance.choice(conditions)
    body: Json = {**IN_BACKGROUND, "preconditions": chosen} if chosen else IN_BACKGROUND
    return Ask("DELETE", about.path + _query(chance.choice(["", "", "", "dryRun=All"])), body)


def _get(_chance: Random, about: About) -> Ask:
    return Ask("GET", about.path)


def _list(chance: Random, about: About) -> Ask:
    own = f"labelSelector={OWNER}%3D{about.sequence}"
    queries = [
        own,
        f"{own},x%3Dy",
        f"{own},x!%3Dy",
        f"{own}&fieldSelector=metadata.name%3D{about.name}",
        f"{own}&fieldSelector=metadata.name!%3D{about.name}",
        f"{own}&fieldSelector=spec.mode%3Dfast",
        f"{own}&fieldSelector=type%3DOpaque",
    ]
    if about.sample.at.startswith(
        "/apis/test.io/"
    ):  # of other kinds there may be objects that nobody asked for
        queries.append(f"{own}&limit=1")
    return Ask("GET", about.sample.at + _query(chance.choice(queries)))


def _delete_all(chance: Random, about: About) -> Ask:
    own = f"labelSelector={OWNER}%3D{about.sequence}"
    return Ask(
        "DELETE",
        about.sample.at + _query(own + chance.choice(["", ",x%3Dy"]), chance.choice(["", "dryRun=All"])),
        IN_BACKGROUND,
    )


def _scale(chance: Random, about: About) -> Ask:
    path = about.path + "/scale"
    count = chance.choice([0, 1, 2, 2, -1, None, "1", 1.5])
    how = chance.choice(["get", "put", "merge", "json"])
    if how == "get":
        return Ask("GET", path)
    if how == "merge":
        return Ask("PATCH", path, {"spec": {"replicas": count}}, MEDIA["merge"])
    if how == "json":
        return Ask(
            "PATCH", path, [{"op": "replace", "path": "/spec/replicas", "value": count}], MEDIA["json"]
        )
    meta = {"name": about.name, "resourceVersion": REVISION}
    if chance.random() < 0.2:
        meta["namespace"] = "default"
    return Ask(
        "PUT",
        path,
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": count}},
    )


def _status(chance: Random, about: About) -> Ask:
    how = chance.choice([_update, _merge, _json, _apply, _strategic])
    return how(chance, about, "/status")


Way = Callable[[Random, About], Ask]
WAYS: list[tuple[Way, int]] = [
    (_create, 8),
    (_update, 6),
    (_merge, 4),
    (_strategic, 4),
    (_json, 4),
    (_apply, 8),
    (_delete, 3),
    (_get, 1),
    (_list, 2),
    (_delete_all, 1),
]


def ask(chance: Random, sample: Sample, sequence: str) -> tuple[Ask, str]:
    """Make one request, about one of the sequence's two objects; return it and the object's name."""
    name = chance.choice([sequence, sequence, sequence, f"{sequence}-b"])
    ways = [*WAYS]
    if "status" in sample.subresources:
        ways.append((_status, 5))
    if "scale" in sample.subresources:
        ways.append((_scale, 3))
    way = chance.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
    return way(chance, About(sample, sequence, name)), name
