"""Validation of the schemas of definitions: structural, defaults that fit, rules that compile.

What it decides: which schemas the server would refuse, with its words and paths.

What it must never do: look at custom resources; only at what declares them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub import regex
from echelon.hub.builtins_pod_rules import Found
from echelon.hub.cel_compile import CelCompileError, compile_cel
from echelon.hub.cel_types import Type, type_of
from echelon.hub.schema_cel import uses_old, variables
from echelon.hub.schema_node import Rule, Schema, compile_schema
from echelon.hub.schema_prune import copy_json, prune_part
from echelon.hub.schema_validate import explain

Json = dict[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LOGIC = ("allOf", "anyOf", "oneOf")
_NOT_IN_LOGIC = ("type", "default", "nullable", "additionalProperties", "description", "title")
MAX_DEPTH = 64
"""Nesting of a schema; deeper ones are refused instead of walked."""


def schema_rules(found: Found, value: Json, path: str, _version: Json) -> None:
    """Check the schema of a version."""
    root = value["openAPIV3Schema"]
    where = f"{path}.openAPIV3Schema"
    before = len(found.causes)
    _structural(found, root, where, root=True, depth=0)
    kind = root.get("type")
    if not kind:
        found.required(f"{where}.type", "must not be empty at the root")
    elif kind != "object":
        found.invalid(f"{where}.type", kind, "must be object at the root")
    _metadata(found, root, where)
    if len(found.causes) == before:  # defaults and rules are judged by schemas that make sense
        compiled = compile_schema(root)
        _defaults(found, compiled, where)
        _rules(found, compiled, where, root=True)


def _metadata(found: Found, root: Json, where: str) -> None:
    own = (root.get("properties") or {}).get("metadata") or {}
    if set(own.get("properties") or ()) - {"name", "generateName"}:
        found.forbidden(
            f"{where}.properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        )


def _structural(found: Found, node: Json, path: str, *, root: bool, depth: int) -> None:
    if depth > MAX_DEPTH:
        found.forbidden(path, f"must not nest deeper than {MAX_DEPTH} levels")
        return
    for name, child in sorted((node.get("properties") or {}).items()):
        _structural(found, child, f"{path}.properties[{name}]", root=False, depth=depth + 1)
    for field in ("items", "additionalProperties"):
        child = node.get(field)
        if isinstance(child, dict):
            _structural(found, child, f"{path}.{field}", root=False, depth=depth + 1)
    _type(found, node, path, root=root)
    if node.get("$ref"):
        found.forbidden(f"{path}.$ref", "$ref is not supported")
    if node.get("uniqueItems"):
        found.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if node.get("properties") and node.get("additionalProperties") not in (None, False):
        found.forbidden(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    problem = regex.problem(node["pattern"]) if node.get("pattern") else None
    if problem is not None:
        found.invalid(
            f"{path}.pattern", node["pattern"], f"must be a valid regular expression, but isn't: {problem}"
        )
    _lists(found, node, path)
    for field in _LOGIC:
        for index, branch in enumerate(node.get(field) or ()):
            _branch(
                found, branch, f"{path}.{field}[{index}]", free=bool(node.get("x-kubernetes-int-or-string"))
            )
    if isinstance(node.get("not"), dict):
        _branch(found, node["not"], f"{path}.not", free=False)


def _type(found: Found, node: Json, path: str, *, root: bool) -> None:
    kind = node.get("type")
    free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    if kind and kind not in TYPES:
        found.unsupported(f"{path}.type", kind, list(TYPES))
    elif not kind and not free and not root and not node.get("$ref"):
        where = "array items" if path.endswith(".items") else "object fields"
        found.required(f"{path}.type", f"must not be empty for specified {where}")
    if kind == "array" and not isinstance(node.get("items"), dict):
        found.required(f"{path}.items", "must be specified")


def _branch(found: Found, node: Json, path: str, *, free: bool) -> None:
    for name, child in sorted((node.get("properties") or {}).items()):
        _branch(found, child, f"{path}.properties[{name}]", free=False)
    if isinstance(node.get("items"), dict):
        _branch(found, node["items"], f"{path}.items", free=False)
    for field in _LOGIC:
        for index, branch in enumerate(node.get(field) or ()):
            _branch(found, branch, f"{path}.{field}[{index}]", free=False)
    for field in _NOT_IN_LOGIC:
        if node.get(field) not in (None, "", False) and not (free and field == "type"):
            found.forbidden(f"{path}.{field}", "must be empty to be structural")


def _lists(found: Found, node: Json, path: str) -> None:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys") or []
    where = f"{path}.x-kubernetes-list-map-keys"
    if kind and kind not in ("atomic", "set", "map"):
        found.unsupported(f"{path}.x-kubernetes-list-type", kind, ["atomic", "set", "map"])
    if kind and node.get("type") != "array":
        found.invalid(
            f"{path}.type", node.get("type", ""), "must be array if x-kubernetes-list-type is specified"
        )
    if kind != "map":
        if keys:
            found.forbidden(where, "must be empty if x-kubernetes-list-type is not map") if kind else None
        return
    if not keys:
        found.required(where, "must not be empty if x-kubernetes-list-type is map")
        return
    items = node.get("items") or {}
    properties = items.get("properties") or {}
    if any(key not in properties for key in keys):
        found.invalid(where, keys, "entries must all be names of item properties")
        return
    for key in keys:
        if key not in (items.get("required") or ()) and "default" not in properties[key]:
            found.required(
                f"{path}.items.properties[{key}].default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )


def _children(schema: Schema, path: str) -> list[tuple[Schema, str]]:
    below = [(child, f"{path}.properties[{name}]") for name, child in sorted(schema.properties.items())]
    if schema.items is not None:
        below.append((schema.items, f"{path}.items"))
    if isinstance(schema.additional, Schema):
        below.append((schema.additional, f"{path}.additionalProperties"))
    return below


def _defaults(found: Found, schema: Schema, path: str) -> None:
    if schema.has_default and schema.default is not None:
        pruned = copy_json(schema.default)
        if prune_part(schema, pruned):
            found.invalid(f"{path}.default", schema.default, "must not have unknown fields")
        for cause in explain(schema, schema.default, prefix=f"{path}.default"):
            found.add(cause.reason, cause.field, cause.message)
    for child, where in _children(schema, path):
        _defaults(found, child, where)


def _rules(found: Found, schema: Schema, path: str, *, root: bool = False) -> None:
    declared = type_of(schema, root=root) if schema.rules else None
    if schema.rules and declared is None:
        found.add(
            "InternalError",
            f"{path}.x-kubernetes-validations",
            "Internal error: internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations",
        )
    for index, rule in enumerate(schema.rules):
        where = f"{path}.x-kubernetes-validations[{index}]"
        if not rule.rule.strip():
            found.required(f"{where}.rule", "rule is not specified")
        elif declared is not None:
            _rule(found, schema, rule, declared, where)
    for child, where in _children(schema, path):
        _rules(found, child, where)


def _rule(found: Found, schema: Schema, rule: Rule, declared: Type, where: str) -> None:
    _rule_facts(found, schema, rule, where)
    names = variables(declared, rule)
    try:
        if compile_cel(rule.rule, names).type.kind not in ("bool", "dyn"):
            found.invalid(f"{where}.rule", shown(rule), "cel expression must evaluate to a bool")
    except CelCompileError as error:
        found.invalid(f"{where}.rule", shown(rule), f"compilation failed: {error}")
    if not rule.message_expression:
        return
    try:
        if compile_cel(rule.message_expression, names).type.kind not in ("string", "dyn"):
            found.invalid(
                f"{where}.messageExpression", shown(rule), "messageExpression must evaluate to a string"
            )
    except CelCompileError as error:
        found.invalid(
            f"{where}.messageExpression", shown(rule), f"messageExpression compilation failed: {error}"
        )


def _rule_facts(found: Found, schema: Schema, rule: Rule, where: str) -> None:
    if "\n" in rule.message.strip():
        found.invalid(f"{where}.message", rule.message, "must not contain line breaks")
    elif not rule.message and "\n" in rule.rule.strip():
        found.required(f"{where}.message", "message must be specified if rule contains line breaks")
    if rule.reason and rule.reason not in REASONS:
        found.unsupported(f"{where}.reason", rule.reason, list(REASONS))
    if rule.field_path and not _is_field(schema, rule.field_path):
        found.invalid(f"{where}.fieldPath", rule.field_path, "must be a valid path")
    if rule.optional_old_self is not None and not uses_old(rule.rule):
        found.invalid(
            f"{where}.optionalOldSelf",
            rule.optional_old_self,
            "may not be set if oldSelf is not used in rule",
        )


def _is_field(schema: Schema, path: str) -> bool:
    if not path.startswith("."):
        return False
    node: Schema | None = schema
    for name in path[1:].replace("['", ".").replace("']", "").split("."):
        if node is None:
            return False
        node = node.properties.get(name) or (node.additional if isinstance(node.additional, Schema) else None)
    return node is not None


def shown(rule: Rule) -> msgspec.Raw:
    """Print a rule as the server's own type, fields in its order."""
    made = {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason or None,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    }
    return msgspec.Raw(msgspec.json.encode(made))
