"""ValidatingAdmissionPolicies: rules in CEL that the cluster's owner adds to every write.

Policies and bindings are compiled when a write first needs them and again when
one of them changes. What they refuse, and in which words, is kube-apiserver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from echelon.hub.access_rules import Attributes as Access
from echelon.hub.call import Call
from echelon.hub.cel_compile import CelCompileError, Program
from echelon.hub.cel_values import CelError
from echelon.hub.kinds import Kind
from echelon.hub.label_selector import matches as selector_matches
from echelon.hub.policy_authorizer import Asker
from echelon.hub.policy_cel import NAMES, WITHOUT_PARAMS, compile_expression, compile_variable
from echelon.hub.policy_match import (
    Attributes,
    constraints_match,
    could_match,
    kind_asked_for,
    selectors_match,
)
from echelon.hub.seen import in_version
from echelon.hub.status import StatusError, qualified

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
RESOURCES = frozenset({POLICIES, BINDINGS})
EXEMPT = frozenset(
    {POLICIES, BINDINGS, f"{GROUP}/validatingwebhookconfigurations", f"{GROUP}/mutatingwebhookconfigurations"}
)
"""What policies never look at: one that refuses its own repair could not be removed."""

CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
MAX_MESSAGE = 5 * 1024
"""Bytes of a message made by an expression; longer ones are not used."""


class Check(NamedTuple):
    """One validation, ready to run."""

    program: Program
    expression: str
    message: str
    message_program: Program | None
    reason: str


class Policy(NamedTuple):
    """One policy, ready to run; `broken` says why it cannot."""

    name: str
    constraints: Json
    conditions: tuple[tuple[str, Program], ...]
    checks: tuple[Check, ...]
    param_kind: Json | None
    fails_closed: bool
    broken: str


class Bound(NamedTuple):
    """A policy in force."""

    policy: Policy
    binding: str
    matches: Json
    actions: frozenset[str]
    param_ref: Json | None


class ClusterPolicies:
    """The policies in force in one logical cluster."""

    def __init__(self, cluster: Cluster) -> None:
        store = cluster.hub.store
        compiled = {
            key: compiled_policy(msgspec.json.decode(entry.body))
            for key, entry in store.table(cluster.name, POLICIES).live.items()
        }
        self._bound: list[Bound] = []
        for _, entry in sorted(store.table(cluster.name, BINDINGS).live.items()):
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
        self._candidates: dict[tuple[str, str, str], tuple[Bound, ...]] = {}

    def candidates(self, group: str, plural: str, subresource: str) -> tuple[Bound, ...]:
        """Return the policies that could concern a resource; remembered, for every write asks."""
        key = (group, plural, subresource)
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = tuple(
                bound for bound in self._bound if could_match(bound.policy.constraints, *key)
            )
        return found


def compiled_policy(policy: Json) -> Policy:
    """Compile a stored policy; what cannot be compiled is reported by every use of it."""
    spec = policy["spec"]
    try:
        conditions, checks = _compile(spec)
        broken = ""
    except CelCompileError as error:
        conditions, checks, broken = (), (), str(error)
    return Policy(
        policy["metadata"]["name"],
        spec.get("matchConstraints") or {},
        conditions,
        checks,
        spec.get("paramKind"),
        spec.get("failurePolicy", "Fail") == "Fail",
        broken,
    )


def _compile(spec: Json) -> tuple[tuple[tuple[str, Program], ...], tuple[Check, ...]]:
    conditions = tuple(
        (one.get("expression", "").strip(), compile_expression(one.get("expression", ""), {}))
        for one in spec.get("matchConditions") or ()
    )
    variables: dict[str, Any] = {}
    for one in spec.get("variables") or ():
        variables[one.get("name", "")] = compile_variable(one.get("expression", ""), variables)
    checks = []
    for one in spec.get("validations") or ():
        message = one.get("messageExpression")
        checks.append(
            Check(
                compile_expression(one.get("expression", ""), variables),
                one.get("expression", "").strip(),
                one.get("message", "").strip(),
                compile_expression(message, variables) if message else None,
                one.get("reason") or "Invalid",
            )
        )
    return conditions, tuple(checks)


class PolicyPlugin:
    """Shows every write to the policies of its cluster."""

    def interested(self, call: Call) -> bool:
        """Say whether a policy could concern this resource."""
        kind = call.kind
        if kind.resource in EXEMPT:
            return False
        return bool(call.cluster.policies.candidates(kind.group, kind.plural, call.subresource))

    async def mutate(self, call: Call, new: Json, old: Json | None) -> None:
        """Change nothing."""

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Refuse what a policy refuses."""
        kind = call.kind
        runs = {kind: _Run(call, new, old)}
        for bound in call.cluster.policies.candidates(kind.group, kind.plural, call.subresource):
            shown = kind_asked_for(bound.policy.constraints, call)
            if shown is None:
                continue
            if shown not in runs:
                runs[shown] = _Run(call, new, old)
                await show_as(runs[shown], shown)
            run = runs[shown]
            if run.concerns(bound):
                run.check(bound)


