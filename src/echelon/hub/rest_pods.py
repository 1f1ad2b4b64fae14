"""What pods can do beside being objects: be bound, be evicted, and have a log.

The log's text comes from whoever plays the node: `Hub.pod_log`, set by the
sandbox of simulated members. Without one, logs are empty.
"""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub import managed
from echelon.hub.body import decode_object
from echelon.hub.call import Call, Response
from echelon.hub.internal import call_for
from echelon.hub.label_selector import matches
from echelon.hub.negotiate import document
from echelon.hub.options import check_types
from echelon.hub.rest_delete import preconditions, remove
from echelon.hub.rest_write import write
from echelon.hub.status import StatusError, bad_request, conflict, invalid, method_not_allowed, not_found
from echelon.hub.store import Entry
from echelon.hub.world import rfc3339

Json = dict[str, Any]

CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
BUDGETS = "policy/poddisruptionbudgets"


def _pod(call: Call) -> tuple[Any, Json]:
    entry = call.table.head(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    return entry, call.kind.read(entry.body)


async def _admit(call: Call, body: Json, kind: str) -> None:
    """Show a binding or an eviction to admission: they are created below a pod, and never stored."""
    if call.hub.admission.quiet(call):
        return
    sub = call.kind.subresources[call.subresource]
    group = f"{sub.group}/{sub.version}" if sub.group else sub.version
    meta = {**(body.get("metadata") or {}), "name": call.name, "namespace": call.namespace}
    shown = {**body, "apiVersion": group, "kind": kind, "metadata": meta}
    await call.hub.admission.mutate(call, shown, None)
    await call.hub.admission.validate(call, shown, None)


async def bind(call: Call) -> Response:
    """Assign a pod to a node."""
    body = decode_object(call)
    await _admit(call, body, "Binding")
    target = body.get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not node:
        cause = {"reason": "FieldValueRequired", "message": "Required value", "field": "target.name"}
        raise invalid("", "Binding", call.name, [cause])
    entry, pod = _pod(call)
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(
            "", "pods/binding", call.name, f"pod {call.name} is being deleted, cannot be assigned to a host"
        )
    already = (pod.get("spec") or {}).get("nodeName")
    if already:
        why = f'pod {call.name} is already assigned to node "{already}"'
        raise conflict("", "pods/binding", call.name, why)
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(call.hub.world.now()),
    }
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    meta = dict(pod["metadata"])
    annotations = (body.get("metadata") or {}).get("annotations")
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    new = {
        **pod,
        "metadata": meta,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }
    if not call.dry_run():
        managed.track(call, pod, new)
        await call.hub.store.durable(write(call, new, entry).rev)
    return document(CREATED, 201)


async def evict(call: Call) -> Response:
    """Delete a pod if its disruption budgets allow."""
    body = decode_object(call)
    options = body.get("deleteOptions") or {}
    if not isinstance(options, dict):
        raise bad_request(
            "json: cannot unmarshal into Go struct field Eviction.deleteOptions of type v1.DeleteOptions"
        )
    check_types(options)
    await _admit(call, body, "Eviction")
    entry, pod = _pod(call)
    preconditions(call, pod["metadata"], options.get("preconditions") or {})
    phase = (pod.get("status") or {}).get("phase")
    if phase not in {"Succeeded", "Failed", "Pending"} and not entry.ending:
        _spend_budget(call, pod)
        entry, pod = _pod(call)
    if not call.dry_run() and not options.get("dryRun"):
        after, _ = remove(call, entry, pod, options)
        await call.hub.store.durable(after.rev)
    return document(CREATED, 201)


def _spend_budget(call: Call, pod: Json) -> None:
    table = call.hub.store.table(call.cluster.name, BUDGETS)
    labels = pod["metadata"].get("labels") or {}
    keys, start, end = table.span(f"{call.namespace}/")
    for key in keys[start:end]:
        entry = table.head(key)
        budget = msgspec.json.decode(entry.body) if entry is not None else {}
        selector = (budget.get("spec") or {}).get("selector")
        if entry is None or selector is None or not matches(selector, labels):
            continue
        status = budget.get("status") or {}
        if int(status.get("disruptionsAllowed") or 0) > 0:
            _count_disruption(call, entry, budget)
            continue
        name = budget["metadata"]["name"]
        message = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        error = StatusError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            {"causes": [{"reason": "DisruptionBudget", "message": message}]},
        )
        raise error


def _count_disruption(call: Call, entry: Entry, budget: Json) -> None:
    """Take one allowed disruption from a budget, so that the next eviction sees it is spent."""
    kind = call.cluster.catalog.by_resource(BUDGETS)
    if kind is None or call.dry_run():
        return
    status = dict(budget.get("status") or {})
    status["disruptionsAllowed"] = int(status["disruptionsAllowed"]) - 1
    now = rfc3339(call.hub.world.now())
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), call.name: now}
    new = {**budget, "metadata": dict(budget["metadata"]), "status": status}
    write(call_for(call.hub, call.cluster, kind, entry.key), new, entry)


async def log(call: Call) -> Response:
    """Answer what a container printed."""
    entry = call.table.live.get(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    pod = call.kind.read(entry.body)
    lines = _number(call, "tailLines")
    _number(call, "limitBytes")
    spec = pod.get("spec") or {}
    names = [one["name"] for part in ("containers", "initContainers") for one in spec.get(part) or ()]
    container = call.option("container")
    if not container:
        if len(spec.get("containers") or ()) > 1 or len(names) != 1:
            raise bad_request(
                f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(names)}]"
            )
        container = names[0]
    if container not in names:
        raise bad_request(f"container {container} is not valid for pod {call.name}")
    if not spec.get("nodeName"):
        return Response(200, b"", "text/plain")
    _refuse_waiting(pod, container)
    text = call.hub.pod_log(call.cluster.name, pod, container)
    if lines is not None:
        text = "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
    limit = _number(call, "limitBytes")
    raw = text.encode()
    return Response(200, raw if limit is None else raw[:limit], "text/plain")


def _refuse_waiting(pod: Json, container: str) -> None:
    for state in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (state.get("state") or {}).get("waiting")
        if state.get("name") == container and waiting is not None:
            name, reason = pod["metadata"]["name"], waiting.get("reason", "")
            why = (
                "trying and failing to pull image"
                if reason in {"ImagePullBackOff", "ErrImagePull"}
                else f"waiting to start: {reason}"
            )
            if reason != "CrashLoopBackOff":
                raise bad_request(f'container "{container}" in pod "{name}" is {why}')


def _number(call: Call, option: str) -> int | None:
    text = call.option(option)
    if not text:
        return None
    least = 1 if option == "limitBytes" else 0
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if number < least:
        message = f"Invalid value: {number}: must be greater than {'0' if least else 'or equal to 0'}"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": option}
        raise invalid("", "PodLogOptions", call.name, [cause])
    return number


async def no_node(_call: Call) -> Response:
    """Refuse what only a node could do: exec, attach, port-forward, proxy."""
    raise method_not_allowed()
