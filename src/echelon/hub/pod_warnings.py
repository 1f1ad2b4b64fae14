"""What a server remarks about pods and pod templates that are created: nothing is wrong with them, yet they surprise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echelon.hub.call import Call
from echelon.hub.gotext import quote

Json = dict[str, Any]
POD_SPECS: dict[str, tuple[str, ...]] = {
    "/pods": ("spec",),
    "/podtemplates": ("template", "spec"),
    "/replicationcontrollers": ("spec", "template", "spec"),
    "apps/daemonsets": ("spec", "template", "spec"),
    "apps/deployments": ("spec", "template", "spec"),
    "apps/replicasets": ("spec", "template", "spec"),
    "apps/statefulsets": ("spec", "template", "spec"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template", "spec"),
    "batch/jobs": ("spec", "template", "spec"),
}
"""Where each kind keeps the pod's specification."""


def remark(call: Call, obj: Json) -> None:
    """Add the warnings for an object that is being created."""
    path = POD_SPECS.get(call.kind.resource)
    if path is None or call.verb != "create":
        return
    spec: Any = obj
    for name in path:
        spec = spec.get(name) if isinstance(spec, dict) else None
    if isinstance(spec, dict):
        call.warnings += doubled_variables(spec, ".".join(path))


def doubled_variables(spec: Json, path: str) -> Iterator[str]:
    """Name environment variables that are defined again: the last one counts, and applying may lose one."""
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or ()):
            seen: set[str] = set()
            for index, variable in enumerate(container.get("env") or ()):
                name = variable.get("name", "")
                if name in seen:
                    where = f"{path}.{field}[{number}].env[{index}]"
                    yield f"{where}: hides previous definition of {quote(name)}, which may be dropped when using apply"
                seen.add(name)
