"""Rows of workloads, autoscalers, certificates, disruption budgets and role bindings.

One function per kind, from an object and the time to its cells, in the order of the
columns in the data file.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from echelon.hub.tables_text import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    at,
    containers,
    human_duration,
    labels_text,
    moment,
    named,
    selector_text,
    since,
)

Json = dict[str, Any]
Now = dt.datetime


def name(obj: Json) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def controller_revision(obj: Json, now: Now) -> list[Any]:
    """Print a controller revision."""
    owner = next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    shown = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        shown = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return [name(obj), shown, obj.get("revision", 0), age(obj, now)]


def daemon_set(obj: Json, now: Now) -> list[Any]:
    """Print a daemon set."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return [
        name(obj),
        *(status.get(count, 0) for count in counts),
        status.get("numberAvailable", 0),
        labels_text(at(spec, "template", "spec", "nodeSelector")),
        age(obj, now),
        *containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def deployment(obj: Json, now: Now) -> list[Any]:
    """Print a deployment."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def replica_set(obj: Json, now: Now) -> list[Any]:
    """Print a replica set."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def stateful_set(obj: Json, now: Now) -> list[Any]:
    """Print a stateful set."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name(obj), ready, age(obj, now), *containers(spec.get("template"))]


def autoscaler(obj: Json, now: Now) -> list[Any]:
    """Print a HorizontalPodAutoscaler of either version."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    minimum = spec.get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec, status),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


MAX_TARGETS = 2
"""Metrics of an autoscaler that its row shows."""


def _targets(spec: Json, status: Json) -> str:
    if "targetCPUUtilizationPercentage" in spec:
        current = status.get("currentCPUUtilizationPercentage")
        shown = UNKNOWN if current is None else f"{current}%"
        return f"cpu: {shown}/{spec['targetCPUUtilizationPercentage']}%"
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    if not metrics:
        return NONE
    texts = [
        _target(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(metrics)
    ]
    if len(texts) > MAX_TARGETS:
        return f"{', '.join(texts[:MAX_TARGETS])} + {len(texts) - MAX_TARGETS} more..."
    return ", ".join(texts)


def _target(metric: Json, current: Json) -> str:
    kind = metric.get("type", "")
    key = kind[:1].lower() + kind[1:]
    wanted = at(metric, key, "target") or {}
    have = at(current, key, "current") or {}
    prefix = f"{at(metric, key, 'name')}: " if key in ("resource", "containerResource") else ""
    if wanted.get("averageUtilization") is not None:
        value = have.get("averageUtilization")
        return f"{prefix}{UNKNOWN if value is None else f'{value}%'}/{wanted['averageUtilization']}%"
    suffix = " (avg)" if key in ("external", "object") and wanted.get("averageValue") is not None else ""
    field = "averageValue" if wanted.get("averageValue") is not None else "value"
    return f"{prefix}{have.get(field, UNKNOWN)}/{wanted.get(field, '')}{suffix}"


def cron_job(obj: Json, now: Now) -> list[Any]:
    """Print a cron job."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    template = at(spec, "jobTemplate", "spec", "template")
    last = status.get("lastScheduleTime")
    suspended = spec.get("suspend")
    return [
        name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        UNSET if suspended is None else str(bool(suspended)),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(template),
        selector_text(at(spec, "jobTemplate", "spec", "selector")),
    ]


def job(obj: Json, now: Now) -> list[Any]:
    """Print a job."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name(obj),
        _job_word(obj),
        _completions(spec, status),
        _took(status, now),
        age(obj, now),
        *containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_word(obj: Json) -> str:
    def has(condition: str) -> bool:
        return (named(condition, obj) or {}).get("status") == "True"

    for condition, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
    ):
        if has(condition):
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition, word in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if has(condition):
            return word
    return "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallel = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _took(status: Json, now: Now) -> str:
    started = moment(status.get("startTime") or "")
    if started is None:
        return ""
    ended = moment(status.get("completionTime") or "")
    return human_duration(((ended or now) - started).total_seconds())


def signing_request(obj: Json, now: Now) -> list[Any]:
    """Print a signing request."""
    spec = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    conditions = {each.get("type") for each in at(obj, "status", "conditions") or ()}
    word = "Approved" if "Approved" in conditions else "Denied" if "Denied" in conditions else "Pending"
    if "Failed" in conditions:
        word += ",Failed"
    if at(obj, "status", "certificate"):
        word += ",Issued"
    return [
        name(obj),
        age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        word,
    ]


def trust_bundle(obj: Json, _now: Now) -> list[Any]:
    """Print a trust bundle."""
    return [name(obj), at(obj, "spec", "signerName") or NONE]


def pod_certificate(obj: Json, _now: Now) -> list[Any]:
    """Print a pod certificate."""
    spec = obj.get("spec") or {}
    kinds = {each.get("type") for each in at(obj, "status", "conditions") or ()}
    word = next((kind for kind in ("Issued", "Denied", "Failed") if kind in kinds), "Pending")
    names = ("podName", "serviceAccountName", "nodeName", "signerName")
    notes = spec.get("unverifiedUserAnnotations")
    return [name(obj), *(spec.get(each, "") for each in names), word, labels_text(notes)]


def disruption_budget(obj: Json, now: Now) -> list[Any]:
    """Print a disruption budget."""
    spec = obj.get("spec") or {}
    bounds = [spec.get("minAvailable"), spec.get("maxUnavailable")]
    return [
        name(obj),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        at(obj, "status", "disruptionsAllowed") or 0,
        age(obj, now),
    ]


def role_binding(obj: Json, now: Now) -> list[Any]:
    """Print a RoleBinding or a ClusterRoleBinding."""
    ref = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        shown = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            shown = f"{subject.get('namespace', '')}/{shown}"
        by_kind.setdefault(subject.get("kind", ""), []).append(shown)
    lists = (", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [name(obj), f"{ref.get('kind', '')}/{ref.get('name', '')}", age(obj, now), *lists]


ROWS = {
    "apps/controllerrevisions": controller_revision,
    "apps/daemonsets": daemon_set,
    "apps/deployments": deployment,
    "apps/replicasets": replica_set,
    "apps/statefulsets": stateful_set,
    "autoscaling/horizontalpodautoscalers": autoscaler,
    "batch/cronjobs": cron_job,
    "batch/jobs": job,
    "certificates.k8s.io/certificatesigningrequests": signing_request,
    "certificates.k8s.io/clustertrustbundles": trust_bundle,
    "certificates.k8s.io/podcertificaterequests": pod_certificate,
    "policy/poddisruptionbudgets": disruption_budget,
    "rbac.authorization.k8s.io/clusterrolebindings": role_binding,
    "rbac.authorization.k8s.io/rolebindings": role_binding,
}
