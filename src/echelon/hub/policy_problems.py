"""What is wrong with an admission policy that is about to be stored, in kube-apiserver's words.

What it must never do: judge what the policy wants; only whether it could be carried out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from echelon.hub.builtins_pod_rules import Found
from echelon.hub.call import Call
from echelon.hub.cel_compile import CelCompileError
from echelon.hub.cel_parse import parse
from echelon.hub.gotext import quote
from echelon.hub.metadata import name_problem, qualified_problems
from echelon.hub.policy_authorizer import PolicyCompiler
from echelon.hub.policy_bindings import (
    MUTATING,
    MUTATING_BINDINGS,
    MUTATING_HOOKS,
    VALIDATING,
    VALIDATING_BINDINGS,
    VALIDATING_HOOKS,
)
from echelon.hub.policy_cel import Scope, compile_expression, compile_variable
from echelon.hub.policy_objects import OBJECT, PATCHES, MutationCompiler

Json = dict[str, Any]

APPLY, PATCH = "ApplyConfiguration", "JSONPatch"
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
REASONS = ["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"]
IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
ANYTHING = parse("dyn(null)")
"""Stands for a variable that is wrong already: what uses it is not to blame."""
BODIES = {APPLY: "applyConfiguration", PATCH: "jsonPatch"}
"""The kinds of mutations, and the field that holds the expression of each."""


def _validating(_call: Call, policy: Json) -> list[Json]:
    found = Found()
    spec = policy.get("spec") or {}
    _constraints(found, spec.get("matchConstraints"), ())
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        for field in ("spec.validations", "spec.auditAnnotations"):
            found.required(field, "validations or auditAnnotations must contain at least one item")
    _param_kind(found, spec.get("paramKind"))
    _conditions(found, spec)
    scope = _scope(found, spec)
    for index, one in enumerate(spec.get("auditAnnotations") or ()):
        _audit(found, policy, index, one, scope)
    for index, one in enumerate(spec.get("validations") or ()):
        field = f"spec.validations[{index}]"
        reason = one.get("reason")
        if reason and reason not in REASONS:
            found.unsupported(f"{field}.reason", reason, REASONS[1:])
        _expression(found, f"{field}.expression", one.get("expression", ""), scope, "bool")
        if one.get("messageExpression"):
            _expression(found, f"{field}.messageExpression", one["messageExpression"], scope, "string")
    return found.causes


def _audit(found: Found, policy: Json, index: int, one: Json, scope: Scope) -> None:
    field = f"spec.auditAnnotations[{index}]"
    key = f"{policy['metadata'].get('name', '')}/{one.get('key', '')}"
    for problem in qualified_problems(key):
        found.invalid(f"{field}.key", key, problem)
    _expression(found, f"{field}.valueExpression", one.get("valueExpression", ""), scope, "string null_type")


def _mutating(_call: Call, policy: Json) -> list[Json]:
    found = Found()
    spec = policy.get("spec") or {}
    _constraints(found, spec.get("matchConstraints"), ("DELETE",))
    _param_kind(found, spec.get("paramKind"))
    _conditions(found, spec)
    scope = _scope(found, spec)
    if not spec.get("mutations"):
        found.required("spec.mutations", "mutations must contain at least one item")
    for index, one in enumerate(spec.get("mutations") or ()):
        _mutation(found, f"spec.mutations[{index}]", one, scope)
    if not spec.get("reinvocationPolicy"):
        found.required("spec.reinvocationPolicy")
    return found.causes


def _binding(call: Call, binding: Json) -> list[Json]:
    found = Found()
    spec = binding.get("spec") or {}
    name = spec.get("policyName", "")
    if not name:
        found.required("spec.policyName")
    elif problem := name_problem(call.kind, name):
        found.invalid("spec.policyName", name, problem)
    ref = spec.get("paramRef")
    if ref is not None:
        _param_ref(found, ref)
    _rules(found, "spec.matchResources", (spec.get("matchResources") or {}).get("resourceRules") or ())
    if call.kind.resource == VALIDATING_BINDINGS:
        _actions(found, spec.get("validationActions") or [])
    return found.causes


def _param_ref(found: Found, ref: Json) -> None:
    field = "spec.paramRef"
    if ref.get("name") and ref.get("selector") is not None:
        for each in ("name", "selector"):
            found.forbidden(f"{field}.{each}", "name and selector are mutually exclusive")
    elif not ref.get("name") and ref.get("selector") is None:
        found.required(field, "one of name or selector must be specified")
    action = ref.get("parameterNotFoundAction")
    if not action:
        found.required(f"{field}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        found.unsupported(f"{field}.parameterNotFoundAction", action, ["Deny", "Allow"])


def _actions(found: Found, actions: list[str]) -> None:
    field = "spec.validationActions"
    if not actions:
        found.required(field)
    for index, action in enumerate(actions):
        if action in actions[:index]:
            found.duplicate(f"{field}[{index}]", action)
    if "Deny" in actions and "Warn" in actions:
        why = "repeating the same validation failure information in the API response and headers serves no purpose"
        found.invalid(field, actions, f"must not contain both Deny and Warn ({why})")


def _constraints(found: Found, constraints: Json | None, excluded: tuple[str, ...]) -> None:
    field = "spec.matchConstraints"
    if constraints is None:
        found.required(field)
        return
    rules = constraints.get("resourceRules") or ()
    if not rules:
        found.required(f"{field}.resourceRules")
    _rules(found, field, rules)
    allowed = [each for each in OPERATIONS if each not in excluded]
    for each in (each for rule in rules for each in rule.get("operations") or () if each in excluded):
        found.unsupported(f"{field}.resourceRules.operations", each, allowed)


def _rules(found: Found, field: str, rules: Sequence[Json]) -> None:
    for index, rule in enumerate(rules):
        for name in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(name):
                found.required(f"{field}.resourceRules[{index}].{name}")


def _param_kind(found: Found, kind: Json | None) -> None:
    if kind is None:
        return
    version = kind.get("apiVersion", "")
    if not version:
        found.required("spec.paramKind.apiVersion")
    elif version.count("/") > 1:
        found.invalid("spec.paramKind.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not kind.get("kind"):
        found.required("spec.paramKind.kind")


def _conditions(found: Found, spec: Json, path: str = "spec") -> None:
    scope = Scope(None, bool(spec.get("paramKind")))
    names: set[str] = set()
    for index, one in enumerate(spec.get("matchConditions") or ()):
        field, name = f"{path}.matchConditions[{index}]", one.get("name", "")
        if one.get("expression", "").strip():
            _expression(found, f"{field}.expression", one["expression"], scope, "bool")
        else:
            found.required(f"{field}.expression")
        if not name:
            found.required(f"{field}.name")
        elif name in names:
            found.duplicate(f"{field}.name", name)
        else:
            for problem in qualified_problems(name):
                found.invalid(f"{field}.name", name, problem)
        names.add(name)


def _scope(found: Found, spec: Json) -> Scope:
    """Return what the expressions of a policy may name; its variables are checked on the way."""
    variables: dict[str, Any] = {}
    scope = Scope(variables, bool(spec.get("paramKind")))
    for index, one in enumerate(spec.get("variables") or ()):
        source = one.get("expression", "")
        if not IDENTIFIER.match(one.get("name", "")):
            found.invalid(
                f"spec.variables[{index}].name", one.get("name", ""), "must be a valid CEL identifier"
            )
        is_right = _expression(found, f"spec.variables[{index}].expression", source, scope, "")
        variables[one.get("name", "")] = compile_variable(source, scope) if is_right else ANYTHING
    return scope


def _mutation(found: Found, field: str, mutation: Json, scope: Scope) -> None:
    kind = mutation.get("patchType", "")
    if not kind:
        found.required(f"{field}.patchType")
        return
    for own, body in BODIES.items():
        if own != kind or kind not in BODIES:
            continue
        if mutation.get(body) is None:
            found.required(f"{field}.{body}", f"must be specified when patchType is {kind}")
        elif not mutation[body].get("expression", "").strip():
            found.required(f"{field}.{body}.expression")
        else:
            wanted = OBJECT if kind == APPLY else str(PATCHES)
            source = mutation[body]["expression"]
            _expression(found, f"{field}.{body}.expression", source, scope, wanted, MutationCompiler)
    for own, body in BODIES.items():
        if kind in BODIES and own != kind and mutation.get(body) is not None:
            found.invalid(f"{field}.{body}", f"{{{body}}}", f"must not be specified when patchType is {kind}")


def _expression(
    found: Found,
    field: str,
    source: str,
    scope: Scope,
    wanted: str,
    compiler: type[PolicyCompiler] = PolicyCompiler,
) -> bool:
    if not source.strip():
        found.required(field, "expression is not specified")
        return False
    try:
        program = compile_expression(source, scope, compiler)
    except CelCompileError as error:
        why = f"compilation failed: {error}"
    else:
        made = str(program.type)
        if not wanted or made in wanted.split():
            return True
        shown = f"one of [{wanted}]" if " " in wanted else wanted
        why = f"must evaluate to {shown} but got {'null_type' if made == 'null' else made}"
    found.add("FieldValueInvalid", field, f"Invalid value: {quote(source)}: {why}")
    return False


def _hooks(_call: Call, configuration: Json) -> list[Json]:
    found = Found()
    for index, hook in enumerate(configuration.get("webhooks") or ()):
        _conditions(found, hook, f"webhooks[{index}]")
    return found.causes


PROBLEMS = {
    VALIDATING_HOOKS: _hooks,
    MUTATING_HOOKS: _hooks,
    VALIDATING: _validating,
    MUTATING: _mutating,
    VALIDATING_BINDINGS: _binding,
    MUTATING_BINDINGS: _binding,
}
"""What the expressions of a kind must be checked for before it is stored."""
