"""Why a cluster of a run is not done: member first, then delivery, then the workload.

Theory. A cluster that has not finished is explained by the earliest thing that is not true on the way: the member
answers; overrides are applied; works are written; manifests are applied; objects are available. What comes after
the first broken link is its consequence and is not told. Conditions count only at the binding's generation.

A cluster that is merely being updated is no finding: only what will not pass by itself is told early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from echelon.api.binding import Binding, BindingStatus
from echelon.api.cluster import MemberCluster
from echelon.api.conditions import find_condition
from echelon.api.meta import FALSE, TRUE, Condition
from echelon.api.names import AgentType, BindingState
from echelon.api.placement import FailedPlacement, PatchDetail
from echelon.api.staged import ClusterStatus, RunStatus, StageStatus
from echelon.api.work import Work
from echelon.rules.diagnose_parts import Depth, Evidence, OnMember, Spotted, object_words, saying
from echelon.rules.diagnose_workload import spot_workload
from echelon.rules.forecast import span_text
from echelon.rules.hand_over import conditions_of
from echelon.rules.run_cluster import classify_cluster, is_finished, target_of
from echelon.rules.run_phases import PROGRESSING, STARTED, SUCCEEDED, ClusterPhase, RunPhase, run_phase
from echelon.rules.run_seen import Seen

SILENT_AFTER = timedelta(minutes=5)  # as the scheduler judges it
MAX_DETAIL = 300  # of a quoted message in a sentence; the evidence has all of it

# what may pass by itself is told only once the cluster counts as stuck
PATIENT = frozenset(
    {"not-available", "pods-not-ready", "unschedulable", "agent-busy", "engine-behind", "in-progress"}
)
_SLOW = (ClusterPhase.STUCK, ClusterPhase.UPDATING, ClusterPhase.STARTING)
_ORDER = ("Overridden", "WorkSynchronized", "Applied", "Available")
_WRAPPERS = (
    re.compile(r"^Failed to apply the manifest \(error: (?P<rest>.*)\)$", re.DOTALL),
    re.compile(r"^Failed to apply the override rules on the resources: (?P<rest>.*)$", re.DOTALL),
    re.compile(r"^Failed to synchronize the work to the latest: (?P<rest>.*)$", re.DOTALL),
    re.compile(
        r"^(?:failed to apply the manifest|failed to create manifest object|failed to patch the manifest object|"
        r"failed to apply the manifest object|an error is returned by the API server|"
        r"error returned by the API server|failed to process the request due to a client error|"
        r"failed to take over a pre-existing object|failed to validate owner references): (?P<rest>.*)$",
        re.DOTALL,
    ),
)


def spot_clusters(
    seen: Seen, status: RunStatus, depth: Depth, now: datetime, only: str = ""
) -> Iterator[Spotted]:
    """Explain every cluster that should be done and is not; with `only`, that one whatever its state."""
    bindings = {
        binding.spec.target_cluster: binding
        for binding in seen.bindings
        if binding.spec.state != BindingState.UNSCHEDULED
    }
    for stage in status.stages_status:
        if find_condition(stage.conditions, SUCCEEDED) is not None and not only:
            continue
        for entry in stage.clusters:
            if only and entry.cluster_name != only:
                continue
            if find_condition(entry.conditions, STARTED) is None and not only:
                continue
            binding = bindings.get(entry.cluster_name)
            phase = phase_of(seen, status, entry, binding, now)
            if phase in _SLOW and binding is not None:
                yield from _explain(
                    seen,
                    stage,
                    entry,
                    binding,
                    depth,
                    now,
                    is_stuck=phase is ClusterPhase.STUCK or bool(only),
                )


def as_engine(seen: Seen, status: RunStatus, now: datetime) -> Seen:
    """Judge by the engine's threshold, as far as its own words tell it.

    An engine may be set to lose patience sooner than we think. The clusters it calls stuck are stuck, and so is every
    other that began no later.
    """
    said = find_condition(status.conditions, PROGRESSING)
    if said is None or run_phase(status.conditions) is not RunPhase.STUCK:
        return seen
    named = re.search(r"waiting for (?P<names>.*?) cluster\(s\)", said.message)
    names = set(re.split(r", |\.\.\.", named["names"])) if named else set()
    began = [
        started.last_transition_time
        for stage in status.stages_status
        for entry in stage.clusters
        if entry.cluster_name in names and (started := find_condition(entry.conditions, STARTED)) is not None
    ]
    if not began:
        return seen
    patience = min(seen.options.stuck_after, now - max(began) - timedelta(microseconds=1))
    return replace(seen, options=replace(seen.options, stuck_after=patience))


def phase_of(
    seen: Seen, status: RunStatus, entry: ClusterStatus, binding: Binding | None, now: datetime
) -> ClusterPhase:
    """Classify a cluster with the run's own classifier."""
    return classify_cluster(entry, binding, target_of(seen.run, status, entry), now, seen.options.stuck_after)


