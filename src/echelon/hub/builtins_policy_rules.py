"""Validation of ValidatingAdmissionPolicies but for their expressions, which `policies` compiles."""

from __future__ import annotations

import re
from typing import Any

from echelon.hub.builtins_hook_rules import OPERATIONS
from echelon.hub.builtins_pod_rules import Found, Rule
from echelon.hub.metadata import qualified_problems

Json = dict[str, Any]

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
REASONS = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"]


def _policy(found: Found, obj: Json, _old: Json | None) -> None:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                found.required(f"spec.paramKind.{field}")
    constraints = spec.get("matchConstraints") or {}
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or ()):
            path = f"spec.matchConstraints.{field}[{index}]"
            for at, operation in enumerate(rule.get("operations") or ()):
                if operation not in OPERATIONS:
                    found.unsupported(f"{path}.operations[{at}]", operation, OPERATIONS)
    condition_names(found, spec.get("matchConditions") or (), "spec.matchConditions")
    for index, one in enumerate(spec.get("variables") or ()):
        if not _IDENTIFIER.match(one.get("name", "")):
            path = f"spec.variables[{index}].name"
            found.invalid(path, one.get("name", ""), "must be a valid CEL identifier")
    for index, one in enumerate(spec.get("validations") or ()):
        reason = one.get("reason")
        if reason and reason not in REASONS:
            found.unsupported(f"spec.validations[{index}].reason", reason, REASONS[:3])
    for index, one in enumerate(spec.get("auditAnnotations") or ()):
        key = f"{obj['metadata'].get('name', '')}/{one.get('key', '')}"
        for problem in qualified_problems(key):
            found.invalid(f"spec.auditAnnotations[{index}].key", key, problem)


def condition_names(found: Found, conditions: Any, path: str) -> None:
    """Check that match conditions have names, each its own."""
    names: set[str] = set()
    for index, one in enumerate(conditions):
        name, where = one.get("name", ""), f"{path}[{index}].name"
        if not name:
            found.required(where)
            continue
        for problem in qualified_problems(name):
            found.invalid(where, name, problem)
        if name in names:
            found.duplicate(where, name)
        names.add(name)


RULES: dict[str, Rule] = {"admissionregistration.k8s.io/validatingadmissionpolicies": _policy}
