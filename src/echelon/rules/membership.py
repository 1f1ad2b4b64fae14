"""Membership as the hub sees it: a desk for the agent, a mirror of what it reports, and a clean leave.

    join    finalizer and label → namespace → Role, RoleBinding, InternalMemberCluster(Join) → ReadyToJoin
    mirror  agent status, usage, properties, conditions → Joined, Healthy
    leave   (CleanUp: the agent takes off what was placed) → InternalMemberCluster(Leave) → agent says left (or is
            waited for long enough) → Works released → namespace deleted → finalizer removed

A silent member turns `Healthy` False by itself: the decision wakes when the next heartbeat is overdue. What a member
reports is mirrored, bounded, and never touches conditions that are the hub's own to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from echelon.api import builtin
from echelon.api.cluster import InternalMemberCluster, MemberCluster, MemberClusterStatus
from echelon.api.conditions import find_condition, set_condition
from echelon.api.meta import FALSE, TRUE
from echelon.api.names import (
    CLUSTER_GROUP,
    FINALIZER_MEMBER_CLUSTER,
    LABEL_IS_FLEET_RESOURCE,
    LABEL_MEMBER_NAME,
    LABEL_TRUE,
    MAX_LABEL,
    PLACEMENT_GROUP,
    MemberCondition,
    MembershipState,
    member_namespace,
    member_role,
    member_role_binding,
)
from echelon.api.own import INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from echelon.api.resource import Resource
from echelon.rules.membership_mirror import Options, condition_of, mirror, transitions
from echelon.rules.plan import Action, Create, Delete, Emit, Patch, Plan, Ref, StatusWrite, ref_of

# On a MemberCluster: what leaving does to what was placed on the member. Without it everything stays there.
ON_LEAVE = "echelon.dev/on-leave"
CLEAN_UP = "CleanUp"
RBAC_GROUP = "rbac.authorization.k8s.io"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One member and everything that belongs to it on the hub."""

    member: MemberCluster
    desk: InternalMemberCluster | None = None
    namespace: Mapping[str, Any] | None = None
    role: Mapping[str, Any] | None = None
    role_binding: Mapping[str, Any] | None = None
    works: tuple[Any, ...] = ()
    options: Options = Options()


def step(seen: Seen, now: datetime) -> Plan:
    """Decide what a member needs next."""
    if seen.member.metadata.is_deleting:
        return _leave(seen, now)
    return _join(seen, now)


# --- joining -----------------------------------------------------------------------------------------------------
def _join(seen: Seen, now: datetime) -> Plan:
    """R-MEMBER-1: a member has its namespace, role, role binding and desk; what is changed by hand is mended."""
    member = seen.member
    ref = ref_of(MEMBER_CLUSTERS, member)
    too_long = _cannot_join(member.name)
    if too_long:
        refused = condition_of(
            MemberCondition.READY_TO_JOIN, FALSE, "MemberClusterNameNotUsable", too_long, member
        )
        status = member.status or MemberClusterStatus()
        conditions = set_condition(status.conditions, refused, now)
        return Plan(
            status=StatusWrite(
                ref=ref, old=status, new=msgspec.structs.replace(status, conditions=conditions)
            ),
            events=(Emit(about=ref, reason="MemberClusterNameNotUsable", message=too_long, type="Warning"),),
            why="the name cannot be used",
        )
    children, events = _children(seen)
    meta = _metadata_patch(member)
    steps: list[tuple[Action, ...]] = []
    if meta:
        steps.append((Patch(ref=ref, body=meta),))
    # what the others stand on comes first: the namespace, then the role (a server refuses to bind one that is missing)
    order = ((builtin.NAMESPACES,), (builtin.ROLES, INTERNAL_MEMBER_CLUSTERS), (builtin.ROLE_BINDINGS,))
    groups = [tuple(action for action in children if _resource(action) in kinds) for kinds in order]
    steps += [group for group in groups if group]
    old = member.status or MemberClusterStatus()
    new, wake_at = mirror(seen.member, seen.desk, old, seen.options, now)
    ready = condition_of(
        MemberCondition.READY_TO_JOIN,
        TRUE,
        "MemberClusterReadyToJoin",
        "Member cluster is ready to join the fleet",
        member,
    )
    new = msgspec.structs.replace(new, conditions=set_condition(new.conditions, ready, now))
    return Plan(
        steps=tuple(steps),
        status=StatusWrite(ref=ref, old=old, new=new),
        events=(*events, *transitions(ref, old, new)),
        wake_at=wake_at,
        why="joining" if children else "mirroring",
    )


def _cannot_join(name: str) -> str:
    """R-MEMBER-2: a name that can never be a namespace on the hub is refused in words; empty when it can."""
    namespace = member_namespace(name)
    if len(namespace) > MAX_LABEL:
        most = MAX_LABEL - len(member_namespace(""))
        return f"the name has {len(name)} characters; at most {most} fit into the namespace {member_namespace('NAME')}"
    if "." in name:
        return f"the name contains a dot, which the namespace {namespace} may not have; use a dash"
    return ""