def _explain(
    seen: Seen,
    stage: StageStatus,
    entry: ClusterStatus,
    binding: Binding,
    depth: Depth,
    now: datetime,
    *,
    is_stuck: bool,
) -> Iterator[Spotted]:
    cluster = entry.cluster_name
    spotted = [*spot_member(cluster, seen.clusters.get(cluster), now)] if seen.clusters else []
    if not spotted:
        spotted = [*spot_delivery(seen, binding, depth)]
    if not spotted and is_stuck:
        started = find_condition(entry.conditions, STARTED)
        since = span_text(now - started.last_transition_time) if started else "a moment"
        evidence = (saying(_binding(seen, binding), started),) if started else ()
        spotted = [Spotted(cause="in-progress", evidence=evidence, own={"since": since})]
    for one in spotted:
        if is_stuck or one.cause not in PATIENT:
            yield Spotted(
                cause=one.cause,
                words=one.words,
                stage=stage.stage_name,
                cluster=cluster,
                evidence=one.evidence,
                own={**one.own, "cluster": cluster, "binding": binding.name},
            )


# --- the member -----------------------------------------------------------------------------------------------
def spot_member(cluster: str, member: MemberCluster | None, now: datetime) -> Iterator[Spotted]:
    """Tell whether the member can do anything at all."""
    name = f"MemberCluster {cluster}"
    if member is None:
        yield Spotted(cause="member-left", evidence=(Evidence(object=name, says="does not exist"),))
        return
    if member.metadata.deletion_timestamp is not None:
        gone = Evidence(object=name, says="is being deleted", since=member.metadata.deletion_timestamp)
        yield Spotted(cause="member-left", evidence=(gone,))
        return
    beat = last_heartbeat(member)
    limit = max(SILENT_AFTER, timedelta(seconds=member.spec.heartbeat_period_seconds) * 3)
    healthy = find_condition(member.status.conditions, "Healthy") if member.status else None
    is_lost = healthy is not None and healthy.status == FALSE and healthy.reason == "MemberAgentHeartbeatLost"
    if beat is not None and (is_lost or now - beat > limit):
        says = (
            saying(name, healthy)
            if healthy and is_lost
            else Evidence(object=name, says="last heartbeat", since=beat)
        )
        yield Spotted(cause="member-silent", evidence=(says,), own={"since": span_text(now - beat)})
    elif healthy is not None and healthy.status == FALSE:
        yield Spotted(
            cause="member-unhealthy", words={"detail": healthy.message}, evidence=(saying(name, healthy),)
        )


def last_heartbeat(member: MemberCluster) -> datetime | None:
    """Return when the member's agent was last heard."""
    for agent in member.status.agent_status if member.status else ():
        if agent.type == AgentType.MEMBER:
            return agent.last_received_heartbeat
    return None


# --- delivery -------------------------------------------------------------------------------------------------
def _binding(seen: Seen, binding: Binding) -> str:
    return f"{seen.scope.binding.kind} {binding.name}"


def spot_delivery(seen: Seen, binding: Binding, depth: Depth) -> Iterator[Spotted]:
    """Explain a binding that is not finished by the first condition that does not hold."""
    if is_finished(binding):
        return
    name, status = _binding(seen, binding), binding.status or BindingStatus()
    diff = _fresh(binding, "DiffReported")
    broken = diff if diff is not None else _first_broken(binding)
    if broken is None or isinstance(broken, str):
        what = broken or "WorkSynchronized"
        says = Evidence(
            object=name, says=f"{what} is not reported for generation {binding.metadata.generation}"
        )
        yield Spotted(
            cause="engine-behind",
            words={"detail": f"its binding says nothing about {what}"},
            evidence=(says,),
        )
        return
    quoted = saying(name, broken)
    if broken.type in _WHOLE:
        yield Spotted(
            cause=_WHOLE[broken.type], words={"detail": innermost(broken.message)}, evidence=(quoted,)
        )
        return
    failed = [one for one in status.failed_placements if one.condition.type == broken.type]
    for one in failed:
        yield _spot_object(one, status, quoted, _deeper(one, binding, depth))
    if failed:
        return
    if broken.type == "Available":
        work = broken.message.removeprefix("Work object ").partition(" ")[0]
        words = {"object": f"Work {work}", "kind_ref": "all", "object_n": "", "namespace": ""}
        yield Spotted(cause="not-available", words=words, evidence=(quoted,))
    else:
        works = tuple(_work_says(work) for work in depth.works.get(binding.name, ()))
        yield Spotted(cause="agent-busy", evidence=(quoted, *works))


