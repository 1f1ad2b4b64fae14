"""LimitRanges: what containers, pods and claims of a namespace get and may ask for.

What it decides: the requests and limits of containers that name none, and whether
an amount is outside the range, in kube-apiserver's words.

What it must never do: look at pods that exist already; a range concerns new ones.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

from echelon.hub.admission import Rounds
from echelon.hub.builtins_pods import quality
from echelon.hub.call import Call
from echelon.hub.quantities import canonical
from echelon.hub.status import forbidden
from echelon.rules.quantity import quantity_of

Json = dict[str, Any]

RANGES = "/limitranges"
PODS, CLAIMS = "/pods", "/persistentvolumeclaims"
ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanges:
    """The admission plugin."""

    def interested(self, call: Call) -> bool:
        """Say whether this creates a pod or claim in a namespace that has ranges."""
        if call.kind.resource not in (PODS, CLAIMS) or call.subresource or call.verb != "create":
            return False
        return bool(ranges_of(call))

    async def mutate(
        self,
        call: Call,
        new: Json,
        old: Json | None,
        rounds: Rounds,  # noqa: ARG002 - filling in is done once: what is there stays
    ) -> None:
        """Fill in the amounts that containers do not name."""
        spec = new.get("spec")
        if call.kind.resource != PODS or old is not None or not isinstance(spec, dict):
            return
        said: list[str] = []
        for item in _items(call, "Container"):
            said += _filled(spec, item)
        if said:
            annotations = new["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(said)
            new.setdefault("status", {})["qosClass"] = quality(spec)

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Refuse amounts outside the ranges."""
        if new is None or old is not None:
            return
        found: list[str] = []
        for item in _items(call):
            found += _outside(call.kind.resource, item, new.get("spec") or {})
        if found:
            why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise forbidden(call.kind.group, call.kind.plural, call.name, why)


def ranges_of(call: Call) -> list[str]:
    """Return the keys of the ranges in the namespace of a request."""
    table = call.hub.store.table(call.cluster.name, RANGES)
    if not table.live:
        return []
    keys, start, end = table.span(f"{call.namespace}/")
    return list(keys[start:end])


def _items(call: Call, kind: str = "") -> list[Json]:
    table = call.hub.store.table(call.cluster.name, RANGES)
    found = []
    for key in ranges_of(call):
        spec = msgspec.json.decode(table.live[key].body).get("spec") or {}
        found += [item for item in spec.get("limits") or () if kind in ("", item.get("type"))]
    return found


def _filled(spec: Json, item: Json) -> list[str]:
    """Fill in defaults; return what was set, as the annotation says it."""
    said: list[str] = []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            resources = container.setdefault("resources", {})
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            new_requests = {
                name: amount
                for name, amount in sorted((item.get("defaultRequest") or {}).items())
                if name not in requests and name not in limits
            }
            new_limits = {
                name: amount
                for name, amount in sorted((item.get("default") or {}).items())
                if name not in limits
            }
            new_requests |= {
                name: limits[name] for name in limits if name not in requests and name not in new_requests
            }
            named = {
                name: new_requests[name]
                for name in sorted(item.get("defaultRequest") or {})
                if name in new_requests
            }
            if new_requests:
                resources["requests"] = {**new_requests, **requests}
            if new_limits:
                resources["limits"] = {**new_limits, **limits}
            if named:
                said.append(f"{', '.join(named)} request for {what} {container.get('name', '')}")
            if new_limits:
                said.append(f"{', '.join(new_limits)} limit for {what} {container.get('name', '')}")
    return said


def _amounts(container: Json) -> tuple[Json, Json]:
    resources = container.get("resources") or {}
    return resources.get("requests") or {}, resources.get("limits") or {}


def _outside(resource: str, item: Json, spec: Json) -> list[str]:
    kind = item.get("type", "")
    if resource == CLAIMS:
        if kind != "PersistentVolumeClaim":
            return []
        requests = (spec.get("resources") or {}).get("requests") or {}
        return _checked(kind, item, requests, requests, most_of="request")
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if kind == "Container":
        return [text for each in containers for text in _checked(kind, item, *_amounts(each))]
    if kind == "Pod":
        amounts = [_amounts(each) for each in spec.get("containers") or ()]
        requests, limits = _sum([each[0] for each in amounts]), _sum([each[1] for each in amounts])
        return _checked(kind, item, requests, limits)
    return []


def _sum(each: list[Json]) -> Json:
    totals: dict[str, Fraction] = {}
    for amounts in each:
        for name, amount in amounts.items():
            totals[name] = totals.get(name, Fraction(0)) + quantity_of(amount)
    return {name: shown(total) for name, total in totals.items()}


def shown(amount: Fraction, like: str = "") -> str:
    """Print an amount that was computed, in powers of two where what it is like is."""
    if like.endswith("i") and amount.denominator == 1:
        return str(canonical(f"{Fraction(amount, 1024)}Ki" if amount % 1024 == 0 else f"{amount}"))
    milli = amount * 1000
    whole = int(milli) if milli.denominator == 1 else int(milli) + 1
    return str(canonical(f"{whole}m"))


def _checked(kind: str, item: Json, requests: Json, limits: Json, most_of: str = "limit") -> list[str]:
    found: list[str] = []
    for name, least in sorted((item.get("min") or {}).items()):
        words = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            found.append(f"{words}.  No request is specified")
        elif quantity_of(requests[name]) < quantity_of(least):
            found.append(f"{words}, but request is {requests[name]}")
        elif name in limits and quantity_of(limits[name]) < quantity_of(least):
            found.append(f"{words}, but limit is {limits[name]}")
    for name, most in sorted((item.get("max") or {}).items()):
        words = f"maximum {name} usage per {kind} is {most}"
        if name not in limits:
            found.append(f"{words}.  No {most_of} is specified")
        elif quantity_of(limits[name]) > quantity_of(most):
            found.append(f"{words}, but {most_of} is {limits[name]}")
    for name, most in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        words = f"{name} max limit to request ratio per {kind} is {most}"
        if name not in limits or name not in requests or not quantity_of(requests[name]):
            found.append(f"{words}, but no request is specified or request is 0")
            continue
        ratio = quantity_of(limits[name]) / quantity_of(requests[name])
        if ratio > quantity_of(most):
            found.append(f"{words}, but provided ratio is {float(ratio):.6f}")
    return found