class AdmissionRequest:
    """One write as policies and webhooks see it."""

    def __init__(self, call: Call, new: Json | None, old: Json | None) -> None:
        self.call = call
        show = call.view.show if call.view is not None else None
        self.new = _unwritten(show(new) if show is not None and new is not None else new)
        self.old = show(old) if show is not None and old is not None else old
        kind = call.kind
        self.operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
        self.asked = Attributes(
            self.operation,
            kind.group,
            kind.version,
            kind.plural,
            call.subresource,
            kind.namespaced,
            call.namespace,
            call.name,
        )
        self.namespace = self._namespace()
        self.request = self._request()
        wanted = Access(call.verb, kind.group, kind.plural, call.subresource, call.namespace, call.name)
        self.authorizer = Asker(call.cluster.access, call.request.user, wanted)

    def show_as(self, kind: Kind, new: Json | None, old: Json | None) -> None:
        """Show the objects in another version than the one that is written."""
        self.new, self.old = new, old
        self.request = {
            **self.request,
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        }

    def values(self, param: Json | None) -> tuple[Any, ...]:
        """Return what expressions see, in the order of their names."""
        return (self.new, self.old, self.request, param, self.namespace, self.authorizer)

    def namespace_labels(self) -> dict[str, str] | None:
        """Return the labels a namespaceSelector looks at; None where it does not apply."""
        if self.namespace is not None:
            return self.namespace["metadata"].get("labels") or {}
        if self.call.kind.resource == "/namespaces":
            return ((self.new or self.old or {}).get("metadata") or {}).get("labels") or {}
        return None

    def _namespace(self) -> Json | None:
        if not self.call.kind.namespaced:
            return None
        table = self.call.hub.store.table(self.call.cluster.name, "/namespaces")
        entry = table.head(self.call.namespace)
        return msgspec.json.decode(entry.body) if entry is not None else None

    def _request(self) -> Json:
        call = self.call
        kind = {"group": call.kind.group, "version": call.kind.version, "kind": call.kind.kind}
        sub = call.kind.subresources.get(call.subresource)
        if sub is not None and sub.version:
            kind = {"group": sub.group, "version": sub.version, "kind": sub.kind}
        resource = {"group": call.kind.group, "version": call.kind.version, "resource": call.kind.plural}
        user = call.request.user
        words = {
            "subResource": call.subresource,
            "requestSubResource": call.subresource,
            "name": call.name,
            "namespace": call.namespace if call.kind.namespaced else "",
        }
        return {
            "uid": "",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **{key: value for key, value in words.items() if value},
            "operation": self.operation,
            "userInfo": {
                "username": user.name,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {name: list(values) for name, values in user.extra.items()},
            },
            "dryRun": call.dry_run(),
            "options": _options(call, self.operation),
        }


async def show_as(asked: AdmissionRequest, kind: Kind) -> None:
    """Show a write in another version of its resource, converted as any reader would see it."""
    call, new, old = asked.call, asked.new, asked.old
    asked.show_as(
        kind,
        await in_version(call, new, kind) if new is not None else None,
        await in_version(call, old, kind) if old is not None else None,
    )


