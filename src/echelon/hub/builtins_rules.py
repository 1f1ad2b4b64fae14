"""Validation of built-in kinds: what kubectl users see refused, in the server's words.

What it decides: required fields, allowed values, names, ranges, and what may not
change; one function per kind over shared parts in `builtins_pod_rules`.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import Found, pod_spec, template
from echelon.hub.crd_rules import definition
from echelon.hub.kinds import Kind
from echelon.hub.schema_node import Schema
from echelon.hub.schema_ok import is_ok

Json = dict[str, Any]
Rule = Callable[[Found, Json, Json | None], None]

_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_KEY_ADVICE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MAX_CONFIG = 1024 * 1024
"""Bytes of a ConfigMap's or Secret's data together."""


def problems(kind: Kind, schema: Schema, obj: Json, old: Json | None) -> list[dict[str, str]]:
    """Return why an object of a built-in kind may not be stored."""
    found = Found()
    rule = RULES.get(kind.resource)
    if rule is not None:
        rule(found, obj, old)
    if not is_ok(schema, obj):
        for name, child in schema.properties.items():
            if name not in ("metadata", "status") and name in obj:
                _enums(found, child, obj[name], name)
    return found.causes


def _enums(found: Found, schema: Schema, value: Any, path: str) -> None:
    """Report values outside an enumeration, wherever they are; what a rule already said is not said twice."""
    if value.__class__ is str:
        if schema.enum is not None and value and value not in schema.enum and not found.has(path):
            found.unsupported(path, value, list(schema.enum))
    elif value.__class__ is list and schema.items is not None:
        for index, item in enumerate(value):
            _enums(found, schema.items, item, f"{path}[{index}]")
    elif value.__class__ is dict:
        for name, item in value.items():
            child = schema.properties.get(name)
            if child is not None:
                _enums(found, child, item, f"{path}.{name}")


def _replicas(found: Found, spec: Json, field: str = "replicas") -> None:
    count = spec.get(field)
    if count is not None and count < 0:
        found.invalid(f"spec.{field}", count, "must be greater than or equal to 0")


def _workload(found: Found, obj: Json, old: Json | None, restart: tuple[str, ...] = ("Always",)) -> None:
    spec = obj.get("spec") or {}
    _replicas(found, spec)
    _replicas(found, spec, "minReadySeconds")
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    _template(found, spec, selector, restart)
    if old is not None:
        _unchanged(found, obj, old, "spec.selector")


def _template(found: Found, spec: Json, selector: Json | None, restart: tuple[str, ...]) -> None:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not _matches(selector, labels or {}):
        found.invalid(
            "spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"
        )
    template(found, spec.get("template") or {}, "spec.template", restart)


def _matches(selector: Json | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    from echelon.hub.selectors import match_label_selector  # noqa: PLC0415 - only here

    return bool(match_label_selector(selector)(labels))


def _unchanged(found: Found, obj: Json, old: Json, path: str) -> None:
    new, was = obj, old
    for name in path.split("."):
        new, was = (new or {}).get(name), (was or {}).get(name)  # type: ignore[assignment]
    if new != was:
        found.invalid(path, new, "field is immutable")


_STATEFUL_MAY = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _stateful_set(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    _replicas(found, spec)
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
    _template(found, spec, selector, ("Always",))
    if old is None:
        return
    was = old.get("spec") or {}
    if any(spec.get(name) != was.get(name) for name in spec.keys() | was.keys() if name not in _STATEFUL_MAY):
        named = ", ".join(f"'{name}'" for name in _STATEFUL_MAY[:-1])
        found.forbidden(
            "spec",
            f"updates to statefulset spec for fields other than {named} and '{_STATEFUL_MAY[-1]}' are forbidden",
        )


def _controller(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    _replicas(found, spec)
    selector = spec.get("selector")
    if not selector:
        found.required("spec.selector")
    template(found, spec.get("template") or {}, "spec.template", ("Always",))


def _job(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        _replicas(found, spec, field)
    template(found, spec.get("template") or {}, "spec.template", ("OnFailure", "Never"), job=True)
    if old is not None:
        if spec.get("completionMode") != "Indexed":
            _unchanged(found, obj, old, "spec.completions")
        _unchanged(found, obj, old, "spec.selector")
        if not (old.get("spec") or {}).get("suspend"):
            _unchanged(found, obj, old, "spec.template")
        _unchanged(found, obj, old, "spec.completionMode")


_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def _cron_job(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        found.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != len(_CRON_RANGES):
        count = len(schedule.split())
        found.invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {count}: [{schedule}]")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    template(
        found, job.get("template") or {}, "spec.jobTemplate.spec.template", ("OnFailure", "Never"), job=True
    )


def _pod(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if old is None:
        pod_spec(found, spec, "spec")
        return
    was = dict(old.get("spec") or {})
    now = dict(spec)
    for name in (
        "activeDeadlineSeconds",
        "terminationGracePeriodSeconds",
        "tolerations",
        "nodeName",
        "schedulingGates",
    ):
        was.pop(name, None)
        now.pop(name, None)
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for each in (was, now):
            if each.get(field):
                each[field] = [
                    {key: value for key, value in item.items() if key not in ("image", "resources")}
                    for item in each[field]
                ]
    if now != was:
        found.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


def _config_keys(found: Found, values: Json, field: str) -> None:
    for key in sorted(values):
        if key in (".", "..") or key.startswith("..") or not _KEY.match(key):
            advice = _KEY_ADVICE
            if key in (".", ".."):
                advice = f"must not be '{key}'"
            elif _KEY.match(key):
                advice = "must not start with '..'"
            found.invalid(f"{field}[{key}]", key, advice)
        elif len(key) > 253:
            found.invalid(f"{field}[{key}]", key, "must be no more than 253 characters")


def _sealed(found: Found, obj: Json, old: Json | None) -> None:
    """Refuse to change what declared itself immutable."""
    if old is None or not old.get("immutable"):
        return
    fields = [] if obj.get("immutable") else ["immutable"]
    for field in fields + [name for name in ("data", "binaryData") if obj.get(name) != old.get(name)]:
        found.forbidden(field, "field is immutable when `immutable` is set")


def _config_map(found: Found, obj: Json, old: Json | None) -> None:
    _sealed(found, obj, old)
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    _config_keys(found, data, "data")
    _config_keys(found, binary, "binaryData")
    for key in sorted(data.keys() & binary.keys()):
        found.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    _sized(found, [*data.values(), *binary.values()], "[]")


def _sized(found: Found, values: list[str], field: str) -> None:
    if sum(len(value) for value in values) > MAX_CONFIG:
        found.add("FieldValueTooLong", field, f"Too long: may not be more than {MAX_CONFIG} bytes")


_SECRET_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _secret(found: Found, obj: Json, old: Json | None) -> None:
    _sealed(found, obj, old)
    if old is not None and obj.get("type") != old.get("type"):
        found.invalid("type", obj.get("type"), "field is immutable")
    data = obj.get("data") or {}
    _config_keys(found, data, "data")
    _sized(found, list(data.values()), "data")
    kind = obj.get("type", "")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.required(f"data[{key}]")
    annotations = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(
        "kubernetes.io/service-account.name"
    ):
        found.required("metadata.annotations[kubernetes.io/service-account.name]")


def _port(found: Found, value: Any, path: str) -> None:
    if value.__class__ is int and not 1 <= value <= 65535:
        found.invalid(path, value, "must be between 1 and 65535, inclusive")


def _service(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        found.required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        found.required("spec.externalName")
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            found.required(f"{path}.name")
        elif name and metadata.LABEL_FMT and not re.fullmatch(metadata.LABEL_FMT, name):
            found.invalid(f"{path}.name", name, metadata.LABEL_MESSAGE)
        elif name in names:
            found.duplicate(f"{path}.name", name)
        names.add(name)
        _port(found, port.get("port", 0), f"{path}.port")
        _port(found, port.get("targetPort"), f"{path}.targetPort")
        node_port = port.get("nodePort")
        if node_port and not 30000 <= node_port <= 32767:
            found.invalid(
                f"{path}.nodePort",
                node_port,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            )
    if spec.get("selector"):
        found.causes += metadata.label_problems(spec["selector"], "spec.selector")
    if old is not None and kind != "ExternalName" and (old.get("spec") or {}).get("type") != "ExternalName":
        before, after = (old.get("spec") or {}).get("clusterIPs"), spec.get("clusterIPs")
        if before and spec.get("clusterIP") != before[0]:
            found.invalid("spec.clusterIPs[0]", after, "may not change once set")


def _role(found: Found, obj: Json, _old: Json | None) -> None:
    _policy_rules(found, obj, namespaced=True)


def _cluster_role(found: Found, obj: Json, _old: Json | None) -> None:
    _policy_rules(found, obj, namespaced=False)


def _policy_rules(found: Found, obj: Json, *, namespaced: bool) -> None:
    for index, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            found.required(f"{path}.verbs")
        urls = rule.get("nonResourceURLs")
        if urls:
            if namespaced:
                found.invalid(
                    f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                found.invalid(
                    f"{path}.nonResourceURLs",
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            continue
        if not rule.get("apiGroups"):
            found.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            found.required(f"{path}.resources", "resource rules must supply at least one resource")


_SUBJECTS = ("ServiceAccount", "User", "Group")
_RBAC = "rbac.authorization.k8s.io"


def _binding(kinds: tuple[str, ...]) -> Rule:
    def check(found: Found, obj: Json, old: Json | None) -> None:
        ref = obj.get("roleRef") or {}
        if ref.get("apiGroup", _RBAC) != _RBAC:
            found.unsupported("roleRef.apiGroup", ref["apiGroup"], [_RBAC])
        if ref.get("kind", "") not in kinds:
            found.unsupported("roleRef.kind", ref.get("kind", ""), list(kinds))
        if not ref.get("name"):
            found.required("roleRef.name")
        for index, subject in enumerate(obj.get("subjects") or ()):
            path = f"subjects[{index}]"
            if not subject.get("name"):
                found.required(f"{path}.name")
            kind = subject.get("kind", "")
            if kind not in _SUBJECTS:
                found.unsupported(f"{path}.kind", kind, list(_SUBJECTS))
            elif kind == "ServiceAccount" and not subject.get("namespace") and len(kinds) == 1:
                found.required(f"{path}.namespace")
        if old is not None and ref != old.get("roleRef"):
            go = {name[0].upper() + name[1:]: ref.get(name, "") for name in ("apiGroup", "kind", "name")}
            go["APIGroup"] = go.pop("ApiGroup")
            shown = {name: go[name] for name in ("APIGroup", "Kind", "Name")}
            found.invalid("roleRef", shown, "field is immutable")

    return check


def _disruption_budget(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if value.__class__ is int and value < 0:
            found.invalid(f"spec.{field}", value, "must be greater than or equal to 0")
        elif value.__class__ is str and not re.fullmatch(r"[0-9]+%", value):
            found.invalid(
                f"spec.{field}",
                value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
                "regex used for validation is '[0-9]+%')",
            )


def _autoscaler(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        found.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        found.invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        found.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            found.required(f"spec.scaleTargetRef.{field}")


def _ingress(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        found.invalid("spec", [], "either `defaultBackend` or `rules` must be specified")
    for index, rule in enumerate(spec.get("rules") or ()):
        for at, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            where = f"spec.rules[{index}].http.paths[{at}]"
            if not path.get("pathType"):
                found.required(f"{where}.pathType", "pathType must be specified")
            elif path["pathType"] != "ImplementationSpecific" and not str(path.get("path", "")).startswith(
                "/"
            ):
                found.invalid(f"{where}.path", path.get("path", ""), "must be an absolute path")


def _claim(found: Found, obj: Json, old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        found.required("spec.accessModes", "at least 1 access mode is required")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        found.required("spec.resources[storage]")
    if old is not None and (old.get("status") or {}).get("phase") == "Bound":
        was = {**(old.get("spec") or {}), "resources": None, "volumeAttributesClassName": None}
        if {**spec, "resources": None, "volumeAttributesClassName": None} != was:
            found.forbidden(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            )


def _storage_class(found: Found, obj: Json, old: Json | None) -> None:
    if not obj.get("provisioner"):
        found.required("provisioner")
    for field in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        if old is not None and obj.get(field) != old.get(field):
            found.forbidden(field, f"updates to {field} are forbidden.")


def _priority_class(found: Found, obj: Json, old: Json | None) -> None:
    if old is not None and obj.get("value") != old.get("value"):
        found.forbidden("value", "may not be changed in an update.")


def _deployment(found: Found, obj: Json, old: Json | None) -> None:
    _workload(found, obj, old)
    strategy = (obj.get("spec") or {}).get("strategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        found.forbidden(
            "spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
        )
    elif rolling and all(str(rolling.get(name)) in ("0", "0%") for name in ("maxUnavailable", "maxSurge")):
        found.invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        )


def _policy_binding(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("policyName"):
        found.required("spec.policyName")
    actions = spec.get("validationActions") or []
    if not actions:
        found.required("spec.validationActions", "at least one validation action is required")
    if {"Deny", "Warn"} <= set(actions):
        found.invalid(
            "spec.validationActions",
            actions,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)",
        )


RULES: dict[str, Rule] = {
    "/configmaps": _config_map,
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": _policy_binding,
    "apiextensions.k8s.io/customresourcedefinitions": definition,
    "/persistentvolumeclaims": _claim,
    "/pods": _pod,
    "/replicationcontrollers": _controller,
    "/secrets": _secret,
    "/services": _service,
    "apps/daemonsets": _workload,
    "apps/deployments": _deployment,
    "apps/replicasets": _workload,
    "apps/statefulsets": _stateful_set,
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "batch/cronjobs": _cron_job,
    "batch/jobs": _job,
    "networking.k8s.io/ingresses": _ingress,
    "policy/poddisruptionbudgets": _disruption_budget,
    "rbac.authorization.k8s.io/clusterrolebindings": _binding(("ClusterRole",)),
    "rbac.authorization.k8s.io/clusterroles": _cluster_role,
    "rbac.authorization.k8s.io/rolebindings": _binding(("Role", "ClusterRole")),
    "rbac.authorization.k8s.io/roles": _role,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "storage.k8s.io/storageclasses": _storage_class,
}
