"""Rows of workloads, policies, access and everything else that is not core.

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
    joined,
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


def csi_driver(obj: Json, now: Now) -> list[Any]:
    """Print a csi driver."""
    spec = obj.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        name(obj),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(each.get("audience", "") for each in tokens) if tokens else UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def csi_node(obj: Json, now: Now) -> list[Any]:
    """Print a csi node."""
    return [name(obj), len(at(obj, "spec", "drivers") or ()), age(obj, now)]


_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def storage_class(obj: Json, now: Now) -> list[Any]:
    """Print a storage class."""
    annotations = obj["metadata"].get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def volume_attachment(obj: Json, now: Now) -> list[Any]:
    """Print a volume attachment."""
    spec = obj.get("spec") or {}
    return [
        name(obj),
        spec.get("attacher", ""),
        at(spec, "source", "persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(at(obj, "status", "attached")),
        age(obj, now),
    ]


def attributes_class(obj: Json, now: Now) -> list[Any]:
    """Print an attributes class."""
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def _param_kind(obj: Json) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def validating_policy(obj: Json, now: Now) -> list[Any]:
    """Print a validating policy."""
    return [name(obj), len(at(obj, "spec", "validations") or ()), _param_kind(obj), age(obj, now)]


def mutating_policy(obj: Json, now: Now) -> list[Any]:
    """Print a mutating policy."""
    return [name(obj), len(at(obj, "spec", "mutations") or ()), _param_kind(obj), age(obj, now)]


def policy_binding(obj: Json, now: Now) -> list[Any]:
    """Print a policy binding."""
    ref = at(obj, "spec", "paramRef")
    shown = UNSET
    if ref:
        shown = (
            f"{ref['namespace']}/{ref.get('name', '')}"
            if ref.get("namespace")
            else "*/" + ref.get("name", "")
        )
        if ref.get("selector") is not None:
            shown = selector_text(ref["selector"])
    return [name(obj), at(obj, "spec", "policyName") or "", shown, age(obj, now)]


def webhooks(obj: Json, now: Now) -> list[Any]:
    """Print a webhook configuration of either kind."""
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def definition(obj: Json, _now: Now) -> list[Any]:
    """Print a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = [
        each["name"] + ("(storage)" if each.get("storage") else "")
        for each in spec.get("versions") or ()
        if each.get("served") or each.get("storage")
    ]
    return [
        name(obj),
        spec.get("scope", ""),
        ",".join(versions),
        obj["metadata"].get("creationTimestamp"),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        (named("Established", obj) or {}).get("status") == "True",
    ]


def api_service(obj: Json, now: Now) -> list[Any]:
    """Print an api service."""
    service = at(obj, "spec", "service")
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    condition = named("Available", obj)
    word = "Unknown" if condition is None else condition.get("status", "Unknown")
    if condition is not None and word != "True":
        word = f"{word} ({condition.get('reason', '')})"
    return [name(obj), where, word, age(obj, now)]


def priority_class(obj: Json, now: Now) -> list[Any]:
    """Print a priority class."""
    value, default = obj.get("value", 0), bool(obj.get("globalDefault"))
    return [name(obj), value, default, age(obj, now), obj.get("preemptionPolicy", "")]


def lease(obj: Json, now: Now) -> list[Any]:
    """Print a lease."""
    return [name(obj), at(obj, "spec", "holderIdentity") or "", age(obj, now)]


def runtime_class(obj: Json, now: Now) -> list[Any]:
    """Print a runtime class."""
    return [name(obj), obj.get("handler", ""), age(obj, now)]


def only_age(obj: Json, now: Now) -> list[Any]:
    """Print what has nothing to tell but its age."""
    return [name(obj), age(obj, now)]


def taint_rule(obj: Json, now: Now) -> list[Any]:
    """Print a taint rule."""
    taint = at(obj, "spec", "taint") or {}
    added = since(taint.get("timeAdded"), now) if taint.get("timeAdded") else UNKNOWN
    words = (taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""))
    return [name(obj), *words, added, age(obj, now)]


