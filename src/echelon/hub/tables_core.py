"""Rows of the core kinds, of networking and of storage.

One function per kind, from an object and the time to its cells, in the order of the
columns in the data file.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from echelon.hub.tables_pods import pod
from echelon.hub.tables_text import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    at,
    containers,
    joined,
    labels_text,
    named,
    selector_text,
    since,
)

Json = dict[str, Any]
Now = dt.datetime


def name(obj: Json) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def config_map(obj: Json, now: Now) -> list[Any]:
    """Print a config map."""
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def secret(obj: Json, now: Now) -> list[Any]:
    """Print a secret."""
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def component_status(obj: Json, _now: Now) -> list[Any]:
    """Print a component status."""
    healthy: Json = next((c for c in obj.get("conditions") or () if c.get("type") == "Healthy"), {})
    word = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [name(obj), word, healthy.get("message", ""), healthy.get("error", "")]


def _endpoints_text(subsets: list[Json]) -> str:
    found: list[str] = []
    for subset in subsets:
        ports = subset.get("ports") or ()
        for address in subset.get("addresses") or ():
            if not ports:
                found.append(address["ip"])
            for port in ports:
                host = f"[{address['ip']}]" if ":" in address["ip"] else address["ip"]
                found.append(f"{host}:{port['port']}")
    return joined(found, 3) or NONE


def endpoints(obj: Json, now: Now) -> list[Any]:
    """Print Endpoints."""
    return [name(obj), _endpoints_text(obj.get("subsets") or []), age(obj, now)]


def event(obj: Json, now: Now) -> list[Any]:
    """Print an event of either group."""
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    series = obj.get("series")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 1)
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController")
    instance = source.get("host") or obj.get("reportingInstance")
    target = involved.get("kind", "").lower() + (f"/{involved['name']}" if involved.get("name") else "")
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{component or ''}, {instance}" if instance else component or "",
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        name(obj),
    ]


def namespace(obj: Json, now: Now) -> list[Any]:
    """Print a namespace."""
    return [name(obj), at(obj, "status", "phase") or "", age(obj, now)]


_ROLE = "node-role.kubernetes.io/"


def _roles(labels: dict[str, str]) -> str:
    found = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    found |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    return ",".join(sorted(found)) or NONE


def node(obj: Json, now: Now) -> list[Any]:
    """Print a node."""
    ready = named("Ready", obj)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if at(obj, "spec", "unschedulable"):
        word += ",SchedulingDisabled"
    info = at(obj, "status", "nodeInfo") or {}
    addresses = {a["type"]: a["address"] for a in reversed(at(obj, "status", "addresses") or [])}
    return [
        name(obj),
        word,
        _roles(obj["metadata"].get("labels") or {}),
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for long, short in _MODES.items() if long in (modes or ()))


def claim(obj: Json, now: Now) -> list[Any]:
    """Print a PersistentVolumeClaim."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = spec.get("volumeName", "")
    return [
        name(obj),
        phase,
        bound,
        str(at(status, "capacity", "storage") or "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class_of(obj, spec),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _class_of(obj: Json, spec: Json) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName") or ""


def volume(obj: Json, now: Now) -> list[Any]:
    """Print a PersistentVolume."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ref = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        name(obj),
        str(at(spec, "capacity", "storage") or ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else "",
        _class_of(obj, spec),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def pod_template(obj: Json, _now: Now) -> list[Any]:
    """Print a pod template."""
    template = obj.get("template") or {}
    return [name(obj), *containers(template), labels_text(at(template, "metadata", "labels"))]


def replication_controller(obj: Json, now: Now) -> list[Any]:
    """Print a replication controller."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *containers(spec.get("template")),
        labels_text(spec.get("selector")),
    ]


