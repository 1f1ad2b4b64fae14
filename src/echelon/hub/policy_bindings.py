"""Policies in force: a policy, the bindings that put it into force, and whom and with which parameters it concerns.

What it must never do: know what a policy does with the writes that concern it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from echelon.hub.cel_compile import CelCompileError, Program
from echelon.hub.cel_values import CelError
from echelon.hub.kinds import Kind
from echelon.hub.label_selector import matches as selector_matches
from echelon.hub.policy_cel import Scope, compile_expression, compile_variable
from echelon.hub.policy_match import constraints_match, could_match, selectors_match
from echelon.hub.policy_request import AdmissionRequest

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]
Work = TypeVar("Work")

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicies"
VALIDATING_BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
MUTATING_BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
RESOURCES = frozenset({VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS})
VALIDATING_HOOKS, MUTATING_HOOKS = (
    f"{GROUP}/validatingwebhookconfigurations",
    f"{GROUP}/mutatingwebhookconfigurations",
)
EXEMPT = RESOURCES | {VALIDATING_HOOKS, MUTATING_HOOKS}
"""What policies never look at: one that refuses its own repair could not be removed."""


class Condition(NamedTuple):
    """One match condition, ready to run."""

    expression: str
    program: Program


class Policy(NamedTuple, Generic[Work]):
    """One policy, ready to run; `broken` says why it cannot."""

    name: str
    constraints: Json
    conditions: tuple[Condition, ...]
    work: tuple[Work, ...]
    """What the policy does: its validations or mutations."""
    param_kind: Json | None
    fails_closed: bool
    reinvoked: bool
    broken: str


class Bound(NamedTuple, Generic[Work]):
    """A policy in force."""

    policy: Policy[Work]
    binding: str
    matches: Json
    actions: frozenset[str]
    param_ref: Json | None


class Misconfigured(Exception):
    """A policy or its binding cannot be used as it stands."""


class PoliciesInForce(Generic[Work]):
    """The policies of one kind in force in one logical cluster, in the order of their names."""

    def __init__(
        self, cluster: Cluster, resources: tuple[str, str], work: Callable[[Json, Scope], tuple[Work, ...]]
    ) -> None:
        store = cluster.hub.store
        policies, bindings = (store.table(cluster.name, resource).live for resource in resources)
        compiled = {key: _compiled(msgspec.json.decode(entry.body), work) for key, entry in policies.items()}
        self._bound: list[Bound[Work]] = []
        for _, entry in sorted(bindings.items()):
            binding = msgspec.json.decode(entry.body)
            spec = binding["spec"]
            policy = compiled.get(spec.get("policyName", ""))
            if policy is not None:
                self._bound.append(
                    Bound(
                        policy,
                        binding["metadata"]["name"],
                        spec.get("matchResources") or {},
                        frozenset(spec.get("validationActions") or ()),
                        spec.get("paramRef"),
                    )
                )
        self._bound.sort(key=lambda bound: bound.policy.name)
        self._candidates: dict[tuple[str, str, str], tuple[Bound[Work], ...]] = {}

    def candidates(self, group: str, plural: str, subresource: str) -> tuple[Bound[Work], ...]:
        """Return the policies that could concern a resource; remembered, for every write asks."""
        key = (group, plural, subresource)
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = tuple(
                bound for bound in self._bound if could_match(bound.policy.constraints, *key)
            )
        return found


def _compiled(policy: Json, work: Callable[[Json, Scope], tuple[Work, ...]]) -> Policy[Work]:
    """Compile a stored policy; what cannot be compiled is reported by every use of it."""
    spec = policy["spec"]
    has_params = bool(spec.get("paramKind"))
    conditions: tuple[Condition, ...] = ()
    made: tuple[Work, ...] = ()
    broken = ""
    try:
        conditions = tuple(
            Condition(
                one.get("expression", ""),
                compile_expression(one.get("expression", ""), Scope(None, has_params)),
            )
            for one in spec.get("matchConditions") or ()
        )
        variables: dict[str, Any] = {}
        scope = Scope(variables, has_params)
        for one in spec.get("variables") or ():
            variables[one.get("name", "")] = compile_variable(one.get("expression", ""), scope)
        made = work(spec, scope)
    except CelCompileError as error:
        broken = f"compilation error: {error}"
    return Policy(
        policy["metadata"]["name"],
        spec.get("matchConstraints") or {},
        conditions,
        made,
        spec.get("paramKind"),
        spec.get("failurePolicy", "Fail") == "Fail",
        spec.get("reinvocationPolicy") == "IfNeeded",
        broken,
    )


class Judged(AdmissionRequest):
    """One write as it is shown to policies."""

    def concerns(self, bound: Bound[Any]) -> bool:
        """Say whether a bound policy is about this write; one whose parameters have no kind concerns all it names."""
        policy = bound.policy
        if not self._matches(policy.constraints):
            return False
        has_no_kind = policy.param_kind is not None and self._param_kind(policy.param_kind) is None
        return has_no_kind or self._matches(bound.matches)

    def _matches(self, constraints: Json) -> bool:
        return constraints_match(constraints, self.asked) and selectors_match(
            constraints, (self.new, self.old), self.namespace_labels()
        )

    def _param_kind(self, wanted: Json) -> Kind | None:
        group, _, version = wanted.get("apiVersion", "").rpartition("/")
        return self.call.cluster.catalog.of_kind(group, version, wanted.get("kind", ""))

    def meets_conditions(self, policy: Policy[Any], values: tuple[Any, ...]) -> bool:
        """Say whether all match conditions hold; raise Misconfigured for one that cannot be worked out."""
        failed = ""
        for condition in policy.conditions:
            try:
                if condition.program.run(*values) is not True:
                    return False  # one that does not hold outweighs one that fails
            except CelError as error:
                failed = failed or f"expression '{condition.expression}' resulted in error: {error}"
        if failed:
            raise Misconfigured(failed)
        return True

    def params(self, bound: Bound[Any]) -> list[Json | None]:
        """Return the parameters a policy runs with, one after the other; raise Misconfigured without any."""
        ref, wanted = bound.param_ref, bound.policy.param_kind
        if wanted is None:
            return [None]
        kind = self._param_kind(wanted)
        if kind is None:
            version_of = wanted.get("apiVersion", "")
            shown = version_of if "/" in version_of else f"/{version_of}"
            what = f"failed to find resource referenced by paramKind: '{shown}, Kind={wanted.get('kind')}'"
            raise Misconfigured(f"failed to configure policy: {what}")
        if ref is None:
            return [None]
        namespace = ref.get("namespace") or self.call.namespace
        table = self.call.hub.store.table(self.call.cluster.name, kind.resource)
        prefix = f"{namespace}/" if kind.namespaced else ""
        found: list[Json | None] = []
        if ref.get("name"):
            entry = table.live.get(prefix + ref["name"])
            found = [kind.read(entry.body)] if entry is not None else []
        elif ref.get("selector") is not None:
            keys, start, end = table.span(prefix)
            entries = [table.live[key] for key in keys[start:end]]
            found = [
                kind.read(one.body) for one in entries if selector_matches(ref["selector"], one.labels or {})
            ]
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            what = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise Misconfigured(f"failed to configure binding: {what}")
        return found