def _unwritten(new: Json | None) -> Json | None:
    """Return an object without the place that is kept for its revision."""
    if new is None or (new.get("metadata") or {}).get("resourceVersion") != "":
        return new
    return {**new, "metadata": {key: one for key, one in new["metadata"].items() if key != "resourceVersion"}}


def _options(call: Call, operation: str) -> Json:
    """Return the options of a write as its object."""
    made: Json = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if call.option(name):
            made[name] = call.option(name)
    if call.dry_run():
        made["dryRun"] = call.request.query["dryRun"]
    return made


class _Run(AdmissionRequest):
    """One write under judgement."""

    def concerns(self, bound: Bound) -> bool:
        """Say whether a bound policy is about this write; refuse if the policy itself cannot work."""
        if not self._matches(bound.policy.constraints):
            return False
        wanted = bound.policy.param_kind
        if wanted is not None and self._param_kind(wanted) is None and bound.policy.fails_closed:
            what = f"'{wanted.get('apiVersion')}, Kind={wanted.get('kind')}'"
            why = f"failed to configure policy: failed to find resource referenced by paramKind: {what}"
            self._deny(f"ValidatingAdmissionPolicy '{bound.policy.name}'", why, "Invalid")
        return self._matches(bound.matches)

    def _matches(self, constraints: Json) -> bool:
        return constraints_match(constraints, self.asked) and selectors_match(
            constraints, (self.new, self.old), self.namespace_labels()
        )

    def _param_kind(self, wanted: Json) -> Kind | None:
        group, _, version = wanted.get("apiVersion", "").rpartition("/")
        return self.call.cluster.catalog.of_kind(group, version, wanted.get("kind", ""))

    def check(self, bound: Bound) -> None:
        """Run a policy once for each of its parameters."""
        policy = bound.policy
        if policy.broken:
            self._failed(bound, f"compilation error: {policy.broken}")
            return
        params = self._params(bound) if policy.param_kind else [None]
        for param in params:
            values = self.values(param)
            if self._wanted(bound, values):
                for one in policy.checks:
                    self._judge(bound, one, values)

    def _wanted(self, bound: Bound, values: tuple[Any, ...]) -> bool:
        failed = ""
        for source, condition in bound.policy.conditions:
            try:
                if condition.run(*values) is not True:
                    return False
            except CelError as error:
                failed = failed or f"expression '{source}' resulted in error: {error}"
        if failed:
            self._failed(bound, failed)
        return not failed

    def _judge(self, bound: Bound, one: Check, values: tuple[Any, ...]) -> None:
        try:
            if one.program.run(*values) is True:
                return
        except CelError as error:
            if bound.policy.fails_closed:
                self._refuse(bound, f"expression '{one.expression}' resulted in error: {error}", "Invalid")
            return
        self._refuse(bound, self._message(one, values), one.reason)

    def _message(self, one: Check, values: tuple[Any, ...]) -> str:
        if one.message_program is not None:
            try:
                made = one.message_program.run(*values)
            except CelError:
                made = None
            if (
                isinstance(made, str)
                and made.strip()
                and "\n" not in made
                and len(made.encode()) <= MAX_MESSAGE
            ):
                return made.strip()
        return one.message or f"failed expression: {one.expression}"

    def _failed(self, bound: Bound, why: str) -> None:
        if bound.policy.fails_closed:
            self._refuse(bound, why, "Invalid")

    def _refuse(self, bound: Bound, message: str, reason: str) -> None:
        who = f"ValidatingAdmissionPolicy '{bound.policy.name}' with binding '{bound.binding}'"
        if "Warn" in bound.actions:
            self.call.warnings.append(f"Validation failed for {who}: {message}")
        if "Deny" in bound.actions:
            self._deny(who, message, reason)

    def _deny(self, who: str, message: str, reason: str) -> None:
        kind = self.call.kind
        text = f"{who} denied request: {message}"
        name = self.call.name or "Unknown"
        details: Json = {"name": name}
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.plural
        details["causes"] = [{"message": text}]
        what = qualified(kind.group, kind.plural)
        full = f'{what} "{name}" is forbidden: {text}'
        raise StatusError(CODES.get(reason, 422), reason, full, details)

    def _params(self, bound: Bound) -> list[Json | None]:
        ref, wanted = bound.param_ref, bound.policy.param_kind
        assert wanted is not None
        kind = self._param_kind(wanted)
        if ref is None or kind is None:
            self._failed(
                bound, f"failed to configure binding: param kind {wanted.get('kind')} is not available"
            )
            return []
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
            self._failed(
                bound,
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            )
        return found


