"""Nobody places what he may not read: checked by the API server itself, with the author's own rights.

`authorizer` in an admission policy asks the server's authorizers about whoever makes the request, which is what a
SubjectAccessReview would ask, without a webhook that could be lost. The check is made when a placement is created and
when its selectors change.

What is asked: to `list` each selected kind (or to `get` the object, where a kind is selected only by one name); for a
namespace to `get` it and, if all of it is placed, to `list` its Secrets and ConfigMaps. A kind's resource is guessed
the way Kubernetes itself guesses plurals; where that guess is wrong, rights on the guessed name (or on `*`) are asked
for, so the check errs on the safe side.

Whoever may do everything is asked once. A server limits what a policy may cost: two questions an expression, 28 in
all. So each question has a variable of its own, and others than those who may do everything can select at most
MAX_ASKED different kinds and namespaces in one placement.
"""

from __future__ import annotations

from typing import Any

from echelon.api.names import PLACEMENT_GROUP
from echelon.install.policies import on, policy

KINDS = ("clusterresourceplacements", "resourceplacements")

MAX_ASKED = 8  # kinds and namespaces: up to three questions each
_PLURAL = (
    "(s.kind == 'Endpoints' ? 'endpoints' : s.kind.lowerAscii().endsWith('s') ? s.kind.lowerAscii() + 'es'"
    " : s.kind.lowerAscii().endsWith('y')"
    " ? s.kind.lowerAscii().substring(0, s.kind.size() - 1) + 'ies' : s.kind.lowerAscii() + 's')"
)
_IS_NAMESPACE = "(s.group == '' && s.kind == 'Namespace')"
_HAS_NAME = "(has(s.name) && s.name != '')"
_KEY = (
    "(s.group + '/' + s.kind + (s.group == '' && s.kind == 'Namespace' && has(s.name) ? '/' + s.name : ''))"
)
_IS_WHOLE = "(!has(s.selectionScope) || s.selectionScope == 'NamespaceWithResources')"


def _may(verb: str, group: str, resource: str, namespace: str, name: str = "") -> str:
    named = f".name({name})" if name else ""
    return f"authorizer.group({group}).resource({resource}).namespace({namespace}){named}.check('{verb}').allowed()"


def _reads(number: int) -> list[dict[str, str]]:
    """Return two variables: whether the author may read what the n-th different selector selects, and what is in it."""
    listed = _may("list", "s.group", _PLURAL, "variables.within")
    named = _may("get", "s.group", _PLURAL, "variables.within", "s.name")
    is_only = f"variables.keys.filter(k, k == {_KEY}).size() == 1"
    space = _may("get", "''", "'namespaces'", "s.name", "s.name")
    spaces = _may("list", "''", "'namespaces'", "''")
    inside = f"({_HAS_NAME} ? s.name : '')"
    content = " && ".join(_may("list", "''", f"'{kind}'", inside) for kind in ("secrets", "configmaps"))
    itself = f"{_IS_NAMESPACE} ? ({_HAS_NAME} ? {space} : {spaces}) : ({listed} || ({_HAS_NAME} && {is_only} && {named}))"
    return [
        {
            "name": f"read{number}",
            "expression": f"variables.asked.all(i, s, i != {number} || ({itself}))",
        },
        {
            "name": f"inside{number}",
            "expression": f"variables.asked.all(i, s, i != {number} || !{_IS_NAMESPACE} || !{_IS_WHOLE} || ({content}))",
        },
    ]


def reading() -> list[dict[str, Any]]:
    """Refuse placements of what their author may not read."""
    selectors = "object.spec.resourceSelectors"
    is_namespace = _IS_NAMESPACE
    within = (
        "has(request.namespace) && request.namespace != '' ? request.namespace"
        f" : {selectors}.exists(s, {is_namespace} && has(s.selectionScope)"
        " && s.selectionScope == 'NamespaceWithResourceSelectors')"
        f" ? {selectors}.filter(s, {is_namespace})[0].name : ''"
    )
    everything = _may("*", "'*'", "'*'", "''")
    answers = " && ".join(f"variables.read{n} && variables.inside{n}" for n in range(MAX_ASKED))
    message = (
        "request.userInfo.username + ' may place only what they may read: get or list is missing for one of '"
        f" + {selectors}.map(s, s.kind).join(', ')"
        " + (variables.within != '' ? ' in namespace ' + variables.within : '')"
    )
    too_many = (
        f"a placement can select at most {MAX_ASKED} different kinds and namespaces, unless its author may read "
        "everything: make several placements"
    )
    return policy(
        "echelon-reading",
        [on(PLACEMENT_GROUP, KINDS, "CREATE", "UPDATE")],
        [
            {
                "expression": f"variables.mayEverything || variables.asked.size() <= {MAX_ASKED}",
                "message": too_many,
                "reason": "Forbidden",
            },
            {
                "expression": f"variables.mayEverything || variables.asked.size() > {MAX_ASKED} || ({answers})",
                "messageExpression": message,
                "reason": "Forbidden",
            },
        ],
        matchConditions=[
            {
                "name": "selectors-changed",
                "expression": f"request.operation == 'CREATE' || {selectors} != oldObject.spec.resourceSelectors",
            }
        ],
        variables=[
            {"name": "within", "expression": within},
            {"name": "mayEverything", "expression": everything},
            {"name": "keys", "expression": f"{selectors}.map(s, {_KEY})"},
            {  # the first selector of each kind, and of each namespace
                "name": "asked",
                "expression": f"{selectors}.transformList(i, s, variables.keys.indexOf(variables.keys[i]) == i, s)",
            },
            *(variable for number in range(MAX_ASKED) for variable in _reads(number)),
        ],
    )
