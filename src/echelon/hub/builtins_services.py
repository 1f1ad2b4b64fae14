"""What a Service gets from the server: target ports, addresses, node ports and families.

What it must never do: hand out an address or port that another Service of the same
cluster has.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Any

import msgspec

from echelon.hub.call import Call

Json = dict[str, Any]

ADDRESSES = ipaddress.ip_network("10.96.0.0/16")
"""Addresses of Services; the first is the API's own."""
NODE_PORTS = range(30000, 32768)
MAX_TRIES = 1000


def decoded(obj: Json) -> None:
    """Complete a Service as it is read."""
    spec = obj.get("spec")
    if spec.__class__ is not dict:
        return
    for port in spec.get("ports") or ():
        if port.__class__ is dict and port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]


def born(call: Call, obj: Json) -> None:
    """Allocate what a new Service needs, but for one that a write to its status made."""
    spec = obj.get("spec")
    if spec.__class__ is dict and not call.subresource:
        allocate(call, spec, obj["metadata"]["uid"])


def changed(call: Call, new: Json, old: Json) -> None:
    """Keep what was allocated, and allocate what a change of type needs."""
    spec, was = new.get("spec"), old.get("spec")
    if spec.__class__ is not dict or was.__class__ is not dict:
        return
    spec = new["spec"] = dict(spec)
    if spec.get("type") != "ExternalName" and was.get("type") != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
            if not spec.get(field) and was.get(field) and _still(spec, field):
                spec[field] = was[field]
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            _keep_ports(spec, was)
    if spec.get("type") == "ExternalName" and was.get("type") != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(field, None)
    if spec.get("type") == "ClusterIP" and was.get("type") in ("NodePort", "LoadBalancer"):
        before = {_port_key(port): port.get("nodePort") for port in was.get("ports") or ()}
        for port in spec.get("ports") or ():
            if port.get("nodePort") == before.get(_port_key(port)):
                port.pop("nodePort", None)
    if was.get("clusterIP") or was.get("type") == "ExternalName":
        allocate(call, spec, new["metadata"]["uid"])
    else:  # one that a write to its status made has no address, and gets none
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def _still(spec: Json, field: str) -> bool:
    if field == "healthCheckNodePort":
        return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    return True


def _port_key(port: Json) -> tuple[Any, ...]:
    return port.get("protocol", "TCP"), port.get("port")


def _keep_ports(spec: Json, was: Json) -> None:
    before = {_port_key(port): port.get("nodePort") for port in was.get("ports") or ()}
    for port in spec.get("ports") or ():
        if not port.get("nodePort") and before.get(_port_key(port)):
            port["nodePort"] = before[_port_key(port)]


def allocate(call: Call, spec: Json, uid: str) -> None:
    """Fill in addresses, families and node ports."""
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return
    others = _Taken(call)
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIP"] = others.address(uid)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    headless = spec["clusterIP"] == "None"
    both = headless and not spec.get("selector")
    spec.setdefault(
        "ipFamilies", ["IPv4", "IPv6"] if both else ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    )
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
    wants = kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True))
    if wants:
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                port["nodePort"] = others.node_port(f"{uid}/{index}")
    local = kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if local and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = others.node_port(f"{uid}/health")


class _Taken:
    """What the other Services of a cluster have."""

    def __init__(self, call: Call) -> None:
        self.addresses = {str(ADDRESSES[0]), str(ADDRESSES[1]), str(ADDRESSES[-1])}
        self.ports: set[int] = set()
        for entry in call.table.live.values():
            spec = msgspec.json.decode(entry.body).get("spec") or {}
            self.addresses.update(spec.get("clusterIPs") or ())
            self.ports.update(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
            if spec.get("healthCheckNodePort"):
                self.ports.add(spec["healthCheckNodePort"])

    def address(self, seed: str) -> str:
        """Return a free address; which one depends on the object's uid, so a replay gives the same."""
        for turn in range(MAX_TRIES):
            found = str(ADDRESSES[_number(seed, turn) % ADDRESSES.num_addresses])
            if found not in self.addresses:
                self.addresses.add(found)
                return found
        return next(str(each) for each in ADDRESSES if str(each) not in self.addresses)

    def node_port(self, seed: str) -> int:
        """Return a free port of the nodes."""
        for turn in range(MAX_TRIES):
            found = NODE_PORTS[_number(seed, turn) % len(NODE_PORTS)]
            if found not in self.ports:
                self.ports.add(found)
                return found
        return next(each for each in NODE_PORTS if each not in self.ports)


def _number(seed: str, turn: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{turn}".encode()).digest()[:8], "big")