def resource_quota(obj: Json, now: Now) -> list[Any]:
    """Print a resource quota."""
    hard, used = at(obj, "status", "hard") or {}, at(obj, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        text = f"{resource}: {used.get(resource, '0')}/{hard[resource]}"
        (limits if resource.startswith("limits.") else requests).append(text)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def service_account(obj: Json, now: Now) -> list[Any]:
    """Print a service account."""
    return [name(obj), age(obj, now)]


def service(obj: Json, now: Now) -> list[Any]:
    """Print a service."""
    spec = obj.get("spec") or {}
    ips = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    return [
        name(obj),
        spec.get("type", ""),
        ips[0] if ips else NONE,
        _external(obj, spec),
        joined(map(_port, spec.get("ports") or ())) or NONE,
        age(obj, now),
        labels_text(spec.get("selector")),
    ]


def _port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _external(obj: Json, spec: Json) -> str:
    kind, ips = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName") or NONE
    if kind == "LoadBalancer":
        given = balancer(obj)
        if given and ips:
            return ",".join([given, *ips])
        return given or ",".join(ips) or "<pending>"
    return ",".join(ips) or NONE


def balancer(obj: Json) -> str:
    """Print the addresses of a load balancer."""
    entries = at(obj, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted(each.get("ip") or each.get("hostname") or "" for each in entries))


def ingress(obj: Json, now: Now) -> list[Any]:
    """Print an ingress."""
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    return [
        name(obj),
        spec.get("ingressClassName") or NONE,
        joined(hosts, 3) or "*",
        balancer(obj),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def ingress_class(obj: Json, now: Now) -> list[Any]:
    """Print an ingress class."""
    spec = obj.get("spec") or {}
    ref = spec.get("parameters")
    shown = NONE
    if ref:
        group = f".{ref['apiGroup']}" if ref.get("apiGroup") else ""
        shown = f"{ref.get('kind', '')}{group}/{ref.get('name', '')}"
    return [name(obj), spec.get("controller", ""), shown, age(obj, now)]


def ip_address(obj: Json, now: Now) -> list[Any]:
    """Print an IPAddress; the server adds an age that no column announces."""
    ref = at(obj, "spec", "parentRef") or {}
    group = f".{ref['group']}" if ref.get("group") else ""
    parts = [f"{ref.get('resource', '')}{group}", ref.get("namespace", ""), ref.get("name", "")]
    return [name(obj), "/".join(part for part in parts if part), age(obj, now)]


def network_policy(obj: Json, now: Now) -> list[Any]:
    """Print a network policy."""
    return [name(obj), selector_text(at(obj, "spec", "podSelector")), age(obj, now)]


def service_cidr(obj: Json, now: Now) -> list[Any]:
    """Print a service cidr."""
    return [name(obj), ",".join(at(obj, "spec", "cidrs") or ()), age(obj, now)]


def endpoint_slice(obj: Json, now: Now) -> list[Any]:
    """Print an endpoint slice."""
    ports = [str(port["port"]) if port.get("port") else "*" for port in obj.get("ports") or ()]
    addresses = [each for endpoint in obj.get("endpoints") or () for each in endpoint.get("addresses") or ()]
    return [
        name(obj),
        obj.get("addressType", ""),
        joined(ports, 3) or UNSET,
        joined(addresses, 3) or UNSET,
        age(obj, now),
    ]


ROWS = {
    "/componentstatuses": component_status,
    "/configmaps": config_map,
    "/endpoints": endpoints,
    "/events": event,
    "/namespaces": namespace,
    "/nodes": node,
    "/persistentvolumeclaims": claim,
    "/persistentvolumes": volume,
    "/pods": pod,
    "/podtemplates": pod_template,
    "/replicationcontrollers": replication_controller,
    "/resourcequotas": resource_quota,
    "/secrets": secret,
    "/serviceaccounts": service_account,
    "/services": service,
    "discovery.k8s.io/endpointslices": endpoint_slice,
    "networking.k8s.io/ingressclasses": ingress_class,
    "networking.k8s.io/ingresses": ingress,
    "networking.k8s.io/ipaddresses": ip_address,
    "networking.k8s.io/networkpolicies": network_policy,
    "networking.k8s.io/servicecidrs": service_cidr,
}