def resource_claim(obj: Json, now: Now) -> list[Any]:
    """Print a resource claim."""
    status = obj.get("status") or {}
    words = [
        word
        for field, word in (("allocation", "allocated"), ("reservedFor", "reserved"))
        if status.get(field)
    ]
    if obj["metadata"].get("deletionTimestamp"):
        words.insert(0, "deleted")
    return [name(obj), ",".join(words) or "pending", age(obj, now)]


def resource_slice(obj: Json, now: Now) -> list[Any]:
    """Print a resource slice."""
    spec = obj.get("spec") or {}
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else UNSET)
    return [name(obj), node, spec.get("driver", ""), at(spec, "pool", "name") or "", age(obj, now)]


def flow_schema(obj: Json, now: Now) -> list[Any]:
    """Print a flow schema."""
    spec = obj.get("spec") or {}
    dangling = named("Dangling", obj)
    return [
        name(obj),
        at(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        at(spec, "distinguisherMethod", "type") or NONE,
        age(obj, now),
        dangling.get("status", "?") if dangling else "?",
    ]


def priority_level(obj: Json, now: Now) -> list[Any]:
    """Print a priority level."""
    spec = obj.get("spec") or {}
    limited = spec.get("limited") or {}
    queuing = at(limited, "limitResponse", "queuing") or {}
    queues = (queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit"))
    shares = limited.get("nominalConcurrencyShares", NONE)
    return [name(obj), spec.get("type", ""), shares, *queues, age(obj, now)]


def migration(obj: Json, _now: Now) -> list[Any]:
    """Print a migration."""
    resource = at(obj, "spec", "resource") or {}
    shown = joined([part for part in (resource.get("resource"), resource.get("group")) if part]).replace(
        ",", "."
    )
    word = next(
        (
            kind
            for kind in ("Succeeded", "Failed", "Running")
            if (named(kind, obj) or {}).get("status") == "True"
        ),
        "Pending",
    )
    return [name(obj), shown, word]


_ADMISSION = "admissionregistration.k8s.io/"
ROWS = {
    _ADMISSION + "mutatingadmissionpolicies": mutating_policy,
    _ADMISSION + "mutatingadmissionpolicybindings": policy_binding,
    _ADMISSION + "mutatingwebhookconfigurations": webhooks,
    _ADMISSION + "validatingadmissionpolicies": validating_policy,
    _ADMISSION + "validatingadmissionpolicybindings": policy_binding,
    _ADMISSION + "validatingwebhookconfigurations": webhooks,
    "apiextensions.k8s.io/customresourcedefinitions": definition,
    "apiregistration.k8s.io/apiservices": api_service,
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
    "coordination.k8s.io/leases": lease,
    "flowcontrol.apiserver.k8s.io/flowschemas": flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": priority_level,
    "node.k8s.io/runtimeclasses": runtime_class,
    "policy/poddisruptionbudgets": disruption_budget,
    "rbac.authorization.k8s.io/clusterrolebindings": role_binding,
    "rbac.authorization.k8s.io/rolebindings": role_binding,
    "resource.k8s.io/deviceclasses": only_age,
    "resource.k8s.io/devicetaintrules": taint_rule,
    "resource.k8s.io/resourceclaims": resource_claim,
    "resource.k8s.io/resourceclaimtemplates": only_age,
    "resource.k8s.io/resourceslices": resource_slice,
    "scheduling.k8s.io/priorityclasses": priority_class,
    "storage.k8s.io/csidrivers": csi_driver,
    "storage.k8s.io/csinodes": csi_node,
    "storage.k8s.io/storageclasses": storage_class,
    "storage.k8s.io/volumeattachments": volume_attachment,
    "storage.k8s.io/volumeattributesclasses": attributes_class,
    "storagemigration.k8s.io/storageversionmigrations": migration,
}
