"""Validation of roles and their bindings.

What it must never do: judge whether the caller may grant what they say; `escalation` does.
"""

from __future__ import annotations

from typing import Any

from echelon.hub import metadata
from echelon.hub.builtins_pod_rules import Found, Rule

Json = dict[str, Any]


def _role(found: Found, obj: Json, _old: Json | None) -> None:
    _policy_rules(found, obj, namespaced=True)


def _cluster_role(found: Found, obj: Json, _old: Json | None) -> None:
    _policy_rules(found, obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        found.required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        )


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
            elif kind != "ServiceAccount" and subject.get("apiGroup", _RBAC) != _RBAC:
                found.unsupported(f"{path}.apiGroup", subject["apiGroup"], [_RBAC])
            elif kind == "ServiceAccount" and subject.get("name"):
                for text in metadata.subdomain_problems(subject["name"]):
                    found.invalid(f"{path}.name", subject["name"], text)
            if kind == "ServiceAccount" and not subject.get("namespace") and len(kinds) == 1:
                found.required(f"{path}.namespace")
        if old is not None and ref != old.get("roleRef"):
            go = {name[0].upper() + name[1:]: ref.get(name, "") for name in ("apiGroup", "kind", "name")}
            go["APIGroup"] = go.pop("ApiGroup")
            shown = {name: go[name] for name in ("APIGroup", "Kind", "Name")}
            found.invalid("roleRef", shown, "field is immutable")

    return check


RULES: dict[str, Rule] = {
    "rbac.authorization.k8s.io/clusterrolebindings": _binding(("ClusterRole",)),
    "rbac.authorization.k8s.io/clusterroles": _cluster_role,
    "rbac.authorization.k8s.io/rolebindings": _binding(("Role", "ClusterRole")),
    "rbac.authorization.k8s.io/roles": _role,
}
