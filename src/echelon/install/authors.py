"""Who did what is noted by the API server itself, from the authenticated request, never from what a client says.

Two notes. `echelon.dev/requester` on placements, runs and evictions: who asked for the spec as it is (who stopped a
run, once it was stopped). `status.approvedBy` of an approval request: who gave the approval in force. A mutating policy
writes each; a validating one refuses any other value. So a server that has no mutating policies (before Kubernetes
1.36) leaves the notes out, and still nobody can write somebody else's name.
"""

from __future__ import annotations

from typing import Any

from echelon.api.names import ANNOTATION_REQUESTER, FLEET_SYSTEM_NAMESPACE, PLACEMENT_GROUP
from echelon.install.policies import ADMISSION, engine, on, policy

ASKED_FOR = (
    "clusterresourceplacements",
    "resourceplacements",
    "clusterstagedupdateruns",
    "stagedupdateruns",
    "clusterresourceplacementevictions",
)
APPROVALS = ("clusterapprovalrequests", "approvalrequests")

# These need Kubernetes 1.36; without them everything else works.
NEWER_KINDS = frozenset({"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"})


def _mutating(
    name: str, rules: list[dict[str, Any]], variables: list[dict[str, Any]], patch: str
) -> list[dict[str, Any]]:
    """Return a policy that patches what is written, and its binding."""
    labels = {"app.kubernetes.io/part-of": "echelon"}
    return [
        {
            "apiVersion": ADMISSION,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {"resourceRules": rules},
                "variables": variables,
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        },
        {
            "apiVersion": ADMISSION,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding", "labels": labels},
            "spec": {"policyName": name},
        },
    ]


def _note_of(obj: str) -> str:
    return f"{obj}.metadata.?annotations[?'{ANNOTATION_REQUESTER}'].orValue('')"


def requester(namespace: str = FLEET_SYSTEM_NAMESPACE) -> list[dict[str, Any]]:
    """Note who asked for a spec; what was noted stays until somebody asks for another. The engine only fills in."""
    key = ANNOTATION_REQUESTER
    variables = [
        {
            "name": "isAskedAnew",
            "expression": "request.operation == 'CREATE' || (object.spec != oldObject.spec"
            f" && request.userInfo.username != '{engine(namespace)}')",
        },
        {"name": "note", "expression": _note_of("object")},
        {
            "name": "before",
            "expression": f"request.operation == 'CREATE' ? '' : {_note_of('oldObject')}",
        },
        {
            "name": "author",
            "expression": "variables.isAskedAnew ? request.userInfo.username : variables.before",
        },
    ]
    patch = (
        "variables.note == variables.author || (!variables.isAskedAnew && variables.note != '') ? []"
        " : has(object.metadata.annotations)"
        f" ? [JSONPatch{{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('{key}'),"
        " value: variables.author}]"
        f" : [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'{key}': variables.author}}}}]"
    )
    rules = [on(PLACEMENT_GROUP, ASKED_FOR, "CREATE", "UPDATE")]
    return [
        *_mutating("echelon-requester", rules, variables, patch),
        *policy(
            "echelon-requester-kept",
            rules,
            [
                {
                    "expression": "variables.note == variables.author"
                    " || (variables.isAskedAnew && variables.note == '')",
                    "message": f"the annotation {key} is written by the API server only: leave it out",
                }
            ],
            variables=variables,
        ),
    ]


def _has(obj: str, conditions: str, generation: str = "") -> str:
    """Whether a request has one of these conditions, and it is true; at its own generation, where only that counts."""
    counts = f" && c.?observedGeneration.orValue(0) == {obj}.metadata.generation" if generation else ""
    return f"{obj}.?status.?conditions.orValue([]).exists(c, c.type in [{conditions}] && c.status == 'True'{counts})"


# A run goes on with either: whoever writes the run's own answer instead of an approval has approved as well.
_GIVEN = "'Approved', 'ApprovalAccepted'"


def approver() -> list[dict[str, Any]]:
    """Note who gave an approval: from then on it stays, unless the approval is taken back before the run took it."""
    variables = [
        {"name": "isApproved", "expression": _has("object", _GIVEN, "counts")},
        {"name": "wasApproved", "expression": _has("oldObject", _GIVEN, "counts")},
        {"name": "isTaken", "expression": _has("oldObject", "'ApprovalAccepted'")},
        {"name": "note", "expression": "object.?status.?approvedBy.?username.orValue('')"},
        {"name": "before", "expression": "oldObject.?status.?approvedBy.?username.orValue('')"},
        {
            "name": "approver",
            "expression": "variables.isTaken || (variables.isApproved && variables.wasApproved) ? variables.before"
            " : variables.isApproved ? request.userInfo.username : ''",
        },
    ]
    patch = (
        "variables.note == variables.approver ? []"
        " : variables.approver == '' ? [JSONPatch{op: 'remove', path: '/status/approvedBy'}]"
        " : has(object.status)"
        " ? [JSONPatch{op: 'add', path: '/status/approvedBy', value: {'username': variables.approver}}]"
        " : [JSONPatch{op: 'add', path: '/status', value: {'approvedBy': {'username': variables.approver}}}]"
    )
    rules = [on(PLACEMENT_GROUP, tuple(f"{each}/status" for each in APPROVALS), "UPDATE")]
    return [
        *_mutating("echelon-approver", rules, variables, patch),
        *policy(
            "echelon-approver-kept",
            rules,
            [
                {
                    "expression": "variables.note == variables.approver || variables.note == ''",
                    "message": "status.approvedBy is written by the API server only",
                }
            ],
            variables=variables,
        ),
    ]


def authors(namespace: str = FLEET_SYSTEM_NAMESPACE) -> list[dict[str, Any]]:
    """Return the policies that note who did what."""
    return [*requester(namespace), *approver()]
