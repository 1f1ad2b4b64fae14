"""Validation of the CEL rules of a definition: whether each compiles, what it may speak of, and what all may cost.

What it must never do: run for custom resources themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from echelon.hub.builtins_pod_rules import Found
from echelon.hub.cel_compile import CelCompileError, Checked, check_cel
from echelon.hub.cel_types import Type, type_of
from echelon.hub.crd_cost import Budget, Place, place_of, times_below
from echelon.hub.schema_cel import uses_old, variables
from echelon.hub.schema_node import Rule, Schema

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def children(schema: Schema, path: str) -> list[tuple[Schema, str]]:
    """Return the schemas directly below one, with their paths."""
    below = [(child, f"{path}.properties[{name}]") for name, child in sorted(schema.properties.items())]
    if schema.items is not None:
        below.append((schema.items, f"{path}.items"))
    if isinstance(schema.additional, Schema):
        below.append((schema.additional, f"{path}.additionalProperties"))
    return below


def check_rules(found: Found, schema: Schema, path: str, *, is_new: bool) -> None:
    """Check the rules of a schema; what they cost is asked only of a new one."""
    budget = Budget()
    _Walk(found if is_new else Found(), found, budget).check(schema, path, 1, "", root=True)
    if is_new:
        budget.close(found, path)


class _Walk:
    """Goes over a schema; what rules cost is told apart, because a schema that is stored may cost anything."""

    def __init__(self, costs: Found, found: Found, budget: Budget) -> None:
        self.costs = costs
        self.found = found
        self.budget = budget

    def check(
        self, schema: Schema, path: str, times: int | None, unrelated: str, *, root: bool = False
    ) -> None:
        """Check a schema that can be there `times` times; `unrelated` is the list above whose items have no old ones."""
        declared = type_of(schema, root=root) if schema.rules else None
        if schema.rules and declared is None:
            self.found.add(
                "InternalError",
                f"{path}.x-kubernetes-validations",
                "Internal error: internal error: failed to construct type information for x-kubernetes-validations "
                "rules: unable to convert structural schema to CEL declarations",
            )
        place = place_of(schema, times, root=root) if declared is not None else None
        for index, rule in enumerate(schema.rules):
            where = f"{path}.x-kubernetes-validations[{index}]"
            if not rule.rule.strip():
                self.found.required(f"{where}.rule", "rule is not specified")
            elif declared is not None and place is not None:
                _rule_facts(self.found, schema, rule, where)
                if unrelated and uses_old(rule.rule):
                    why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unrelated}"
                    self.found.invalid(f"{where}.rule", rule.rule, why)
                self._expressions(rule, variables(declared, rule), where, place)
        for child, below in children(schema, path):
            is_lost = child is schema.items and schema.list_type != "map"
            lost_in = unrelated or (path if is_lost else "")
            self.check(child, below, times_below(schema, child, times), lost_in)

    def _expressions(self, rule: Rule, names: dict[str, Type], where: str, place: Place) -> None:
        """Check a rule and, if it is one, its message."""
        checked = self._checked(rule, rule.rule, names, f"{where}.rule", _RULE)
        if checked is None:
            return
        self.budget.spend(self.costs, place.cost(checked), f"{where}.rule", "rule")
        if not rule.message_expression:
            return
        field = f"{where}.messageExpression"
        checked = self._checked(rule, rule.message_expression, names, field, _MESSAGE)
        if checked is not None:
            self.budget.spend(self.costs, place.cost_once(checked), field, "messageExpression")

    def _checked(
        self, rule: Rule, source: str, names: dict[str, Type], field: str, wanted: Wanted
    ) -> Checked | None:
        """Compile an expression; say what is wrong with it."""
        try:
            checked = check_cel(source, names)
        except CelCompileError as error:
            self.found.invalid(field, shown(rule), f"{wanted.failed}: {error}")
            return None
        if checked.program.type.kind not in (wanted.kind, "dyn"):
            self.found.invalid(field, shown(rule), wanted.other)
            return None
        return checked


class Wanted(NamedTuple):
    """What an expression has to be, and the words for one that is not."""

    kind: str
    other: str
    failed: str


_RULE = Wanted("bool", "cel expression must evaluate to a bool", "compilation failed")
_MESSAGE = Wanted(
    "string", "messageExpression must evaluate to a string", "messageExpression compilation failed"
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