def policy_problems(_call: Call, policy: Json) -> list[Json]:
    """Return what is wrong with the expressions of a policy that is about to be stored."""
    spec = policy.get("spec") or {}
    causes: list[Json] = []
    if not spec.get("matchConstraints"):
        causes.append(_required("spec.matchConstraints"))
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        both = ": validations or auditAnnotations must contain at least one item"
        causes += [_required("spec.validations", both), _required("spec.auditAnnotations", both)]
    names = NAMES if spec.get("paramKind") else WITHOUT_PARAMS
    variables: dict[str, Any] = {}
    _condition_problems(causes, "spec.matchConditions", spec.get("matchConditions"), names)
    for index, one in enumerate(spec.get("variables") or ()):
        field = f"spec.variables[{index}].expression"
        if _try(causes, field, one.get("expression", ""), (variables, names), ()):
            variables[one.get("name", "")] = compile_variable(one["expression"], variables)
    scope = (variables, names)
    for index, one in enumerate(spec.get("validations") or ()):
        field = f"spec.validations[{index}]"
        _try(causes, f"{field}.expression", one.get("expression", ""), scope, ("bool",))
        if one.get("messageExpression"):
            _try(causes, f"{field}.messageExpression", one["messageExpression"], scope, ("string",))
    for index, one in enumerate(spec.get("auditAnnotations") or ()):
        field = f"spec.auditAnnotations[{index}].valueExpression"
        _try(causes, field, one.get("valueExpression", ""), scope, ("string", "null_type"))
    return causes


def _condition_problems(
    causes: list[Json], path: str, conditions: list[Json] | None, names: tuple[str, ...]
) -> None:
    """Add what is wrong with the expressions of match conditions."""
    for index, one in enumerate(conditions or ()):
        _try(causes, f"{path}[{index}].expression", one.get("expression", ""), ({}, names), ("bool",))


def _required(field: str, more: str = "") -> Json:
    return {"reason": "FieldValueRequired", "message": f"Required value{more}", "field": field}


def _try(
    causes: list[Json],
    field: str,
    source: str,
    scope: tuple[dict[str, Any], tuple[str, ...]],
    wanted: tuple[str, ...],
) -> bool:
    """Compile an expression with its variables and names; say what is wrong with it, or with what it makes."""
    from echelon.hub.gotext import quote  # noqa: PLC0415 - only for what is refused

    if not source.strip():
        causes.append(_required(field, ": expression is not specified"))
        return False
    try:
        program = compile_expression(source, *scope)
    except CelCompileError as error:
        message = f"Invalid value: {quote(source)}: compilation failed: {error}"
    else:
        made = str(program.type)
        if not wanted or made in wanted:
            return True
        what = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        message = f"Invalid value: {quote(source)}: must evaluate to {what} but got {made}"
    causes.append({"reason": "FieldValueInvalid", "message": message, "field": field})
    return False


def webhook_problems(_call: Call, configuration: Json) -> list[Json]:
    """Return what is wrong with the match conditions of a configuration of webhooks."""
    causes: list[Json] = []
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        _condition_problems(
            causes, f"webhooks[{index}].matchConditions", hook.get("matchConditions"), WITHOUT_PARAMS
        )
    return causes


PROBLEMS = {
    POLICIES: policy_problems,
    f"{GROUP}/validatingwebhookconfigurations": webhook_problems,
    f"{GROUP}/mutatingwebhookconfigurations": webhook_problems,
}
"""What the expressions of a kind must be checked for before it is stored."""
