"""Structural schemas: the one door through which the hub uses them.

Signatures (stable):
- `compile_schema(openapi, definitions=None) -> Schema`; wrap shared definitions in `Definitions`.
- `prune(schema, obj) -> list[str]`: removes unknown fields in place, returns their paths (`spec.foo`, `spec.stages[0].bar`).
- `apply_defaults(schema, obj) -> None`: in place.
- `validate(schema, obj, old=None) -> list[Cause]`: all causes, worded as kube-apiserver words them.

What it must never do: copy objects deeply (85 us for 3 KB), or know about HTTP.
"""

from __future__ import annotations

from echelon.hub.schema_node import JSON, Definitions, Rule, Schema, compile_schema

__all__ = ["JSON", "Definitions", "Rule", "Schema", "compile_schema"]
