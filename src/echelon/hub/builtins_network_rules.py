"""Validation of NetworkPolicies and Ingresses.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.builtins_selector_rules import label_selector

Json = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
PORT_RANGE = "must be between 1 and 65535, inclusive"
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL = re.compile(metadata.LABEL_FMT + r"\Z")
_WORD = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")


def port_name_problems(name: str) -> list[str]:
    """Return what is wrong with the name of a port."""
    found = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]*", name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def port(found: Found, value: Any, path: str) -> None:
    """Check a port that is a number or a name."""
    if value.__class__ is int:
        if not 1 <= value <= 65535:
            found.invalid(path, value, PORT_RANGE)
    elif value.__class__ is str:
        for text in port_name_problems(value):
            found.invalid(path, value, text)


def _network_policy(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    label_selector(found, spec.get("podSelector"), "spec.podSelector")
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}]"
            for at, one in enumerate(rule.get("ports") or ()):
                _policy_port(found, one, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                _peer(found, peer, f"{path}.{peers}[{at}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        found.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, name in enumerate(types):
        if name not in ("Ingress", "Egress"):
            found.unsupported(f"spec.policyTypes[{index}]", name, ["Egress", "Ingress"])


def _policy_port(found: Found, one: Json, path: str) -> None:
    protocol, number, end = one.get("protocol"), one.get("port"), one.get("endPort")
    if protocol is not None and protocol not in ("TCP", "UDP", "SCTP"):
        found.unsupported(f"{path}.protocol", protocol, ["SCTP", "TCP", "UDP"])
    if number is not None:
        port(found, number, f"{path}.port")
    if end is None:
        return
    if number is None:
        found.required(f"{path}.port", "must be specified when `endPort` is specified")
    elif number.__class__ is str:
        found.invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
    elif end < number:
        found.invalid(f"{path}.endPort", end, "must be greater than or equal to `port`")
    if not 1 <= end <= 65535:
        found.invalid(f"{path}.endPort", end, PORT_RANGE)


def _peer(found: Found, peer: Json, path: str) -> None:
    block = peer.get("ipBlock")
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        label_selector(found, peer[name], f"{path}.{name}")
    if block is not None:
        _block(found, block, f"{path}.ipBlock")
    if block is None and not selectors:
        found.required(path, "must specify a peer")
    elif block is not None and selectors:
        found.forbidden(path, "may not specify both ipBlock and another peer")


def _block(found: Found, block: Json, path: str) -> None:
    text = block.get("cidr") or ""
    if not text:
        found.required(f"{path}.cidr")
        return
    whole = _network(text)
    if whole is None:
        found.invalid(f"{path}.cidr", text, CIDR)
        return
    for index, each in enumerate(block.get("except") or ()):
        part = _network(each)
        if part is None:
            found.invalid(f"{path}.except[{index}]", each, CIDR)
        elif part.version != whole.version or not part.subnet_of(whole) or part == whole:  # type: ignore[arg-type]
            found.invalid(f"{path}.except[{index}]", each, "must be a strict subset of `cidr`")


def _network(text: str) -> Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _ingress(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    for index, one in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(one.get("hosts") or ()):
            _host(found, host, f"spec.tls[{index}].hosts[{at}]")
    default = spec.get("defaultBackend")
    if default is not None:
        _backend(found, default, "spec.defaultBackend")
    if not spec.get("rules") and default is None:
        found.invalid("spec", [], "either `defaultBackend` or `rules` must be specified")
    for index, rule in enumerate(spec.get("rules") or ()):
        _rule(found, rule, f"spec.rules[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        for text in metadata.subdomain_problems(name):
            found.invalid("spec.ingressClassName", name, text)
    annotation = "kubernetes.io/ingress.class"
    if old is None and name is not None and annotation in (obj["metadata"].get("annotations") or {}):
        found.invalid(
            f"annotations.{annotation}",
            obj["metadata"]["annotations"][annotation],
            "can not be set when the class field is also set",
        )


def _rule(found: Found, rule: Json, path: str) -> None:
    host = rule.get("host") or ""
    if host:
        try:
            ipaddress.ip_address(host)
            found.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        except ValueError:
            _host(found, host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        found.required(f"{path}.http.paths")
    for index, one in enumerate(http.get("paths") or ()):
        where = f"{path}.http.paths[{index}]"
        _path(found, one, where)
        _backend(found, one.get("backend") or {}, f"{where}.backend")


def _host(found: Found, host: str, path: str) -> None:
    problems = metadata.wildcard_problems(host) if "*" in host else metadata.subdomain_problems(host)
    for text in problems:
        found.invalid(path, host, text)


_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")


def _path(found: Found, one: Json, path: str) -> None:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        found.required(f"{path}.pathType", "pathType must be specified")
    elif kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            found.invalid(f"{path}.path", text, "must be an absolute path")
        for bad in _BAD_SEQUENCES:
            if bad in text:
                found.invalid(f"{path}.path", text, f"must not contain '{bad}'")
        for bad in _BAD_ENDS:
            if text.endswith(bad):
                found.invalid(f"{path}.path", text, f"cannot end with '{bad}'")
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            found.invalid(f"{path}.path", text, "must be an absolute path")
    else:
        found.unsupported(f"{path}.pathType", kind, ["Exact", "ImplementationSpecific", "Prefix"])


def _backend(found: Found, backend: Json, path: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if resource is not None and service is not None:
        found.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for field in ("kind", "name"):
            if not resource.get(field):
                found.required(f"{path}.resource.{field}")
    elif service is None:
        found.invalid(path, "", "resource or service backend is required")
    else:
        _service_backend(found, service, f"{path}.service")


def _service_backend(found: Found, service: Json, path: str) -> None:
    name, target = service.get("name") or "", service.get("port") or {}
    if not name:
        found.required(f"{path}.name")
    else:
        for text in metadata.label_name_problems(name):
            found.invalid(f"{path}.name", name, text)
    named, number = target.get("name") or "", target.get("number") or 0
    if named and number:
        found.invalid(path, "", "cannot set both port name & port number")
    elif named:
        for text in port_name_problems(named):
            found.invalid(f"{path}.port.name", named, text)
    elif number:
        if not 1 <= number <= 65535:
            found.invalid(f"{path}.port.number", number, PORT_RANGE)
    else:
        found.required(path, "port name or number is required")


RULES: dict[str, Rule] = {
    "networking.k8s.io/ingresses": _ingress,
    "networking.k8s.io/networkpolicies": _network_policy,
}
