"""Nobody gives more than they have: writes of roles and bindings are measured by the writer's own rules."""

from __future__ import annotations

from typing import Any

from echelon.hub.access import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS, ROLES
from echelon.hub.access_rules import Attributes, Rule, compacted, rule_text, uncovered
from echelon.hub.call import MASTERS, Call
from echelon.hub.gotext import quote
from echelon.hub.status import forbidden, not_found

Json = dict[str, Any]


def check_role(call: Call, new: Json, old: Json | None) -> None:
    """Refuse a role with rules its writer does not have, unless they may escalate."""
    user, access = call.request.user, call.cluster.access
    if MASTERS in user.groups or (old is not None and _for_garbage_only(new, old)):
        return
    wanted = Attributes("escalate", GROUP, call.kind.plural, "", call.namespace, call.name)
    if access.allows(user, wanted):
        return
    rules = [Rule(wire) for wire in new.get("rules") or ()]
    if new.get("aggregationRule"):
        rules.append(Rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}))
        rules.append(Rule({"verbs": ["*"], "nonResourceURLs": ["*"]}))
    _refuse(call, rules)


def check_binding(call: Call, new: Json, old: Json | None) -> None:
    """Refuse to bind a role whose rules the writer does not have, unless they may bind it."""
    user, access = call.request.user, call.cluster.access
    if MASTERS in user.groups or (old is not None and _for_garbage_only(new, old)):
        return
    ref = new.get("roleRef") or {}
    cluster_wide = ref.get("kind") == "ClusterRole"
    plural = "clusterroles" if cluster_wide else "roles"
    name = ref.get("name", "")
    if access.allows(user, Attributes("bind", GROUP, plural, "", call.namespace, name)):
        return
    resource, key = (CLUSTER_ROLES, name) if cluster_wide else (ROLES, f"{call.namespace}/{name}")
    rules = access.role_rules(resource, key)
    if rules is None:
        raise not_found(GROUP, call.kind.plural, name)
    _refuse(call, rules)


def _for_garbage_only(new: Json, old: Json) -> bool:
    """Say whether a write changes nothing but what the garbage collector lives by."""
    return _essence(new) == _essence(old)


def _essence(obj: Json) -> Json:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _GARBAGE}
    return {**obj, "metadata": meta}


_GARBAGE = ("ownerReferences", "finalizers", "managedFields")


def _refuse(call: Call, rules: list[Rule]) -> None:
    user = call.request.user
    owned, _ = call.cluster.access.rules_of(user, call.namespace)
    missing = uncovered(owned, rules)
    if not missing:
        return
    groups = "[" + " ".join(quote(group) for group in user.groups) + "]"
    listed = "\n".join(sorted(rule_text(rule) for rule in compacted(missing)))
    why = (
        f"user {quote(user.name)} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n"
        f"{listed}"
    )
    raise forbidden(call.kind.group, call.kind.plural, call.name, why)


CHECKS = {
    ROLES: check_role,
    CLUSTER_ROLES: check_role,
    ROLE_BINDINGS: check_binding,
    CLUSTER_ROLE_BINDINGS: check_binding,
}
