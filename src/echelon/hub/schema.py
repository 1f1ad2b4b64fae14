"""Structural schemas: the one door through which the hub uses them.

Signatures (stable):
- `compile_schema(openapi, definitions=None) -> Schema`; wrap shared definitions in `Definitions`.
- `prune(schema, obj) -> list[str]`: removes unknown fields in place, returns their sorted paths (`spec.foo`,
  `spec.stages[0].bar`), unknown fields of `metadata` included.
- `apply_defaults(schema, obj) -> None`: in place; drops nulls that count as absent first.
- `buried(schema, obj) -> list[str]`: paths of fields inside values that the schema says are no objects.
- `refused_nulls(schema, obj) -> list`: the nulls that `apply_defaults` would drop without putting anything in place.
- `validate(schema, obj, old=None) -> list[Cause]`: all causes, worded as kube-apiserver words them.
- `validate_status(schema, obj, old) -> list[Cause]`: the same for a write to the status subresource.

What it must never do: copy objects deeply (85 us for 3 KB), or know about HTTP.
"""

from __future__ import annotations

from echelon.hub.schema_cel import check, rules_of
from echelon.hub.schema_node import JSON, MISSING, Definitions, Rule, Schema, compile_schema
from echelon.hub.schema_ok import is_ok_since
from echelon.hub.schema_prune import (
    apply_defaults,
    buried,
    prune,
    prune_in_order,
    prune_metadata,
    prune_part,
    refused_nulls,
)
from echelon.hub.schema_shape import embedded_causes, list_causes
from echelon.hub.schema_validate import BLOCKING, NO_FIELD, Cause, explain

__all__ = [
    "JSON",
    "Cause",
    "Definitions",
    "Rule",
    "Schema",
    "apply_defaults",
    "buried",
    "compile_schema",
    "prune",
    "prune_in_order",
    "prune_metadata",
    "prune_part",
    "refused_nulls",
    "validate",
    "validate_status",
]

_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    NO_FIELD,
)


def validate(schema: Schema, obj: JSON, old: JSON = None) -> list[Cause]:
    """Return why an object may not be stored; `old` is what it replaces, if anything."""
    was = MISSING if old is None else old
    if is_ok_since(schema, obj, old):
        return check(schema, obj, was) if schema.programs is not False else []
    return _with_rules(schema, obj, was, explain(schema, obj, was))


def validate_status(schema: Schema, obj: JSON, old: JSON) -> list[Cause]:
    """Return why a write to the status subresource may not be stored: its schema is asked about status alone."""
    if is_ok_since(schema, obj, old):
        return check(schema, obj, old) if schema.programs is not False else []
    part = schema.properties.get("status")
    causes: list[Cause] = []
    if part is not None and "status" in obj:
        causes = explain(part, obj["status"], old.get("status", MISSING), "status")
    return _with_rules(schema, obj, old, causes)


def _with_rules(schema: Schema, obj: JSON, old: JSON, causes: list[Cause]) -> list[Cause]:
    """Add what OpenAPI cannot say: embedded resources, keys of lists, and rules if types allow to run them."""
    causes += embedded_causes(schema, obj)
    if old is MISSING or not list_causes(schema, old):
        causes += list_causes(schema, obj)
    if rules_of(schema) is not None:
        if any(cause.reason in BLOCKING for cause in causes):
            causes.append(_UNCHECKED)
        else:
            causes += check(schema, obj, old)
    return causes