def _work_says(work: Work) -> Evidence:
    name = f"Work {work.namespace}/{work.name}"
    applied = find_condition(work.status.conditions, "Applied") if work.status else None
    if applied is None or applied.observed_generation != work.metadata.generation:
        return Evidence(object=name, says=f"has no answer to generation {work.metadata.generation}")
    return saying(name, applied)


def _deeper(one: FailedPlacement, binding: Binding, depth: Depth) -> OnMember | None:
    """Find the object as it is on the member, or the status of it that the member has reported back."""
    found = depth.members.get(binding.spec.target_cluster, {}).get(_key(one))
    if found is not None:
        return found
    for work in depth.works.get(binding.name, ()):
        for entry in work.status.manifest_conditions if work.status else ():
            name = entry.identifier
            if (name.kind, name.namespace, name.name) == _key(one) and entry.back_reported_status is not None:
                return OnMember(object=entry.back_reported_status.observed_status)
    return None


_WHOLE = {"Overridden": "override-failed", "WorkSynchronized": "sync-failed", "DiffReported": "diff-failed"}


def _fresh(binding: Binding, type_: str) -> Condition | None:
    found = find_condition(conditions_of(binding), type_)
    return found if found is not None and found.observed_generation == binding.metadata.generation else None


def _first_broken(binding: Binding) -> Condition | str | None:
    for type_ in _ORDER:
        found = _fresh(binding, type_)
        if found is None:
            return type_
        if found.status != TRUE:
            return found
    return None


def _key(one: FailedPlacement) -> tuple[str, str, str]:
    return (one.kind, one.namespace, one.name)


def _spot_object(
    one: FailedPlacement, status: BindingStatus, binding_says: Evidence, found: OnMember | None
) -> Spotted:
    words = object_words(one)
    evidence = (binding_says, saying(words["object"], one.condition))
    if one.condition.type == "Available":
        deeper = spot_workload(found) if found else None
        if deeper is None:
            return Spotted(cause="not-available", words=words, evidence=evidence)
        return Spotted(
            cause=deeper.cause,
            words={**words, **deeper.words},
            evidence=(*evidence, *deeper.evidence),
            own=deeper.own,
        )
    cause = _apply_cause(one.condition)
    detail = innermost(one.condition.message)
    if cause in {"diff-blocks", "drift-blocks"}:
        detail = _difference(one, status) or detail
    return Spotted(cause=cause, words={**words, "detail": detail}, evidence=evidence)


def _apply_cause(condition: Condition) -> str:
    """Tell apart the ways in which an object is not applied."""
    reason, message = condition.reason, condition.message
    if reason == "DecodingErred":
        return (
            "kind-unknown"
            if "REST mapping" in message or "no matches for kind" in message
            else "apply-refused"
        )
    if reason == "NotTakenOver":
        return "not-taken-over"
    if reason.startswith("FoundDrifts"):
        return "drift-blocks"
    if reason == "FailedToTakeOver" and "configuration differences" in message:
        return "diff-blocks"
    if "owned by" in message or "co-owner" in message or "owner references" in message:
        return "owned-by-other"
    if re.search(r'namespaces "[^"]+" not found', message):
        return "namespace-missing"
    if reason == "PreparingToProcess":
        return "agent-busy"
    return "apply-refused"


def _difference(one: FailedPlacement, status: BindingStatus) -> str:
    details: tuple[PatchDetail, ...] = ()
    for diffed in status.diffed_placements:
        if (diffed.kind, diffed.namespace, diffed.name) == _key(one):
            details = diffed.observed_diffs
    for drifted in status.drifted_placements:
        if (drifted.kind, drifted.namespace, drifted.name) == _key(one):
            details = drifted.observed_drifts
    if not details:
        return ""
    first = details[0]
    text = f"{first.path}: hub {first.value_in_hub or 'nothing'}, member {first.value_in_member or 'nothing'}"
    return text + (f", and {len(details) - 1} more" if len(details) > 1 else "")


def innermost(message: str) -> str:
    """Peel the wrappers off an error text, down to what went wrong."""
    peeled = True
    while peeled:
        peeled = False
        for wrapper in _WRAPPERS:
            match = wrapper.match(message)
            if match and match["rest"]:
                message, peeled = match["rest"], True
    message = message.strip().rstrip(".")
    return message if len(message) <= MAX_DETAIL else message[: MAX_DETAIL - 1] + "…"
