"""Validation of pods and pod templates, and the list of causes that all rules write to.

What it must never do: know which kind the template belongs to; the caller gives the
path and what is allowed there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from echelon.hub import metadata
from echelon.hub.gotext import bad_value
from echelon.rules.quantity import InvalidQuantity, quantity_of

Json = dict[str, Any]
Rule = Callable[["Found", Json, "Json | None"], None]
"""Checks an object of one kind, given what it replaces."""

PORT_RANGE = "must be between 1 and 65535, inclusive"
CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_LABEL = re.compile(metadata.LABEL_FMT + r"\Z")
_ENV = re.compile(r"[^=\x00-\x1f\x7f-\U0010ffff]+\Z")
_PORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


class Found:
    """Causes, in the order in which they were found."""

    def __init__(self) -> None:
        self.causes: list[dict[str, str]] = []
        self.judged: list[str] = []
        """Fields about which enough was said in other words."""

    def add(self, reason: str, field: str, message: str) -> None:
        """Add a cause."""
        self.causes.append({"reason": reason, "message": message, "field": field})

    def has(self, field: str) -> bool:
        """Say whether something was found about a field."""
        return field in self.judged or any(cause["field"] == field for cause in self.causes)

    def required(self, field: str, why: str = "") -> None:
        """Say that a field is missing."""
        self.add("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")

    def invalid(self, field: str, value: Any, why: str) -> None:
        """Say that a value is not allowed."""
        self.add("FieldValueInvalid", field, f"Invalid value: {bad_value(value)}: {why}")

    def forbidden(self, field: str, why: str) -> None:
        """Say that a field may not be there or change."""
        self.add("FieldValueForbidden", field, f"Forbidden: {why}")

    def duplicate(self, field: str, value: Any) -> None:
        """Say that a value is there twice."""
        self.add("FieldValueDuplicate", field, f"Duplicate value: {bad_value(value)}")

    def missing(self, field: str, value: Any) -> None:
        """Say that something named is not there."""
        self.add("FieldValueNotFound", field, f"Not found: {bad_value(value)}")

    def unsupported(self, field: str, value: Any, allowed: list[str]) -> None:
        """Say which values are allowed."""
        names = ", ".join(map(bad_value, allowed))
        self.add(
            "FieldValueNotSupported",
            field,
            f"Unsupported value: {bad_value(value)}: supported values: {names}",
        )


def template(found: Found, value: Json, path: str, restart: tuple[str, ...], *, job: bool = False) -> None:
    """Check a pod template."""
    labels = (value.get("metadata") or {}).get("labels")
    if labels:
        found.causes += metadata.label_problems(labels, f"{path}.labels")
    spec = value.get("spec") or {}
    pod_spec(found, spec, f"{path}.spec")
    policy = spec.get("restartPolicy")
    if policy and policy not in restart:
        if job:
            found.add(
                "FieldValueRequired",
                f"{path}.spec.restartPolicy",
                'Required value: valid values: "OnFailure", "Never"',
            )
        else:
            found.unsupported(f"{path}.spec.restartPolicy", policy, list(restart))


def pod_spec(found: Found, spec: Json, path: str) -> None:
    """Check a pod's spec."""
    volumes = _volumes(found, spec, path)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        _toleration(found, toleration, f"{path}.tolerations[{index}]")
    names: set[str] = set()
    if not spec.get("containers"):
        found.required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            _container(found, container, f"{path}.{field}[{index}]", names, volumes)


