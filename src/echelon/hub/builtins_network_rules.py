"""Validation of what concerns the network: policies, Ingresses and their classes, endpoints.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import PORT_RANGE, Found, Rule, port, port_name_problems
from echelon.hub.builtins_selector_rules import label_selector

Json = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


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


def _ingress_class(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    controller = spec.get("controller") or ""
    if old is not None and controller != ((old.get("spec") or {}).get("controller") or ""):
        found.invalid("spec.controller", controller, "field is immutable")
    if not controller:
        found.required("spec.controller")
    elif len(controller) > MAX_CONTROLLER:
        found.add(
            "FieldValueTooLong", "spec.controller", f"Too long: may not be more than {MAX_CONTROLLER} bytes"
        )
    elif not _PATH.fullmatch(controller):
        found.invalid("spec.controller", controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
    parameters = spec.get("parameters")
    if parameters is None:
        return
    path = "spec.parameters"
    for text in (
        metadata.subdomain_problems(parameters["apiGroup"]) if parameters.get("apiGroup") is not None else ()
    ):
        found.invalid(f"{path}.apiGroup", parameters["apiGroup"], text)
    for field in ("kind", "name"):
        value = parameters.get(field) or ""
        if not value:
            found.required(f"{path}.{field}")
        for bad in ("/", "%"):
            if bad in value:
                found.invalid(f"{path}.{field}", value, f"may not contain '{bad}'")
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        found.required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        found.unsupported(f"{path}.scope", scope, ["Cluster", "Namespace"])
    if scope == "Namespace" and not namespace:
        found.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and namespace is not None:
        found.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


MAX_CONTROLLER = 250
_PATH = re.compile(metadata.SUBDOMAIN_FMT + r"/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def _endpoints(found: Found, obj: Json, _old: Json | None) -> None:
    for index, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            found.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for at, each in enumerate(subset.get(field) or ()):
                address(found, each.get("ip", ""), f"{path}.{field}[{at}].ip")
        ports = subset.get("ports") or []
        for at, one in enumerate(ports):
            where, name = f"{path}.ports[{at}]", one.get("name") or ""
            if not name and len(ports) > 1:
                found.required(f"{where}.name")
            for text in metadata.label_name_problems(name) if name else ():
                found.invalid(f"{where}.name", name, text)
            port(found, one.get("port", 0), f"{where}.port")
            if (one.get("protocol") or "TCP") not in _PROTOCOLS:
                found.unsupported(f"{where}.protocol", one["protocol"], list(_PROTOCOLS))


_PROTOCOLS = ("SCTP", "TCP", "UDP")


def address(found: Found, text: str, where: str) -> None:
    """Check an address of the network."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        found.invalid(where, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _endpoint_slice(found: Found, obj: Json, old: Json | None) -> None:
    kind = obj.get("addressType", "")
    if not kind:
        found.required("addressType")
    elif kind not in ("IPv4", "IPv6", "FQDN"):
        found.unsupported("addressType", kind, ["FQDN", "IPv4", "IPv6"])
    if old is not None and kind != old.get("addressType"):
        found.invalid("addressType", kind, "field is immutable")
    for index, one in enumerate(obj.get("endpoints") or ()):
        path = f"endpoints[{index}].addresses"
        if not one.get("addresses"):
            found.required(path, "must contain at least 1 address")
        for at, each in enumerate(one.get("addresses") or ()):
            if kind == "FQDN":
                for text in metadata.subdomain_problems(each):
                    found.invalid(f"{path}[{at}]", each, text)
            else:
                _address_of(found, kind, each, f"{path}[{at}]")
    taken: set[str] = set()
    for index, one in enumerate(obj.get("ports") or ()):
        path, name = f"ports[{index}]", one.get("name") or ""
        if name in taken:
            found.duplicate(f"{path}.name", name)
        taken.add(name)
        for text in metadata.label_name_problems(name) if name else ():
            found.invalid(f"{path}.name", name, text)
        if one.get("protocol") is None:
            found.required(f"{path}.protocol")
        elif one["protocol"] not in _PROTOCOLS:
            found.unsupported(f"{path}.protocol", one["protocol"], list(_PROTOCOLS))


def _address_of(found: Found, kind: str, text: str, where: str) -> None:
    try:
        version = f"IPv{ipaddress.ip_address(text).version}"
    except ValueError:
        found.invalid(where, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if kind in ("IPv4", "IPv6") and version != kind:
        found.invalid(where, text, f"must be an {kind} address")


RULES: dict[str, Rule] = {
    "/endpoints": _endpoints,
    "discovery.k8s.io/endpointslices": _endpoint_slice,
    "networking.k8s.io/ingressclasses": _ingress_class,
    "networking.k8s.io/ingresses": _ingress,
    "networking.k8s.io/networkpolicies": _network_policy,
}
