"""Random requests, legal and illegal, sent to a real API server and to the embedded hub; the answers are compared.

python -m tests.conformance.generated --kubeconfig REAL [--seed 1] [--count 1000] [--show 20]

Every sequence works on objects of its own names, so order and leftovers do not matter. Codes and reasons must be equal,
and the objects of answers that succeed, after uids, revisions, times and the server's own status are taken out. Texts
of refusals are compared only with --words: the sequences written by hand compare them.
"""

from __future__ import annotations

import argparse
import copy
import http.client
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.embedded import embedded_hub
from tests.conformance.endpoint import Endpoint, Kubeconfig, exchange
from tests.hub.widgets import CRDS, WIDGETS, widget_crd

Json = dict[str, Any]
STEPS = 12
NO_ANSWER = 0
CORE = "/api/v1/namespaces/default"
MEDIA = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
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
NAMES = {"metadata", "name", "namespace", "apiVersion", "kind"}

TEMPLATES: list[tuple[str, Json]] = [
    (
        f"{CORE}/configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"labels": {"x": "y"}, "annotations": {"k": "v"}, "finalizers": ["x.io/hold"]},
            "data": {"x": "1", "y": "2"},
            "immutable": False,
        },
    ),
    (
        f"{CORE}/secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "data": {"x": "YQ=="},
            "stringData": {"y": "z"},
            "type": "Opaque",
        },
    ),
    (
        f"{CORE}/limitranges",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]},
        },
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}],
        },
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 10},
        },
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {
                "podSelector": {"matchLabels": {"a": "b"}},
                "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
            },
        },
    ),
    (
        WIDGETS,
        {
            "apiVersion": "test.io/v1",
            "kind": "Widget",
            "spec": {
                "size": 1,
                "color": "x",
                "tags": ["a", "b"],
                "parts": [{"name": "p", "count": 1}, {"name": "q"}],
            },
            "status": {"phase": "x"},
        },
    ),
]


class Server:
    """One API server, over one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.connection = endpoint.connect()

    def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Json]:
        """Send a request; return the code and the document."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": "generated", "Accept": "application/json", "Content-Type": media}
        try:
            reply = exchange(self.connection, method, self.endpoint.target(path), data, headers)
        except (
            http.client.RemoteDisconnected,
            ConnectionError,
        ):  # an old connection, or a server that gave up
            self.connection = self.endpoint.connect()
            try:
                reply = exchange(self.connection, method, self.endpoint.target(path), data, headers)
            except (http.client.RemoteDisconnected, ConnectionError):
                self.connection = self.endpoint.connect()
                return NO_ANSWER, {}
        try:
            return reply.code, json.loads(reply.body)
        except ValueError:
            return reply.code, {"text": reply.body.decode(errors="replace")}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Walk the paths of a document, those of identity left out."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            if not at or key not in NAMES:
                yield from places(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*at, index))


def mutated(chance: Random, template: Json, name: str) -> Json:
    """Return an object with a few things changed, missing or too many."""
    obj = copy.deepcopy(template)
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        found = [at for at in places(obj) if at[0] not in {"apiVersion", "kind"} and at != ("metadata",)]
        if not found:
            break
        *way, last = chance.choice(found)
        holder: Any = obj
        for step in way:
            holder = holder[step]
        if chance.random() < 0.3:
            del holder[last]
        elif isinstance(holder, dict) and chance.random() < 0.2:
            holder["unknown"] = 1
        else:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
    if isinstance(obj.setdefault("metadata", {}), dict):
        obj["metadata"]["name"] = name
    return obj


