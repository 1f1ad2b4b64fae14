"""ResourceQuotas: how much a namespace may hold, and how much it holds.

What it decides: whether a new or larger object still fits, and what the status of
the namespace's quotas says is used.

What it must never do: count anything in namespaces without quotas, or let two
requests at once take the same last place: what is being written counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub.admission import Rounds
from echelon.hub.builtins_pods import quality
from echelon.hub.call import Call
from echelon.hub.internal import call_for, replace
from echelon.hub.limits import shown
from echelon.hub.status import forbidden
from echelon.rules.quantity import quantity_of

if TYPE_CHECKING:
    from echelon.hub.app import Hub
    from echelon.hub.cluster import Cluster
    from echelon.hub.store import Event, Table

Json = dict[str, Any]
Amounts = dict[str, Fraction]

QUOTAS = "/resourcequotas"
PODS, SERVICES, CLAIMS = "/pods", "/services", "/persistentvolumeclaims"
_PLAIN = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
"""Resources a quota may name without `count/`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OVER = ("Succeeded", "Failed")


class Quotas:
    """The admission plugin, and the keeper of what quotas say is used."""

    def __init__(self, hub: Hub, add: Callable[..., None]) -> None:
        self._hub = hub
        self._add = add
        self._spaces: set[tuple[str, str]] = set()

    def observe(self, event: Event) -> None:
        """Follow writes: of quotas everywhere, of others where a quota counts them."""
        cluster, resource = event.table.cluster, event.table.resource
        namespace, slash, _ = event.entry.key.partition("/")
        if resource == QUOTAS:
            self._spaces.add((cluster, namespace))
        elif not self._spaces or not slash or (cluster, namespace) not in self._spaces:
            return
        self._add("quota", cluster, namespace)

    def scan(self, cluster: str) -> None:
        """Look again at every quota of a cluster."""
        for key in self._hub.store.table(cluster, QUOTAS).live:
            namespace = key.partition("/")[0]
            self._spaces.add((cluster, namespace))
            self._add("quota", cluster, namespace)

    async def count(self, cluster: str, namespace: str) -> None:
        """Write what is used into the quotas of a namespace."""
        held = self._hub.clusters[cluster]
        table = self._hub.store.table(cluster, QUOTAS)
        keys, start, end = table.span(f"{namespace}/")
        if start == end:
            self._spaces.discard((cluster, namespace))
        for key in list(keys[start:end]):
            entry = table.head(key)
            kind = held.catalog.find("", "v1", "resourcequotas")
            if entry is None or kind is None:
                continue
            old = kind.read(entry.body)
            hard = (old.get("spec") or {}).get("hard") or {}
            used = usage(held, namespace, hard, old["spec"])
            status = {
                "hard": dict(hard),
                "used": {name: shown(used.get(name, Fraction(0)), hard[name]) for name in hard},
            }
            if old.get("status") != status:
                replace(call_for(self._hub, held, kind, key), old, {**old, "status": status}, entry)

    def interested(self, call: Call) -> bool:
        """Say whether this write may need a place in a namespace with quotas."""
        if (call.cluster.name, call.namespace) not in self._spaces or call.kind.resource == QUOTAS:
            return False
        return call.verb in {"create", "update", "patch"} and not call.subresource

    async def mutate(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
        """Change nothing."""

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Refuse what does not fit."""
        if new is None:
            return
        table = self._hub.store.table(call.cluster.name, QUOTAS)
        keys, start, end = table.span(f"{call.namespace}/")
        for key in keys[start:end]:
            quota = msgspec.json.decode(table.live[key].body)
            _fit(call, quota, new, old)


def _fit(call: Call, quota: Json, new: Json, old: Json | None) -> None:
    spec, name = quota.get("spec") or {}, quota["metadata"]["name"]
    hard = spec.get("hard") or {}
    after = measure(call.kind.resource, new, hard, spec)
    before = measure(call.kind.resource, old, hard, spec) if old is not None else {}
    more = {each: amount - before.get(each, 0) for each, amount in after.items()}
    if call.kind.resource == PODS and old is None and _in_scope(new, spec):
        missing = _unsaid(new, hard)
        if missing:
            why = f"failed quota: {name}: must specify {'; '.join(missing)}"
            raise forbidden(call.kind.group, call.kind.plural, call.name, why)
    grown = {each: amount for each, amount in more.items() if amount > 0}
    if not grown:
        return
    used = usage(call.cluster, call.namespace, grown, spec)
    over = sorted(
        each for each, amount in grown.items() if used.get(each, 0) + amount > quantity_of(hard[each])
    )
    if over:
        asked, have, most = (
            ",".join(f"{each}={value(each)}" for each in over)
            for value in (
                lambda each: shown(grown[each], hard[each]),
                lambda each: shown(used.get(each, Fraction(0)), hard[each]),
                lambda each: hard[each],
            )
        )
        why = f"exceeded quota: {name}, requested: {asked}, used: {have}, limited: {most}"
        raise forbidden(call.kind.group, call.kind.plural, call.name, why)


def _unsaid(pod: Json, hard: Json) -> list[str]:
    """Return what containers must say because a quota counts it."""
    found = []
    containers = [*((pod.get("spec") or {}).get("initContainers") or ()), *pod["spec"].get("containers", ())]
    for name in sorted(hard):
        field, resource = _compute(name)
        if not resource:
            continue
        silent = [
            each.get("name", "")
            for each in containers
            if resource not in ((each.get("resources") or {}).get(field) or {})
        ]
        if silent:
            found.append(f"{name} for: {','.join(sorted(silent))}")
    return found


def _compute(name: str) -> tuple[str, str]:
    """Return which amount of a pod a quota's name counts: requests or limits, and of what."""
    if name in _COMPUTE:
        return "requests", name
    for field in ("requests", "limits"):
        if name.startswith(field + ".") and name != "requests.storage":
            return field, name[len(field) + 1 :]
    return "", ""


def measure(resource: str, obj: Json, names: Iterable[str], spec: Json) -> Amounts:
    """Return what one object takes of each amount that is counted."""
    found: Amounts = {}
    group, _, plural = resource.partition("/")
    own = {f"count/{plural}.{group}" if group else f"count/{plural}"}
    if not group and plural in _PLAIN and plural != "pods":
        own.add(plural)
    body = obj.get("spec") or {}
    for name in names:
        if name in own:
            found[name] = Fraction(1)
        elif resource == PODS:
            if _in_scope(obj, spec):
                _measure_pod(found, name, body)
        elif resource == SERVICES:
            _measure_service(found, name, body)
        elif resource == CLAIMS and name == "requests.storage":
            amount = ((body.get("resources") or {}).get("requests") or {}).get("storage")
            found[name] = quantity_of(amount) if amount else Fraction(0)
    return found


def _measure_pod(found: Amounts, name: str, spec: Json) -> None:
    if name == "pods":
        found[name] = Fraction(1)
        return
    field, resource = _compute(name)
    if not resource:
        return

    def of(container: Json) -> Fraction:
        amount = ((container.get("resources") or {}).get(field) or {}).get(resource)
        return quantity_of(amount) if amount is not None else Fraction(0)

    together = sum(map(of, spec.get("containers") or ()), Fraction(0))
    found[name] = max([together, *map(of, spec.get("initContainers") or ())])


def _measure_service(found: Amounts, name: str, spec: Json) -> None:
    if name == "services.loadbalancers":
        found[name] = Fraction(spec.get("type") == "LoadBalancer")
    elif name == "services.nodeports":
        with_ports = spec.get("type") in ("NodePort", "LoadBalancer")
        found[name] = Fraction(
            sum(bool(port.get("nodePort")) for port in spec.get("ports") or ()) * with_ports
        )


def _in_scope(pod: Json, spec: Json) -> bool:
    """Say whether a quota's scopes count a pod; one that is over counts nowhere."""
    if (pod.get("status") or {}).get("phase") in _OVER:
        return False
    body = pod.get("spec") or {}
    facts = {
        "BestEffort": quality(body) == "BestEffort",
        "NotBestEffort": quality(body) != "BestEffort",
        "Terminating": body.get("activeDeadlineSeconds") is not None,
        "NotTerminating": body.get("activeDeadlineSeconds") is None,
    }
    return all(facts.get(scope, True) for scope in spec.get("scopes") or ())


def usage(cluster: Cluster, namespace: str, names: Iterable[str], spec: Json) -> Amounts:
    """Return what the objects of a namespace take together, those being written included."""
    totals: Amounts = {}
    counted: dict[str, list[str]] = {}
    for name in names:
        for resource in _resources([name]):
            counted.setdefault(resource, []).append(name)
    for resource, about in sorted(counted.items()):
        table = cluster.hub.store.table(cluster.name, resource)
        plain = all(name.startswith("count/") or (name in _PLAIN and name != "pods") for name in about)
        for key in _keys(table, f"{namespace}/"):
            entry = table.head(key)
            if entry is None:
                continue
            obj = {} if plain else msgspec.json.decode(entry.body)
            for name, amount in measure(resource, obj, about, spec).items():
                totals[name] = totals.get(name, Fraction(0)) + amount
    return totals


def _keys(table: Table, prefix: str) -> list[str]:
    """Return the keys of a namespace, those of objects that are being written included."""
    keys, start, end = table.span(prefix)
    new = [key for key in table.pending if key.startswith(prefix) and key not in table.live]
    return [*keys[start:end], *new]


def _resources(names: Iterable[str]) -> set[str]:
    """Return the resources whose objects a quota's names count."""
    found: set[str] = set()
    for name in names:
        if name.startswith("count/"):
            plural, _, group = name[len("count/") :].partition(".")
            found.add(f"{group}/{plural}")
        elif name.startswith("services"):
            found.add(SERVICES)
        elif name == "requests.storage":
            found.add(CLAIMS)
        elif name == "pods" or _compute(name)[1]:
            found.add(PODS)
        elif name in _PLAIN:
            found.add(f"/{name}")
    return found
