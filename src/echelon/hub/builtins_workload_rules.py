"""Validation of workloads: Deployments, StatefulSets, DaemonSets, Jobs, pods.

What it must never do: check types; an object that gets here could be decoded.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import Found, Rule, pod_spec, template
from echelon.hub.builtins_selector_rules import label_selector

Json = dict[str, Any]


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
    label_selector(found, selector, "spec.selector")
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
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.invalid("spec.selector", selector, "empty selector is invalid for statefulset")
    label_selector(found, selector, "spec.selector")
    name = spec.get("serviceName") or ""
    for text in metadata.label_name_problems(name) if name else ():
        found.invalid("spec.serviceName", name, text)
    _template(found, spec, selector, ("Always",))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
        if "storage" not in requests:
            found.required(f"spec.volumeClaimTemplates[{index}].spec.resources[storage]")
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
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            if not container.get("image"):
                found.required(f"spec.{field}[{index}].image")
    was = dict(old.get("spec") or {})
    now = dict(spec)
    kept = [{**each, "tolerationSeconds": None} for each in now.get("tolerations") or ()]
    if any({**each, "tolerationSeconds": None} not in kept for each in was.get("tolerations") or ()):
        found.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    for name in (
        "activeDeadlineSeconds",
        "tolerations",
        "nodeName",
        "schedulingGates",
    ):
        was.pop(name, None)
        now.pop(name, None)
    if (was.get("terminationGracePeriodSeconds") or 0) < 0 and now.get("terminationGracePeriodSeconds") == 1:
        was["terminationGracePeriodSeconds"] = 1
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for each in (was, now):
            if each.get(field):
                each[field] = [
                    {key: value for key, value in item.items() if key != "image"} for item in each[field]
                ]
    if now != was:
        found.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


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


def _pod_template(found: Found, obj: Json, _old: Json | None) -> None:
    template(found, obj.get("template") or {}, "template", ("Always", "OnFailure", "Never"))


def _controller_revision(found: Found, obj: Json, old: Json | None) -> None:
    if obj.get("data") is None:
        found.required("data", "data is mandatory")
    if old is not None and obj.get("data") != old.get("data"):
        found.invalid("data", obj.get("data"), "field is immutable")


RULES: dict[str, Rule] = {
    "/pods": _pod,
    "/podtemplates": _pod_template,
    "/replicationcontrollers": _controller,
    "apps/controllerrevisions": _controller_revision,
    "apps/daemonsets": _workload,
    "apps/deployments": _deployment,
    "apps/replicasets": _workload,
    "apps/statefulsets": _stateful_set,
    "batch/cronjobs": _cron_job,
    "batch/jobs": _job,
}