def _metadata_patch(member: MemberCluster) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if FINALIZER_MEMBER_CLUSTER not in member.metadata.finalizers:
        meta["finalizers"] = [*member.metadata.finalizers, FINALIZER_MEMBER_CLUSTER]
    if member.metadata.labels.get(LABEL_MEMBER_NAME) != member.name:
        meta["labels"] = {LABEL_MEMBER_NAME: member.name}
    return {"metadata": meta} if meta else {}


def _resource(action: Action) -> Resource | None:
    if isinstance(action, Create):
        return action.resource
    return action.ref.resource if isinstance(action, Patch | Delete) else None


def _children(seen: Seen) -> tuple[list[Action], list[Emit]]:
    """Make what is missing and mend what differs; one Event says each."""
    member = seen.member
    about = ref_of(MEMBER_CLUSTERS, member)
    actions: list[Action] = []
    events: list[Emit] = []

    def tell(reason: str, message: str) -> None:
        events.append(Emit(about=about, reason=reason, message=message))

    namespace = _namespace(member)
    if seen.namespace is None:
        actions.append(Create(resource=builtin.NAMESPACES, body=namespace))
        tell("NamespaceCreated", "Namespace was created")
    elif (seen.namespace["metadata"].get("labels") or {}).get(LABEL_IS_FLEET_RESOURCE) != LABEL_TRUE:
        labels = {"metadata": {"labels": {LABEL_IS_FLEET_RESOURCE: LABEL_TRUE}}}
        actions.append(Patch(ref=_by_name(builtin.NAMESPACES, seen.namespace), body=labels))
        tell("NamespacePatched", "Namespace was patched")
    role = _role(member)
    if seen.role is None:
        actions.append(Create(resource=builtin.ROLES, body=role))
        tell("RoleCreated", "role was created")
    elif seen.role.get("rules") != role["rules"]:
        actions.append(Patch(ref=_by_name(builtin.ROLES, seen.role), body={"rules": role["rules"]}))
        tell("RoleUpdated", "role was updated")
    binding = _role_binding(member)
    if seen.role_binding is None:
        actions.append(Create(resource=builtin.ROLE_BINDINGS, body=binding))
        tell("RoleBindingCreated", "role binding was created")
    elif _subjects(seen.role_binding) != _subjects(binding):
        actions.append(
            Patch(
                ref=_by_name(builtin.ROLE_BINDINGS, seen.role_binding), body={"subjects": binding["subjects"]}
            )
        )
        tell("RoleBindingUpdated", "role binding was updated")
    wanted = _desk_spec(member, MembershipState.JOIN)
    if seen.desk is None:
        actions.append(Create(resource=INTERNAL_MEMBER_CLUSTERS, body=_desk(member, wanted)))
        tell("InternalMemberClusterCreated", "Internal member cluster was created")
    elif msgspec.to_builtins(seen.desk.spec) != wanted:
        actions.append(Patch(ref=_by_name(INTERNAL_MEMBER_CLUSTERS, seen.desk), body={"spec": wanted}))
        tell("InternalMemberClusterSpecUpdated", "internal member cluster spec updated")
    return actions, events


def _by_name(resource: Any, seen: Any) -> Ref:
    """Point at a child whose whole wanted content is sent, so that nothing needs comparing."""
    return msgspec.structs.replace(ref_of(resource, seen), resource_version="")


def _subjects(role_binding: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in subject.items() if value}
        for subject in role_binding.get("subjects") or []
    ]


def _owner(member: MemberCluster) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": MEMBER_CLUSTERS.api_version,
            "kind": MEMBER_CLUSTERS.kind,
            "name": member.name,
            "uid": member.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def _namespace(member: MemberCluster) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": member_namespace(member.name),
            "labels": {LABEL_IS_FLEET_RESOURCE: LABEL_TRUE},
            "ownerReferences": _owner(member),
        },
    }