def _toleration(found: Found, toleration: Json, path: str) -> None:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    for text in metadata.qualified_problems(key) if key else ():
        found.invalid(f"{path}.key", key, text)
    if not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        found.invalid(f"{path}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        found.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator == "Exists" and value:
        found.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("", "Equal", "Exists", "Lt", "Gt"):
        found.unsupported(f"{path}.operator", operator, ["Equal", "Exists"])
    elif value:
        found.causes += metadata.label_problems({"a": value}, f"{path}.operator")
    if effect and effect not in _EFFECTS:
        found.unsupported(f"{path}.effect", effect, list(_EFFECTS))


_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def _volumes(found: Found, spec: Json, path: str) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        where, name = f"{path}.volumes[{index}].name", volume.get("name", "")
        _label(found, name, where, names)
        names.add(name)
    return names


def _label(found: Found, name: str, where: str, taken: set[str]) -> None:
    if not name:
        found.required(where)
    elif len(name) > 63:
        found.invalid(where, name, "must be no more than 63 characters")
    elif not _LABEL.match(name):
        found.invalid(where, name, metadata.LABEL_MESSAGE)
    elif name in taken:
        found.duplicate(where, name)


def _container(found: Found, container: Json, path: str, names: set[str], volumes: set[str]) -> None:
    image = container.get("image", "")
    if not image:
        found.required(f"{path}.image")
    elif image != image.strip():
        found.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    name = container.get("name", "")
    _label(found, name, f"{path}.name", names)
    names.add(name)
    _ports(found, container, path)
    for index, variable in enumerate(container.get("env") or ()):
        where, key = f"{path}.env[{index}].name", variable.get("name", "")
        if not key:
            found.required(where)
        elif not _ENV.match(key):
            found.invalid(
                where,
                key,
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            )
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            _field_path(
                found, field.get("fieldPath") or "", f"{path}.env[{index}].valueFrom.fieldRef.fieldPath"
            )
        if variable.get("valueFrom") == {}:
            found.invalid(
                f"{path}.env[{index}].valueFrom",
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            )
    mounted: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where, volume = f"{path}.volumeMounts[{index}]", mount.get("name", "")
        if not volume:
            found.required(f"{where}.name")
        elif volume not in volumes:
            found.missing(f"{where}.name", volume)
        if not mount.get("mountPath"):
            found.required(f"{where}.mountPath")
        elif mount["mountPath"] in mounted:
            found.invalid(f"{where}.mountPath", mount["mountPath"], "must be unique")
        mounted.add(mount.get("mountPath", ""))
    _resources(found, container.get("resources") or {}, f"{path}.resources")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _probe(found, container[probe], f"{path}.{probe}")


def _probe(found: Found, probe: Json, path: str) -> None:
    if sum(probe.get(name) is not None for name in _HANDLERS) != 1:
        found.required(path, "must specify a handler type")
    for name in ("httpGet", "tcpSocket"):
        if probe.get(name) is not None:
            port(found, probe[name].get("port", 0), f"{path}.{name}.port")
    if probe.get("httpGet") is not None and not probe["httpGet"].get("path"):
        found.required(f"{path}.httpGet.path")
    if probe.get("exec") is not None and not probe["exec"].get("command"):
        found.required(f"{path}.exec.command")
    for name in _COUNTS:
        if (probe.get(name) or 0) < 0:
            found.invalid(f"{path}.{name}", probe[name], "must be greater than or equal to 0")


_FIELD_PATHS = re.compile(
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)|"
    r"metadata\.(labels|annotations)\['.*'\]"
)
"""Fields of a pod that its containers may be told of."""


def _field_path(found: Found, text: str, path: str) -> None:
    if not text:
        found.required(path)
    elif not _FIELD_PATHS.fullmatch(text):
        found.invalid(path, text, f"error converting fieldPath: field label not supported: {text}")


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


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


def resource_name(found: Found, name: str, path: str) -> None:
    """Check the name of something that containers use."""
    for text in metadata.qualified_problems(name):
        found.invalid(path, name, text)
    if "/" not in name and name not in CONTAINER_RESOURCES and not name.startswith("hugepages-"):
        found.invalid(path, name, "must be a standard resource for containers")


def _ports(found: Found, container: Json, path: str) -> None:
    taken: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        where = f"{path}.ports[{index}]"
        name, number = port.get("name", ""), port.get("containerPort", 0)
        if name and (len(name) > 15 or not _PORT_NAME.match(name)):
            problem = (
                "must be no more than 15 characters"
                if len(name) > 15
                else "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            )
            found.invalid(f"{where}.name", name, problem)
        elif name and name in taken:
            found.duplicate(f"{where}.name", name)
        taken.add(name)
        if number == 0:
            found.required(f"{where}.containerPort")
        elif not 1 <= number <= 65535:
            found.invalid(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive")


def _resources(found: Found, resources: Json, path: str) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            resource_name(found, name, f"{path}.{field}[{name}]")
            if _amount(amount) < 0:
                found.invalid(f"{path}.{field}[{name}]", str(amount), "must be greater than or equal to 0")
    for name, amount in requests.items():
        if name in limits and _amount(amount) > _amount(limits[name]):
            found.invalid(
                f"{path}.requests",
                str(amount),
                f"must be less than or equal to {name} limit of {limits[name]}",
            )


def _amount(value: Any) -> Any:
    try:
        return quantity_of(value)
    except InvalidQuantity:
        return 0