def request(chance: Random, collection: str, template: Json, name: str) -> tuple[str, str, Any, str]:
    """Make one request about one object."""
    path = f"{collection}/{name}"
    how = chance.choice(
        ["create", "create", "update", "merge", "strategic", "json", "apply", "apply", "delete", "get"]
    )
    options = chance.choice(["", "", "", "fieldValidation=Strict", "dryRun=All"])
    if how == "create":
        return "POST", f"{collection}?{options}", mutated(chance, template, name), "application/json"
    if how == "update":
        return "PUT", f"{path}?{options}", mutated(chance, template, name), "application/json"
    if how == "get":
        return "GET", path, None, "application/json"
    if how == "delete":
        return "DELETE", path, {}, "application/json"
    if how == "json":
        ways = [
            "/" + "/".join(map(str, at))
            for at in places(template)
            if at[0] not in {"apiVersion", "kind", "metadata"}
        ]
        operation = {"op": chance.choice(["add", "remove", "replace", "test"]), "path": chance.choice(ways)}
        return "PATCH", f"{path}?{options}", [{**operation, "value": chance.choice(VALUES)}], MEDIA[how]
    changed = mutated(chance, template, name)
    if how != "apply":
        changed = {key: value for key, value in changed.items() if chance.random() < 0.7}
        return "PATCH", f"{path}?{options}", changed, MEDIA[how]
    force = chance.choice(["", "&force=true"])
    return "PATCH", f"{path}?fieldManager={chance.choice('mn')}{force}&{options}", changed, MEDIA[how]


UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OWN = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"}


def plain(document: Any) -> Any:
    """Take out what differs between any two servers."""
    if isinstance(document, dict):
        return {key: plain(value) for key, value in document.items() if key not in OWN and key != "time"}
    if isinstance(document, list):
        return [plain(item) for item in document]
    return UID.sub("<uid>", document) if isinstance(document, str) else document


def answer(code: int, document: Json, *, words: bool) -> Any:
    """Return of an answer what must be equal."""
    if code >= 400 and not words:
        return code, document.get("reason")
    shown = plain(document)
    for entry in (shown.get("metadata") or {}).get("managedFields") or ():
        entry.pop("apiVersion", None)
    managed = (shown.get("metadata") or {}).get("managedFields")
    if managed:
        shown["metadata"]["managedFields"] = sorted(managed, key=lambda one: json.dumps(one, sort_keys=True))
    return code, shown


def compare(real: Server, ours: Server, arguments: argparse.Namespace) -> int:
    """Send the same to both; print what differs, and return how much."""
    chance = Random(arguments.seed)
    different: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    done = 0
    while done < arguments.count:
        collection, template = chance.choice(TEMPLATES)
        name = f"g{arguments.seed}-{done}"
        for _ in range(STEPS):
            asked = request(chance, collection, template, name)
            theirs, mine = real.ask(*asked), ours.ask(*asked)
            done += 1
            if theirs[0] == NO_ANSWER:
                break  # a real kube-apiserver ends some connections without a word: nothing to compare with
            if answer(*theirs, words=arguments.words) != answer(*mine, words=arguments.words):
                key = (
                    asked[0],
                    asked[3].removeprefix("application/"),
                    collection.rpartition("/")[2],
                    theirs[0],
                    mine[0],
                )
                different[key].append((asked, theirs, mine))
                break  # from here on the two objects differ
        for server in (real, ours):
            server.ask("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, MEDIA["merge"])
            server.ask("DELETE", f"{collection}/{name}", {})
    total = sum(map(len, different.values()))
    for key, cases in sorted(different.items(), key=lambda item: -len(item[1]))[: arguments.show]:
        asked, theirs, mine = cases[0]
        print(len(cases), *key)
        print("   ", asked[1], json.dumps(asked[2])[:400])
        print("    real:", json.dumps(theirs[1].get("message") or plain(theirs[1]))[:500])
        print("    hub: ", json.dumps(mine[1].get("message") or plain(mine[1]))[:500])
    print(f"{done} requests, {total} answered differently")
    return total


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.generated")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of a real API server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--words", action="store_true", help="compare the texts of refusals too")
    arguments = parser.parse_args()
    with embedded_hub() as kubeconfig:
        configurations = [
            Kubeconfig(path) for path in (arguments.kubeconfig, kubeconfig)
        ]  # they own the files
        real, ours = (Server(configuration.endpoint()) for configuration in configurations)
        for server in (real, ours):
            server.ask("POST", CRDS, widget_crd())
            for _ in range(200):
                if server.ask("GET", WIDGETS)[0] == 200:
                    break
        return 1 if compare(real, ours, arguments) else 0


if __name__ == "__main__":
    sys.exit(main())