def _role(member: MemberCluster) -> dict[str, Any]:
    """Grant a member's agent what it needs in its own namespace, verb by verb, and nothing else anywhere."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": _child_meta(member, member_role(member.name)),
        "rules": [
            _rule(PLACEMENT_GROUP, "works", "get", "list", "watch", "patch", "update"),
            _rule(PLACEMENT_GROUP, "works/status", "get", "patch", "update"),
            _rule(CLUSTER_GROUP, "internalmemberclusters", "get", "list", "watch"),
            _rule(CLUSTER_GROUP, "internalmemberclusters/status", "get", "patch", "update"),
            _rule("", "events", "create", "get", "patch"),
            _rule("coordination.k8s.io", "leases", "create", "get", "update"),
        ],
    }


def _rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _role_binding(member: MemberCluster) -> dict[str, Any]:
    identity = member.spec.identity
    subject = {"kind": identity.kind, "name": identity.name}
    if identity.kind in {"User", "Group"}:
        subject["apiGroup"] = identity.api_group or RBAC_GROUP
    elif identity.namespace:
        subject["namespace"] = identity.namespace
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": _child_meta(member, member_role_binding(member.name)),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": member_role(member.name)},
        "subjects": [subject],
    }


def _child_meta(member: MemberCluster, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": member_namespace(member.name), "ownerReferences": _owner(member)}


def _desk_spec(member: MemberCluster, state: MembershipState) -> dict[str, Any]:
    return {"state": str(state), "heartbeatPeriodSeconds": member.spec.heartbeat_period_seconds}


def _desk(member: MemberCluster, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": INTERNAL_MEMBER_CLUSTERS.api_version,
        "kind": INTERNAL_MEMBER_CLUSTERS.kind,
        "metadata": _child_meta(member, member.name),
        "spec": dict(spec),
    }


# --- leaving -----------------------------------------------------------------------------------------------------
def _leave(seen: Seen, now: datetime) -> Plan:
    """R-MEMBER-6: a member leaves when its agent says so, at the latest after the wait; what was placed stays."""
    member = seen.member
    ref = ref_of(MEMBER_CLUSTERS, member)
    if FINALIZER_MEMBER_CLUSTER not in member.metadata.finalizers:
        return Plan(why="left")
    if seen.namespace is None:
        rest = [name for name in member.metadata.finalizers if name != FINALIZER_MEMBER_CLUSTER]
        return Plan(
            steps=((Patch(ref=ref, body={"metadata": {"finalizers": rest}}, gone_ok=True),),),
            why="left: gone",
        )
    if seen.namespace["metadata"].get("deletionTimestamp"):
        # Works that were written while the namespace was going would hold it for ever.
        return Plan(steps=_release(seen), why="waiting for the namespace to go")
    old = member.status or MemberClusterStatus()
    new, _ = mirror(seen.member, seen.desk, old, seen.options, now)
    joined = find_condition(new.conditions, MemberCondition.JOINED)
    left = joined is not None and joined.status == FALSE
    asked_at = member.metadata.deletion_timestamp
    assert asked_at is not None
    deadline = asked_at + seen.options.force_delete_after
    if not left and now < deadline and _is_cleaning_up(seen):
        going = tuple(Delete(ref=_by_name(WORKS, one)) for one in seen.works if not one.metadata.is_deleting)
        return Plan(
            steps=(going,) if going else (),
            status=StatusWrite(ref=ref, old=old, new=new),
            wake_at=deadline,
            why="the agent takes off the member what was placed there",
        )
    if seen.desk is None or left or now >= deadline:
        if left:
            gone = condition_of(
                MemberCondition.READY_TO_JOIN,
                FALSE,
                "MemberClusterNotReadyToJoin",
                "Member cluster is not ready to join the fleet",
                member,
            )
            new = msgspec.structs.replace(new, conditions=set_condition(new.conditions, gone, now))
        return Plan(
            steps=(*_release(seen), (Delete(ref=_by_name(builtin.NAMESPACES, seen.namespace)),)),
            status=StatusWrite(ref=ref, old=old, new=new),
            events=tuple(transitions(ref, old, new)),
            why="left" if left else "waited long enough for the agent",
        )
    steps: tuple[tuple[Action, ...], ...] = ()
    wanted = _desk_spec(member, MembershipState.LEAVE)
    if msgspec.to_builtins(seen.desk.spec) != wanted:
        steps = ((Patch(ref=_by_name(INTERNAL_MEMBER_CLUSTERS, seen.desk), body={"spec": wanted}),),)
    return Plan(
        steps=steps,
        status=StatusWrite(ref=ref, old=old, new=new),
        wake_at=deadline,
        why="asked the agent to leave",
    )


def _is_cleaning_up(seen: Seen) -> bool:
    """R-MEMBER-7: a member that is to be cleaned up gives back what was placed on it before it leaves."""
    is_wanted = seen.member.metadata.annotations.get(ON_LEAVE) == CLEAN_UP
    is_joined = seen.desk is not None and seen.desk.spec.state == MembershipState.JOIN
    return is_wanted and is_joined and bool(seen.works)


def _release(seen: Seen) -> tuple[tuple[Action, ...], ...]:
    """R-MEMBER-8: every Work in the namespace is let go of; what they placed stays on the member."""
    held = tuple(
        Patch(ref=_by_name(WORKS, work), body={"metadata": {"finalizers": None}}, gone_ok=True)
        for work in seen.works
        if work.metadata.finalizers
    )
    return (held,) if held else ()


__all__ = ["CLEAN_UP", "ON_LEAVE", "RBAC_GROUP", "Options", "Seen", "step"]
