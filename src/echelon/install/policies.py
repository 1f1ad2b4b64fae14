"""Admission policies: what CRD rules cannot say is said here, in CEL, inside the API server. No webhook server.

Each fails closed for the kinds it protects and touches nothing else (never pods). The texts are the contract's where
CEL can say them; `docs/differences.md` names the rest.
"""

from __future__ import annotations

from typing import Any

from echelon.api.names import CLUSTER_GROUP, FLEET_SYSTEM_NAMESPACE, MEMBER_NAMESPACE_PREFIX, PLACEMENT_GROUP
from echelon.install.rights import HUB_AGENT

ADMISSION = "admissionregistration.k8s.io/v1"
GUARDED = (
    "clusterschedulingpolicysnapshots",
    "schedulingpolicysnapshots",
    "clusterresourcesnapshots",
    "resourcesnapshots",
    "clusterresourceoverridesnapshots",
    "resourceoverridesnapshots",
    "clusterresourcebindings",
    "resourcebindings",
)


def policy(
    name: str, rules: list[dict[str, Any]], validations: list[dict[str, Any]], **more: Any
) -> list[dict[str, Any]]:
    """Return a policy and the binding that puts it into force everywhere."""
    labels = {"app.kubernetes.io/part-of": "echelon"}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": validations,
        **more,
    }
    return [
        {
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        },
        {
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding", "labels": labels},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def on(group: str, resources: tuple[str, ...], *operations: str) -> dict[str, Any]:
    """Write which requests a policy looks at, in every version."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def engine(namespace: str) -> str:
    """Name the user that the hub agent is."""
    return f"system:serviceaccount:{namespace}:{HUB_AGENT}"


def trusted(namespace: str) -> str:
    """Who may write what belongs to the engine: the engine, cluster administrators, the garbage collector."""
    users = [
        engine(namespace),
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:kube-controller-manager",
    ]
    names = ", ".join(f"'{user}'" for user in users)
    groups = (
        "'system:masters' in request.userInfo.groups || 'kubeadm:cluster-admins' in request.userInfo.groups"
    )
    return f"request.userInfo.username in [{names}] || {groups}"


def internal_objects(namespace: str) -> list[dict[str, Any]]:
    """Snapshots and bindings are decisions: only the engine makes, changes and removes them."""
    message = (
        "request.kind.kind + ' objects are written by the engine only; change the placement, the override or the run"
        " instead (' + request.userInfo.username + ' may not ' + request.operation + ' ' + request.name + ')'"
    )
    return policy(
        "echelon-internal-objects",
        [on(PLACEMENT_GROUP, GUARDED, "CREATE", "UPDATE", "DELETE")],
        [
            {
                "expression": trusted(namespace),
                "messageExpression": message,
                "reason": "Forbidden",
            }
        ],
    )


def works(namespace: str) -> list[dict[str, Any]]:
    """Works are the engine's; a member only adds its finalizer and reports in the status, in its own namespace."""
    of_member = (
        f"(request.operation == 'UPDATE' && request.namespace.startsWith('{MEMBER_NAMESPACE_PREFIX}')"
        " && object.spec == oldObject.spec"
        " && (has(object.metadata.labels) ? object.metadata.labels : {})"
        " == (has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}))"
    )
    return policy(
        "echelon-works",
        [on(PLACEMENT_GROUP, ("works",), "CREATE", "UPDATE", "DELETE")],
        [
            {
                "expression": f"{trusted(namespace)} || {of_member}",
                "message": "works are written by the engine only; a member may add its finalizer and report status",
                "reason": "Forbidden",
            }
        ],
    )


def override_rules() -> list[dict[str, Any]]:
    """What an override may not patch (the API server tells it at once, not the rollout later)."""
    patches = "object.spec.policy.overrideRules.all(r, !has(r.jsonPatchOverrides) || r.jsonPatchOverrides.all(p, {}))"

    def each(test: str, message: str) -> dict[str, Any]:
        return {"expression": patches.replace("{}", test), "message": message}

    metadata = "(p.path.startsWith('/metadata/annotations') || p.path.startsWith('/metadata/labels'))"
    return policy(
        "echelon-overrides",
        [on(PLACEMENT_GROUP, ("clusterresourceoverrides", "resourceoverrides"), "CREATE", "UPDATE")],
        [
            each("p.path != ''", "invalid JSONPatchOverride: path cannot be empty"),
            each(
                "p.path == '' || p.path.startsWith('/')", "invalid JSONPatchOverride: path must start with /"
            ),
            each(
                "!(p.path.split('/').size() > 1 && p.path.split('/')[1] in ['kind', 'apiVersion'])",
                "invalid JSONPatchOverride: cannot override typeMeta fields",
            ),
            each("p.path != '/metadata'", "invalid JSONPatchOverride: cannot override field metadata"),
            each(
                f"!p.path.startsWith('/metadata/') || {metadata}",
                "invalid JSONPatchOverride: cannot override metadata fields except annotations and labels",
            ),
            each(
                "!(p.path.split('/').size() > 1 && p.path.split('/')[1] == 'status')",
                "invalid JSONPatchOverride: cannot override status fields",
            ),
            each(
                "!p.path.startsWith('/') || p.path.split('/').filter(t, t.trim() == '').size() <= 1",
                "invalid JSONPatchOverride: path cannot contain empty string",
            ),
            each(
                "!(p.op == 'remove' && has(p.value))",
                "invalid JSONPatchOverride: remove operation cannot have value",
            ),
            {
                "expression": "object.spec.policy.overrideRules.all(r, !(has(r.overrideType) && r.overrideType == "
                "'Delete') || !has(r.jsonPatchOverrides) || size(r.jsonPatchOverrides) == 0)",
                "message": "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
            },
            {
                "expression": "object.spec.policy.overrideRules.all(r, (has(r.overrideType) && r.overrideType == "
                "'Delete') || (has(r.jsonPatchOverrides) && size(r.jsonPatchOverrides) > 0))",
                "message": "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty",
            },
        ],
    )


def placements() -> list[dict[str, Any]]:
    """What a placement may not ask for, of both scopes."""
    kind = "(has(object.spec.policy) && has(object.spec.policy.placementType) ? object.spec.policy.placementType : 'PickAll')"
    old = (
        "(has(oldObject.spec.policy) && has(oldObject.spec.policy.placementType)"
        " ? oldObject.spec.policy.placementType : 'PickAll')"
    )
    policy_prefix = "the placement policy field is invalid: "
    strategy_prefix = "the rollout Strategy field  is invalid: "
    return policy(
        "echelon-placements",
        [on(PLACEMENT_GROUP, ("clusterresourceplacements", "resourceplacements"), "CREATE", "UPDATE")],
        [
            {
                "expression": f"request.operation == 'CREATE' || {kind} == {old}",
                "message": "placement type is immutable",
            },
            {
                "expression": "request.operation == 'CREATE' || !has(oldObject.spec.policy)"
                " || !has(oldObject.spec.policy.tolerations) || (has(object.spec.policy)"
                " && has(object.spec.policy.tolerations)"
                " && oldObject.spec.policy.tolerations.all(t, t in object.spec.policy.tolerations))",
                "message": "tolerations have been updated/deleted, only additions to tolerations are allowed",
            },
            {
                "expression": "!has(object.spec.policy) || !has(object.spec.policy.clusterNames)"
                " || object.spec.policy.clusterNames.all(n, object.spec.policy.clusterNames.exists_one(m, m == n))",
                "message": f"{policy_prefix}cluster names must be unique for policy type PickFixed",
            },
            {
                "expression": "!has(object.spec.strategy) || !has(object.spec.strategy.type)"
                " || object.spec.strategy.type != 'External' || !has(object.spec.strategy.rollingUpdate)",
                "message": f"{strategy_prefix}rollingUpdateConifg is not valid for ExternalRollout strategy type",
            },
            {
                "expression": "!has(object.spec.strategy) || !has(object.spec.strategy.applyStrategy)"
                " || !has(object.spec.strategy.applyStrategy.serverSideApplyConfig)"
                " || object.spec.strategy.applyStrategy.type == 'ServerSideApply'",
                "message": f"{strategy_prefix}serverSideApplyConfig is only valid for ServerSideApply strategy type",
            },
        ],
    )


def member_clusters() -> list[dict[str, Any]]:
    """Taints of a member are unique."""
    return policy(
        "echelon-member-clusters",
        [on(CLUSTER_GROUP, ("memberclusters",), "CREATE", "UPDATE")],
        [
            {
                "expression": "!has(object.spec.taints) || object.spec.taints.all(t, object.spec.taints.exists_one(u,"
                " u.key == t.key && u.effect == t.effect && (has(u.value) ? u.value : '') == (has(t.value) ? t.value : '')))",
                "message": "taints must be unique: the same key, value and effect stand twice",
            }
        ],
    )


def policies(namespace: str = FLEET_SYSTEM_NAMESPACE) -> list[dict[str, Any]]:
    """Return every policy and binding."""
    return [
        *internal_objects(namespace),
        *works(namespace),
        *placements(),
        *override_rules(),
        *member_clusters(),
    ]
